//! The metric families of connections.

use binnacle_metrics::{IntCounter, families};

families! {
    /// Counts of connections, under kube-apiserver's names.
    #[derive(Clone, Debug)]
    pub struct ConnectionMetrics {
        pub(crate) handshake_errors: IntCounter = "apiserver_tls_handshake_errors_total",
            "[ALPHA] Number of requests dropped with 'TLS handshake error from' error";
    }
}
