//! The `apiserver_validating_admission_policy_*` families.

use binnacle_metrics::{HistogramVec, IntCounterVec, families};

use crate::evaluators::decision::{Decision, Evaluation};

const LABELS: [&str; 4] = ["policy", "policy_binding", "error_type", "enforcement_action"];

families! {
    /// The metric families of validating policies.
    #[derive(Clone, Debug)]
    pub struct ValidatingMetrics {
        checks: IntCounterVec = "apiserver_validating_admission_policy_check_total" by LABELS,
            "[BETA] Validation admission policy check total, labeled by policy and further identified by binding and \
             enforcement action taken.";
        seconds: HistogramVec = "apiserver_validating_admission_policy_check_duration_seconds" by LABELS
            buckets [0.0000005, 0.001, 0.01, 0.1, 1.0],
            "[BETA] Validation admission latency for individual validation expressions in seconds, labeled by policy and \
             further including binding and enforcement action taken.";
    }
}

impl ValidatingMetrics {
    pub(crate) fn allowed(&self, policy: &str, binding: &str, decision: &Decision) {
        self.count(policy, binding, decision, "allow");
    }

    pub(crate) fn denied(&self, policy: &str, binding: &str, decision: &Decision) {
        self.count(policy, binding, decision, "deny");
    }

    pub(crate) fn audited(&self, policy: &str, binding: &str, decision: &Decision) {
        self.count(policy, binding, decision, "audit");
    }

    pub(crate) fn warned(&self, policy: &str, binding: &str, decision: &Decision) {
        self.count(policy, binding, decision, "warn");
    }

    fn count(&self, policy: &str, binding: &str, decision: &Decision, action: &str) {
        let labels = [policy, binding, error_type(decision), action];
        self.checks.with_label_values(&labels).inc();
        self.seconds.with_label_values(&labels).observe(decision.elapsed.as_secs_f64());
    }
}

/// Returns the error type for metrics, which is derived from the message, as in kube-apiserver. A denial counts as
/// `invalid_error`.
fn error_type(decision: &Decision) -> &'static str {
    if decision.evaluation == Evaluation::Admit {
        "no_error"
    } else if decision.message.starts_with("compilation") {
        "compile_error"
    } else if decision.message.starts_with("validation failed due to running out of cost budget") {
        "out_of_budget"
    } else {
        "invalid_error"
    }
}
