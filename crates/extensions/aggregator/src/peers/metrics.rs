//! The metric families of requests to other servers of the cluster.

use binnacle_metrics::{Registry, keep};
use binnacle_request::RequestInfo;
use prometheus::{IntCounterVec, Opts};

/// Counters of requests to other servers, and of errors.
#[derive(Clone, Debug)]
pub struct PeerMetrics {
    rerouted: IntCounterVec,
    errors: IntCounterVec,
    sync_errors: IntCounterVec,
}

impl PeerMetrics {
    /// Fails if the registry already has families of these names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let options = Opts::new(format!("apiserver_{name}"), format!("[ALPHA] Total number of {help}"));
            keep(registry, IntCounterVec::new(options, labels)?)
        };
        Ok(Self {
            rerouted: counter(
                "rerouted_request_total",
                "requests that were proxied to a peer kube-apiserver because the local apiserver was not capable of serving it, \
                 broken down by 'group', 'version', and 'resource' indicating the GVR of the request. If all three are empty \
                 (\"\"), the request is a discovery request.",
                &["code", "group", "version", "resource"],
            )?,
            errors: counter(
                "peer_proxy_errors_total",
                "errors encountered while proxying requests to a peer kube apiserver",
                &["type", "group", "version", "resource"],
            )?,
            sync_errors: counter(
                "peer_discovery_sync_errors_total",
                "errors encountered while syncing discovery information from a peer kube-apiserver",
                &["type"],
            )?,
        })
    }

    pub(super) fn rerouted(&self, code: u16, info: &RequestInfo) {
        let labels = [&code.to_string(), info.api_group.as_str(), &info.api_version, &info.resource];
        self.rerouted.with_label_values(&labels).inc();
    }

    /// Counts a request to another server for its discovery documents.
    pub(super) fn asked(&self, code: u16) {
        self.rerouted.with_label_values(&[&code.to_string(), "", "", ""]).inc();
    }

    /// Counts a server whose address is unknown.
    pub(super) fn unresolved(&self, info: &RequestInfo) {
        let labels = ["endpoint_resolution", info.api_group.as_str(), &info.api_version, &info.resource];
        self.errors.with_label_values(&labels).inc();
    }

    /// Counts a failed read of a server's discovery documents.
    pub(super) fn sync_failed(&self, why: SyncFailure) {
        let kind = match why {
            SyncFailure::Address => "hostport_resolution",
            SyncFailure::Document => "fetch_discovery",
        };
        self.sync_errors.with_label_values(&[kind]).inc();
    }
}

/// The reason why another server's resources are unknown.
#[derive(Clone, Copy, Debug)]
pub(super) enum SyncFailure {
    Address,
    Document,
}
