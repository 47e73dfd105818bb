//! Assembly of a logical cluster: the same phases as those of the host, with the host's port, certificate and stores.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binnacle_audit::Auditor;
use binnacle_client::FixedIdentity;
use binnacle_controlplane::{EndpointReconciler, identity_lease_name};
use binnacle_egress::Egress;
use binnacle_kubelet::{ClientCertificate, ConfigError};
use binnacle_pki::{ClusterKeys, system_clock};
use binnacle_request::BoxError;
use binnacle_server::{Canary, Metrics};
use binnacle_transport::Certificates;

use super::address::external_address;
use super::apis::Apis;
use super::background::{Background, Tenant};
use super::cluster::complete;
use super::config_files::ConfigFiles;
use super::inputs::{Base, Inputs, load_plugin_options, register_metrics};
use super::security::{ClusterIdentity, Security};
use super::{StartFailure, build, not_registered};
use crate::authentication::Bundle;
use crate::cluster::Cluster;
use crate::cluster_storage::ClusterStorage;
use crate::logical_clusters::{ClusterHost, HostAccess, HostUsers};
use crate::settings::{Authentication, Authorization, Debugging, ServiceAccounts, Settings};

/// The annotation of audit events with the name of the cluster.
const AUDIT_ANNOTATION: &str = "binnacle.dev/logical-cluster";

/// The parts of the host that its logical clusters use.
pub(super) struct SharedHost {
    settings: Settings,
    storage: ClusterStorage,
    canary: Arc<Canary>,
    egress: Egress,
    users: HostUsers,
    auditor: Option<Arc<Auditor>>,
    serving: Arc<Certificates>,
    address: SocketAddr,
    /// The URL of the host for clients.
    url: String,
    /// The file with the authorities of the host's serving certificate.
    authorities: PathBuf,
}

impl SharedHost {
    pub(super) fn of(host: &Background, serving: &Arc<Certificates>, authorities: PathBuf) -> Self {
        let (base, authentication) = (&host.base, &host.authentication);
        let users = HostUsers {
            authenticator: authentication.authenticator.clone(),
            audiences: authentication.audiences.clone().into(),
            authorizer: host.access.authorizer.clone(),
        };
        Self {
            settings: settings_of_clusters(&base.config),
            storage: host.storage.clone(),
            canary: host.canary.clone(),
            egress: base.egress.clone(),
            users,
            auditor: host.auditor.clone(),
            serving: serving.clone(),
            address: base.address,
            url: format!("https://{}", external_address(&base.config, base.address)),
            authorities,
        }
    }

    fn assemble(&self, name: &str, uid: &str, keys: &ClusterKeys) -> Result<Cluster, StartFailure> {
        let url = self.url_of(name);
        let mut config = self.settings.clone();
        config.authentication.service_accounts.issuers = vec![url.clone()];
        config.authentication.service_accounts.jwks_uri = Some(format!("{url}/openid/v1/jwks"));
        config.authentication.api_audiences = vec![url.clone()];
        config.misc.kubelet.identity = Some(kubelet_client(keys)?);
        let features = Arc::new(config.features());
        let version = build(config.generic.reported_version.as_deref());
        let metrics = Metrics::of(&version, &features.gates).map_err(not_registered)?;
        let files = ConfigFiles::load(&config, &self.egress)?;
        let plugins = load_plugin_options(&config, &features)?;
        register_metrics(&config, metrics.registry()).map_err(not_registered)?;
        let server_name = identity_lease_name(config.misc.hostname.as_deref());
        let (egress, address) = (self.egress.clone(), self.address);
        let base = Base { config, features, metrics, egress, server_name, address, url };
        let (canary, storage) = (self.canary.clone(), self.storage_of(uid));
        let inputs = Inputs { base, canary, storage, files, external: None, plugins };
        let identity = ClusterIdentity {
            clients: Bundle::new("the cluster's own authority", keys.authority.certificate.as_bytes())?,
            service_account: keys.service_account.clone(),
            serving: self.serving.clone(),
            authorities: self.authorities.clone(),
        };
        let apis = Apis::build(Security::prepare(inputs, identity)?)?;
        let mut background = Background::start(apis, None)?;
        // Only for requests: reviews of tokens in the cluster do not know the host's.
        let authenticator = &mut background.authentication.authenticator;
        let access = HostAccess { own: authenticator.clone(), host: self.users.clone(), cluster: name.into() };
        *authenticator = Arc::new(access);
        background.tenant = Some(Tenant {
            auditor: self.auditor.clone(),
            audit_annotation: (AUDIT_ANNOTATION.into(), name.into()),
            charged_to: format!("logical cluster {name}").into(),
        });
        Ok(complete(background))
    }
}

impl ClusterHost for SharedHost {
    fn start(&self, name: &str, uid: &str, keys: &ClusterKeys) -> Result<Cluster, BoxError> {
        Ok(self.assemble(name, uid, keys)?)
    }

    fn url_of(&self, name: &str) -> String {
        format!("{}/clusters/{name}", self.url)
    }

    fn storage_of(&self, uid: &str) -> ClusterStorage {
        self.storage.of_logical_cluster(uid)
    }

    fn authorities(&self) -> &Path {
        &self.authorities
    }

    fn max_awake(&self) -> usize {
        self.settings.misc.max_awake_clusters
    }
}

/// Returns the client certificate for kubelets of a cluster, which trust the cluster's authority.
fn kubelet_client(keys: &ClusterKeys) -> Result<ClientCertificate, StartFailure> {
    let pair = keys.kubelet_client(system_clock()())?;
    let identity = FixedIdentity::from_pem(&pair.certificate, &pair.key).map_err(ConfigError::from)?;
    Ok(ClientCertificate::Fixed(Arc::new(identity)))
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
    config.generic.advertise_address = None;
    config.misc.serves_logs = false;
    config.misc.kubelet = binnacle_kubelet::Config::default();
    config.misc.proxy_client = None;
    config.misc.peer_ca = None;
    config.misc.peer_advertised = None;
    config.misc.logical_clusters = false;
    // The service `kubernetes` has no address at which the host would serve this cluster.
    config.misc.endpoint_reconciler = EndpointReconciler::None;
    config.host.flags = Vec::new();
    config.host.debug_flags = Vec::new();
    config.host.heap_profile = None;
    config.host.configz = None;
    config
}
