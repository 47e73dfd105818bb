//! The last phase: the listener.

use std::sync::Arc;

use binnacle_server::{Server, ShutdownConfig};
use binnacle_transport::{ConnectionLimits, Tls};
use rustix::process::{Resource, getrlimit};

use super::background::Background;
use super::cluster::complete;
use super::endpoint::ClientCommands;
use super::inputs::Holdings;
use crate::assembled_server::AssembledServer;
use crate::logical_clusters::{ClusterRouter, ListenerOptions, LogicalClusters};
use crate::server_info::{Progress, ServerInfo};

/// The part of the descriptors, as its divisor, that the connections of one cluster's own port may take.
const CLUSTER_PORT_DIVISOR: u64 = 8;

/// Completes a server, and describes it. It accepts connections once it runs.
pub(super) fn listen(
    server: Background,
    mut holdings: Holdings,
    (tls, commands): (Tls, ClientCommands),
    clusters: Option<Arc<LogicalClusters>>,
) -> (AssembledServer, ServerInfo) {
    let (config, storage, canary) = (server.base.config.clone(), server.storage.clone(), server.canary.clone());
    let (address, url) = (server.base.address, server.base.url.clone());
    let host_catalog = clusters.is_some().then(|| server.catalog.clone());
    let cluster = complete(server);
    let descriptors = config.host.descriptors.unwrap_or_else(descriptors);
    let serves_past = config.storage.history_retention.is_some();
    let options = ListenerOptions {
        address: address.ip(),
        sharing: config.serving.sharing,
        tls: Arc::new(tls),
        limits: ConnectionLimits::of_descriptors(descriptors / CLUSTER_PORT_DIVISOR),
        max_streams: config.serving.max_streams,
        front: holdings.front.handle(),
        host: cluster.chain.clone(),
        serves_past,
    };
    let listener = options.listener(holdings.port, ConnectionLimits::of_descriptors(descriptors));
    if let Some(clusters) = &clusters {
        clusters.configure_ports(options);
    }
    let triggers = cluster.triggers.clone();
    let router = ClusterRouter { host: cluster.chain.clone(), clusters: clusters.clone(), serves_past };
    let listening =
        Server::new(listener, cluster.chain.clone(), triggers.shutdown).with_shutdown_config(ShutdownConfig {
            terminating: Some(triggers.terminating),
            delay: config.generic.shutdown_delay,
            draining: config.generic.shutdown_send_retry_after.then_some(triggers.draining),
            drain_short: config.generic.request_timeout,
            watch_grace: config.generic.watch_grace_period,
        });
    let listening = listening.with_service(Arc::new(router));
    if let Some(data) = &mut holdings.data {
        data.keep();
    }
    let place = match &holdings.data {
        _ if storage.stores.are_remote() => storage.stores.place(),
        Some(data) if !config.storage.ephemeral => data.path().display().to_string(),
        _ => "in memory, lost when the server stops".to_owned(),
    };
    let info = ServerInfo {
        address,
        url,
        place,
        kubeconfig: commands.kubeconfig,
        kubectl: commands.kubectl,
        controllers: commands.controllers,
        progress: Progress(canary),
        host_catalog,
    };
    let assembled = AssembledServer {
        server: listening,
        cluster,
        clusters,
        storage,
        admin_socket: holdings.admin_socket,
        data: holdings.data.or(commands.directory),
        disk_failed: holdings.disk_failed,
        front: holdings.front,
        relays: holdings.relays,
    };
    (assembled, info)
}

/// Returns the maximum number of files and sockets that the process may have open.
fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
