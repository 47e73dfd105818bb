//! Metrics of conversions by webhooks: durations and failures, under kube-apiserver's names.

use std::time::Duration;

use binnacle_metrics::{HistogramVec, IntCounterVec, families};
use prometheus::exponential_buckets;

families! {
    /// The metrics of all conversion webhooks.
    #[derive(Clone, Debug)]
    pub struct ConversionMetrics {
        requests: IntCounterVec = "apiserver_conversion_webhook_request_total" by ["result", "failure_type"],
            "[ALPHA] Counter for conversion webhook requests with success/failure and failure error type";
        latency: HistogramVec = "apiserver_conversion_webhook_duration_seconds" by ["result", "failure_type"]
            buckets [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 45.0, 60.0],
            "[ALPHA] Conversion webhook request latency";
        /// By definition and versions.
        durations: HistogramVec = "apiserver_crd_conversion_webhook_duration_seconds"
            by ["crd_name", "from_version", "to_version", "succeeded"]
            buckets exponential_buckets(0.001, 2.0, 15)?,
            "[ALPHA] CRD webhook conversion duration in seconds";
    }
}

/// The kind of a failed conversion, as in `failure_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    Call,
    /// The response would take more memory than the server uses for one response.
    TooLarge,
    MalformedResponse,
    PartialResponse,
    InvalidConvertedObject,
}

impl ConversionMetrics {
    /// Records a call of a webhook.
    pub(super) fn called(&self, failure: Option<Failure>, duration: Duration) {
        let labels = match failure {
            None => ["success", ""],
            Some(failure) => ["failure", failure.as_str()],
        };
        self.requests.with_label_values(&labels).inc();
        self.latency.with_label_values(&labels).observe(duration.as_secs_f64());
    }

    /// Records a conversion of a definition's objects.
    pub(super) fn converted(&self, definition: &str, versions: [&str; 2], succeeded: bool, duration: Duration) {
        let succeeded = if succeeded { "true" } else { "false" };
        let labels = [definition, versions[0], versions[1], succeeded];
        self.durations.with_label_values(&labels).observe(duration.as_secs_f64());
    }
}

impl Failure {
    fn as_str(self) -> &'static str {
        match self {
            Self::Call => "conversion_webhook_call_failure",
            Self::TooLarge | Self::MalformedResponse => "conversion_webhook_malformed_response_failure",
            Self::PartialResponse => "conversion_webhook_partial_response_failure",
            Self::InvalidConvertedObject => "conversion_webhook_invalid_converted_object_failure",
        }
    }
}
