//! The proxy to other servers of the same cluster, whose authority is in `--peer-ca-file`.

use std::sync::Arc;

use binnacle_aggregator::{Aggregator, PeerAddresses, PeerMetrics, PeerOptions, Peers};
use binnacle_client::ConnectionOptions;
use binnacle_controlplane::identity_lease_name;
use binnacle_egress::{Egress, Network};
use binnacle_registry::Catalog;
use rustls::client::ResolvesClientCert;

use super::StartFailure;
use crate::settings::Settings;

/// Creates the proxy; `None` if requests are not forwarded to other servers of the cluster.
pub(super) fn make(
    config: &Settings,
    identity: Option<Arc<dyn ResolvesClientCert>>,
    egress: &Egress,
    resources: &Catalog,
    aggregator: &Aggregator,
    metrics: PeerMetrics,
) -> Result<Option<Peers>, StartFailure> {
    let (Some(path), Some(identity)) = (&config.misc.peer_ca, identity) else { return Ok(None) };
    let options = PeerOptions {
        name: identity_lease_name(config.misc.hostname.as_deref()).into(),
        catalog: resources.clone(),
        aggregator: aggregator.clone(),
        addresses: PeerAddresses::new(resources.clone()),
        identity,
        authorities: path.clone(),
        connection: ConnectionOptions { dialer: egress.dialer(Network::ControlPlane), ..ConnectionOptions::default() },
        metrics,
    };
    Peers::new(options).map(Some).map_err(StartFailure::Peers)
}
