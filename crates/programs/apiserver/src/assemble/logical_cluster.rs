//! Assembly of a logical cluster: the same phases as those of the host, with the host's port, certificate and stores.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use binnacle_api_controllers::Selection;
use binnacle_audit::Auditor;
use binnacle_builtin::BuiltInTypes;
use binnacle_client::IssuedIdentity;
use binnacle_controlplane::{Bootstrap, EndpointReconciler, identity_lease_name};
use binnacle_egress::Egress;
use binnacle_features::Features;
use binnacle_kubelet::ClientCertificate;
use binnacle_pki::{ClusterKeys, system_clock};
use binnacle_request::{BoxError, Shutdown};
use binnacle_server::{Canary, Metrics};
use binnacle_transport::Certificates;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::address::external_address;
use super::apis::Apis;
use super::background::Background;
use super::cluster::complete;
use super::config_files::ConfigFiles;
use super::inputs::{Base, Inputs, load_plugin_options, register_metrics};
use super::security::{ClusterIdentity, Security};
use super::tenant::Tenant;
use super::{StartFailure, build, not_registered};
use crate::authority_bundle::Bundle;
use crate::cluster::Cluster;
use crate::cluster_storage::ClusterStorage;
use crate::logical_clusters::{ClusterHost, ClusterInfo, Domain, HostAccess, HostUsers, StartOptions};
use crate::look_back::{LeaseHistory, LookBack, MAX_VIEWS, Times};
use crate::settings::{Authentication, Authorization, Debugging, ServiceAccounts, Settings};
use crate::stores::Stores;

/// The annotation of audit events with the name of the cluster.
const AUDIT_ANNOTATION: &str = "binnacle.dev/logical-cluster";

/// The parts of the host that its logical clusters use.
pub(super) struct SharedHost {
    settings: Settings,
    features: Arc<Features>,
    types: Arc<BuiltInTypes>,
    storage: ClusterStorage,
    canary: Arc<Canary>,
    egress: Egress,
    users: HostUsers,
    auditor: Option<Arc<Auditor>>,
    serving: Arc<Certificates>,
    /// The places for views of earlier revisions.
    view_places: Arc<Semaphore>,
    /// The revisions of the host's store at earlier times.
    times: Arc<Times>,
    /// This host, for what it assembles later.
    itself: Weak<Self>,
    address: SocketAddr,
    /// The address of the host for clients, with the port.
    external: String,
    domain: Option<Domain>,
    /// The file with the authorities of the host's serving certificate.
    authorities: PathBuf,
}

impl SharedHost {
    pub(super) fn of(host: &Background, serving: &Arc<Certificates>, authorities: PathBuf) -> Arc<Self> {
        let (base, authentication) = (&host.base, &host.authentication);
        let users = HostUsers {
            authenticator: authentication.authenticator.clone(),
            audiences: authentication.audiences.clone().into(),
            authorizer: host.access.authorizer.clone(),
        };
        Arc::new_cyclic(|itself| Self {
            view_places: Arc::new(Semaphore::new(MAX_VIEWS)),
            times: Arc::new(Times::new(LeaseHistory::of(&host.storage))),
            itself: itself.clone(),
            settings: settings_of_clusters(&base.config),
            features: base.features.clone(),
            types: base.types.clone(),
            storage: host.storage.clone(),
            canary: host.canary.clone(),
            egress: base.egress.clone(),
            users,
            auditor: host.auditor.clone(),
            serving: serving.clone(),
            address: base.address,
            external: external_address(&base.config, base.address),
            domain: base.config.misc.cluster_domain.as_deref().map(Domain::new),
            authorities,
        })
    }

    /// Lets a cluster serve its earlier revisions, if the host keeps any.
    pub(super) fn add_look_back(&self, cluster: &mut Background) {
        if self.settings.storage.history_retention.is_none() || !cluster.storage.has_one_store() {
            return;
        }
        // Only while the host itself is dropped.
        let Some(host) = self.itself.upgrade() else { return };
        let start = move |storage| host.assemble_past(storage).map_err(BoxError::from);
        let (storage, authorizer) = (cluster.storage.clone(), cluster.access.authorizer.clone());
        cluster.look_back =
            Some(LookBack::new(storage, authorizer, Arc::new(start), (self.view_places.clone(), self.times.clone())));
    }

    /// Starts to note the revisions of the host's store, if the host keeps history.
    pub(super) fn note_times(&self, tasks: &mut JoinSet<()>, shutdown: &Shutdown) {
        let Some(retention) = self.settings.storage.history_retention else { return };
        let (times, store, stopped) = (self.times.clone(), self.storage.main_view(), shutdown.fired());
        tasks.spawn(async move {
            tokio::select! {
                () = times.sample(&*store, retention) => {}
                () = stopped => {}
            }
        });
    }

    /// Assembles a read-only cluster in a storage that ends at a revision. Its requests have passed the filters of
    /// another one, so that it needs no users.
    fn assemble_past(&self, storage: ClusterStorage) -> Result<Cluster, StartFailure> {
        let keys = ClusterKeys::generate(system_clock()())?;
        let mut config = self.settings.clone();
        config.storage.read_only = true;
        config.storage.history_retention = None;
        config.misc.controllers = Selection::default();
        config.misc.endpoint_reconciler = EndpointReconciler::None;
        config.authentication.service_accounts.issuers = vec![format!("https://{}", self.external)];
        let (url, path) = (format!("https://{}", self.external), String::new());
        let inputs = self.inputs(config, storage, (url, self.address.port()))?;
        let apis = Apis::build(Security::prepare(inputs, self.identity(&keys, path)?)?, None)?;
        Ok(complete(Background::start(apis, None)?))
    }

    /// Returns the inputs of a cluster with its URL and the port that it advertises.
    fn inputs(
        &self,
        config: Settings,
        storage: ClusterStorage,
        (url, advertised_port): (String, u16),
    ) -> Result<Inputs, StartFailure> {
        let features = self.features_of(&config);
        let version = build(config.generic.reported_version.as_deref());
        let metrics = Metrics::of(&version, &features).map_err(not_registered)?;
        let files = ConfigFiles::load(&config, &self.egress)?;
        let plugins = load_plugin_options(&config, &features)?;
        register_metrics(&config, metrics.registry()).map_err(not_registered)?;
        let server_name = identity_lease_name(config.misc.hostname.as_deref());
        let (egress, address) = (self.egress.clone(), self.address);
        let types = self.types.clone();
        let base = Base { config, features, types, metrics, egress, server_name, address, advertised_port, url };
        Ok(Inputs { base, canary: self.canary.clone(), storage, files, external: None, plugins })
    }

    fn features_of(&self, config: &Settings) -> Arc<Features> {
        match config.storage.read_only == self.features.read_only {
            true => self.features.clone(),
            false => Arc::new(config.features()),
        }
    }

    fn identity(&self, keys: &ClusterKeys, path: String) -> Result<ClusterIdentity, StartFailure> {
        Ok(ClusterIdentity {
            clients: Bundle::new("the cluster's own authority", keys.authority.certificate.as_bytes())?,
            service_account: keys.service_account.clone(),
            serving: self.serving.clone(),
            path,
            authorities: self.authorities.clone(),
        })
    }

    fn assemble(
        &self,
        info: &Arc<ClusterInfo>,
        storage: ClusterStorage,
        options: StartOptions,
        bootstrap: Bootstrap,
    ) -> Result<Cluster, StartFailure> {
        let StartOptions { port, controllers } = options;
        let ClusterInfo { name, keys, limits, .. } = &**info;
        // The issuer of tokens stays the same when the cluster gets other names.
        let url = self.path_url(name);
        let mut config = self.settings.clone();
        if let Some(controllers) = controllers {
            config.misc.controllers = controllers;
        }
        if port.is_none() {
            // The service `kubernetes` has no address at which the host would serve this cluster.
            config.misc.endpoint_reconciler = EndpointReconciler::None;
        }
        config.authentication.service_accounts.issuers = vec![url.clone()];
        config.authentication.service_accounts.jwks_uri = Some(format!("{url}/openid/v1/jwks"));
        config.authentication.api_audiences = vec![url.clone()];
        config.misc.bootstrap = bootstrap;
        config.misc.kubelet.identity = Some(kubelet_client(info));
        let storage = storage.limited(limits.storage.subscribe()).count_waits(limits.waits.clone());
        let inputs = self.inputs(config, storage, (url, port.unwrap_or(self.address.port())))?;
        let tenant = Tenant {
            auditor: self.auditor.clone(),
            audit_annotation: (AUDIT_ANNOTATION.into(), name.clone()),
            charged_to: format!("logical cluster {name}").into(),
            quota: limits.requests.clone(),
        };
        let security = Security::prepare(inputs, self.identity(keys, format!("/clusters/{name}"))?)?;
        let apis = Apis::build(security, Some(tenant))?;
        let mut background = Background::start(apis, None)?;
        self.add_look_back(&mut background);
        // Only for requests: reviews of tokens in the cluster do not know the host's.
        let authenticator = &mut background.authentication.authenticator;
        let access = HostAccess { own: authenticator.clone(), host: self.users.clone(), cluster: name.clone() };
        *authenticator = Arc::new(access);
        Ok(complete(background))
    }

    /// Returns the URL of a cluster below the URL of the host.
    fn path_url(&self, name: &str) -> String {
        format!("https://{}/clusters/{name}", self.external)
    }
}

impl ClusterHost for SharedHost {
    fn start(
        &self,
        info: &Arc<ClusterInfo>,
        storage: ClusterStorage,
        options: StartOptions,
        bootstrap: Bootstrap,
    ) -> Result<Cluster, BoxError> {
        Ok(self.assemble(info, storage, options, bootstrap)?)
    }

    fn urls_of(&self, name: &str, port: Option<u16>) -> Vec<String> {
        let (host, own_port) = self.external.rsplit_once(':').unwrap_or((&self.external, "443"));
        let named = self.domain.as_ref().map(|domain| format!("https://{}:{own_port}", domain.host_of(name)));
        let at_port = port.map(|port| format!("https://{host}:{port}"));
        named.into_iter().chain([self.path_url(name)]).chain(at_port).collect()
    }

    fn domain(&self) -> Option<&Domain> {
        self.domain.as_ref()
    }

    fn storage_of(&self, uid: &str) -> ClusterStorage {
        self.storage.of_logical_cluster(uid)
    }

    fn memory_storage_of(&self, uid: &str) -> Result<ClusterStorage, BoxError> {
        Ok(ClusterStorage::of_host(Stores::in_memory()?, None, false).of_logical_cluster(uid))
    }

    fn authorities(&self) -> &Path {
        &self.authorities
    }

    fn max_awake(&self) -> usize {
        self.settings.misc.max_awake_clusters
    }
}

/// Returns the client certificate for kubelets of a cluster, which trust the cluster's authority.
fn kubelet_client(info: &Arc<ClusterInfo>) -> ClientCertificate {
    let info = info.clone();
    let issue = move || info.keys.kubelet_client(system_clock()()).map(|pair| (pair.certificate, pair.key));
    ClientCertificate::Issued(Arc::new(IssuedIdentity::new(issue)))
}

/// Returns the settings of logical clusters: those of the host without what belongs to the host alone. Users of the host
/// are unknown in its clusters, its credentials for other servers are not used for them, and nothing in them shows or
/// changes the process.
fn settings_of_clusters(host: &Settings) -> Settings {
    let mut config = host.clone();
    let (own, tokens) = (&host.authentication, &host.authentication.service_accounts);
    config.authentication = Authentication {
        anonymous: own.anonymous,
        bootstrap_tokens: own.bootstrap_tokens,
        service_accounts: ServiceAccounts {
            lookup: tokens.lookup,
            extends: tokens.extends,
            max_expiration: tokens.max_expiration,
            ..ServiceAccounts::default()
        },
        ..Authentication::default()
    };
    config.authorization = Authorization::default();
    // The host has the listener and its certificates.
    config.serving.tls_files = None;
    config.serving.cert_dir = None;
    config.serving.named = Vec::new();
    config.auditing = binnacle_audit::AuditOptions::default();
    config.debugging = Debugging { profiling: false, ..Debugging::default() };
    config.misc.serves_logs = false;
    config.misc.kubelet = binnacle_kubelet::Config::default();
    config.misc.proxy_client = None;
    config.misc.peer_ca = None;
    config.misc.peer_advertised = None;
    config.misc.has_peers = false;
    config.misc.logical_clusters = false;
    config.host.flags = Vec::new();
    config.host.debug_flags = Vec::new();
    config.host.heap_profile = None;
    config.host.configz = None;
    config
}
