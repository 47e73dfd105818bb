//! The `apiserver_mutating_admission_policy_*` families.

use std::time::Duration;

use binnacle_metrics::{HistogramVec, Registry, keep};
use prometheus::{HistogramOpts, IntCounterVec, Opts};

/// The metric families of mutating policies.
#[derive(Clone, Debug)]
pub struct MutatingMetrics {
    checks: IntCounterVec,
    seconds: HistogramVec,
}

impl MutatingMetrics {
    /// # Errors
    /// If the registry has the families already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        const LABELS: [&str; 3] = ["policy", "policy_binding", "error_type"];
        let checks = Opts::new(
            "apiserver_mutating_admission_policy_check_total",
            "[ALPHA] Mutation admission policy check total, labeled by policy and further identified by binding.",
        );
        let seconds = HistogramOpts::new(
            "apiserver_mutating_admission_policy_check_duration_seconds",
            "[ALPHA] Mutation admission latency for individual mutation expressions in seconds, labeled by policy and \
             binding.",
        );
        let buckets = vec![0.0000005, 0.001, 0.01, 0.1, 1.0];
        Ok(Self {
            checks: keep(registry, IntCounterVec::new(checks, &LABELS)?)?,
            seconds: keep(registry, HistogramVec::new(seconds.buckets(buckets), &LABELS)?)?,
        })
    }

    /// Counts a mutation and why it failed, if it did.
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
