//! The metric families of streams, under kube-apiserver's names.

use binnacle_metrics::{IntCounterVec, families};

families! {
    /// The metrics of streams. Clones share them.
    #[derive(Clone)]
    pub(crate) struct StreamMetrics {
        pub(super) logs_usage: IntCounterVec = "kube_apiserver_pod_logs_insecure_backend_total" by ["usage"],
            "[ALPHA] Total number of requests for pods/logs sliced by usage type: enforce_tls, skip_tls_allowed, \
             skip_tls_denied";
        /// Has no series until something was counted.
        pub(super) logs_tls_failures: IntCounterVec = "kube_apiserver_pod_logs_backend_tls_failure_total" by [],
            "[ALPHA] Total number of requests for pods/logs that failed due to kubelet server TLS verification";
        pub(super) websockets: IntCounterVec = "apiserver_websocket_streaming_requests_total"
            by ["subresource", "proxy_type"],
            "[ALPHA] Total number of WebSocket streaming requests (exec/attach/portforward) routed by the API server, \
             labeled by subresource and proxy_type. proxy_type is proxied_to_kubelet when the kubelet handles the request \
             directly; otherwise translated_at_apiserver.";
        pub(super) translated: IntCounterVec = "apiserver_stream_translator_requests_total" by ["code"],
            "[ALPHA] Total number of requests that were handled by the StreamTranslatorProxy, which processes streaming \
             RemoteCommand/V5";
        pub(super) tunnelled: IntCounterVec = "apiserver_stream_tunnel_requests_total" by ["code"],
            "[ALPHA] Total number of requests that were handled by the StreamTunnelProxy, which processes streaming \
             PortForward/V2";
    }
}
