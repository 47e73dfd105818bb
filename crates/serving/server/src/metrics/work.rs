//! Metrics of work budgets: how close requests come to the limits, and how often they exceed them.

use std::sync::atomic::{AtomicU64, Ordering};

use binnacle_metrics::{IntCounterVec, IntGaugeVec, Registry, families};
use binnacle_work::{BudgetError, WorkBudget};

families! {
    struct Families {
        exceeded: IntCounterVec = "binnacle_request_work_exceeded_total" by ["limit"],
            "[ALPHA] Counter of requests that exceeded a limit of their work budget, by limit.";
        largest: IntGaugeVec = "binnacle_request_work_largest" by ["unit"],
            "[ALPHA] The most work that one request has caused since the start, in steps (about 10 ns each) and in bytes of \
             memory.";
    }
}

pub(crate) struct WorkMetrics {
    families: Families,
    /// The value of `largest`, which most requests do not change.
    steps: AtomicU64,
    bytes: AtomicU64,
}

impl WorkMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self { families: Families::register(registry)?, steps: AtomicU64::new(0), bytes: AtomicU64::new(0) })
    }

    /// Records the work of a completed request.
    pub(crate) fn record(&self, budget: &WorkBudget) {
        self.raise(&self.steps, "steps", budget.steps());
        self.raise(&self.bytes, "bytes", budget.most_memory() as u64);
        if let Err(exceeded) = budget.check() {
            let limit = match exceeded {
                BudgetError::Steps(_) => "steps",
                BudgetError::Memory(_) => "memory",
                BudgetError::Defaults(_) => "defaults",
                BudgetError::Deadline => "deadline",
                BudgetError::Busy(_) => "pool",
                BudgetError::Queue => "queue",
            };
            self.families.exceeded.with_label_values(&[limit]).inc();
        }
    }

    fn raise(&self, largest: &AtomicU64, unit: &str, value: u64) {
        if value > largest.load(Ordering::Relaxed) && value > largest.fetch_max(value, Ordering::Relaxed) {
            self.families.largest.with_label_values(&[unit]).set(i64::try_from(value).unwrap_or(i64::MAX));
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_work::{WorkLimits, charge};

    use super::*;

    #[test]
    fn records_the_largest_work_and_exceeded_limits() {
        let metrics = WorkMetrics::register(&Registry::new()).expect("valid families");
        for steps in [5_000, 200_000, 10_000] {
            let budget = WorkBudget::new(WorkLimits { steps: 100_000, memory: 1 });
            let _ = budget.enter(|| charge(steps));
            metrics.record(&budget);
        }
        assert_eq!(metrics.families.largest.with_label_values(&["steps"]).get(), 200_000);
        assert_eq!(metrics.families.exceeded.with_label_values(&["steps"]).get(), 1);
    }
}
