//! Assembles the whole server.

mod apis;
mod check;
mod client_access;
mod debugging;
mod failure;
mod health;
mod manifests;
mod named;
mod peers;
mod policies;
mod untold;
mod validation_metrics;
mod webhooks;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Instant;

use binnacle_admission::{Metrics as AdmissionMetrics, PluginOptions, ResourceLookup};
use binnacle_admission_matching::expressions::MatchConditionMetrics;
use binnacle_aggregator::{Aggregator, AggregatorOptions, AvailabilityMetrics, PeerMetrics};
use binnacle_apiextensions::ConversionMetrics;
use binnacle_controllers::PostStartHook;
use binnacle_controlplane::{ControlPlane, Trust, follow_policies, identity_lease_name};
use binnacle_discovery::{Addresses, DiscoveryMetrics};
use binnacle_egress::{DialMetrics, Dialer, Egress, Network};
use binnacle_endpoints::{failure_response, failure_response_or_cbor, read_object};
use binnacle_features::Features;
use binnacle_kinds::BuiltInKinds;
use binnacle_meta::Encodings;
use binnacle_metrics::{Exposed, Registry, WorkQueues, keep};
use binnacle_openapi::OpenApiLink;
use binnacle_proxy::{CertificateMetrics, register_webhook_certificates};
use binnacle_registry::{Catalog, ROOT};
use binnacle_request::{Detour, Link, Shutdown, ShutdownTrigger};
use binnacle_server::{
    BoundPort, Build, Chain, ChainConfig, ChainOptions, ConnectionLimits, FlowDumpLink, HealthMetrics,
    HealthMetricsLink, InFlightLimits, KUBERNETES_VERSION, Links, LogsLink, Metrics, MetricsLink, Server, Stopping,
    Tls, Tracer, VersionLink, ZPagesLink,
};
use binnacle_services::{AllocatorMetrics, ServiceAddresses};
use binnacle_subresources::OutboundClients;
use binnacle_supervise::supervise;
use binnacle_telemetry::traces::{Exporter, TracingConfig};
use binnacle_webhook::ServiceResolver;
use binnacle_write_hooks::CertificateDurations;
use prometheus::{GaugeVec, Opts};
use rustix::process::{Resource, getrlimit};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::apis::{Access, BuiltIn, built_in};
pub(crate) use self::check::check_files;
use self::client_access::ClientAccess;
pub(crate) use self::client_access::Told;
pub(crate) use self::failure::{StartFailure, not_registered};
use self::health::Checked;
use self::manifests::AdmissionManifests;
use self::named::Named;
use self::policies::AdmissionPolicies;
use self::untold::Untold;
use self::webhooks::AdmissionWebhooks;
use crate::authentication::{self, AuthenticationError};
use crate::authorities;
use crate::data_dir::{DataDir, default_path};
use crate::encryption::AtRest;
use crate::health::Lost;
use crate::live::{self, ShownStore};
use crate::openid::{OpenIdLink, keys_url};
use crate::pki::system_clock;
use crate::renewal::Users;
use crate::running::{Assembled, Ending, Front};
use crate::server::{About, Progress};
use crate::settings::Settings;
use crate::signing::{External, Signing};
use crate::stand_in::{self};
use crate::stores::Stores;
use crate::upkeep::Upkeep;

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

/// Assembles the server. Steps that can fail and leave nothing behind come first: the given files, then the port, then
/// the data directory, which is removed again if it is new and a later step fails.
pub(crate) async fn assemble(mut config: Settings) -> Result<(Assembled, About), StartFailure> {
    config.generic.gates.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
    stand_in::settle(&mut config.storage).await?;
    let front = Front::start().map_err(StartFailure::Runtime)?;
    let canary = front.watch_workers();
    let features = Arc::new(config.features());
    let metrics =
        Metrics::of(&build(config.generic.reported_version.as_deref()), &features.gates).map_err(not_registered)?;
    let egress = load_egress(&config, metrics.registry())?;
    let named = Named::load(&config, &egress)?;
    let external = External::connect(&config.authentication.service_accounts, metrics.registry()).await?;
    let plugins = load_plugin_options(&config, &features)?;
    let asked = |plugin: &str| config.admission.enables(plugin);
    let port = BoundPort::bind(config.serving.address(), config.serving.sharing).await?;
    let port_address = port.address();
    let url = format!("https://{}", reachable(port_address));
    tell_version(&config, metrics.registry()).map_err(not_registered)?;
    binnacle_supervise::register(metrics.registry()).map_err(not_registered)?;
    binnacle_structural::register_metrics(metrics.registry()).map_err(not_registered)?;
    binnacle_registry::register_metrics(metrics.registry()).map_err(not_registered)?;
    binnacle_webhook::register_metrics(metrics.registry()).map_err(not_registered)?;
    validation_metrics::register(metrics.registry()).map_err(not_registered)?;
    let root = config.storage.etcd.as_ref().map_or(ROOT, |etcd| &etcd.root);
    let server_name = identity_lease_name(config.misc.hostname.as_deref());
    let at_rest = AtRest::open(&config.storage, root, &server_name, metrics.registry()).await?;
    let mut data = open_data(&config)?;
    let disk_failed = Arc::new(Notify::new());
    let stores = Stores::open(&config.storage, &config.host, &disk_failed, &mut data, &egress, metrics.registry())?;
    stores.refuse_unfinished().await?;
    let admin_socket = stores.offer();
    let Named { mut authentication, issuers, tls, authorization, kubelets, proxy_client, tracing: named_tracing } =
        named;
    let named_clients = authentication.clients.take();
    let clock = system_clock();
    let ClientAccess { tls, clients, kubeconfig, kubectl, controllers, place: temporary, service_account, own } =
        ClientAccess::prepare(tls, named_clients, &config, data.as_ref(), &url, &clock)?;

    // Authentication and authorization.
    let proxies = authentication.proxies.clone();
    let flags = &config.authentication;
    if let Some(proxies) = &proxies {
        authentication::keep_apart(flags, &clients, proxies).map_err(AuthenticationError::from)?;
    }
    let asked_for = std::iter::once(&clients).chain(&proxies).map(|bundle| bundle.authorities.clone()).collect();
    let serving = &config.serving;
    let tls = Tls::new(&serving.tls, tls, serving.named.clone(), asked_for)?;
    let resources = Catalog::new(binnacle_builtin::kinds(), features.clone());
    let signing = match &external {
        Some(external) => Signing::from(external.clone()),
        None => authentication.signing(&service_account)?,
    };
    let selected = config.debugging.egress_config.is_some().then(|| egress.clone());
    let issuers = issuers.make(flags, &server_name, metrics.registry(), selected)?;
    let itself = webhooks::itself(&authentication.own_token, tls.certificates());
    let authentication =
        authentication::build(flags, authentication, &issuers, &clients, signing.keys.clone(), &resources, &metrics)?;
    let to_collector = egress.dialer(Network::ControlPlane);
    let authorization = authorization.make(&resources, to_collector.clone(), &server_name, metrics.registry())?;

    // The APIs and the components that they need.
    let (trigger, shutdown) = ShutdownTrigger::new();
    let ending = Ending(trigger.clone());
    let (terminating_trigger, terminating) = ShutdownTrigger::new();
    let (draining_trigger, draining) = ShutdownTrigger::new();
    let mut auditing = config.auditing.clone();
    if let Some(webhook) = &mut auditing.webhook {
        webhook.dialer = egress.dialer(Network::ControlPlane);
    }
    let auditor = auditing
        .build(metrics.registry(), |media_type, body, omit| read_object(&BuiltInKinds, media_type, body, omit))?
        .map(Arc::new);
    let outward = OutboundClients::new(kubelets, metrics.registry()).map_err(not_registered)?;
    let lookup = Arc::new(ResourceLookup::new(resources.clone()));
    let conditions = MatchConditionMetrics::register(metrics.registry()).map_err(not_registered)?;
    let surroundings =
        webhooks::surroundings(&resources, lookup, &authorization.authorizer, &conditions, metrics.registry())
            .map_err(not_registered)?;
    let own_address = Some(reachable(port_address));
    let services = ServiceAddresses::new(resources.clone(), config.misc.service_routing, own_address);
    let services: Arc<dyn ServiceResolver> = Arc::new(services.leaving_by(egress.clone()).calling_itself(itself));
    let webhooks = AdmissionWebhooks::new(&plugins, &asked, &services, surroundings);
    let admission_policies = AdmissionPolicies::new(&conditions, metrics.registry()).map_err(not_registered)?;
    let (sources, policies) = (webhooks.sources(), &admission_policies.policies);
    let manifests =
        AdmissionManifests::begin(&plugins.manifests, &features, &sources, policies, &server_name, metrics.registry())?;
    let addresses = Addresses { default: external_address(&config, port_address), ..Addresses::default() };
    let meets_others = features.enabled("UnknownVersionInteroperabilityProxy");
    let discovery_metrics = DiscoveryMetrics::register(metrics.registry(), meets_others).map_err(not_registered)?;
    register_webhook_certificates(metrics.registry()).map_err(not_registered)?;
    let certificates = CertificateMetrics::register(metrics.registry(), "kube_aggregator").map_err(not_registered)?;
    let aggregator = Aggregator::new(AggregatorOptions {
        catalog: resources.clone(),
        resolver: services.clone(),
        identity: proxy_client.clone(),
        rejects_redirects: config.misc.rejects_redirects,
        addresses,
        discovery_metrics: Some(discovery_metrics.clone()),
        certificates: Some(certificates),
    });
    let peer_metrics = PeerMetrics::register(metrics.registry()).map_err(not_registered)?;
    let peers = peers::make(&config, proxy_client, &egress, &resources, &aggregator, peer_metrics)?;
    let access = Access {
        authenticator: authentication.authenticator.clone(),
        authorizer: authorization.authorizer.clone(),
        roles: authorization.roles.clone(),
        token_issuer: signing.issuer(flags),
        trust: Trust::new(Some(clients.pem.clone()), authentication::request_header(flags, proxies.as_ref())),
        admission: plugins,
        webhooks,
        admission_metrics: AdmissionMetrics::register(metrics.registry()).map_err(not_registered)?,
        conversions: ConversionMetrics::register(metrics.registry()).map_err(not_registered)?,
        admission_policies,
        services,
        aggregator: aggregator.clone(),
        availability: AvailabilityMetrics::register(metrics.registry()).map_err(not_registered)?,
        allocators: AllocatorMetrics::register(metrics.registry()).map_err(not_registered)?,
        certificate_durations: CertificateDurations::register(metrics.registry()).map_err(not_registered)?,
        queues: WorkQueues::register(metrics.registry()).map_err(not_registered)?,
        discovery_metrics,
    };
    let storage = match &at_rest {
        Some(at_rest) => at_rest.wrap(stores.options(&config.storage, &features)),
        None => stores.options(&config.storage, &features),
    };
    let BuiltIn { api, plane, controllers: manager, resources: served } =
        built_in(storage, resources.clone(), &access, port_address, &config, outward, &shutdown)?;
    let mut followers = JoinSet::new();
    if let Some(external) = external {
        followers.spawn(external.follow(shutdown.clone()));
    }
    let others = policies::others(&aggregator);
    follow_policies(&access.admission_policies.policies, &resources, &others, &mut followers, &shutdown);
    manifests.follow(&mut followers, &shutdown);
    authorities::follow(&mut followers, &shutdown, flags, (&clients, proxies.as_ref()), &access.trust);
    let users = Users {
        serving: tls.certificates().clone(),
        clients: clients.authorities.clone(),
        trust: access.trust.clone(),
    };
    let own_certificate = own.expiry();
    own.follow(users, clock, &mut followers, &shutdown);
    let (issuers, stopped) = ((issuers.issuers, Arc::new(tokio::sync::Mutex::new(issuers.file))), shutdown.clone());
    followers.spawn(supervise("authentication config", move || {
        let ((issuers, file), stopped) = (issuers.clone(), stopped.clone());
        async move { issuers.follow(&mut *file.lock().await, stopped).await }
    }));
    authorization.follow(&resources, &mut followers, &shutdown);
    access.webhooks.follow(&resources, &mut followers, &shutdown);
    let mut aggregation = aggregator.follow(&mut followers, &shutdown).map_err(|_| StartFailure::NoRegistration)?;
    if let Some(peers) = &peers {
        aggregation.extend(peers.follow(&mut followers, &shutdown).map_err(|_| StartFailure::NoRegistration)?);
    }
    let fairness = crate::fairness::start(&config.generic, &resources, &metrics, &mut followers, &shutdown)?;
    let tracer = named_tracing.map(|tracing| start_tracing(&tracing, to_collector, &plane, &mut followers, &shutdown));
    let tracer = tracer.transpose()?;
    let upkeep = Upkeep::start(&stores, &served, &config.storage, metrics.registry()).map_err(not_registered)?;
    let health_metrics = HealthMetrics::new().map_err(not_registered)?;
    let lost = Lost::default();
    let checked = Checked {
        canary: &canary,
        features: &features,
        stores: &stores,
        storage: &config.storage,
        at_rest: at_rest.as_ref(),
        own_certificate,
        access: &access,
        fairness: fairness.as_ref(),
        upkeep: &upkeep,
        lost: &lost,
        steps: manager.hooks().iter().chain(&aggregation).collect(),
        livez_grace: Instant::now().checked_add(config.generic.livez_grace_period),
        terminating: terminating.clone(),
    };
    let health = checked.health(health_metrics.clone());
    let named = |name: &str| manager.hooks().iter().find(|hook| hook.name() == name).cloned();
    let (defined, routed) = (named("crd-informer-synced"), aggregator.clone());
    let complete = move || routed.is_complete() && defined.as_ref().is_none_or(PostStartHook::is_done);
    let has_been_ready = config.generic.refuses_until_ready.then(|| health.has_been_ready());
    let exposed = Arc::new(Exposed::new(config.exposed_metrics.clone()));
    let resets = config.debugging.profiling;
    let shown = resources.clone();
    let what_is_served = move || shown.snapshot().served().clone();
    let documented = aggregator.clone();
    let encodings = Encodings::new(features.enabled("CBORServingAndStorage"));
    let release = features.emulated().to_string();
    let openapi = OpenApiLink::new(what_is_served, binnacle_builtin::kinds(), encodings, release);
    let openapi = openapi.with_others(move || documented.openapi());
    let mut links: Vec<Arc<dyn Link>> = vec![
        Arc::new(health),
        Arc::new(VersionLink::new(
            failure_response,
            build(config.generic.reported_version.as_deref()),
            &features.gates,
        )),
        Arc::new(MetricsLink { metrics: metrics.clone(), exposed: exposed.clone(), resets }),
        Arc::new(HealthMetricsLink { metrics: health_metrics, exposed, resets }),
        Arc::new(aggregator),
        Arc::new(openapi),
        Arc::new(api),
    ];
    links.push(Arc::new(ZPagesLink {
        failure: if encodings.has_cbor() { failure_response_or_cbor } else { failure_response },
        cbor: encodings.has_cbor(),
        emulated: features.emulated(),
        flags: config.host.flags.clone(),
        more_paths: if config.misc.serves_logs { vec!["/logs"] } else { Vec::new() },
        statusz: features.enabled("ComponentStatusz"),
        flagz: features.enabled("ComponentFlagz"),
    }));
    if let Some(page) = &config.host.configz {
        links.push(Arc::new(page.clone()));
    }
    debugging::serve(&config, &mut links, &mut followers, &shutdown);
    if config.misc.serves_logs {
        links.push(Arc::new(LogsLink::new("/var/log")));
    }
    if let Some(fairness) = &fairness {
        links.push(Arc::new(FlowDumpLink(fairness.clone())));
    }
    links.push(Arc::new(access.webhooks.page()));
    if config.debugging.live_page {
        links.push(Arc::new(live::link(live::Parts {
            name: plane.server_name().to_owned(),
            metrics: metrics.clone(),
            resources: resources.clone(),
            fairness: fairness.clone(),
            limits: limits(&config),
            webhooks: access.webhooks.sources(),
            stores: ShownStore::all(&stores),
        })));
    }
    let issuer = &access.token_issuer.issuer;
    let keys_uri = flags.service_accounts.jwks_uri.clone();
    let keys_uri = keys_uri.unwrap_or_else(|| keys_url(&external_address(&config, port_address)));
    match OpenIdLink::new(issuer, &keys_uri, signing.keys.clone()) {
        Ok(link) => links.push(Arc::new(link)),
        Err(error) => tracing::info!("Skipping installation of OpenID discovery endpoints: {error}"),
    }
    let mut detours: Vec<Arc<dyn Detour>> = peers.map(|peers| Arc::new(peers) as _).into_iter().collect();
    if features.enabled("StorageVersionAPI") {
        detours.push(Arc::new(Untold(plane.storage_versions().clone())));
    }
    let chain = Chain::new(ChainConfig {
        authentication,
        authorizer: access.authorizer,
        links: Links::new(links).complete_once(complete).with_detours(detours),
        failure: failure_response,
        metrics,
        features,
        shutdown,
        request_timeout: config.generic.request_timeout,
        options: ChainOptions {
            auditor: auditor.clone(),
            cors: config.generic.cors.clone(),
            hsts: config.generic.hsts.as_deref().and_then(|hsts| hsts.parse().ok()),
            goaway_chance: config.generic.goaway_chance,
            limits: limits(&config),
            fairness: fairness.clone(),
            tracer,
            has_been_ready,
            draining: Some(draining),
            leaving: Some(terminating),
        },
    });

    let limits = ConnectionLimits::of_descriptors(config.host.descriptors.unwrap_or_else(descriptors));
    let mut listener = port.with_tls(tls).limits(limits);
    if let Some(front) = front.handle() {
        listener = listener.front(front);
    }
    if let Some(max_streams) = config.serving.max_streams {
        listener = listener.max_streams(max_streams);
    }
    let server = Server::new(listener, Arc::new(chain), trigger).stopping(Stopping {
        terminating: Some(terminating_trigger),
        delay: config.generic.shutdown_delay,
        draining: config.generic.shutdown_send_retry_after.then_some(draining_trigger),
        drain_short: config.generic.request_timeout,
        watch_grace: config.generic.watch_grace_period,
    });
    if let Some(data) = &mut data {
        data.keep();
    }
    let place = match &data {
        _ if stores.are_elsewhere() => stores.place(),
        Some(data) if !config.storage.ephemeral => data.path().display().to_string(),
        _ => "memory only, gone at the end".to_owned(),
    };
    let progress = Progress(canary);
    let about = About { address: port_address, url, place, kubeconfig, kubectl, controllers, progress };
    let assembled = Assembled {
        server,
        resources,
        stores,
        admin_socket,
        at_rest,
        controllers: manager,
        followers,
        lost,
        upkeep,
        auditor,
        data: data.or(temporary),
        disk_failed,
        front,
        ending,
    };
    Ok((assembled, about))
}

/// Loads the ways to other servers.
fn load_egress(config: &Settings, registry: &Registry) -> Result<Egress, StartFailure> {
    match config.debugging.egress_config.as_deref() {
        Some(path) => Ok(Egress::load(path, &DialMetrics::register(registry).map_err(not_registered)?)?),
        None => Ok(Egress::default()),
    }
}

/// Loads the options of admission plugins from the settings and their configuration file.
fn load_plugin_options(config: &Settings, features: &Arc<Features>) -> Result<PluginOptions, StartFailure> {
    let mut plugins = PluginOptions { features: features.clone(), ..config.admission.options.clone() };
    let asked = |plugin: &str| config.admission.enables(plugin);
    binnacle_admission::configure(config.admission.config_file.as_deref(), &asked, &mut plugins)?;
    Ok(plugins)
}

/// Opens the directory for persistent files, if there are any.
fn open_data(config: &Settings) -> Result<Option<DataDir>, StartFailure> {
    let path = match &config.storage.data_dir {
        Some(path) => path.clone(),
        None if config.storage.ephemeral => return Ok(None),
        None => default_path().ok_or(StartFailure::NoPlace)?,
    };
    Ok(Some(DataDir::open(&path)?))
}

/// Returns the maximum number of files and sockets that the process may have open.
fn descriptors() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// Creates the tracer, which decides which requests are traced, and spawns the task that exports their spans.
fn start_tracing(
    config: &TracingConfig,
    dialer: Option<Arc<Dialer>>,
    control_plane: &ControlPlane,
    followers: &mut JoinSet<()>,
    shutdown: &Shutdown,
) -> Result<Arc<Tracer>, StartFailure> {
    let resource =
        vec![("service.name", "apiserver".to_owned()), ("service.instance.id", control_plane.server_name().to_owned())];
    let (exporter, task) = Exporter::new(&config.endpoint, dialer, resource, shutdown.clone())?;
    followers.spawn(task);
    Ok(Arc::new(Tracer::new(exporter, config.per_million)))
}

/// Returns the limits of requests in flight, if priority and fairness is off.
fn limits(config: &Settings) -> Option<InFlightLimits> {
    let generic = &config.generic;
    (!generic.priority_and_fairness)
        .then_some(InFlightLimits { read_only: generic.max_requests, mutating: generic.max_mutating_requests })
}

/// Sets the metric `version_info`: the server's version, and its emulated and minimum compatible versions.
fn tell_version(config: &Settings, registry: &Registry) -> Result<(), prometheus::Error> {
    let help = "[ALPHA] Provides the compatibility version info of the component. The component label is the name of the \
                component, usually kube, but is relevant for aggregated-apiservers.";
    let labels = ["binary", "component", "emulation", "min_compat"];
    let info = keep(registry, GaugeVec::new(Opts::new("version_info", help), &labels)?)?;
    let own =
        KUBERNETES_VERSION.trim_start_matches('v').rsplit_once('.').map_or(KUBERNETES_VERSION, |(minor, _)| minor);
    let gates = &config.generic.gates;
    let [emulation, compatible] = [gates.emulated(), gates.compatible()].map(|version| version.to_string());
    info.with_label_values(&[own, "kube", &emulation, &compatible]).set(1.0);
    Ok(())
}

/// Returns the address of this server for discovery documents.
fn external_address(config: &Settings, address: SocketAddr) -> String {
    let generic = &config.generic;
    match (&generic.external_hostname, generic.advertise_address) {
        (Some(name), _) if name.contains(':') => name.clone(),
        (Some(name), _) => format!("{name}:{}", address.port()),
        (None, Some(ip)) => SocketAddr::new(ip, address.port()).to_string(),
        (None, None) => reachable(address).to_string(),
    }
}

/// Returns the address at which clients on this machine reach the server.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
