//! Counts and latencies of impersonation, under kube-apiserver's names.

use std::time::Duration;

use binnacle_metrics::{HistogramVec, Registry, keep};
use prometheus::{HistogramOpts, IntCounterVec, Opts, exponential_buckets};

/// The families `apiserver_impersonation_...`.
#[derive(Clone)]
pub(crate) struct ImpersonationMetrics {
    attempts: Family,
    checks: Family,
}

impl ImpersonationMetrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            attempts: Family::register(registry, "attempts", "impersonation attempts")?,
            checks: Family::register(
                registry,
                "authorization_attempts",
                "authorization checks made by the impersonation handler",
            )?,
        })
    }

    /// Counts an impersonation request; `mode` is the mode that allowed it, if any.
    pub(super) fn attempted(&self, mode: Option<&str>, took: Duration) {
        self.attempts.count(mode.unwrap_or_default(), mode.is_some(), took);
    }

    /// Counts one authorization check of an impersonation.
    pub(super) fn checked(&self, mode: &str, allowed: bool, took: Duration) {
        self.checks.count(mode, allowed, took);
    }
}

#[derive(Clone)]
struct Family {
    total: IntCounterVec,
    duration: HistogramVec,
}

impl Family {
    fn register(registry: &Registry, name: &str, what: &str) -> Result<Self, prometheus::Error> {
        let labels = ["mode", "decision"];
        let total = Opts::new(
            format!("apiserver_impersonation_{name}_total"),
            format!("[ALPHA] Total number of {what} split by mode and decision."),
        );
        let duration = HistogramOpts::new(
            format!("apiserver_impersonation_{name}_duration_seconds"),
            format!("[ALPHA] Latency of {what} in seconds split by mode and decision."),
        );
        let duration = duration.buckets(exponential_buckets(0.001, 2.0, 15)?);
        Ok(Self {
            total: keep(registry, IntCounterVec::new(total, &labels)?)?,
            duration: keep(registry, HistogramVec::new(duration, &labels)?)?,
        })
    }

    fn count(&self, mode: &str, allowed: bool, took: Duration) {
        let labels = [mode, if allowed { "allowed" } else { "denied" }];
        self.total.with_label_values(&labels).inc();
        self.duration.with_label_values(&labels).observe(took.as_secs_f64());
    }
}
