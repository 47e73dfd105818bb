//! Proxy of a node: to its kubelet, or to another port of the host.

use std::sync::Arc;

use binnacle_client::{Target, is_global_unicast, resolve};
use binnacle_meta::{Status, go_quote};
use binnacle_request::RequestInfo;
use rustls::ClientConfig;

use super::location::Location;
use crate::streams::Nodes;

pub(super) async fn locate(nodes: &Nodes, info: &RequestInfo, tls: &Arc<ClientConfig>) -> Result<Target, Status> {
    let invalid = || Status::bad_request(format!("invalid node request {}", go_quote(&info.name)));
    let location = Location::parse(&info.name).ok_or_else(invalid)?;
    let kubelet = nodes.kubelet(info, location.name).await?.target;
    let addresses = resolve(&kubelet.host).await.map_err(|error| Status::bad_request(error.text))?;
    if !addresses.iter().all(|ip| is_global_unicast(*ip)) {
        return Err(Status::bad_request("address not allowed"));
    }
    let own_port = kubelet.port.map(|port| port.to_string()).unwrap_or_default();
    // The checked addresses are dialed, because the name could later resolve to different ones.
    let addresses = Some(addresses);
    if location.port.is_empty() || location.port == own_port {
        return Ok(Target { addresses, ..kubelet });
    }
    Ok(Target {
        port: location.numeric_port()?,
        tls: location.tls(tls),
        addresses,
        host: kubelet.host,
        server_name: None,
        connection: kubelet.connection,
    })
}
