//! The third phase: the APIs, with admission, aggregation, and their controllers.

use std::net::SocketAddr;
use std::sync::Arc;

use binnacle_admission::{Metrics as AdmissionMetrics, ResourceLookup};
use binnacle_admission_matching::expressions::MatchConditionMetrics;
use binnacle_aggregator::{Aggregator, AggregatorOptions, AvailabilityMetrics, PeerMetrics, Peers};
use binnacle_apiextensions::ConversionMetrics;
use binnacle_audit::Auditor;
use binnacle_client::{CertificateMetrics, register_webhook_certificates};
use binnacle_controllers::WriteAuditor;
use binnacle_controlplane::Trust;
use binnacle_discovery::{Addresses, DiscoveryMetrics};
use binnacle_egress::Network;
use binnacle_endpoints::read_object;
use binnacle_kinds::BuiltInKinds;
use binnacle_metrics::WorkQueues;
use binnacle_request::{Shutdown, ShutdownTrigger};
use binnacle_services::{AllocatorMetrics, ServiceAddresses};
use binnacle_webhook::ServiceResolver;
use binnacle_write_hooks::CertificateDurations;

use super::address::{external_address, reachable};
use super::built_in::{Access, BuiltIn, DEFINITION_RULES, built_in};
use super::inputs::Base;
use super::manifests::AdmissionManifests;
use super::policies::AdmissionPolicies;
use super::read_only::ReadOnlyGate;
use super::security::Security;
use super::tenant::Tenant;
use super::webhooks::AdmissionWebhooks;
use super::{StartFailure, not_registered, peers, webhooks};
use crate::authentication;
use crate::cluster::ShutdownOnDrop;

pub(super) struct Apis {
    pub(super) security: Security,
    pub(super) signals: Signals,
    pub(super) tenant: Option<Tenant>,
    /// The auditor that ends with the cluster.
    pub(super) auditor: Option<Arc<Auditor>>,
    pub(super) access: Access,
    pub(super) manifests: AdmissionManifests,
    pub(super) peers: Option<Peers>,
    pub(super) read_only: Option<ReadOnlyGate>,
    pub(super) built_in: BuiltIn,
}

/// The signals of the stages of a shutdown, and their triggers.
pub(super) struct Signals {
    pub(super) trigger: ShutdownTrigger,
    pub(super) shutdown: Shutdown,
    pub(super) terminating_trigger: ShutdownTrigger,
    pub(super) terminating: Shutdown,
    pub(super) draining_trigger: ShutdownTrigger,
    pub(super) draining: Shutdown,
    pub(super) shutdown_on_drop: ShutdownOnDrop,
}

impl Signals {
    fn new() -> Self {
        let (trigger, shutdown) = ShutdownTrigger::new();
        let shutdown_on_drop = ShutdownOnDrop(trigger.clone());
        let (terminating_trigger, terminating) = ShutdownTrigger::new();
        let (draining_trigger, draining) = ShutdownTrigger::new();
        Self { trigger, shutdown, terminating_trigger, terminating, draining_trigger, draining, shutdown_on_drop }
    }
}

impl Apis {
    /// `tenant` is for logical clusters.
    pub(super) fn build(security: Security, tenant: Option<Tenant>) -> Result<Self, StartFailure> {
        let signals = Signals::new();
        let (base, catalog) = (&security.base, security.catalog.clone());
        let registry = base.registry();
        let auditor = build_auditor(base)?;
        let write_auditor = write_auditor(base, auditor.as_ref(), tenant.as_ref());
        let lookup = Arc::new(ResourceLookup::new(catalog.clone()));
        let conditions = MatchConditionMetrics::register(registry).map_err(not_registered)?;
        let authorizer = &security.authorization.authorizer;
        let surroundings = webhooks::surroundings(&catalog, lookup, authorizer, &conditions, registry);
        let surroundings = surroundings.map_err(not_registered)?;
        let own_address = Some(reachable(base.address));
        let services = ServiceAddresses::new(catalog.clone(), base.config.misc.service_routing, own_address)
            .with_egress(base.egress.clone())
            .with_own_identity(security.itself.clone());
        let services: Arc<dyn ServiceResolver> = Arc::new(services);
        let is_enabled = |plugin: &str| base.config.admission.enables(plugin);
        let webhooks = AdmissionWebhooks::new(&security.plugins, &is_enabled, &services, surroundings);
        let admission_policies = AdmissionPolicies::new(&conditions, registry).map_err(not_registered)?;
        let manifests = AdmissionManifests::begin(
            &security.plugins.manifests,
            &base.features,
            &webhooks.sources(),
            &admission_policies.policies,
            &base.server_name,
            registry,
        )?;
        let has_peers = base.features.enabled("UnknownVersionInteroperabilityProxy");
        let discovery_metrics = DiscoveryMetrics::register(registry, has_peers).map_err(not_registered)?;
        let aggregator = build_aggregator(&security, &services, &discovery_metrics)?;
        let peer_metrics = PeerMetrics::register(registry).map_err(not_registered)?;
        let identity = security.proxy_client.clone();
        let read_only = ReadOnlyGate::new(&base.config.storage, identity.as_ref(), &base.egress)?;
        let peers = peers::make(&base.config, identity, &base.egress, &catalog, &aggregator, peer_metrics)?;
        let flags = &base.config.authentication;
        let header = authentication::request_header(flags, security.proxies.as_ref());
        let access = Access {
            authenticator: security.authentication.authenticator.clone(),
            authorizer: security.authorization.authorizer.clone(),
            roles: security.authorization.roles.clone(),
            token_issuer: security.signing.issuer(flags),
            secret_token_signer: security.signing.of_secrets(),
            trust: Trust::new(Some(security.clients.pem.clone()), header),
            admission: security.plugins.clone(),
            webhooks,
            admission_metrics: AdmissionMetrics::register(registry).map_err(not_registered)?,
            conversions: ConversionMetrics::register(registry).map_err(not_registered)?,
            admission_policies,
            services,
            aggregator,
            availability: AvailabilityMetrics::register(registry).map_err(not_registered)?,
            allocators: AllocatorMetrics::register(registry).map_err(not_registered)?,
            certificate_durations: CertificateDurations::register(registry).map_err(not_registered)?,
            queues: WorkQueues::register(registry).map_err(not_registered)?,
            discovery_metrics,
            authorities: security.authorities.clone(),
            write_auditor,
        };
        let storage = security.storage.options(&base.config.storage, &base.features);
        let built_in = built_in(
            (storage, security.storage.schemas(DEFINITION_RULES.structure)),
            catalog,
            &access,
            SocketAddr::new(base.address.ip(), base.advertised_port),
            (&base.config, &base.types),
            security.outbound_clients.clone(),
            &signals.shutdown,
        );
        Ok(Self { security, signals, tenant, auditor, access, manifests, peers, read_only, built_in })
    }
}

/// Returns the auditor of the controllers' writes: of the host for a logical cluster, as for requests.
fn write_auditor(base: &Base, own: Option<&Arc<Auditor>>, tenant: Option<&Tenant>) -> Option<Arc<WriteAuditor>> {
    let (auditor, annotations) = match tenant {
        Some(tenant) => (tenant.auditor.as_ref()?, vec![tenant.audit_annotation.clone()]),
        None => (own?, Vec::new()),
    };
    let version = super::build(base.config.generic.reported_version.as_deref()).git_version;
    let program = format!("kube-apiserver/{version}").into();
    Some(Arc::new(WriteAuditor::new(auditor.clone(), annotations, program)))
}

fn build_auditor(base: &Base) -> Result<Option<Arc<Auditor>>, StartFailure> {
    let mut auditing = base.config.auditing.clone();
    if let Some(webhook) = &mut auditing.webhook {
        webhook.dialer = base.egress.dialer(Network::ControlPlane);
    }
    let auditor =
        auditing.build(base.registry(), |media_type, body, omit| read_object(&BuiltInKinds, media_type, body, omit))?;
    Ok(auditor.map(Arc::new))
}

fn build_aggregator(
    security: &Security,
    services: &Arc<dyn ServiceResolver>,
    discovery_metrics: &DiscoveryMetrics,
) -> Result<Aggregator, StartFailure> {
    let base = &security.base;
    register_webhook_certificates(base.registry()).map_err(not_registered)?;
    let certificates = CertificateMetrics::of_aggregated(base.registry()).map_err(not_registered)?;
    let addresses = Addresses { default: external_address(&base.config, base.address), ..Addresses::default() };
    Ok(Aggregator::new(AggregatorOptions {
        catalog: security.catalog.clone(),
        resolver: services.clone(),
        identity: security.proxy_client.clone(),
        rejects_redirects: base.config.misc.rejects_redirects,
        addresses,
        discovery_metrics: Some(discovery_metrics.clone()),
        certificates: Some(certificates),
    }))
}
