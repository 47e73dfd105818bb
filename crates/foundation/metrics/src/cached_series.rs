//! Caches a series of a family, and looks it up again after a reset. A series kept across a reset would no longer be
//! exposed by its family.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arc_swap::ArcSwapOption;

use crate::{MetricVec, Value};

/// The number of resets of all registries in the process. A reset of any registry costs each cache one lookup.
static RESETS: AtomicU64 = AtomicU64::new(0);

/// A series that is looked up on first use.
pub struct CachedSeries<M>(ArcSwapOption<(u64, M)>);

/// A series that is created immediately.
pub struct Series<F: LabelledFamily> {
    family: F,
    values: Vec<String>,
    held: CachedSeries<F::One>,
}

/// A family whose series have labels.
pub trait LabelledFamily: Clone {
    type One;

    /// Returns the series with these label values, in the order of the labels.
    fn one(&self, values: &[&str]) -> Self::One;
}

pub(crate) fn count_reset() {
    RESETS.fetch_add(1, Ordering::Release);
}

impl<M> Default for CachedSeries<M> {
    fn default() -> Self {
        Self(ArcSwapOption::empty())
    }
}

impl<M> CachedSeries<M> {
    /// Calls `with` with the series. `find` looks the series up on first use and after a reset.
    pub fn with<T>(&self, find: impl FnOnce() -> M, with: impl FnOnce(&M) -> T) -> T {
        let now = RESETS.load(Ordering::Acquire);
        let held = self.0.load();
        if let Some(held) = held.as_ref().filter(|held| held.0 == now) {
            return with(&held.1);
        }
        let found = Arc::new((now, find()));
        self.0.store(Some(Arc::clone(&found)));
        with(&found.1)
    }
}

impl<F: LabelledFamily> fmt::Debug for Series<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Series").field("values", &self.values).finish_non_exhaustive()
    }
}

impl<F: LabelledFamily> Series<F> {
    pub fn new(family: &F, values: &[&str]) -> Self {
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        let series = Self { family: family.clone(), values, held: CachedSeries::default() };
        series.with(|_| ());
        series
    }

    pub fn with<T>(&self, with: impl FnOnce(&F::One) -> T) -> T {
        let find = || self.family.one(&self.values.iter().map(String::as_str).collect::<Vec<_>>());
        self.held.with(find, with)
    }
}

impl<M: Value> LabelledFamily for MetricVec<M> {
    type One = M;

    fn one(&self, values: &[&str]) -> M {
        self.with_label_values(values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Description, IntCounterVec, Registry};

    #[test]
    fn counts_after_a_reset_are_exposed() {
        let registry = Registry::new();
        let description = Description::new("a", "A.", &["l"]).unwrap();
        let family = crate::register_family(&registry, IntCounterVec::new(description)).unwrap();
        let held = CachedSeries::default();
        let count = || held.with(|| family.with_label_values(&["x"]), |counter| counter.inc());
        count();
        count();
        registry.reset();
        assert!(registry.gather().is_empty());
        count();
        let series = Series::new(&family, &["y"]);
        series.with(|counter| counter.inc());
        let exposed = |at: usize| registry.gather()[0].get_metric()[at].get_counter().get_value();
        assert_eq!((exposed(0), exposed(1)), (1.0, 1.0));
        registry.reset();
        series.with(|counter| counter.inc_by(3));
        assert_eq!(exposed(0), 3.0);
    }
}
