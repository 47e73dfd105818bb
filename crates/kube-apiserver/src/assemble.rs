//! The whole server, put together from top to bottom.

mod apis;
mod policies;
mod shown;
mod webhooks;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_admission::{AdmissionConfigError, Metrics as AdmissionMetrics, ResourceLookup};
use binnacle_admission_expressions::MatchConditionMetrics;
use binnacle_aggregator::{Aggregator, Options as AggregatorOptions};
use binnacle_audit::Auditor;
use binnacle_authn::AuthoritiesError;
use binnacle_controlplane::{
    AvailabilityMetrics, ControlPlane, ConversionMetrics, ServiceAddresses, Step, follow_policies,
};
use binnacle_discovery::Addresses;
use binnacle_egress::{DialMetrics, Egress, EgressError, Network};
use binnacle_encryption::ConfigError;
use binnacle_endpoints::{failure_response, read_object};
use binnacle_kinds::BuiltInKinds;
use binnacle_kubelet::Kubelets;
use binnacle_metrics::{Exposed, keep};
use binnacle_openapi::OpenApiLink;
use binnacle_proxy::{ClientIdentity, Way};
use binnacle_registry::{Catalog, ROOT};
use binnacle_request::{Link, Shutdown, ShutdownTrigger};
use binnacle_server::{
    BoundPort, Build, Chain, ChainConfig, ChainOptions, ConnectionLimits, DebugFlag, DebugFlagsLink,
    DefaultCertificate, FlowDumpLink, Health, HealthMetrics, HealthMetricsLink, InFlightLimits, KUBERNETES_VERSION,
    Links, ListenError, LogCheck, LogsLink, Metrics, MetricsLink, PingCheck, Server, ShutdownCheck, Stopping, Tls,
    TlsError, Tracer, VersionLink, ZPagesLink,
};
use binnacle_specials::Outward;
use binnacle_store::StoreError;
use binnacle_store_embedded::OpenError;
use binnacle_store_etcd::ConnectError;
use binnacle_supervise::supervise;
use binnacle_traces::{Exporter, TracingConfig};
use binnacle_webhook::ServiceResolver;
use prometheus::{GaugeVec, Opts, Registry};
use rustls::client::ResolvesClientCert;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use self::apis::{Access, built_in};
use self::policies::AdmissionPolicies;
pub(crate) use self::shown::Told;
use self::shown::{Shown, read_text, serving_pair};
use self::webhooks::AdmissionWebhooks;
use crate::admin_socket::AdminSocket;
use crate::authentication::{self, AuthenticationError};
use crate::authorities;
use crate::authorization::{AuthorizationError, Prepared};
use crate::data_dir::{DataDir, DataDirError, default_path};
use crate::encryption::AtRest;
use crate::flags::{Config, Verbosity};
use crate::health::{InformersCheck, Lost, StepCheck};
use crate::issuers::{IssuersError, NamedIssuers};
use crate::logging::Levels;
use crate::openid::{OpenIdLink, keys_url};
use crate::pki::{PkiError, system_clock};
use crate::renewal::Users;
use crate::stores::Stores;
use crate::upkeep::Upkeep;

/// How long a start keeps silent when something that every cluster has cannot be made.
const START_PATIENCE: Duration = Duration::from_secs(10);

/// A server that is ready to run.
pub(crate) struct Assembled {
    server: Server,
    stores: Stores,
    /// Goes before the stores are closed.
    admin_socket: Option<AdminSocket>,
    at_rest: Option<AtRest>,
    control_plane: ControlPlane,
    /// Keep what authorizers know in step with the store; they end with the server.
    followers: JoinSet<()>,
    lost: Lost,
    /// What goes on beside the requests.
    upkeep: Upkeep,
    auditor: Option<Arc<Auditor>>,
    data: Option<DataDir>,
    ephemeral: bool,
    url: String,
    /// What of the kubectl command depends on how it was started.
    kubectl: String,
    /// The command that brings controllers.
    controllers: String,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Authentication(#[from] AuthenticationError),
    #[error(transparent)]
    Issuers(#[from] IssuersError),
    #[error("cannot use the server's own authority: {0}")]
    OwnAuthority(#[from] AuthoritiesError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Audit(#[from] binnacle_audit::OptionsError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("cannot read the store: {0}")]
    StoreRead(StoreError),
    #[error("a migration into this store was not finished: let 'binnacle migrate' go on before the store is served")]
    UnfinishedMigration,
    #[error(transparent)]
    Etcd(#[from] ConnectError),
    #[error(transparent)]
    Encryption(#[from] ConfigError),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("cannot write {path}: {error}")]
    Write { path: String, error: std::io::Error },
    #[error("no place for the data: neither HOME nor XDG_DATA_HOME is set, use --data-dir or --ephemeral")]
    NoPlace,
    #[error(transparent)]
    Authorization(#[from] AuthorizationError),
    #[error("unable to reach kubelets: {0}")]
    Kubelets(#[from] binnacle_kubelet::ConfigError),
    #[error("unable to use the proxy client certificate: {0}")]
    ProxyClient(binnacle_proxy::IdentityError),
    #[error(transparent)]
    TracingConfig(#[from] binnacle_traces::ConfigError),
    #[error(transparent)]
    Tracing(#[from] binnacle_traces::ExporterError),
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error("API group/version apiregistration.k8s.io/v1 must be enabled")]
    NoRegistration,
    #[error("failed to apply admission: {0}")]
    Admission(#[from] AdmissionConfigError),
    #[error("cannot register metrics: {0}")]
    Metrics(String),
}

pub(crate) fn not_registered(error: impl std::fmt::Display) -> StartError {
    StartError::Metrics(error.to_string())
}

/// The build, as `/version` names it.
const BUILD: Build = Build {
    git_commit: env!("BINNACLE_COMMIT"),
    git_tree_state: env!("BINNACLE_TREE_STATE"),
    date: option_env!("BINNACLE_BUILD_DATE"),
};

/// What the process has before anything is put together.
pub(crate) struct Outset {
    /// The runtime on which connections are accepted.
    pub(crate) front: Handle,
    /// How many files and sockets may be open.
    pub(crate) descriptors: u64,
    /// How much is logged.
    pub(crate) levels: Arc<Levels>,
}

/// Puts the server together. What can fail without a trace comes first: files that were named, then the port, then the
/// data directory, which is removed again if it was not there before and a later step fails.
pub(crate) async fn assemble(config: Config, outset: Outset) -> Result<Assembled, StartError> {
    for (flag, why) in &config.inert {
        tracing::warn!("--{flag} has no effect: {why}");
    }
    let metrics = Metrics::of(&BUILD).map_err(not_registered)?;
    let egress = match config.features.egress_config.as_deref() {
        Some(path) => Egress::load(path, &DialMetrics::register(metrics.registry()).map_err(not_registered)?)?,
        None => Egress::default(),
    };
    let named = Named::load(&config, &egress)?;
    let mut plugins = config.admission.options.clone();
    let asked = |plugin: &str| config.admission.enables(plugin);
    binnacle_admission::configure(config.admission.config_file.as_deref(), &asked, &mut plugins)?;
    let port = BoundPort::bind(config.serving.address(), config.serving.sharing).await?;
    let url = format!("https://{}", reachable(port.address()));
    tell_version(&config, metrics.registry()).map_err(not_registered)?;
    binnacle_supervise::register(metrics.registry()).map_err(not_registered)?;
    let root = config.storage.etcd.as_ref().map_or(ROOT, |etcd| &etcd.root);
    let at_rest = AtRest::open(&config.storage, root, metrics.registry()).await?;
    let mut data = open_data(&config)?;
    let stores = Stores::open(&config.storage, &mut data, &egress, metrics.registry())?;
    stores.refuse_unfinished().await?;
    let admin_socket = stores.offer();
    let Named { mut authentication, issuers, tls, authorization, kubelets, proxy_client, tracing: named_tracing } =
        named;
    let named_clients = authentication.clients.take();
    let clock = system_clock();
    let Shown { tls, clients, kubectl, controllers, place, service_account, own } =
        Shown::prepare(tls, named_clients, &config, data.as_ref(), &url, &clock)?;

    // Who is calling, and may they.
    let proxies = authentication.proxies.clone();
    let mut asked_for = clients.authorities.names();
    asked_for.extend(proxies.iter().flat_map(|proxies| proxies.authorities.names()));
    let serving = &config.serving;
    let tls = Tls::new(&serving.tls, tls, serving.named.clone(), asked_for)?;
    let resources = Catalog::new(binnacle_builtin::kinds());
    let flags = &config.authentication;
    let keys = authentication.service_account_keys(&service_account)?;
    let issuers = issuers.make(flags, metrics.registry())?;
    let authentication = authentication::build(flags, authentication, &issuers, &clients, &keys, &resources, &metrics)?;
    let authorization = authorization.make(&resources, egress.dialer(Network::ControlPlane), metrics.registry())?;

    // What is served.
    let (trigger, shutdown) = ShutdownTrigger::new();
    let (terminating_trigger, terminating) = ShutdownTrigger::new();
    let (draining_trigger, draining) = ShutdownTrigger::new();
    let mut auditing = config.auditing.clone();
    if let Some(webhook) = &mut auditing.webhook {
        webhook.dialer = egress.dialer(Network::ControlPlane);
    }
    let auditor = auditing
        .build(metrics.registry(), |media_type, body, omit| read_object(&BuiltInKinds, media_type, body, omit))?
        .map(Arc::new);
    let outward = Outward::new(kubelets, metrics.registry()).map_err(not_registered)?;
    let lookup = Arc::new(ResourceLookup::new(resources.clone()));
    let conditions = MatchConditionMetrics::register(metrics.registry()).map_err(not_registered)?;
    let surroundings =
        webhooks::surroundings(&resources, lookup, &authorization.authorizer, &conditions, metrics.registry())
            .map_err(not_registered)?;
    let own_address = Some(reachable(port.address()));
    let services = ServiceAddresses::new(resources.clone(), config.misc.service_routing, own_address);
    let services: Arc<dyn ServiceResolver> = Arc::new(services.leaving_by(egress.clone()));
    let webhooks = AdmissionWebhooks::new(&plugins, &asked, &services, surroundings);
    let addresses = Addresses { default: external_address(&config, port.address()), ..Addresses::default() };
    let aggregator = Aggregator::new(AggregatorOptions {
        catalog: resources.clone(),
        resolver: services.clone(),
        identity: proxy_client,
        rejects_redirects: config.misc.rejects_redirects,
        addresses,
    });
    let access = Access {
        authenticator: authentication.authenticator.clone(),
        authorizer: authorization.authorizer.clone(),
        roles: authorization.roles.clone(),
        token_issuer: keys.issuer(flags),
        client_ca: clients.pem.clone(),
        request_header: authentication::request_header(flags, proxies.as_ref()),
        admission: plugins,
        webhooks,
        admission_metrics: AdmissionMetrics::register(metrics.registry()).map_err(not_registered)?,
        conversions: ConversionMetrics::register(metrics.registry()).map_err(not_registered)?,
        admission_policies: AdmissionPolicies::new(&conditions, metrics.registry()).map_err(not_registered)?,
        services,
        aggregator: aggregator.clone(),
        availability: AvailabilityMetrics::register(metrics.registry()).map_err(not_registered)?,
    };
    let storage = match &at_rest {
        Some(at_rest) => at_rest.wrap(stores.options(&config.storage)),
        None => stores.options(&config.storage),
    };
    let (api, control_plane, served) =
        built_in(storage, resources.clone(), &access, port.address(), &config, outward, &shutdown);
    let mut followers = JoinSet::new();
    follow_policies(&access.admission_policies.policies, &resources, &mut followers, &shutdown);
    if let Some(path) = flags.client_ca_file.clone() {
        authorities::follow(&mut followers, &shutdown, (path, &clients), &resources, authorities::of_clients);
    }
    if let (Some(flags), Some(proxies), Some(header)) = (&flags.request_header, &proxies, &access.request_header) {
        let (file, told) = ((flags.client_ca_file.clone(), proxies), authorities::of_proxies(header.clone()));
        authorities::follow(&mut followers, &shutdown, file, &resources, told);
    }
    let users = Users {
        serving: tls.certificates().clone(),
        clients: clients.authorities.clone(),
        resources: resources.clone(),
    };
    own.follow(users, clock, &mut followers, &shutdown);
    let (issuers, stopped) = ((issuers.issuers, Arc::new(tokio::sync::Mutex::new(issuers.file))), shutdown.clone());
    followers.spawn(supervise("authentication config", move || {
        let ((issuers, file), stopped) = (issuers.clone(), stopped.clone());
        async move { issuers.follow(&mut *file.lock().await, stopped).await }
    }));
    authorization.follow(&resources, &mut followers, &shutdown);
    access.webhooks.follow(&resources, &mut followers, &shutdown);
    let aggregation = aggregator.follow(&mut followers, &shutdown).map_err(|_| StartError::NoRegistration)?;
    let fairness = crate::fairness::start(&config.generic, &resources, &metrics, &mut followers, &shutdown)?;
    let tracer = named_tracing.map(|tracing| start_tracing(&tracing, &control_plane, &mut followers, &shutdown));
    let tracer = tracer.transpose()?;
    let upkeep = Upkeep::start(&stores, &served, &config.storage, metrics.registry()).map_err(not_registered)?;
    let health_metrics = HealthMetrics::new().map_err(not_registered)?;
    let health = Health::new(health_metrics.clone());
    let health = health.everywhere(Arc::new(PingCheck)).everywhere(Arc::new(LogCheck::default()));
    let mut health = stores.add_checks(health, &config.storage);
    if let Some(at_rest) = &at_rest {
        health = at_rest.add_checks(health);
    }
    let lost = Lost::default();
    let health = health
        .ready(Arc::new(InformersCheck { roles: access.roles.index().clone(), webhooks: access.webhooks.sources() }))
        .ready(Arc::new(lost.clone()));
    let livez_grace = Instant::now().checked_add(config.generic.livez_grace_period);
    let started = |health: Health, step: &Step| {
        let health = health.starting(Arc::new(StepCheck::new(step)), livez_grace);
        match step.name() {
            "kube-apiserver-autoregistration" => {
                health.everywhere(Arc::new(StepCheck::named("autoregister-completion", step)))
            }
            _ => health,
        }
    };
    let named = |name: &str| control_plane.steps().iter().find(|step| step.name() == name).cloned();
    let (defined, routed) = (named("crd-informer-synced"), aggregator.clone());
    let complete = move || routed.is_complete() && defined.as_ref().is_none_or(Step::is_done);
    let health = control_plane
        .steps()
        .iter()
        .chain(&aggregation)
        .fold(health, started)
        .ready(Arc::new(ShutdownCheck(terminating)));
    let has_been_ready = config.generic.refuses_until_ready.then(|| health.has_been_ready());
    let exposed = Arc::new(Exposed::new(config.exposed_metrics.clone()));
    let shown = resources.clone();
    let what_is_served = move || shown.snapshot().served().clone();
    let documented = aggregator.clone();
    let openapi = OpenApiLink::new(what_is_served, binnacle_builtin::kinds()).with_others(move || documented.openapi());
    let mut links: Vec<Arc<dyn Link>> = vec![
        Arc::new(health),
        Arc::new(VersionLink::new(failure_response, BUILD)),
        Arc::new(MetricsLink { metrics: metrics.clone(), exposed: exposed.clone() }),
        Arc::new(HealthMetricsLink { metrics: health_metrics, exposed }),
        Arc::new(aggregator),
        Arc::new(openapi),
        Arc::new(api),
    ];
    links.push(Arc::new(ZPagesLink {
        failure: failure_response,
        flags: config.shown.clone(),
        more_paths: if config.misc.serves_logs { vec!["/logs"] } else { Vec::new() },
        statusz: config.generic.gates.enabled("ComponentStatusz"),
        flagz: config.generic.gates.enabled("ComponentFlagz"),
    }));
    if config.features.profiling {
        links.push(Arc::new(DebugFlagsLink(vec![log_level_flag(outset.levels)])));
    }
    if config.misc.serves_logs {
        links.push(Arc::new(LogsLink::new("/var/log")));
    }
    if let Some(fairness) = &fairness {
        links.push(Arc::new(FlowDumpLink(fairness.clone())));
    }
    let issuer = &access.token_issuer.issuer;
    let keys_uri = flags.service_accounts.jwks_uri.clone();
    let keys_uri = keys_uri.unwrap_or_else(|| keys_url(&reachable(port.address()).to_string()));
    match OpenIdLink::new(issuer, &keys_uri, &keys.verifying) {
        Ok(link) => links.push(Arc::new(link)),
        Err(error) => tracing::info!("Skipping installation of OpenID discovery endpoints: {error}"),
    }
    let chain = Chain::new(ChainConfig {
        authentication,
        authorizer: access.authorizer,
        links: Links::new(links).complete_once(complete),
        failure: failure_response,
        metrics,
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
        },
    });

    let limits = ConnectionLimits::of_descriptors(outset.descriptors);
    let mut listener = port.with_tls(tls).front(outset.front).limits(limits);
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
    Ok(Assembled {
        server,
        stores,
        admin_socket,
        at_rest,
        control_plane,
        followers,
        lost,
        upkeep,
        auditor,
        data: data.or(place),
        ephemeral: config.storage.ephemeral,
        url,
        kubectl,
        controllers,
    })
}

impl Assembled {
    /// The lines of a start.
    fn greeting(&self) -> String {
        let place = match &self.data {
            _ if self.stores.are_elsewhere() => self.stores.place(),
            Some(data) if !self.ephemeral => data.path().display().to_string(),
            _ => "memory only, gone at the end".to_owned(),
        };
        format!(
            "Kubernetes {KUBERNETES_VERSION} API at {}\nData: {place}\nTry: {} get namespaces\nControllers are not part of \
             it. To see deployments come true: {}\n",
            self.url, self.kubectl, self.controllers
        )
    }

    /// Serves until told to stop. `say` prints the greeting once what every cluster has is there: who reads it can rely
    /// on `/readyz`, and on the rights that everybody has.
    pub(crate) async fn run(mut self, say: impl FnOnce(&str), stop: impl Future<Output = ()>) {
        let greeting = self.greeting();
        {
            let served = self.server.run(stop);
            tokio::pin!(served);
            let ready = tokio::time::timeout(START_PATIENCE, self.control_plane.done());
            let serving = async {
                tokio::select! {
                    () = &mut served => {}
                    _ = ready => {
                        say(&greeting);
                        served.await;
                    }
                }
            };
            tokio::select! {
                () = serving => {}
                () = self.lost.watch(&mut self.followers) => {}
            }
        }
        drop((self.upkeep, self.at_rest));
        if let Some(auditor) = self.auditor {
            auditor.shutdown().await;
        }
        self.control_plane.ended().await;
        self.lost.wait(&mut self.followers).await;
        drop(self.admin_socket);
        self.stores.close().await;
    }
}

/// What was read from the files that flags name, before anything has happened that could be left behind.
struct Named {
    authentication: authentication::Named,
    issuers: NamedIssuers,
    /// With the text of the certificate file.
    tls: Option<(DefaultCertificate, String)>,
    authorization: Prepared,
    kubelets: Kubelets,
    /// Shown to servers of aggregated APIs.
    proxy_client: Option<Arc<dyn ResolvesClientCert>>,
    tracing: Option<TracingConfig>,
}

impl Named {
    fn load(config: &Config, egress: &Egress) -> Result<Self, StartError> {
        let authentication = authentication::Named::load(&config.authentication, egress)?;
        let issuers = NamedIssuers::load(&config.authentication)?;
        let kept = config.serving.cert_dir.as_deref().map(serving_pair);
        let kept = kept.filter(|files| files.certificate.exists() && files.key.exists());
        let tls = match config.serving.tls_files.clone().or(kept) {
            None => None,
            Some(files) => {
                // Whether they belong together must be known before anything is written.
                let named = config.serving.named.clone();
                Tls::new(&config.serving.tls, DefaultCertificate::Files(files.clone()), named, Vec::new())?;
                let text = read_text(&files.certificate)?;
                Some((DefaultCertificate::Files(files), text))
            }
        };
        let authorization = Prepared::load(&config.authorization)?;
        let way =
            Way { bytes_per_second: config.misc.connection_bytes_per_second, dialer: egress.dialer(Network::Cluster) };
        let kubelets = Kubelets::new(&config.misc.kubelet)?.by(way);
        let proxy_client = match &config.misc.proxy_client {
            Some((certificate, key)) => Some(ClientIdentity::load(certificate, key).map_err(StartError::ProxyClient)?),
            None => None,
        };
        let proxy_client = proxy_client.map(|identity| Arc::new(identity) as Arc<dyn ResolvesClientCert>);
        let tracing = config.features.tracing_config.as_deref().map(TracingConfig::load).transpose()?;
        Ok(Self { authentication, issuers, tls, authorization, kubelets, proxy_client, tracing })
    }
}

/// The directory for everything that stays, if anything does.
fn open_data(config: &Config) -> Result<Option<DataDir>, StartError> {
    let path = match &config.storage.data_dir {
        Some(path) => path.clone(),
        None if config.storage.ephemeral => return Ok(None),
        None => default_path().ok_or(StartError::NoPlace)?,
    };
    Ok(Some(DataDir::open(&path)?))
}

/// Who decides which requests are traced; where their spans go is one more task.
fn start_tracing(
    config: &TracingConfig,
    control_plane: &ControlPlane,
    followers: &mut JoinSet<()>,
    shutdown: &Shutdown,
) -> Result<Arc<Tracer>, StartError> {
    let resource =
        vec![("service.name", "apiserver".to_owned()), ("service.instance.id", control_plane.server_name().to_owned())];
    let (exporter, task) = Exporter::new(&config.endpoint, resource, shutdown.clone())?;
    followers.spawn(task);
    Ok(Arc::new(Tracer::new(exporter, config.per_million)))
}

/// `/debug/flags/v`.
fn log_level_flag(levels: Arc<Levels>) -> DebugFlag {
    DebugFlag::new("v", move |text| {
        let Verbosity(verbosity) = text.parse()?;
        levels.set(verbosity);
        Ok(format!("successfully set klog.logging.verbosity to {text}"))
    })
}

/// The limits where fairness does not share them out.
fn limits(config: &Config) -> Option<InFlightLimits> {
    let generic = &config.generic;
    (!generic.priority_and_fairness)
        .then_some(InFlightLimits { read_only: generic.max_requests, mutating: generic.max_mutating_requests })
}

/// The family `version_info`: what is served, and what it is compatible with.
fn tell_version(config: &Config, registry: &Registry) -> Result<(), prometheus::Error> {
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

/// How documents name this server.
fn external_address(config: &Config, address: SocketAddr) -> String {
    let generic = &config.generic;
    match (&generic.external_hostname, generic.advertise_address) {
        (Some(name), _) if name.contains(':') => name.clone(),
        (Some(name), _) => format!("{name}:{}", address.port()),
        (None, Some(ip)) => SocketAddr::new(ip, address.port()).to_string(),
        (None, None) => reachable(address).to_string(),
    }
}

/// The address under which clients on this machine reach the server.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}
