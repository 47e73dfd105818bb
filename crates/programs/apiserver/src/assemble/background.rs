//! The fourth phase: background tasks, and the health checks that report on them.

use std::sync::Arc;
use std::time::Instant;

use binnacle_aggregator::Peers;
use binnacle_audit::Auditor;
use binnacle_comparison::Shadow;
use binnacle_controllers::PostStartHook;
use binnacle_controlplane::{Bootstrap, ControlPlane, start_policy_informers};
use binnacle_egress::{Dialer, Network};
use binnacle_flowcontrol::FlowControl;
use binnacle_pki::Expiry;
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_server::{Authentication, Canary, Health, HealthMetrics, Tracer};
use binnacle_supervise::supervise;
use binnacle_telemetry::traces::{Exporter, TracingConfig};
use tokio::task::JoinSet;

use super::apis::{Apis, Signals};
use super::built_in::{Access, BuiltIn};
use super::health::HealthSources;
use super::inputs::Base;
use super::read_only::ReadOnlyGate;
use super::security::Security;
use super::tenant::Tenant;
use super::{StartFailure, not_registered, policies};
use crate::authorities;
use crate::cluster_storage::ClusterStorage;
use crate::health::FailedTasks;
use crate::issuers::AcceptedIssuers;
use crate::logical_clusters::Backups;
use crate::look_back::LookBack;
use crate::signing::Signing;
use crate::store_maintenance::StoreMaintenance;

/// The hooks that are done when all paths have handlers, those of custom resources and of aggregated APIs, and when writes
/// need not wait for the storage versions of this server.
const ROUTES: [&str; 3] =
    ["crd-informer-synced", "start-kube-aggregator-informers", "built-in-resources-storage-version-updater"];

/// A cluster that lacks only its handler chain.
pub(super) struct Background {
    pub(super) base: Base,
    pub(super) canary: Arc<Canary>,
    pub(super) storage: ClusterStorage,
    pub(super) catalog: Catalog,
    pub(super) signing: Signing,
    pub(super) authentication: Authentication,
    pub(super) access: Access,
    pub(super) peers: Option<Peers>,
    pub(super) read_only: Option<ReadOnlyGate>,
    /// Backup and restore of logical clusters, on their host.
    pub(super) backups: Option<Backups>,
    /// Serves earlier revisions.
    pub(super) look_back: Option<Arc<LookBack>>,
    pub(super) built_in: BuiltIn,
    /// The auditor that ends with the cluster.
    pub(super) auditor: Option<Arc<Auditor>>,
    /// `None` for the host's own cluster.
    pub(super) tenant: Option<Tenant>,
    pub(super) signals: Signals,
    /// Tasks that watch the data of components; they end with the server.
    pub(super) watch_tasks: JoinSet<()>,
    pub(super) fairness: Option<Arc<FlowControl>>,
    pub(super) tracer: Option<Arc<Tracer>>,
    /// Samples requests for the comparison with another server.
    pub(super) shadow: Option<Arc<Shadow>>,
    pub(super) store_maintenance: StoreMaintenance,
    pub(super) failed_tasks: FailedTasks,
    /// The hooks that are done when the cluster can serve.
    pub(super) serves_after: Vec<PostStartHook>,
    pub(super) health: Arc<Health>,
    pub(super) health_metrics: Arc<HealthMetrics>,
}

impl Background {
    /// `certificate` is the expiry of the server's own certificate, for the health checks of the host.
    pub(super) fn start(apis: Apis, certificate: Option<Expiry>) -> Result<Self, StartFailure> {
        let Apis { security, signals, tenant, auditor, access, manifests, peers, read_only, built_in } = apis;
        let Security { base, canary, storage, catalog, signing, authentication, .. } = security;
        let shutdown = &signals.shutdown;
        let mut watch_tasks = JoinSet::new();
        storage.follow_usage(&mut watch_tasks, shutdown);
        if let Some(external) = security.external {
            watch_tasks.spawn(external.refresh_keys(shutdown.clone()));
        }
        let bundles = (&security.clients, security.proxies.as_ref());
        authorities::watch(&mut watch_tasks, shutdown, &base.config.authentication, bundles, &access.trust);
        follow_issuers(security.issuers, &mut watch_tasks, shutdown);
        security.authorization.start_reloading(&catalog, storage.is_logical(), &mut watch_tasks, shutdown);
        manifests.start_reloading(&mut watch_tasks, shutdown);
        let mut hooks = built_in.controllers.hooks().to_vec();
        hooks.extend(start_informers(&access, peers.as_ref(), &catalog, &mut watch_tasks, shutdown)?);
        let serves_after = match base.config.misc.bootstrap {
            Bootstrap::Unknown | Bootstrap::Written => built_in.controllers.hooks().to_vec(),
            // All else exists already.
            Bootstrap::Complete => hooks.iter().filter(|hook| ROUTES.contains(&hook.name())).cloned().collect(),
        };
        let fairness =
            crate::fairness::start(&base.config.generic, &catalog, &base.metrics, &mut watch_tasks, shutdown)?;
        let dialer = base.egress.dialer(Network::ControlPlane);
        let tracer = security
            .tracing
            .map(|tracing| start_tracing(&tracing, dialer, &built_in.plane, &mut watch_tasks, shutdown))
            .transpose()?;
        let shadow = start_shadow(&base, &mut watch_tasks)?;
        let store_maintenance =
            StoreMaintenance::start(&storage, &built_in.resources, &base.config.storage, base.registry());
        let store_maintenance = store_maintenance.map_err(not_registered)?;
        let health_metrics = HealthMetrics::new().map_err(not_registered)?;
        let failed_tasks = FailedTasks::default();
        let sources = HealthSources {
            canary: &canary,
            features: &base.features,
            stores: &storage.stores,
            storage: &base.config.storage,
            at_rest: storage.at_rest.as_deref(),
            certificate,
            access: &access,
            fairness: fairness.as_ref(),
            store_maintenance: &store_maintenance,
            failed_tasks: &failed_tasks,
            catalog: &catalog,
            hooks: &hooks,
            livez_grace: Instant::now().checked_add(base.config.generic.livez_grace_period),
            terminating: signals.terminating.clone(),
        };
        let health = Arc::new(sources.health(health_metrics.clone()));
        Ok(Self {
            base,
            canary,
            storage,
            catalog,
            signing,
            authentication,
            access,
            peers,
            read_only,
            backups: None,
            look_back: None,
            built_in,
            auditor,
            tenant,
            signals,
            watch_tasks,
            fairness,
            tracer,
            shadow,
            store_maintenance,
            failed_tasks,
            serves_after,
            health,
            health_metrics,
        })
    }
}

fn follow_issuers(issuers: AcceptedIssuers, watch_tasks: &mut JoinSet<()>, shutdown: &Shutdown) {
    let file = Arc::new(tokio::sync::Mutex::new(issuers.file));
    let (issuers, stopped) = (issuers.issuers, shutdown.clone());
    watch_tasks.spawn(supervise("authentication config", move || {
        let (issuers, file, stopped) = (issuers.clone(), file.clone(), stopped.clone());
        async move { issuers.run(&mut *file.lock().await, stopped).await }
    }));
}

/// Starts the informers of admission and aggregation. Returns the hooks of aggregation.
fn start_informers(
    access: &Access,
    peers: Option<&Peers>,
    catalog: &Catalog,
    watch_tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
) -> Result<Vec<PostStartHook>, StartFailure> {
    let aggregated_servers = policies::aggregated_servers(&access.aggregator);
    start_policy_informers(&access.admission_policies.policies, catalog, &aggregated_servers, watch_tasks, shutdown);
    access.webhooks.start_informers(catalog, watch_tasks, shutdown);
    let mut hooks = access.aggregator.start(watch_tasks, shutdown).map_err(|_| StartFailure::NoRegistration)?;
    if let Some(peers) = peers {
        hooks.extend(peers.start(watch_tasks, shutdown).map_err(|_| StartFailure::NoRegistration)?);
    }
    Ok(hooks)
}

/// Creates the sampler of the comparison with another server, and spawns its tasks, if it is configured.
fn start_shadow(base: &Base, watch_tasks: &mut JoinSet<()>) -> Result<Option<Arc<Shadow>>, StartFailure> {
    let Some(options) = &base.config.debugging.shadow else { return Ok(None) };
    let (shadow, worker) = Shadow::new(options, base.registry()).map_err(StartFailure::Shadow)?;
    worker.start(watch_tasks);
    Ok(Some(shadow))
}

/// Creates the tracer, which decides which requests are traced, and spawns the task that exports their spans.
fn start_tracing(
    config: &TracingConfig,
    dialer: Option<Arc<Dialer>>,
    plane: &ControlPlane,
    watch_tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
) -> Result<Arc<Tracer>, StartFailure> {
    let resource =
        vec![("service.name", "apiserver".to_owned()), ("service.instance.id", plane.server_name().to_owned())];
    let (exporter, task) = Exporter::new(&config.endpoint, dialer, resource, shutdown.clone())?;
    watch_tasks.spawn(task);
    Ok(Arc::new(Tracer::new(exporter, config.per_million)))
}
