//! A distribution of values for histograms, counted without a lock.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of values up to each of several ascending bounds.
#[derive(Debug)]
pub struct Distribution {
    bounds: &'static [f64],
    /// One for each bound, and one for the values above all bounds. Created with the first value: most caches of most
    /// clusters have none.
    counts: OnceLock<Box<[AtomicU64]>>,
    /// In millionths.
    sum: AtomicU64,
    observer: OnceLock<Observer>,
}

/// Called with each value.
struct Observer(Box<dyn Fn(f64) + Send + Sync>);

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Follower")
    }
}

impl Distribution {
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: OnceLock::new(), sum: AtomicU64::new(0), observer: OnceLock::new() }
    }

    /// Makes `observer` observe each further value. Only the first call has an effect.
    pub fn set_observer(&self, observer: impl Fn(f64) + Send + Sync + 'static) {
        let _ = self.observer.set(Observer(Box::new(observer)));
    }

    pub fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    pub fn add(&self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        let counts = self.counts.get_or_init(|| (0..=self.bounds.len()).map(|_| AtomicU64::new(0)).collect());
        counts[at].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
        if let Some(Observer(observer)) = self.observer.get() {
            observer(value);
        }
    }

    /// Returns each bound with the number of values up to it, the number of all values, and their sum.
    pub fn cumulative(&self) -> (Vec<(f64, u64)>, u64, f64) {
        let mut count = 0;
        let mut add = |counter: &AtomicU64| {
            count += counter.load(Ordering::Relaxed);
            count
        };
        let Some(counts) = self.counts.get() else {
            return (self.bounds.iter().map(|bound| (*bound, 0)).collect(), 0, 0.0);
        };
        let buckets = self.bounds.iter().zip(counts).map(|(bound, counter)| (*bound, add(counter))).collect();
        let all = counts.last().map_or(0, &mut add);
        (buckets, all, self.sum.load(Ordering::Relaxed) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_values_up_to_their_bounds() {
        let distribution = Distribution::new(&[0.5, 1.0, 2.0]);
        assert_eq!(distribution.cumulative(), (vec![(0.5, 0), (1.0, 0), (2.0, 0)], 0, 0.0));
        let (sent, observed) = std::sync::mpsc::channel();
        distribution.set_observer(move |value| sent.send(value).unwrap());
        for value in [0.1, 0.5, 0.6, 1.5, 1.5, 9.0] {
            distribution.add(value);
        }
        let (buckets, all, sum) = distribution.cumulative();
        assert_eq!(buckets, [(0.5, 2), (1.0, 3), (2.0, 5)]);
        assert_eq!(all, 6);
        assert!((sum - 13.2).abs() < 1e-3, "{sum}");
        drop(distribution);
        assert_eq!(observed.iter().sum::<f64>(), 13.2);
    }
}
