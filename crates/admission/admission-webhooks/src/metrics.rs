//! The metric families of admission webhooks: those of kube-apiserver, and one for skipped calls.

use std::time::Duration;

use binnacle_metrics::{HistogramVec, IntCounterVec, IntGauge, families};
use binnacle_registry::admission::Operation;

/// The largest code in labels, which bounds the number of series that webhooks can create.
const MAX_CODE: u16 = 600;

families! {
    /// The metric families of all webhooks, by their names.
    #[derive(Clone)]
    pub struct Metrics {
        durations: HistogramVec = "apiserver_admission_webhook_admission_duration_seconds"
            by ["name", "operation", "rejected", "type"]
            buckets [0.005, 0.025, 0.1, 0.5, 1.0, 2.5, 10.0, 25.0],
            "[STABLE] Admission webhook latency histogram in seconds, identified by name and broken out for each operation \
             and API resource and type (validate or admit).";
        requests: IntCounterVec = "apiserver_admission_webhook_request_total"
            by ["code", "name", "operation", "rejected", "type"],
            "[ALPHA] Admission webhook request total, identified by name and broken out for each admission type (validating \
             or admit) and operation. Additional labels specify whether the request was rejected or not and an HTTP status \
             code. Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.";
        rejections: IntCounterVec = "apiserver_admission_webhook_rejection_count"
            by ["error_type", "name", "operation", "rejection_code", "type"],
            "[ALPHA] Admission webhook rejection count, identified by name and broken out for each admission type \
             (validating or admit) and operation. Additional labels specify an error type (calling_webhook_error or \
             apiserver_internal_error if an error occurred; no_error otherwise) and optionally a non-zero rejection code if \
             the webhook rejects the request with an HTTP status code (honored by the apiserver when the code is greater or \
             equal to 400). Codes greater than 600 are truncated to 600, to keep the metrics cardinality bounded.";
        failed_open: IntCounterVec = "apiserver_admission_webhook_fail_open_count" by ["name", "type"],
            "[ALPHA] Admission webhook fail open count, identified by name and broken out for each admission type \
             (validating or admit).";
        passed_over: IntCounterVec = "binnacle_admission_webhook_passed_over_total" by ["name", "reason", "type"],
            "[ALPHA] Calls of admission webhooks that were not made or not waited for, by name, type and reason: the \
             backend is known not to answer (dead), or the request has no time left for it (deadline).";
        pub(crate) open: IntGauge = "binnacle_admission_webhook_breakers_open",
            "[ALPHA] Backends of admission webhooks that are not called for now because they did not answer in time.";
    }
}

/// The plugin, as in the label `type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Admit,
    Validating,
}

/// The reason for a rejected request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    CallingWebhook,
    Internal,
    /// The webhook denied the request.
    NoError,
}

/// The reason for skipping a webhook.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SkipReason {
    /// The breaker of its backend is open.
    Dead,
    /// The request has no time left.
    Deadline,
}

impl Metrics {
    /// Counts a call of a webhook.
    pub(crate) fn called(&self, of: Type, name: &str, operation: Operation, took: Duration, rejected: bool, code: u16) {
        let (operation, rejected, code) =
            (operation.as_str(), if rejected { "true" } else { "false" }, code.min(MAX_CODE));
        self.requests.with_label_values(&[&code.to_string(), name, operation, rejected, of.as_str()]).inc();
        self.durations.with_label_values(&[name, operation, rejected, of.as_str()]).observe(took.as_secs_f64());
    }

    /// Counts a request that was rejected because of a webhook.
    pub(crate) fn rejected(&self, of: Type, name: &str, operation: Operation, why: Rejection, code: u16) {
        let code = code.min(MAX_CODE).to_string();
        self.rejections.with_label_values(&[why.as_str(), name, operation.as_str(), &code, of.as_str()]).inc();
    }

    /// Counts a call that failed open.
    pub(crate) fn failed_open(&self, of: Type, name: &str) {
        self.failed_open.with_label_values(&[name, of.as_str()]).inc();
    }

    pub(crate) fn passed_over(&self, of: Type, name: &str, why: SkipReason) {
        self.passed_over.with_label_values(&[name, why.as_str(), of.as_str()]).inc();
    }
}

impl Type {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Admit => "admit",
            Self::Validating => "validating",
        }
    }
}

impl Rejection {
    fn as_str(self) -> &'static str {
        match self {
            Self::CallingWebhook => "calling_webhook_error",
            Self::Internal => "apiserver_internal_error",
            Self::NoError => "no_error",
        }
    }
}

impl SkipReason {
    fn as_str(self) -> &'static str {
        match self {
            Self::Dead => "dead",
            Self::Deadline => "deadline",
        }
    }
}
