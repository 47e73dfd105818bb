//! The handlers of requests, in the order in which they are tried.

use std::sync::Arc;

use binnacle_endpoints::{failure_response, failure_response_or_cbor};
use binnacle_meta::Encodings;
use binnacle_metrics::ExposedMetrics;
use binnacle_openapi::OpenApiHandler;
use binnacle_request::Handler;
use binnacle_server::{
    FlowDumpHandler, HealthMetricsHandler, InFlightLimits, LogsHandler, MetricsHandler, VersionHandler, ZPagesHandler,
};

use super::address::external_address;
use super::background::Background;
use super::{build, debugging};
use crate::live::{self, StoreFigures};
use crate::openid::{OpenIdHandler, keys_url};
use crate::settings::Settings;

type Handlers = Vec<Arc<dyn Handler>>;

/// Returns all handlers.
pub(super) fn handlers(server: &mut Background) -> Handlers {
    let (config, features) = (&server.base.config, &server.base.features);
    let exposed = Arc::new(ExposedMetrics::new(config.exposed_metrics.clone()));
    let resets = config.debugging.profiling;
    let encodings = Encodings::new(features.enabled("CBORServingAndStorage"));
    let version = build(config.generic.reported_version.as_deref());
    let mut handlers: Handlers = vec![
        server.health.clone(),
        Arc::new(VersionHandler::new(failure_response, version, &features.gates)),
        Arc::new(MetricsHandler { metrics: server.base.metrics.clone(), exposed: exposed.clone(), resets }),
        Arc::new(HealthMetricsHandler { metrics: server.health_metrics.clone(), exposed, resets }),
        Arc::new(server.access.aggregator.clone()),
        Arc::new(openapi(server, encodings)),
        server.built_in.api.clone(),
        Arc::new(zpages(server, encodings)),
    ];
    if let Some(page) = &config.host.configz {
        handlers.push(Arc::new(page.clone()));
    }
    debugging::serve(config, &mut handlers, &mut server.watch_tasks, &server.signals.shutdown);
    if config.misc.serves_logs {
        handlers.push(Arc::new(LogsHandler::new("/var/log")));
    }
    if let Some(fairness) = &server.fairness {
        handlers.push(Arc::new(FlowDumpHandler(fairness.clone())));
    }
    handlers.push(Arc::new(server.access.webhooks.page()));
    if config.debugging.live_page {
        handlers.push(Arc::new(live_page(server)));
    }
    handlers.extend(openid(server));
    match &server.shadow {
        Some(shadow) => handlers.into_iter().map(|handler| shadow.wrap(handler)).collect(),
        None => handlers,
    }
}

fn openapi(server: &Background, encodings: Encodings) -> OpenApiHandler {
    let (catalog, aggregator) = (server.catalog.clone(), server.access.aggregator.clone());
    let served = move || catalog.snapshot().served().clone();
    let features = &server.base.features;
    let (release, enums) = (features.emulated().to_string(), features.enabled("OpenAPIEnums"));
    let openapi = OpenApiHandler::new(served, binnacle_builtin::kinds(), encodings, release, enums);
    openapi.with_remote_documents(move || aggregator.openapi())
}

fn zpages(server: &Background, encodings: Encodings) -> ZPagesHandler {
    let (config, features) = (&server.base.config, &server.base.features);
    ZPagesHandler {
        failure: if encodings.has_cbor() { failure_response_or_cbor } else { failure_response },
        cbor: encodings.has_cbor(),
        emulated: features.emulated(),
        flags: config.host.flags.clone(),
        more_paths: if config.misc.serves_logs { vec!["/logs"] } else { Vec::new() },
        statusz: features.enabled("ComponentStatusz"),
        flagz: features.enabled("ComponentFlagz"),
    }
}

fn live_page(server: &Background) -> impl Handler + use<> {
    live::link(live::LiveSources {
        name: server.built_in.plane.server_name().to_owned(),
        metrics: server.base.metrics.clone(),
        resources: server.catalog.clone(),
        fairness: server.fairness.clone(),
        limits: limits(&server.base.config),
        webhooks: server.access.webhooks.sources(),
        stores: StoreFigures::all(&server.storage.stores),
    })
}

/// Returns the handler of the documents by which others verify service account tokens, if the issuer is a URL.
fn openid(server: &Background) -> Option<Arc<dyn Handler>> {
    let config = &server.base.config;
    let keys_uri = config.authentication.service_accounts.jwks_uri.clone();
    let keys_uri = keys_uri.unwrap_or_else(|| keys_url(&external_address(config, server.base.address)));
    match OpenIdHandler::new(&server.access.token_issuer.issuer, &keys_uri, server.signing.keys.clone()) {
        Ok(handler) => Some(Arc::new(handler)),
        Err(error) => {
            tracing::info!("Skipping installation of OpenID discovery endpoints: {error}");
            None
        }
    }
}

/// Returns the limits of requests in flight, if priority and fairness is off.
pub(super) fn limits(config: &Settings) -> Option<InFlightLimits> {
    let generic = &config.generic;
    (!generic.priority_and_fairness)
        .then_some(InFlightLimits { read_only: generic.max_requests, mutating: generic.max_mutating_requests })
}
