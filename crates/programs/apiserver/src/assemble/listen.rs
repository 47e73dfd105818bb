//! The last phase: the filter chain and the listener.

use std::sync::Arc;

use binnacle_controllers::PostStartHook;
use binnacle_endpoints::failure_response;
use binnacle_request::Interceptor;
use binnacle_server::{Chain, ChainConfig, ChainOptions, Router, Server, ShutdownConfig};
use binnacle_transport::ConnectionLimits;
use rustix::process::{Resource, getrlimit};

use super::background::Background;
use super::handlers::{handlers, limits};
use super::storage_version_gate::StorageVersionGate;
use crate::assembled_server::AssembledServer;
use crate::server::{Progress, ServerInfo};

/// Completes a server, and describes it. It accepts connections once it runs.
pub(super) fn listen(mut server: Background) -> (AssembledServer, ServerInfo) {
    let router = router(&mut server);
    let Background { base, mut holdings, signals, access, built_in, commands, .. } = server;
    let config = &base.config;
    let chain = Chain::new(ChainConfig {
        authentication: server.authentication,
        authorizer: access.authorizer,
        router,
        failure: failure_response,
        metrics: base.metrics,
        features: base.features,
        shutdown: signals.shutdown,
        request_timeout: config.generic.request_timeout,
        options: ChainOptions {
            auditor: server.auditor.clone(),
            cors: config.generic.cors.clone(),
            hsts: config.generic.hsts.as_deref().and_then(|hsts| hsts.parse().ok()),
            goaway_chance: config.generic.goaway_chance,
            limits: limits(config),
            fairness: server.fairness,
            tracer: server.tracer,
            has_been_ready: config.generic.refuses_until_ready.then(|| server.health.has_been_ready()),
            draining: Some(signals.draining),
            shutdown_initiated: Some(signals.terminating),
        },
    });
    let limits = ConnectionLimits::of_descriptors(config.host.descriptors.unwrap_or_else(descriptors));
    let mut listener = holdings.port.with_tls(server.tls).limits(limits);
    if let Some(front) = holdings.front.handle() {
        listener = listener.front(front);
    }
    if let Some(max_streams) = config.serving.max_streams {
        listener = listener.max_streams(max_streams);
    }
    let listening = Server::new(listener, Arc::new(chain), signals.trigger).with_shutdown_config(ShutdownConfig {
        terminating: Some(signals.terminating_trigger),
        delay: config.generic.shutdown_delay,
        draining: config.generic.shutdown_send_retry_after.then_some(signals.draining_trigger),
        drain_short: config.generic.request_timeout,
        watch_grace: config.generic.watch_grace_period,
    });
    if let Some(data) = &mut holdings.data {
        data.keep();
    }
    let place = match &holdings.data {
        _ if holdings.stores.are_remote() => holdings.stores.place(),
        Some(data) if !config.storage.ephemeral => data.path().display().to_string(),
        _ => "in memory, lost when the server stops".to_owned(),
    };
    let info = ServerInfo {
        address: base.address,
        url: base.url,
        place,
        kubeconfig: commands.kubeconfig,
        kubectl: commands.kubectl,
        controllers: commands.controllers,
        progress: Progress(holdings.canary),
    };
    let assembled = AssembledServer {
        server: listening,
        resources: server.catalog,
        stores: holdings.stores,
        admin_socket: holdings.admin_socket,
        at_rest: holdings.at_rest,
        controllers: built_in.controllers,
        watch_tasks: server.watch_tasks,
        failed_tasks: server.failed_tasks,
        store_maintenance: server.store_maintenance,
        auditor: server.auditor,
        data: holdings.data.or(commands.directory),
        disk_failed: holdings.disk_failed,
        front: holdings.front,
        shutdown_on_drop: signals.shutdown_on_drop,
    };
    (assembled, info)
}

/// Returns the handlers and interceptors.
fn router(server: &mut Background) -> Router {
    let handlers = handlers(server);
    let hooks = server.built_in.controllers.hooks();
    let definitions = hooks.iter().find(|hook| hook.name() == "crd-informer-synced").cloned();
    let aggregator = server.access.aggregator.clone();
    let is_complete = move || aggregator.is_complete() && definitions.as_ref().is_none_or(PostStartHook::is_done);
    let mut interceptors: Vec<Arc<dyn Interceptor>> =
        server.peers.take().map(|peers| Arc::new(peers) as _).into_iter().collect();
    if let Some(gate) = server.read_only.take() {
        interceptors.insert(0, Arc::new(gate));
    } else if server.base.features.enabled("StorageVersionAPI") {
        interceptors.push(Arc::new(StorageVersionGate(server.built_in.plane.storage_versions().clone())));
    }
    Router::new(handlers).complete_once(is_complete).with_interceptors(interceptors)
}

/// Returns the maximum number of files and sockets that the process may have open.
fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}
