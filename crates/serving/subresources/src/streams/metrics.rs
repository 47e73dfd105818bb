//! The metric families of streams, under kube-apiserver's names.

use binnacle_metrics::{Registry, keep};
use prometheus::{IntCounterVec, Opts};

/// Metrics of streams, shared by clones.
#[derive(Clone)]
pub(crate) struct StreamMetrics {
    pub(super) logs_usage: IntCounterVec,
    pub(super) logs_tls_failures: IntCounterVec,
    pub(super) websockets: IntCounterVec,
    pub(super) translated: IntCounterVec,
    pub(super) tunnelled: IntCounterVec,
}

impl StreamMetrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counters = |name: &str, help: &str, labels: &[&str]| {
            keep(registry, IntCounterVec::new(Opts::new(name, help), labels)?)
        };
        // A family whose only series is there when something was counted.
        let logs_tls_failures = counters(
            "kube_apiserver_pod_logs_backend_tls_failure_total",
            "[ALPHA] Total number of requests for pods/logs that failed due to kubelet server TLS verification",
            &[],
        )?;
        Ok(Self {
            logs_usage: counters(
                "kube_apiserver_pod_logs_insecure_backend_total",
                "[ALPHA] Total number of requests for pods/logs sliced by usage type: enforce_tls, skip_tls_allowed, \
                 skip_tls_denied",
                &["usage"],
            )?,
            logs_tls_failures,
            websockets: counters(
                "apiserver_websocket_streaming_requests_total",
                "[ALPHA] Total number of WebSocket streaming requests (exec/attach/portforward) routed by the API server, \
                 labeled by subresource and proxy_type. proxy_type is proxied_to_kubelet when the kubelet handles the \
                 request directly; otherwise translated_at_apiserver.",
                &["subresource", "proxy_type"],
            )?,
            translated: counters(
                "apiserver_stream_translator_requests_total",
                "[ALPHA] Total number of requests that were handled by the StreamTranslatorProxy, which processes \
                 streaming RemoteCommand/V5",
                &["code"],
            )?,
            tunnelled: counters(
                "apiserver_stream_tunnel_requests_total",
                "[ALPHA] Total number of requests that were handled by the StreamTunnelProxy, which processes streaming \
                 PortForward/V2",
                &["code"],
            )?,
        })
    }
}
