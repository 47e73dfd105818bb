//! Assembles the whole server in phases: [`Inputs`], [`Endpoint`], [`Security`], [`Apis`], [`Background`], [`listen`].
//! Each consumes the last one.

mod address;
mod apis;
mod background;
mod built_in;
mod check;
mod client_access;
mod cluster;
mod config_files;
mod debugging;
mod endpoint;
mod handlers;
mod health;
mod inputs;
mod listen;
mod logical_cluster;
mod manifests;
mod own_certificates;
mod peers;
mod policies;
mod read_only;
mod security;
mod storage_version_gate;
mod tenant;
mod validation_metrics;
mod webhooks;

use std::sync::Arc;

use binnacle_server::{Build, KUBERNETES_VERSION};

use self::apis::Apis;
use self::background::Background;
pub(crate) use self::check::check_files;
use self::endpoint::Endpoint;
use self::inputs::Inputs;
use self::listen::listen;
use self::logical_cluster::SharedHost;
use self::security::Security;
use crate::assembled_server::AssembledServer;
use crate::logical_clusters::{Backups, LogicalClusters};
use crate::server_info::ServerInfo;
use crate::settings::Settings;
use crate::start_failure::{StartFailure, not_registered};

/// Returns the facts of this build, with the version that is reported in place of its own.
#[must_use]
pub fn build(reported: Option<&str>) -> Build {
    Build {
        git_version: reported.map_or(KUBERNETES_VERSION.into(), |reported| reported.to_owned().into()),
        git_commit: env!("BINNACLE_COMMIT"),
        git_tree_state: env!("BINNACLE_TREE_STATE"),
        date: option_env!("BINNACLE_BUILD_DATE"),
    }
}

/// Assembles the server. Steps that can fail and leave nothing behind come first.
pub(crate) async fn assemble(config: Settings) -> Result<(AssembledServer, ServerInfo), StartFailure> {
    let (mut inputs, holdings) = Inputs::load(config).await?;
    let (endpoint, identity) = Endpoint::prepare(&mut inputs, &holdings)?;
    let security = Security::prepare(inputs, identity)?;
    let apis = Apis::build(security, None)?;
    let mut background = Background::start(apis, Some(endpoint.expiry()))?;
    let (trust, shutdown) = (background.access.trust.clone(), background.signals.shutdown.clone());
    let clusters = logical_clusters(&mut background, &endpoint)?;
    let endpoint = endpoint.start_renewal(&trust, &mut background.watch_tasks, &shutdown);
    Ok(listen(background, holdings, endpoint, clusters))
}

/// Starts to serve logical clusters, if the server hosts any, and earlier revisions of the server, if it keeps them.
fn logical_clusters(host: &mut Background, endpoint: &Endpoint) -> Result<Option<Arc<LogicalClusters>>, StartFailure> {
    let config = &host.base.config;
    let hosts_clusters = config.misc.logical_clusters;
    if !hosts_clusters && config.storage.history_retention.is_none() {
        return Ok(None);
    }
    let serving = endpoint.tls.certificates();
    let shared = SharedHost::of(host, serving, endpoint.authorities.clone());
    shared.add_look_back(host);
    shared.note_times(&mut host.watch_tasks, &host.signals.shutdown);
    if !hosts_clusters {
        return Ok(None);
    }
    let registry = host.base.metrics.registry();
    let clusters =
        LogicalClusters::start(shared, registry, &host.catalog, &mut host.watch_tasks, &host.signals.shutdown);
    let clusters = clusters.map_err(not_registered)?;
    host.backups = Some(Backups::new(clusters.clone(), host.catalog.clone()));
    Ok(Some(clusters))
}
