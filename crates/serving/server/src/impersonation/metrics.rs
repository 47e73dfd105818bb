//! Counts and latencies of impersonation, under kube-apiserver's names.

use std::time::Duration;

use binnacle_metrics::{HistogramVec, IntCounterVec, families};
use prometheus::exponential_buckets;

families! {
    #[derive(Clone)]
    pub(crate) struct ImpersonationMetrics {
        attempts: IntCounterVec = "apiserver_impersonation_attempts_total" by ["mode", "decision"],
            "[ALPHA] Total number of impersonation attempts split by mode and decision.";
        attempt_durations: HistogramVec = "apiserver_impersonation_attempts_duration_seconds" by ["mode", "decision"]
            buckets exponential_buckets(0.001, 2.0, 15)?,
            "[ALPHA] Latency of impersonation attempts in seconds split by mode and decision.";
        checks: IntCounterVec = "apiserver_impersonation_authorization_attempts_total" by ["mode", "decision"],
            "[ALPHA] Total number of authorization checks made by the impersonation handler split by mode and decision.";
        check_durations: HistogramVec = "apiserver_impersonation_authorization_attempts_duration_seconds"
            by ["mode", "decision"] buckets exponential_buckets(0.001, 2.0, 15)?,
            "[ALPHA] Latency of authorization checks made by the impersonation handler in seconds split by mode and \
             decision.";
    }
}

impl ImpersonationMetrics {
    /// Counts an impersonation request; `mode` is the mode that allowed it, if any.
    pub(super) fn observe_attempt(&self, mode: Option<&str>, took: Duration) {
        let labels = [mode.unwrap_or_default(), decision(mode.is_some())];
        self.attempts.with_label_values(&labels).inc();
        self.attempt_durations.with_label_values(&labels).observe(took.as_secs_f64());
    }

    /// Counts one authorization check of an impersonation.
    pub(super) fn observe_check(&self, mode: &str, allowed: bool, took: Duration) {
        let labels = [mode, decision(allowed)];
        self.checks.with_label_values(&labels).inc();
        self.check_durations.with_label_values(&labels).observe(took.as_secs_f64());
    }
}

fn decision(allowed: bool) -> &'static str {
    if allowed { "allowed" } else { "denied" }
}
