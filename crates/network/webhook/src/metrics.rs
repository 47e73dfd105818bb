//! The `rest_client_*` metric families for requests to webhooks and to other servers in kubeconfig files. All servers
//! of a process share them.

use std::sync::LazyLock;
use std::time::Duration;

use binnacle_metrics::{HistogramVec, IntCounterVec, Registry, families};
use http::{Method, Uri};

const DURATIONS: [f64; 12] = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0];
const SIZES: [f64; 10] = [256.0, 512.0, 1024.0, 4096.0, 16384.0, 65536.0, 262144.0, 1048576.0, 4194304.0, 16777216.0];

families! {
    struct Families {
        requests: IntCounterVec = "rest_client_requests_total" by ["code", "method", "host"],
            "[ALPHA] Number of HTTP requests, partitioned by status code, method, and host.";
        durations: HistogramVec = "rest_client_request_duration_seconds" by ["verb", "host"] buckets DURATIONS,
            "[ALPHA] Request latency in seconds. Broken down by verb, and host.";
        sent: HistogramVec = "rest_client_request_size_bytes" by ["verb", "host"] buckets SIZES,
            "[ALPHA] Request size in bytes. Broken down by verb and host.";
        received: HistogramVec = "rest_client_response_size_bytes" by ["verb", "host"] buckets SIZES,
            "[ALPHA] Response size in bytes. Broken down by verb and host.";
    }
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    // Labels and buckets are valid constants.
    Families::build().unwrap_or_else(|error| panic!("a metric without fault: {error}"))
});

/// Registers the families.
pub fn register_metrics(registry: &Registry) -> Result<(), prometheus::Error> {
    FAMILIES.register_in(registry)
}

/// Records the metrics of one request.
pub(crate) struct RequestObserver {
    method: Method,
    host: String,
}

impl RequestObserver {
    /// Records the size of the request body and starts the observation.
    pub(crate) fn start(method: &Method, url: &Uri, body: usize) -> Self {
        let host = url.authority().map_or_else(String::new, |authority| authority.as_str().to_owned());
        FAMILIES.sent.with_label_values(&[method.as_str(), &host]).observe(as_float(body));
        Self { method: method.clone(), host }
    }

    /// Records the outcome: the status code of the response and the size of a successful one. A request without a
    /// response has the code `<error>`, as in kube-apiserver.
    pub(crate) fn finish(self, code: Option<u16>, received: Option<usize>, took: Duration) {
        let verb = [self.method.as_str(), &self.host];
        FAMILIES.durations.with_label_values(&verb).observe(took.as_secs_f64());
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        FAMILIES.requests.with_label_values(&[&code, self.method.as_str(), &self.host]).inc();
        if let Some(received) = received {
            FAMILIES.received.with_label_values(&verb).observe(as_float(received));
        }
    }
}

#[expect(clippy::cast_precision_loss, reason = "sizes are far below the limit")]
fn as_float(size: usize) -> f64 {
    size as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_outcomes_by_host() {
        let url = Uri::from_static("https://metrics.test:8443/validate?timeout=10s");
        for (code, received) in [(Some(200), Some(2)), (None, None), (Some(404), None), (None, None)] {
            RequestObserver::start(&Method::POST, &url, 100).finish(code, received, Duration::from_millis(30));
        }
        let host = "metrics.test:8443";
        let requests = |code| FAMILIES.requests.with_label_values(&[code, "POST", host]).get();
        assert_eq!((requests("200"), requests("404"), requests("<error>")), (1, 1, 2));
        let count = |family: &HistogramVec| family.with_label_values(&["POST", host]).get_sample_count();
        assert_eq!((count(&FAMILIES.durations), count(&FAMILIES.sent), count(&FAMILIES.received)), (4, 4, 1));
    }
}
