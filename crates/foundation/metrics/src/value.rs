//! Counters and gauges: numbers that any thread can change.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

use prometheus::proto::{self, Metric, MetricType};

use crate::description::Description;
use crate::native::Native;

/// The value of a series. Clones share it.
pub trait Value: Clone + Send + Sync + 'static {
    const KIND: MetricType;

    /// Returns a value without observations. `native` is for histograms.
    fn new(family: &Arc<Description>, native: bool) -> Self;

    /// Writes the value to a metric. Returns the native histogram if the value has one.
    fn read(&self, metric: &mut Metric) -> Option<Native>;
}

/// A counter.
#[derive(Debug)]
pub struct Count<N: Number>(Arc<N::Cell>);

/// A gauge.
#[derive(Debug)]
pub struct Level<N: Number>(Arc<N::Cell>);

/// A number with an atomic cell.
pub trait Number: Copy + 'static {
    type Cell: Default + Send + Sync + 'static;
    const ONE: Self;

    fn load(cell: &Self::Cell) -> Self;
    fn store(cell: &Self::Cell, number: Self);
    fn add(cell: &Self::Cell, number: Self);
    fn sub(cell: &Self::Cell, number: Self);
    fn as_f64(self) -> f64;
}

macro_rules! integers {
    ($($number:ty: $cell:ty),+) => {
        $(impl Number for $number {
            type Cell = $cell;
            const ONE: Self = 1;

            fn load(cell: &$cell) -> Self {
                cell.load(Relaxed)
            }

            fn store(cell: &$cell, number: Self) {
                cell.store(number, Relaxed);
            }

            fn add(cell: &$cell, number: Self) {
                cell.fetch_add(number, Relaxed);
            }

            fn sub(cell: &$cell, number: Self) {
                cell.fetch_sub(number, Relaxed);
            }

            #[expect(clippy::cast_precision_loss, reason = "Prometheus has floating numbers only")]
            fn as_f64(self) -> f64 {
                self as f64
            }
        })+
    };
}

integers!(u64: AtomicU64, i64: AtomicI64);

/// The cell has the bits of the number.
impl Number for f64 {
    type Cell = AtomicU64;
    const ONE: Self = 1.0;

    fn load(cell: &AtomicU64) -> Self {
        Self::from_bits(cell.load(Relaxed))
    }

    fn store(cell: &AtomicU64, number: Self) {
        cell.store(number.to_bits(), Relaxed);
    }

    fn add(cell: &AtomicU64, number: Self) {
        let mut before = cell.load(Relaxed);
        loop {
            let after = (Self::from_bits(before) + number).to_bits();
            match cell.compare_exchange_weak(before, after, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        }
    }

    fn sub(cell: &AtomicU64, number: Self) {
        Self::add(cell, -number);
    }

    fn as_f64(self) -> f64 {
        self
    }
}

impl<N: Number> Clone for Count<N> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<N: Number> Count<N> {
    pub fn inc(&self) {
        self.inc_by(N::ONE);
    }

    /// Adds to the counter. Counters never fall, so the number must not be negative.
    pub fn inc_by(&self, number: N) {
        debug_assert!(number.as_f64() >= 0.0, "a counter must not fall");
        N::add(&self.0, number);
    }

    /// Replaces the number by a total that was counted elsewhere.
    pub fn set_total(&self, total: N) {
        N::store(&self.0, total);
    }

    pub fn get(&self) -> N {
        N::load(&self.0)
    }
}

impl<N: Number> Value for Count<N> {
    const KIND: MetricType = MetricType::COUNTER;

    fn new(_: &Arc<Description>, _: bool) -> Self {
        Self(Arc::default())
    }

    fn read(&self, metric: &mut Metric) -> Option<Native> {
        let mut counter = proto::Counter::default();
        counter.set_value(self.get().as_f64());
        metric.set_counter(counter);
        None
    }
}

impl<N: Number> Clone for Level<N> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<N: Number> Level<N> {
    pub fn set(&self, number: N) {
        N::store(&self.0, number);
    }

    pub fn add(&self, number: N) {
        N::add(&self.0, number);
    }

    pub fn sub(&self, number: N) {
        N::sub(&self.0, number);
    }

    pub fn inc(&self) {
        self.add(N::ONE);
    }

    pub fn dec(&self) {
        self.sub(N::ONE);
    }

    pub fn get(&self) -> N {
        N::load(&self.0)
    }
}

impl<N: Number> Value for Level<N> {
    const KIND: MetricType = MetricType::GAUGE;

    fn new(_: &Arc<Description>, _: bool) -> Self {
        Self(Arc::default())
    }

    fn read(&self, metric: &mut Metric) -> Option<Native> {
        let mut gauge = proto::Gauge::default();
        gauge.set_value(self.get().as_f64());
        metric.set_gauge(gauge);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CounterVec, GaugeVec, IntGaugeVec, MetricVec};

    fn family<M: Value>() -> MetricVec<M> {
        MetricVec::new(Description::new("a", "A.", &["l"]).unwrap())
    }

    #[test]
    fn numbers_of_a_series_are_shared() {
        let (counts, levels): (CounterVec, IntGaugeVec) = (family(), family());
        counts.with_label_values(&["x"]).inc();
        counts.with_label_values(&["x"]).inc_by(0.25);
        assert_eq!(counts.with_label_values(&["x"]).get(), 1.25);
        let level = levels.with_label_values(&["x"]);
        levels.with_label_values(&["x"]).set(7);
        level.inc();
        level.dec();
        level.dec();
        level.add(-3);
        level.sub(4);
        assert_eq!(levels.with_label_values(&["x"]).get(), -1);
    }

    #[test]
    fn no_addition_is_lost() {
        let levels: GaugeVec = family();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10_000).for_each(|_| levels.with_label_values(&["x"]).add(0.5)));
            }
        });
        assert_eq!(levels.with_label_values(&["x"]).get(), 20_000.0);
    }
}
