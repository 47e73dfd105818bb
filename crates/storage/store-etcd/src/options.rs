//! The addresses of an etcd cluster, and the range of keys in it.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

use binnacle_egress::Dialer;
use bytes::Bytes;

use crate::metrics::Metrics;

/// The options of a store.
#[derive(Clone)]
pub struct EtcdOptions {
    /// The members' client URLs: `http://host:port`, `https://host:port`, `unix:///path`, or `host:port`.
    pub endpoints: Vec<String>,
    pub tls: TlsPaths,
    /// The watched keys. Every range for [`Store::watch`](binnacle_store::Store::watch) is a part of it.
    pub watched: Range<Bytes>,
    pub metrics: Metrics,
    /// The proxy for connections, if they are not direct.
    pub dialer: Option<Arc<Dialer>>,
}

/// PEM files for TLS to etcd. Certificate and key are read for every connection, so that they can be rotated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsPaths {
    /// The certificate authorities of the members' certificates, or `None` for those of the system.
    pub ca: Option<PathBuf>,
    pub certificate: Option<PathBuf>,
    pub key: Option<PathBuf>,
}

/// The error of creating a store.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("--etcd-servers must be specified")]
    NoEndpoint,
    #[error("invalid etcd endpoint {endpoint:?}: {reason}")]
    Endpoint { endpoint: String, reason: String },
    #[error("cannot use {path} for TLS to etcd: {reason}")]
    Tls { path: String, reason: String },
    #[error("TLS to etcd needs both a certificate and its key")]
    HalfIdentity,
}

// === impl TlsPaths ===

impl TlsPaths {
    /// Returns true if any file is set. Endpoints without a scheme use TLS in that case.
    pub fn any(&self) -> bool {
        self.ca.is_some() || self.certificate.is_some() || self.key.is_some()
    }
}
