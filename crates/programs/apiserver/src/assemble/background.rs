//! The fourth phase: the tasks beside the requests, and the health checks that report on them.

use std::sync::Arc;
use std::time::Instant;

use binnacle_aggregator::Peers;
use binnacle_audit::Auditor;
use binnacle_controllers::PostStartHook;
use binnacle_controlplane::{ControlPlane, follow_policies};
use binnacle_egress::{Dialer, Network};
use binnacle_flowcontrol::FlowControl;
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_server::{Authentication, Health, HealthMetrics, Tracer};
use binnacle_supervise::supervise;
use binnacle_telemetry::traces::{Exporter, TracingConfig};
use binnacle_transport::Tls;
use tokio::task::JoinSet;

use super::apis::{Apis, Signals};
use super::built_in::{Access, BuiltIn};
use super::health::Checked;
use super::inputs::{Base, Holdings};
use super::own_certificates::Users;
use super::security::{Commands, Security};
use super::{StartFailure, not_registered, policies};
use crate::authorities;
use crate::health::FailedTasks;
use crate::issuers::AcceptedIssuers;
use crate::signing::Signing;
use crate::upkeep::Upkeep;

/// A server that lacks only its listener.
pub(super) struct Background {
    pub(super) base: Base,
    pub(super) holdings: Holdings,
    pub(super) catalog: Catalog,
    pub(super) tls: Tls,
    pub(super) signing: Signing,
    pub(super) authentication: Authentication,
    pub(super) access: Access,
    pub(super) peers: Option<Peers>,
    pub(super) built_in: BuiltIn,
    pub(super) auditor: Option<Arc<Auditor>>,
    pub(super) signals: Signals,
    pub(super) commands: Commands,
    /// Tasks that keep the data of components up to date; they end with the server.
    pub(super) followers: JoinSet<()>,
    pub(super) fairness: Option<Arc<FlowControl>>,
    pub(super) tracer: Option<Arc<Tracer>>,
    pub(super) upkeep: Upkeep,
    pub(super) failed_tasks: FailedTasks,
    pub(super) health: Arc<Health>,
    pub(super) health_metrics: Arc<HealthMetrics>,
}

impl Background {
    pub(super) fn start(apis: Apis) -> Result<Self, StartFailure> {
        let Apis { security, signals, auditor, access, manifests, peers, built_in } = apis;
        let Security { base, holdings, catalog, tls, signing, authentication, commands, .. } = security;
        let shutdown = &signals.shutdown;
        let mut followers = JoinSet::new();
        if let Some(external) = security.external {
            followers.spawn(external.follow(shutdown.clone()));
        }
        let bundles = (&security.clients, security.proxies.as_ref());
        authorities::follow(&mut followers, shutdown, &base.config.authentication, bundles, &access.trust);
        let users = Users {
            serving: tls.certificates().clone(),
            clients: security.clients.authorities.clone(),
            trust: access.trust.clone(),
        };
        let own_certificate = security.renewer.expiry();
        security.renewer.start(users, security.clock, &mut followers, shutdown);
        follow_issuers(security.issuers, &mut followers, shutdown);
        security.authorization.follow(&catalog, &mut followers, shutdown);
        manifests.follow(&mut followers, shutdown);
        let mut hooks = built_in.controllers.hooks().to_vec();
        hooks.extend(start_informers(&access, peers.as_ref(), &catalog, &mut followers, shutdown)?);
        let fairness = crate::fairness::start(&base.config.generic, &catalog, &base.metrics, &mut followers, shutdown)?;
        let dialer = base.egress.dialer(Network::ControlPlane);
        let tracer = security
            .tracing
            .map(|tracing| start_tracing(&tracing, dialer, &built_in.plane, &mut followers, shutdown))
            .transpose()?;
        let upkeep = Upkeep::start(&holdings.stores, &built_in.resources, &base.config.storage, base.registry());
        let upkeep = upkeep.map_err(not_registered)?;
        let health_metrics = HealthMetrics::new().map_err(not_registered)?;
        let failed_tasks = FailedTasks::default();
        let checked = Checked {
            canary: &holdings.canary,
            features: &base.features,
            stores: &holdings.stores,
            storage: &base.config.storage,
            at_rest: holdings.at_rest.as_ref(),
            own_certificate,
            access: &access,
            fairness: fairness.as_ref(),
            upkeep: &upkeep,
            failed_tasks: &failed_tasks,
            catalog: &catalog,
            hooks: &hooks,
            livez_grace: Instant::now().checked_add(base.config.generic.livez_grace_period),
            terminating: signals.terminating.clone(),
        };
        let health = Arc::new(checked.health(health_metrics.clone()));
        Ok(Self {
            base,
            holdings,
            catalog,
            tls,
            signing,
            authentication,
            access,
            peers,
            built_in,
            auditor,
            signals,
            commands,
            followers,
            fairness,
            tracer,
            upkeep,
            failed_tasks,
            health,
            health_metrics,
        })
    }
}

fn follow_issuers(issuers: AcceptedIssuers, followers: &mut JoinSet<()>, shutdown: &Shutdown) {
    let file = Arc::new(tokio::sync::Mutex::new(issuers.file));
    let (issuers, stopped) = (issuers.issuers, shutdown.clone());
    followers.spawn(supervise("authentication config", move || {
        let (issuers, file, stopped) = (issuers.clone(), file.clone(), stopped.clone());
        async move { issuers.follow(&mut *file.lock().await, stopped).await }
    }));
}

/// Starts the informers of admission and aggregation. Returns the hooks of aggregation.
fn start_informers(
    access: &Access,
    peers: Option<&Peers>,
    catalog: &Catalog,
    followers: &mut JoinSet<()>,
    shutdown: &Shutdown,
) -> Result<Vec<PostStartHook>, StartFailure> {
    let others = policies::others(&access.aggregator);
    follow_policies(&access.admission_policies.policies, catalog, &others, followers, shutdown);
    access.webhooks.follow(catalog, followers, shutdown);
    let mut hooks = access.aggregator.follow(followers, shutdown).map_err(|_| StartFailure::NoRegistration)?;
    if let Some(peers) = peers {
        hooks.extend(peers.follow(followers, shutdown).map_err(|_| StartFailure::NoRegistration)?);
    }
    Ok(hooks)
}

/// Creates the tracer, which decides which requests are traced, and spawns the task that exports their spans.
fn start_tracing(
    config: &TracingConfig,
    dialer: Option<Arc<Dialer>>,
    plane: &ControlPlane,
    followers: &mut JoinSet<()>,
    shutdown: &Shutdown,
) -> Result<Arc<Tracer>, StartFailure> {
    let resource =
        vec![("service.name", "apiserver".to_owned()), ("service.instance.id", plane.server_name().to_owned())];
    let (exporter, task) = Exporter::new(&config.endpoint, dialer, resource, shutdown.clone())?;
    followers.spawn(task);
    Ok(Arc::new(Tracer::new(exporter, config.per_million)))
}
