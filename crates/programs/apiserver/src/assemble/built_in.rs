//! The built-in APIs: their resources, admission, hooks and controllers.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;

use binnacle_admission::{Chain as AdmissionChain, Lookup, Metrics as AdmissionMetrics, PluginOptions, ResourceLookup};
use binnacle_aggregator::{
    Aggregator, ApiServiceOptions, AvailabilityMetrics, LocalApi, PeerEndpoint, Registrations, api_service_controllers,
    peer_endpoint_controller,
};
use binnacle_api_controllers::{ApiControllers, Options as ControllerOptions};
use binnacle_apiextensions::{
    ConversionMetrics, CustomResources, DefinitionRules, Schemas, VersionRegistrar, definition_controller,
};
use binnacle_authn::Authenticator;
use binnacle_authz::Authorizer;
use binnacle_builtin::BuiltInTypes;
use binnacle_controllers::{Controller, Manager, Queues, WriteAuditor};
use binnacle_controlplane::{
    Bootstrap, Config, ControlPlane, EndpointReconciler, RbacInformers, Trust, default_advertise_address,
};
use binnacle_discovery::{Addresses, DiscoveryMetrics};
use binnacle_endpoints::Api;
use binnacle_features::Features;
use binnacle_meta::Text;
use binnacle_metrics::WorkQueues;
use binnacle_registry::admission::Admission;
use binnacle_registry::hooks::Hooks;
use binnacle_registry::{Catalog, Installer, Resource, StorageOptions};
use binnacle_request::Shutdown;
use binnacle_scheme::ServedResources;
use binnacle_services::{AllocatorMetrics, PortRange, ServiceConfig, service_controllers, service_hooks};
use binnacle_subresources::{Dependencies, OutboundClients, TokenIssuer, TokenSigner};
use binnacle_validation::ip::Cidr;
use binnacle_webhook::ServiceResolver;
use binnacle_write_hooks::{
    CertificateDurations, CertificateRequesterHooks, DeviceClaimHooks, PodCertificateSignerHooks, escalation_hooks,
    policy_hooks,
};

use super::address::external_address;
use super::policies::AdmissionPolicies;
use super::webhooks::AdmissionWebhooks;
use crate::authorization::UnsafeDeletion;
use crate::logical_clusters::ClusterAdmission;
use crate::settings::Settings;

/// The maximum bytes of encodings that are cached beside the stored objects.
const ENCODING_BUDGET: usize = 256 << 20;

/// Authentication, authorization and admission, with their data.
pub(super) struct Access {
    pub(super) authenticator: Arc<dyn Authenticator>,
    pub(super) authorizer: Arc<dyn Authorizer>,
    pub(super) roles: Arc<RbacInformers>,
    pub(super) token_issuer: TokenIssuer,
    pub(super) secret_token_signer: Option<Arc<dyn TokenSigner>>,
    /// The PEM text of the authorities whose client certificates are accepted.
    pub(super) trust: Trust,
    pub(super) admission: PluginOptions,
    pub(super) admission_metrics: AdmissionMetrics,
    pub(super) admission_policies: AdmissionPolicies,
    pub(super) webhooks: AdmissionWebhooks,
    pub(super) conversions: ConversionMetrics,
    /// The resolver of the addresses of the cluster's services.
    pub(super) services: Arc<dyn ServiceResolver>,
    pub(super) aggregator: Aggregator,
    pub(super) availability: AvailabilityMetrics,
    pub(super) allocators: AllocatorMetrics,
    pub(super) certificate_durations: CertificateDurations,
    pub(super) queues: WorkQueues,
    pub(super) discovery_metrics: DiscoveryMetrics,
    /// The file with the authorities of the server's certificate, for clients to trust.
    pub(super) authorities: PathBuf,
    /// Records the writes of controllers.
    pub(super) write_auditor: Option<Arc<WriteAuditor>>,
}

/// The built-in APIs and their controllers.
pub(super) struct BuiltIn {
    pub(super) api: Arc<Api>,
    pub(super) plane: ControlPlane,
    pub(super) controllers: Manager,
    pub(super) resources: Vec<Arc<Resource>>,
}

/// The rules of definitions that are written to their conditions.
pub(crate) const DEFINITION_RULES: DefinitionRules = DefinitionRules {
    structure: binnacle_kinds::structural_violations,
    invalid_bundle: binnacle_kinds::is_invalid_ca_bundle,
};

/// Creates the built-in resources in the served versions, with their admission, and starts the controllers.
pub(super) fn built_in(
    (storage, schemas): (StorageOptions, Schemas),
    set: Catalog,
    access: &Access,
    address: SocketAddr,
    (config, types): (&Settings, &BuiltInTypes),
    outbound_clients: OutboundClients,
    shutdown: &Shutdown,
) -> BuiltIn {
    let own = control_plane_config(config, address, access);
    let registrations = Registrations::built_in(&local_apis(types.served()));
    warn_of_unreachable_endpoint(config, own.advertised);
    let lookup: Arc<dyn Lookup> = Arc::new(ResourceLookup::new(set.clone()));
    let mut plugins = binnacle_admission::all(
        lookup.clone(),
        &access.authorizer,
        &access.admission,
        &access.admission_metrics.pod_security,
    );
    plugins.extend(access.admission_policies.plugins(&set, &lookup, &access.authorizer, &access.aggregator));
    plugins.extend(access.webhooks.plugins());
    plugins.retain(|plugin| config.admission.enables(plugin.name()));
    let chain = AdmissionChain::new(plugins, &access.admission_metrics)
        .expect("the plugins that are built have a place in the order");
    let admission: Arc<dyn Admission> = match config.misc.logical_clusters {
        true => Arc::new(ClusterAdmission::new(Arc::new(chain), access.authorizer.clone())),
        false => Arc::new(chain),
    };
    let dependencies = Dependencies {
        store: storage.store.clone(),
        resources: set.clone(),
        admission,
        authenticator: access.authenticator.clone(),
        authorizer: access.authorizer.clone(),
        api_audiences: config.authentication.audiences(),
        token_issuer: access.token_issuer.clone(),
        outbound_clients,
    };
    let installer =
        Installer::new(storage, dependencies.admission.clone(), hooks(&set, &own.services, access), ENCODING_BUDGET);
    let resources = types.install(&set, &installer);
    let custom = CustomResources::new(
        set.clone(),
        Arc::new(installer),
        binnacle_builtin::kinds(),
        access.services.clone(),
        access.conversions.clone(),
        DEFINITION_RULES,
        schemas,
    );
    let plane = ControlPlane::new(set.clone(), own.clone());
    let mut stages = stages(&plane, &own, &set, custom, registrations, access);
    // They need namespaces and roles, which the first controllers create.
    stages[1].extend(ApiControllers::controller(ControllerOptions {
        resources: set.clone(),
        selection: config.misc.controllers.clone(),
        queues: own.queues.clone(),
        hostname: plane.hostname().to_owned(),
        authorities: access.authorities.clone(),
        remote: Some(Arc::new(access.aggregator.clone())),
        auditor: access.write_auditor.clone(),
        token_signer: access.secret_token_signer.clone(),
    }));
    let controllers = Manager::start(stages, shutdown.clone());
    let addresses = Addresses { default: external_address(config, address), ..Addresses::default() };
    let api = Api::new(set, binnacle_subresources::handlers(&dependencies), addresses, access.authorizer.clone())
        .discovery_metrics(access.discovery_metrics.clone())
        .min_request_timeout(config.generic.min_request_timeout)
        .unsafe_deletes(Arc::new(UnsafeDeletion(access.authorizer.clone())));
    BuiltIn { api: Arc::new(api), plane, controllers, resources }
}

/// Returns the hooks of resources that need more than the store, by group and kind.
fn hooks(
    resources: &Catalog,
    services: &ServiceConfig,
    access: &Access,
) -> HashMap<(&'static str, &'static str), Arc<dyn Hooks>> {
    let certificates: Arc<dyn Hooks> = Arc::new(CertificateRequesterHooks::new(access.certificate_durations.clone()));
    let services: Arc<dyn Hooks> = service_hooks(resources.clone(), services);
    let mut hooks = HashMap::from(escalation_hooks(&access.roles, &access.authorizer));
    hooks.insert(("certificates.k8s.io", "CertificateSigningRequest"), certificates);
    let signers = PodCertificateSignerHooks::new(&access.authorizer);
    hooks.insert(("certificates.k8s.io", "PodCertificateRequest"), Arc::new(signers));
    let claims = DeviceClaimHooks::new(resources, &access.authorizer);
    hooks.insert(("resource.k8s.io", "ResourceClaim"), Arc::new(claims));
    let templates = DeviceClaimHooks::templates(resources, &access.authorizer);
    hooks.insert(("resource.k8s.io", "ResourceClaimTemplate"), Arc::new(templates));
    hooks.insert(("", "Service"), services);
    hooks.extend(policy_hooks(resources, &access.authorizer));
    hooks
}

/// Returns the controllers of the two stages of the start: those of the second stage depend on objects that the first
/// creates, unless these exist.
fn stages(
    plane: &ControlPlane,
    own: &Config,
    resources: &Catalog,
    custom: CustomResources,
    registrations: Registrations,
    access: &Access,
) -> [Vec<Controller>; 2] {
    let registrar = Arc::new(Registrar(registrations.clone()));
    let definitions = definition_controller(resources, custom, registrar, &own.queues);
    if resources.features().read_only {
        return observers(plane, resources, definitions);
    }
    let services = service_controllers(resources, &own.services, &own.queues);
    let api_services = api_service_controllers(ApiServiceOptions {
        resources: resources.clone(),
        registrations,
        servers: Some(Arc::new(access.aggregator.clone())),
        metrics: Some(access.availability.clone()),
        queues: own.queues.clone(),
        is_resumed: own.bootstrap != Bootstrap::Unknown,
    });
    let registration = api_services.registration.after(definitions.name());
    let mut then = plane.controllers();
    then.extend([services.repair, definitions, registration, api_services.availability]);
    if own.has_peers && resources.features().enabled("UnknownVersionInteroperabilityProxy") {
        let (name, address) = (plane.server_name().to_owned(), own.peer_address(resources.features()));
        then.push(peer_endpoint_controller(PeerEndpoint { resources: resources.clone(), name, address }));
    }
    let first = vec![plane.namespaces(), services.cidr];
    match own.bootstrap {
        Bootstrap::Complete => {
            let resumed = |controller| resumed(controller, own, resources.features());
            [Vec::new(), first.into_iter().chain(then).map(resumed).collect()]
        }
        Bootstrap::Unknown | Bootstrap::Written => [first, then],
    }
}

/// Lets the controllers of a cluster that has slept continue. Those of what ends with the sleep start again: the endpoints
/// of the service `kubernetes`, and what other servers know of this one if they use it.
fn resumed(controller: Controller, own: &Config, features: &Features) -> Controller {
    let has_peers = own.has_peers && features.enabled("UnknownVersionInteroperabilityProxy");
    let is_known_to_others = has_peers || features.enabled("StorageVersionAPI");
    match controller.name() {
        "bootstrap-controller" if own.endpoint_reconciler != EndpointReconciler::None => controller,
        "built-in-resources-storage-version-updater" | "peer-endpoint-reconciler-controller" => controller,
        "start-kube-apiserver-identity-lease-controller" if is_known_to_others => controller,
        _ => controller.resumed(),
    }
}

/// Returns the controllers of a server that only reads its store: none of them writes.
fn observers(plane: &ControlPlane, resources: &Catalog, definitions: Controller) -> [Vec<Controller>; 2] {
    let mut then = vec![definitions];
    then.extend(plane.storage_readiness(resources.features()));
    [Vec::new(), then]
}

/// Registers the group versions of custom resources as APIServices.
struct Registrar(Registrations);

impl VersionRegistrar for Registrar {
    fn register(&self, group: &Text, version: &Text, (group_priority, version_priority): (i32, i32)) {
        let (group, version) = (group.clone(), version.clone());
        self.0.keep(&LocalApi { group, version, group_priority, version_priority });
    }

    fn unregister(&self, group: &str, version: &str) {
        self.0.forget(group, version);
    }
}

fn control_plane_config(config: &Settings, address: SocketAddr, access: &Access) -> Config {
    let advertised = config.public_address(default_advertise_address).map(|ip| SocketAddr::new(ip, address.port()));
    let ranges = &config.misc.service_cluster_ip_ranges;
    let ports = &config.misc.service_node_port_range;
    let services = ServiceConfig {
        cidrs: ranges.iter().map(|r| Cidr { address: r.address, prefix: r.prefix }).collect(),
        sloppy_addresses: !config.generic.gates.enabled("StrictIPCIDRValidation"),
        node_ports: PortRange { first: ports.first, last: ports.last },
        metrics: Some(access.allocators.clone()),
    };
    Config {
        services,
        trust: access.trust.clone(),
        queues: Queues::new(access.queues.clone()),
        advertised,
        peer_advertised: config.misc.peer_advertised,
        has_peers: config.misc.has_peers,
        hostname: config.misc.hostname.clone(),
        endpoint_reconciler: config.misc.endpoint_reconciler,
        bootstrap: config.misc.bootstrap,
        kubernetes_node_port: config.misc.kubernetes_service_node_port,
        storage_initialization: config.generic.storage_initialization,
        leadership: config.misc.leadership,
    }
}

/// Warns if the endpoint of the service `kubernetes` is an address at which the server does not listen: pods cannot
/// reach it there, unless something forwards connections.
fn warn_of_unreachable_endpoint(config: &Settings, advertised: Option<SocketAddr>) {
    let (bound, reconciler) = (config.serving.bind_address, config.misc.endpoint_reconciler);
    if let Some(advertised) = advertised
        && !config.storage.read_only
        && !listens_at(bound, advertised.ip())
        && reconciler != EndpointReconciler::None
    {
        const TEXT: &str = "the server does not listen at the endpoint of the service \"kubernetes\": pods cannot reach \
                            it; set --bind-address, --advertise-address or --endpoint-reconciler-type=none";
        // A start without flags, as on a laptop, needs no warning.
        let is_local = bound.is_loopback() && config.generic.advertise_address.is_none();
        match is_local {
            true => tracing::info!(%advertised, bind_address = %bound, "{TEXT}"),
            false => tracing::warn!(%advertised, bind_address = %bound, "{TEXT}"),
        }
    }
}

/// Reports whether a listener at one address accepts connections to the other.
fn listens_at(bound: IpAddr, address: IpAddr) -> bool {
    // A socket for any address of IPv6 accepts IPv4, too.
    bound == address || bound.is_unspecified() && (bound.is_ipv6() || address.is_ipv4())
}

/// Returns the group versions that get APIServices.
fn local_apis(served: &ServedResources) -> Vec<LocalApi> {
    let apis = served.groups().into_iter().flat_map(|group| {
        group.versions.iter().map(|version| LocalApi {
            group: group.name.clone(),
            version: version.version.clone(),
            group_priority: version.group_priority,
            version_priority: version.version_priority,
        })
    });
    apis.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listeners_accept_connections_to_their_addresses() {
        for (bound, address, want) in [
            ("0.0.0.0", "192.0.2.1", true),
            ("0.0.0.0", "fd00::1", false),
            ("::", "fd00::1", true),
            ("::", "192.0.2.1", true),
            ("127.0.0.1", "192.0.2.1", false),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.2", "192.0.2.1", false),
        ] {
            assert_eq!(listens_at(bound.parse().unwrap(), address.parse().unwrap()), want, "{bound} {address}");
        }
    }
}
