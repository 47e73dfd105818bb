//! The `apiserver_admission_match_condition_*` families.

use std::time::Duration;

use binnacle_meta::Text;
use binnacle_metrics::{HistogramVec, IntCounterVec, families};
use binnacle_registry::admission::Operation;

const LABELS: [&str; 4] = ["name", "kind", "type", "operation"];

families! {
    /// The metric families of match conditions.
    #[derive(Clone, Debug)]
    pub struct MatchConditionMetrics {
        errors: IntCounterVec = "apiserver_admission_match_condition_evaluation_errors_total" by LABELS,
            "[ALPHA] Admission match condition evaluation errors count, identified by name of resource containing the match \
             condition and broken out for each kind containing matchConditions (webhook or policy), operation and admission \
             type (validate or admit).";
        exclusions: IntCounterVec = "apiserver_admission_match_condition_exclusions_total" by LABELS,
            "[ALPHA] Admission match condition evaluation exclusions count, identified by name of resource containing the \
             match condition and broken out for each kind containing matchConditions (webhook or policy), operation and \
             admission type (validate or admit).";
        seconds: HistogramVec = "apiserver_admission_match_condition_evaluation_seconds" by LABELS
            buckets [0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25],
            "[ALPHA] Admission match condition evaluation time in seconds, identified by name and broken out for each kind \
             containing matchConditions (webhook or policy), operation and type (validate or admit).";
    }
}

/// The owner of match conditions, for the labels of metrics.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConditionOwner {
    /// The name of the webhook or policy.
    pub name: Text,
    /// `webhook` or `policy`
    pub kind: &'static str,
    /// `admit`, `validating` or `validate`
    pub step: &'static str,
}

impl MatchConditionMetrics {
    pub(crate) fn failed(&self, owner: &ConditionOwner, operation: Operation, errors: usize) {
        if errors > 0 {
            self.errors.with_label_values(&owner.labels(operation)).inc_by(errors as u64);
        }
    }

    pub(crate) fn excluded(&self, owner: &ConditionOwner, operation: Operation) {
        self.exclusions.with_label_values(&owner.labels(operation)).inc();
    }

    pub(crate) fn took(&self, owner: &ConditionOwner, operation: Operation, elapsed: Duration) {
        self.seconds.with_label_values(&owner.labels(operation)).observe(elapsed.as_secs_f64());
    }
}

impl ConditionOwner {
    fn labels(&self, operation: Operation) -> [&str; 4] {
        [self.name.as_str(), self.kind, self.step, operation.as_str()]
    }
}
