//! The `apiserver_mutating_admission_policy_*` families.

use std::time::Duration;

use binnacle_metrics::{HistogramVec, IntCounterVec, families};

const LABELS: [&str; 3] = ["policy", "policy_binding", "error_type"];

families! {
    /// The metric families of mutating policies.
    #[derive(Clone, Debug)]
    pub struct MutatingMetrics {
        checks: IntCounterVec = "apiserver_mutating_admission_policy_check_total" by LABELS,
            "[ALPHA] Mutation admission policy check total, labeled by policy and further identified by binding.";
        seconds: HistogramVec = "apiserver_mutating_admission_policy_check_duration_seconds" by LABELS
            buckets [0.0000005, 0.001, 0.01, 0.1, 1.0],
            "[ALPHA] Mutation admission latency for individual mutation expressions in seconds, labeled by policy and \
             binding.";
    }
}

impl MutatingMetrics {
    /// Records a mutation, with the error type of its failure, if any.
    pub(crate) fn observe(&self, policy: &str, binding: &str, failure: Option<&str>, elapsed: Duration) {
        let labels = [policy, binding, failure.map_or("no_error", error_type)];
        self.checks.with_label_values(&labels).inc();
        self.seconds.with_label_values(&labels).observe(elapsed.as_secs_f64());
    }
}

fn error_type(message: &str) -> &'static str {
    if message.starts_with("compilation") {
        "compile_error"
    } else if message.starts_with("validation failed due to running out of cost budget") {
        "out_of_budget"
    } else {
        "invalid_error"
    }
}
