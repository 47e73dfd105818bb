//! The whole server, put together from top to bottom.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use binnacle_admission::{
    AdmissionConfigError, Chain as AdmissionChain, Metrics as AdmissionMetrics, Options as AdmissionOptions,
    ResourceLookup,
};
use binnacle_audit::Auditor;
use binnacle_authn::{Authenticator, AuthoritiesError};
use binnacle_authz::Authorizer;
use binnacle_controlplane::{
    ControlPlane, DeviceClaims, LocalApi, PortRange, RequestHeader, RequesterOfCertificates, RolesFeed,
    SignersOfPodCertificates, default_advertise_address, escalation_hooks, service_hooks,
};
use binnacle_discovery::{Addresses, Served};
use binnacle_encryption::ConfigError;
use binnacle_endpoints::{Api, failure_response, read_object};
use binnacle_kubelet::Kubelets;
use binnacle_openapi::OpenApiLink;
use binnacle_registry::hooks::Hooks;
use binnacle_registry::{BuiltIn, ROOT, Resource, ResourceSet, StorageOptions};
use binnacle_request::{Link, Shutdown, ShutdownTrigger};
use binnacle_resources::Release;
use binnacle_server::{
    BoundPort, CertificateFiles, Chain, ChainConfig, ChainOptions, DefaultCertificate, FlowDumpLink, Health,
    HealthMetrics, HealthMetricsLink, InFlightLimits, KUBERNETES_VERSION, Links, ListenError, LogCheck, Metrics,
    MetricsLink, PingCheck, Server, ShutdownCheck, Stopping, Tls, TlsError, VersionLink,
};
use binnacle_specials::{Outward, Server as Specials, TokenIssuer};
use binnacle_store::StoreError;
use binnacle_store_embedded::OpenError;
use binnacle_store_etcd::ConnectError;
use binnacle_validation::ip::Cidr;
use tokio::task::JoinSet;

use crate::admin_socket::AdminSocket;
use crate::authentication::{self, AuthenticationError, Bundle};
use crate::authorities;
use crate::authorization::{AuthorizationError, Prepared, UnsafeDeletion};
use crate::data_dir::{DataDir, DataDirError, default_path, write_private};
use crate::encryption::AtRest;
use crate::flags::Config;
use crate::health::{RolesCheck, StepCheck};
use crate::issuers::{IssuersError, NamedIssuers};
use crate::kubeconfig::kubeconfig;
use crate::openid::{OpenIdLink, keys_url};
use crate::pki::{Names, Pki, PkiError};
use crate::stores::Stores;
use crate::upkeep::Upkeep;

/// How long a start keeps silent when something that every cluster has cannot be made.
const START_PATIENCE: Duration = Duration::from_secs(10);
/// How many bytes of wire forms are kept beside the stored objects.
const FORM_BUDGET: usize = 256 << 20;

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
    /// What goes on beside the requests.
    upkeep: Upkeep,
    auditor: Option<Arc<Auditor>>,
    data: Option<DataDir>,
    ephemeral: bool,
    url: String,
    /// What of the kubectl command depends on how it was started.
    kubectl: String,
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
    #[error("failed to apply admission: {0}")]
    Admission(#[from] AdmissionConfigError),
    #[error("admission plugin {0} is not built yet")]
    Plugin(&'static str),
    #[error("cannot register metrics: {0}")]
    Metrics(String),
}

pub(crate) fn not_registered(error: impl std::fmt::Display) -> StartError {
    StartError::Metrics(error.to_string())
}

/// Puts the server together. What can fail without a trace comes first: files that were named, then the port, then the
/// data directory, which is removed again if it was not there before and a later step fails.
pub(crate) async fn assemble(config: Config) -> Result<Assembled, StartError> {
    for (flag, why) in &config.inert {
        tracing::warn!("--{flag} has no effect: {why}");
    }
    let named = Named::load(&config)?;
    let missing = config.admission.beyond_default().find(|name| !binnacle_admission::is_built(name));
    if let Some(name) = missing {
        return Err(StartError::Plugin(name));
    }
    let mut plugins = config.admission.options.clone();
    let asked = |plugin: &str| config.admission.enables(plugin);
    binnacle_admission::configure(config.admission.config_file.as_deref(), &asked, &mut plugins)?;
    let port = BoundPort::bind(config.serving.address(), config.serving.sharing).await?;
    let url = format!("https://{}", reachable(port.address()));
    let metrics = Metrics::new().map_err(not_registered)?;
    let root = config.storage.etcd.as_ref().map_or(ROOT, |etcd| &etcd.root);
    let at_rest = AtRest::open(&config.storage, root, metrics.registry()).await?;
    let mut data = open_data(&config)?;
    let stores = Stores::open(&config.storage, &mut data, metrics.registry())?;
    stores.refuse_unfinished().await?;
    let admin_socket = stores.offer();
    let Named { mut authentication, issuers, tls, authorization, kubelets } = named;
    let named_clients = authentication.clients.take();
    let Shown { tls, clients, kubectl, place, service_account } =
        Shown::prepare(tls, named_clients, &config, data.as_ref(), &url)?;

    // Who is calling, and may they.
    let proxies = authentication.proxies.clone();
    let mut asked_for = clients.authorities.names();
    asked_for.extend(proxies.iter().flat_map(|proxies| proxies.authorities.names()));
    let serving = &config.serving;
    let tls = Tls::new(&serving.tls, tls, serving.named.clone(), asked_for)?;
    let resources = ResourceSet::new();
    let flags = &config.authentication;
    let keys = authentication.service_account_keys(&service_account)?;
    let issuers = issuers.make(flags, metrics.registry())?;
    let authentication = authentication::build(flags, authentication, &issuers, &clients, &keys, &resources, &metrics)?;
    let authorization = authorization.make(&resources, metrics.registry())?;

    // What is served.
    let (trigger, shutdown) = ShutdownTrigger::new();
    let (terminating_trigger, terminating) = ShutdownTrigger::new();
    let (draining_trigger, draining) = ShutdownTrigger::new();
    let auditor = config.auditing.build(metrics.registry(), read_object)?.map(Arc::new);
    let outward = Outward::new(kubelets, metrics.registry()).map_err(not_registered)?;
    let access = Access {
        authenticator: authentication.authenticator.clone(),
        authorizer: authorization.authorizer.clone(),
        roles: authorization.roles.clone(),
        token_issuer: keys.issuer(flags),
        client_ca: clients.pem.clone(),
        request_header: authentication::request_header(flags, proxies.as_ref()),
        admission: plugins,
        admission_metrics: AdmissionMetrics::register(metrics.registry()).map_err(not_registered)?,
    };
    let storage = match &at_rest {
        Some(at_rest) => at_rest.wrap(stores.options(&config.storage)),
        None => stores.options(&config.storage),
    };
    let (api, control_plane, served) =
        built_in(storage, resources.clone(), &access, port.address(), &config, outward, &shutdown);
    let mut followers = JoinSet::new();
    if let Some(path) = flags.client_ca_file.clone() {
        authorities::follow(&mut followers, &shutdown, (path, &clients), &resources, authorities::of_clients);
    }
    if let (Some(flags), Some(proxies), Some(header)) = (&flags.request_header, &proxies, &access.request_header) {
        let (file, told) = ((flags.client_ca_file.clone(), proxies), authorities::of_proxies(header.clone()));
        authorities::follow(&mut followers, &shutdown, file, &resources, told);
    }
    followers.spawn(issuers.issuers.follow(issuers.file, shutdown.clone()));
    authorization.follow(&resources, &mut followers, &shutdown);
    let fairness = crate::fairness::start(&config.generic, &resources, &metrics, &mut followers, &shutdown)?;
    let upkeep = Upkeep::start(&stores, &served, &config.storage, metrics.registry()).map_err(not_registered)?;
    let health_metrics = HealthMetrics::new().map_err(not_registered)?;
    let health = Health::new(health_metrics.clone());
    let health = health.everywhere(Arc::new(PingCheck)).everywhere(Arc::new(LogCheck::default()));
    let mut health = stores.add_checks(health, &config.storage);
    if let Some(at_rest) = &at_rest {
        health = at_rest.add_checks(health);
    }
    let health = health.ready(Arc::new(RolesCheck(access.roles.index().clone())));
    let started = |health: Health, step| health.everywhere(Arc::new(StepCheck::new(step)));
    let health = control_plane.steps().iter().fold(health, started).ready(Arc::new(ShutdownCheck(terminating)));
    let mut links: Vec<Arc<dyn Link>> = vec![
        Arc::new(health),
        Arc::new(VersionLink::new(failure_response)),
        Arc::new(MetricsLink(metrics.clone())),
        Arc::new(HealthMetricsLink(health_metrics)),
        Arc::new(OpenApiLink::new(served_apis(&config))),
        Arc::new(api),
    ];
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
        links: Links::new(links),
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
            draining: Some(draining),
        },
    });

    let mut listener = port.with_tls(tls);
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
        upkeep,
        auditor,
        data: data.or(place),
        ephemeral: config.storage.ephemeral,
        url,
        kubectl,
    })
}

impl Assembled {
    /// The three lines of a start.
    fn greeting(&self) -> String {
        let place = match &self.data {
            _ if self.stores.are_elsewhere() => self.stores.place(),
            Some(data) if !self.ephemeral => data.path().display().to_string(),
            _ => "memory only, gone at the end".to_owned(),
        };
        format!(
            "Kubernetes {KUBERNETES_VERSION} API at {}\nData: {place}\nTry: {} get namespaces\n",
            self.url, self.kubectl
        )
    }

    /// Serves until told to stop. `say` prints the greeting once what every cluster has is there: who reads it can rely
    /// on `/readyz`, and on the rights that everybody has.
    pub(crate) async fn run(self, say: impl FnOnce(&str), stop: impl Future<Output = ()>) {
        let greeting = self.greeting();
        {
            let served = self.server.run(stop);
            tokio::pin!(served);
            let ready = tokio::time::timeout(START_PATIENCE, self.control_plane.done());
            tokio::select! {
                () = &mut served => {}
                _ = ready => {
                    say(&greeting);
                    served.await;
                }
            }
        }
        drop((self.upkeep, self.at_rest));
        if let Some(auditor) = self.auditor {
            auditor.shutdown().await;
        }
        self.control_plane.ended().await;
        self.followers.join_all().await;
        drop(self.admin_socket);
        self.stores.close().await;
    }
}

/// Who is calling, what they may do, and what that is decided by.
struct Access {
    authenticator: Arc<dyn Authenticator>,
    authorizer: Arc<dyn Authorizer>,
    roles: Arc<RolesFeed>,
    token_issuer: TokenIssuer,
    /// The PEM text of the authorities whose client certificates count.
    client_ca: String,
    request_header: Option<RequestHeader>,
    admission: AdmissionOptions,
    admission_metrics: AdmissionMetrics,
}

/// The built-in resources in the versions that are served by default, with their admission, and the loops that keep
/// the cluster's own objects.
fn built_in(
    storage: StorageOptions,
    set: ResourceSet,
    access: &Access,
    address: SocketAddr,
    config: &Config,
    outward: Outward,
    shutdown: &Shutdown,
) -> (Api, ControlPlane, Vec<Arc<Resource>>) {
    let served = served_apis(config);
    let own = binnacle_controlplane::Config {
        client_ca: Some(access.client_ca.clone()),
        request_header: access.request_header.clone(),
        ..control_plane_config(config, address, &served)
    };
    let lookup = Arc::new(ResourceLookup::new(set.clone()));
    let mut plugins = binnacle_admission::all(lookup, &access.authorizer, &access.admission, &access.admission_metrics);
    plugins.retain(|plugin| config.admission.enables(plugin.name()));
    let chain = AdmissionChain::new(plugins, &access.admission_metrics)
        .expect("the plugins that are built have a place in the order");
    let specials = Specials {
        store: storage.store.clone(),
        resources: set.clone(),
        admission: Arc::new(chain),
        authenticator: access.authenticator.clone(),
        authorizer: access.authorizer.clone(),
        api_audiences: authentication::audiences(&config.authentication),
        token_issuer: access.token_issuer.clone(),
        outward,
    };
    let built_in = BuiltIn {
        storage,
        admission: specials.admission.clone(),
        hooks: hooks(&set, &own, access),
        form_budget: FORM_BUDGET,
    };
    let resources = built_in.open(|description| served.has(description));
    set.bind(&resources);
    let control_plane = binnacle_controlplane::start(set, own, shutdown.clone());
    let addresses = Addresses { default: external_address(config, address), ..Addresses::default() };
    let api = Api::new(resources.clone(), binnacle_specials::all(&specials), served, addresses)
        .min_request_timeout(config.generic.min_request_timeout)
        .unsafe_deletes(Arc::new(UnsafeDeletion(access.authorizer.clone())));
    (api, control_plane, resources)
}

/// What is served: what the release has, the flags let through and the emulated version knows.
fn served_apis(config: &Config) -> Served {
    let emulated = config.generic.emulated();
    let release = Release { major: emulated.major, minor: emulated.minor };
    Served::built_in(|version, resource| {
        config.api_enablement.enabled.serves(version, resource)
            && resource.lifecycle.exists_in(release)
            && resource.feature_gate.is_none_or(|gate| config.generic.gates.enabled(gate))
    })
}

/// What resources do beside the store, by group and kind.
fn hooks(
    resources: &ResourceSet,
    config: &binnacle_controlplane::Config,
    access: &Access,
) -> HashMap<(&'static str, &'static str), Arc<dyn Hooks>> {
    let certificates: Arc<dyn Hooks> = Arc::new(RequesterOfCertificates);
    let services: Arc<dyn Hooks> = service_hooks(resources.clone(), config);
    let mut hooks = HashMap::from(escalation_hooks(&access.roles, &access.authorizer));
    hooks.insert(("certificates.k8s.io", "CertificateSigningRequest"), certificates);
    let signers = SignersOfPodCertificates::new(&access.authorizer);
    hooks.insert(("certificates.k8s.io", "PodCertificateRequest"), Arc::new(signers));
    let claims = DeviceClaims::new(resources, &access.authorizer);
    hooks.insert(("resource.k8s.io", "ResourceClaim"), Arc::new(claims));
    let templates = DeviceClaims::templates(resources, &access.authorizer);
    hooks.insert(("resource.k8s.io", "ResourceClaimTemplate"), Arc::new(templates));
    hooks.insert(("", "Service"), services);
    hooks
}

fn control_plane_config(config: &Config, address: SocketAddr, served: &Served) -> binnacle_controlplane::Config {
    // Endpoints cannot be loopback addresses: a server that only listens there advertises the machine's own.
    let listening = Some(address.ip()).filter(|ip| !ip.is_unspecified() && !ip.is_loopback());
    let advertised = config
        .generic
        .advertise_address
        .or(listening)
        .or_else(default_advertise_address)
        .map(|ip| SocketAddr::new(ip, address.port()));
    let ranges = &config.misc.service_cluster_ip_ranges;
    let ports = &config.misc.service_node_port_range;
    binnacle_controlplane::Config {
        service_cidrs: ranges.iter().map(|r| Cidr { address: r.address, prefix: r.prefix }).collect(),
        node_ports: PortRange { first: ports.first, last: ports.last },
        advertised,
        endpoint_reconciler: config.misc.endpoint_reconciler,
        kubernetes_node_port: config.misc.kubernetes_service_node_port,
        storage_initialization: config.generic.storage_initialization,
        local_apis: local_apis(served),
        ..binnacle_controlplane::Config::default()
    }
}

/// The group versions for which APIServices are kept.
fn local_apis(served: &Served) -> Vec<LocalApi> {
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

/// What was read from the files that flags name, before anything has happened that could be left behind.
struct Named {
    authentication: authentication::Named,
    issuers: NamedIssuers,
    /// With the text of the certificate file.
    tls: Option<(DefaultCertificate, String)>,
    authorization: Prepared,
    kubelets: Kubelets,
}

impl Named {
    fn load(config: &Config) -> Result<Self, StartError> {
        let authentication = authentication::Named::load(&config.authentication)?;
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
        let kubelets = Kubelets::new(&config.misc.kubelet)?;
        Ok(Self { authentication, issuers, tls, authorization, kubelets })
    }
}

/// What the server shows of itself, and how clients reach it.
struct Shown {
    tls: DefaultCertificate,
    /// Whose client certificates are accepted.
    clients: Bundle,
    /// The command that begins every example.
    kubectl: String,
    /// The server's own key for service account tokens, as PEM.
    service_account: String,
    /// Where the file for kubectl is when there is no data directory; it goes away with the server.
    place: Option<DataDir>,
}

impl Shown {
    /// Takes what was named, makes the rest, and writes the file that kubectl needs.
    fn prepare(
        named_tls: Option<(DefaultCertificate, String)>,
        named_clients: Option<Bundle>,
        config: &Config,
        data: Option<&DataDir>,
        url: &str,
    ) -> Result<Self, StartError> {
        let mut names = Names::new(config.serving.bind_address, config.misc.service_cluster_ip_ranges[0].nth(1));
        names.add(config.generic.external_hostname.as_deref(), config.generic.advertise_address);
        let (pki, place) = match data {
            Some(data) => (Pki::open(&data.private("pki")?, &names)?, None),
            None => (Pki::generate(&names)?, Some(DataDir::temporary()?)),
        };
        let home = data.or(place.as_ref()).ok_or(StartError::NoPlace)?.path();
        let (tls, trusted) = match named_tls {
            Some((files, text)) => (files, text),
            None => {
                if let Some(directory) = &config.serving.cert_dir {
                    let files = serving_pair(directory);
                    std::fs::create_dir_all(directory)
                        .map_err(|error| StartError::Write { path: directory.display().to_string(), error })?;
                    write(&files.certificate, &pki.serving.certificate)?;
                    write(&files.key, &pki.serving.key)?;
                }
                (DefaultCertificate::Made(pki.serving_files()?), pki.authority.clone())
            }
        };
        let (clients, kubectl) = match named_clients {
            None => {
                let path = home.join("admin.kubeconfig");
                write(&path, &kubeconfig(url, &trusted, &pki.admin.certificate, &pki.admin.key))?;
                let own = Bundle::new("the server's own authority", pki.authority.as_bytes())?;
                (own, format!("kubectl --kubeconfig {}", path.display()))
            }
            // The named authority's administrators bring their own certificates.
            Some(clients) => {
                let path = home.join("server-ca.crt");
                write(&path, &trusted)?;
                (clients, format!("kubectl --server {url} --certificate-authority {}", path.display()))
            }
        };
        Ok(Self { tls, clients, kubectl, service_account: pki.service_account, place })
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

/// The limits where fairness does not share them out.
fn limits(config: &Config) -> Option<InFlightLimits> {
    let generic = &config.generic;
    (!generic.priority_and_fairness)
        .then_some(InFlightLimits { read_only: generic.max_requests, mutating: generic.max_mutating_requests })
}

/// Where `--cert-dir` has the serving certificate.
fn serving_pair(directory: &Path) -> CertificateFiles {
    CertificateFiles { certificate: directory.join("apiserver.crt"), key: directory.join("apiserver.key") }
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

fn read_text(path: &Path) -> Result<String, StartError> {
    std::fs::read_to_string(path)
        .map_err(|error| TlsError::Unreadable { path: path.display().to_string(), error }.into())
}

fn write(path: &Path, text: &str) -> Result<(), StartError> {
    write_private(path, text.as_bytes()).map_err(|error| StartError::Write { path: path.display().to_string(), error })
}
