//! The handler chain of a cluster, and everything that runs for it.

use std::sync::Arc;

use binnacle_controllers::PostStartHook;
use binnacle_endpoints::failure_response;
use binnacle_request::Interceptor;
use binnacle_server::{Chain, ChainConfig, ChainOptions, Router};

use super::apis::Signals;
use super::background::Background;
use super::handlers::{handlers, limits};
use super::storage_version_gate::StorageVersionGate;
use crate::cluster::{Cluster, ShutdownTriggers};
use crate::compared_authorizer::ComparedAuthorizer;

/// Completes a cluster.
pub(super) fn complete(mut server: Background) -> Cluster {
    let router = router(&mut server);
    let Background { base, signals, access, built_in, .. } = server;
    let Signals {
        trigger,
        shutdown,
        terminating_trigger,
        terminating,
        draining_trigger,
        draining,
        shutdown_on_drop: _shutdown_on_drop,
    } = signals;
    let config = &base.config;
    let (auditor, audit_annotations, charged_to, quota) = match server.tenant {
        Some(tenant) => (tenant.auditor, vec![tenant.audit_annotation], Some(tenant.charged_to), Some(tenant.quota)),
        None => (server.auditor.clone(), Vec::new(), None, None),
    };
    let authorizer = match server.shadow {
        Some(shadow) => Arc::new(ComparedAuthorizer { inner: access.authorizer, shadow }),
        None => access.authorizer,
    };
    let chain = Chain::new(ChainConfig {
        authentication: server.authentication,
        authorizer,
        router,
        failure: failure_response,
        metrics: base.metrics,
        features: base.features,
        shutdown,
        request_timeout: config.generic.request_timeout,
        options: ChainOptions {
            auditor,
            audit_annotations,
            charged_to,
            cors: config.generic.cors.clone(),
            hsts: config.generic.hsts.as_deref().and_then(|hsts| hsts.parse().ok()),
            goaway_chance: config.generic.goaway_chance,
            limits: limits(config),
            quota,
            fairness: server.fairness,
            tracer: server.tracer,
            has_been_ready: config.generic.refuses_until_ready.then(|| server.health.has_been_ready()),
            draining: Some(draining),
            shutdown_initiated: Some(terminating),
        },
    });
    Cluster {
        chain: Arc::new(chain),
        triggers: ShutdownTriggers { shutdown: trigger, terminating: terminating_trigger, draining: draining_trigger },
        resources: server.catalog,
        controllers: built_in.controllers,
        watch_tasks: server.watch_tasks,
        failed_tasks: server.failed_tasks,
        serves_after: server.serves_after,
        store_maintenance: server.store_maintenance,
        auditor: server.auditor,
        usage: server.storage.usage(),
        _shutdown_on_drop,
    }
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
    if let Some(look_back) = server.look_back.take() {
        interceptors.insert(0, look_back);
    }
    interceptors.extend(server.backups.take().map(|backups| Arc::new(backups) as Arc<dyn Interceptor>));
    if let Some(gate) = server.read_only.take() {
        interceptors.insert(0, Arc::new(gate));
    } else if server.base.features.enabled("StorageVersionAPI") {
        interceptors.push(Arc::new(StorageVersionGate(server.built_in.plane.storage_versions().clone())));
    }
    Router::new(handlers).complete_once(is_complete).with_interceptors(interceptors)
}
