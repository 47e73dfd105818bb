//! The metric families of requests to peers.

use binnacle_metrics::{IntCounterVec, families};
use binnacle_request::RequestInfo;

families! {
    /// Counters of requests to peers, and of errors.
    #[derive(Clone, Debug)]
    pub struct PeerMetrics {
        rerouted: IntCounterVec = "apiserver_rerouted_request_total" by ["code", "group", "version", "resource"],
            "[ALPHA] Total number of requests that were proxied to a peer kube-apiserver because the local apiserver was \
             not capable of serving it, broken down by 'group', 'version', and 'resource' indicating the GVR of the \
             request. If all three are empty (\"\"), the request is a discovery request.";
        errors: IntCounterVec = "apiserver_peer_proxy_errors_total" by ["type", "group", "version", "resource"],
            "[ALPHA] Total number of errors encountered while proxying requests to a peer kube apiserver";
        sync_errors: IntCounterVec = "apiserver_peer_discovery_sync_errors_total" by ["type"],
            "[ALPHA] Total number of errors encountered while syncing discovery information from a peer kube-apiserver";
    }
}

impl PeerMetrics {
    pub(super) fn rerouted(&self, code: u16, info: &RequestInfo) {
        let labels = [&code.to_string(), info.api_group.as_str(), &info.api_version, &info.resource];
        self.rerouted.with_label_values(&labels).inc();
    }

    /// Counts a request for the discovery documents of a peer.
    pub(super) fn discovery_requested(&self, code: u16) {
        self.rerouted.with_label_values(&[&code.to_string(), "", "", ""]).inc();
    }

    /// Counts a peer whose address is unknown.
    pub(super) fn unresolved(&self, info: &RequestInfo) {
        let labels = ["endpoint_resolution", info.api_group.as_str(), &info.api_version, &info.resource];
        self.errors.with_label_values(&labels).inc();
    }

    /// Counts a failed read of a peer's discovery documents.
    pub(super) fn sync_failed(&self, why: SyncFailure) {
        let kind = match why {
            SyncFailure::Address => "hostport_resolution",
            SyncFailure::Document => "fetch_discovery",
        };
        self.sync_errors.with_label_values(&[kind]).inc();
    }
}

/// The reason why the resources of a peer are unknown.
#[derive(Clone, Copy, Debug)]
pub(super) enum SyncFailure {
    Address,
    Document,
}
