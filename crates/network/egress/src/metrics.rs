//! The metric families `apiserver_egress_dialer_...`.

use std::time::Duration;

use binnacle_metrics::{HistogramVec, IntCounterVec, families};

families! {
    /// Counts dials through proxies, with their durations and failures.
    #[derive(Clone, Debug)]
    pub struct DialMetrics {
        starts: IntCounterVec = "apiserver_egress_dialer_dial_start_total" by ["protocol", "transport"],
            "[ALPHA] Dial starts, labeled by the protocol (http-connect or grpc) and transport (tcp or uds).";
        durations: HistogramVec = "apiserver_egress_dialer_dial_duration_seconds" by ["protocol", "transport"]
            buckets [0.005, 0.025, 0.1, 0.5, 2.5, 12.5],
            "[ALPHA] Dial latency histogram in seconds, labeled by the protocol (http-connect or grpc), transport (tcp or \
             uds)";
        failures: IntCounterVec = "apiserver_egress_dialer_dial_failure_count" by ["protocol", "transport", "stage"],
            "[ALPHA] Dial failure count, labeled by the protocol (http-connect or grpc), transport (tcp or uds), and stage \
             (connect or proxy). The stage indicates at which stage the dial failed";
    }
}

/// The protocol and the transport of a proxy, as label values.
pub(crate) type Labels = [&'static str; 2];

impl DialMetrics {
    pub(crate) fn started(&self, labels: Labels) {
        self.starts.with_label_values(&labels).inc();
    }

    pub(crate) fn succeeded(&self, [protocol, transport]: Labels, took: Duration) {
        self.durations.with_label_values(&[protocol, transport]).observe(took.as_secs_f64());
    }

    /// Counts a failure. `stage` is `connect` or `proxy`.
    pub(crate) fn failed(&self, [protocol, transport]: Labels, stage: &str) {
        self.failures.with_label_values(&[protocol, transport, stage]).inc();
    }
}
