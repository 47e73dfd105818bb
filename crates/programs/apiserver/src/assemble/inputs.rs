//! The first phase: all that can fail without leaving files behind. It reads the files in flags, binds the port,
//! and opens the stores.

use std::net::SocketAddr;
use std::sync::Arc;

use binnacle_admission::PluginOptions;
use binnacle_builtin::{BuiltInTypes, Releases};
use binnacle_controlplane::identity_lease_name;
use binnacle_egress::{DialMetrics, Egress};
use binnacle_features::Features;
use binnacle_metrics::{GaugeVec, Registry, families};
use binnacle_registry::ROOT;
use binnacle_server::{Canary, KUBERNETES_VERSION, Metrics};
use binnacle_transport::BoundPort;
use binnacle_work::RelayThreads;
use tokio::sync::Notify;

use super::address::reachable;
use super::config_files::ConfigFiles;
use super::validation_metrics::ValidationMetrics;
use super::{StartFailure, build, not_registered};
use crate::admin_socket::AdminSocket;
use crate::assembled_server::FrontRuntime;
use crate::cluster_storage::ClusterStorage;
use crate::data_dir::{DataDir, default_path};
use crate::encryption::AtRest;
use crate::settings::{Settings, SettingsError};
use crate::signing::ExternalKeys;
use crate::stand_in;
use crate::stores::Stores;

/// The data that every later phase reads.
pub(super) struct Base {
    pub(super) config: Settings,
    pub(super) features: Arc<Features>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) egress: Egress,
    /// The built-in resources, which all clusters of the process share.
    pub(super) types: Arc<BuiltInTypes>,
    /// The name of this server's identity lease.
    pub(super) server_name: String,
    pub(super) address: SocketAddr,
    /// The port of the endpoint of the service `kubernetes`.
    pub(super) advertised_port: u16,
    /// The URL at which clients on this machine reach the server.
    pub(super) url: String,
}

/// The resources that the process holds until the server has stopped, apart from the stores.
pub(super) struct Holdings {
    pub(super) front: FrontRuntime,
    pub(super) relays: Arc<RelayThreads>,
    pub(super) port: BoundPort,
    pub(super) data: Option<DataDir>,
    /// Notified when the disk of the store has failed.
    pub(super) disk_failed: Arc<Notify>,
    pub(super) admin_socket: Option<AdminSocket>,
}

/// The inputs of a cluster: of the host's own, or of a logical one.
pub(super) struct Inputs {
    pub(super) base: Base,
    pub(super) canary: Arc<Canary>,
    pub(super) storage: ClusterStorage,
    pub(super) files: ConfigFiles,
    pub(super) external: Option<ExternalKeys>,
    pub(super) plugins: PluginOptions,
}

impl Base {
    pub(super) fn registry(&self) -> &Registry {
        self.metrics.registry()
    }
}

impl Inputs {
    /// Files come first, then the port, then the data directory, which is removed again if it is new and a later step
    /// fails.
    pub(super) async fn load(mut config: Settings) -> Result<(Self, Holdings), StartFailure> {
        config.generic.gates.warnings().iter().for_each(|warning| tracing::warn!("{warning}"));
        stand_in::replace_stand_in(&mut config.storage).await?;
        let front = FrontRuntime::start().map_err(StartFailure::Runtime)?;
        let canary = front.watch_workers();
        let features = Arc::new(config.features());
        let types = Arc::new(built_in_types(&config)?);
        let version = build(config.generic.reported_version.as_deref());
        let metrics = Metrics::of(&version, &features).map_err(not_registered)?;
        let egress = load_egress(&config, metrics.registry())?;
        let files = ConfigFiles::load(&config, &egress)?;
        let external = ExternalKeys::connect(&config.authentication.service_accounts, metrics.registry()).await?;
        let plugins = load_plugin_options(&config, &features)?;
        let port = BoundPort::bind(config.serving.address(), config.serving.sharing).await?;
        let address = port.address();
        let url = format!("https://{}", reachable(address));
        register_metrics(&config, metrics.registry()).map_err(not_registered)?;
        let root = config.storage.etcd.as_ref().map_or(ROOT, |etcd| &etcd.root);
        let server_name = identity_lease_name(config.misc.hostname.as_deref());
        let at_rest = AtRest::open(&config.storage, root, &server_name, metrics.registry()).await?;
        let mut data = open_data(&config)?;
        let disk_failed = Arc::new(Notify::new());
        let registry = metrics.registry();
        let stores = Stores::open(&config.storage, &config.host, &disk_failed, &mut data, &egress, registry).await?;
        stores.check_unfinished_migration().await?;
        let admin_socket = stores.open_admin_socket();
        let advertised_port = address.port();
        let storage = ClusterStorage::of_host(stores, at_rest, config.misc.logical_clusters);
        let base = Base { config, features, types, metrics, egress, server_name, address, advertised_port, url };
        let holdings = Holdings { front, relays: RelayThreads::shared(), port, data, disk_failed, admin_socket };
        Ok((Self { base, canary, storage, files, external, plugins }, holdings))
    }
}

/// Returns the built-in resources to serve: those that the flags enable and the emulated version has.
fn built_in_types(config: &Settings) -> Result<BuiltInTypes, SettingsError> {
    let (served, releases) = (config.served()?, Releases::of(&config.generic.gates));
    let is_served = |version: &_, resource: &_| served.contains(version, resource);
    Ok(BuiltInTypes::new(binnacle_builtin::served(releases, is_served), releases))
}

/// Registers the metrics of crates that maintain their values themselves.
pub(super) fn register_metrics(config: &Settings, registry: &Registry) -> Result<(), prometheus::Error> {
    register_version(config, registry)?;
    binnacle_supervise::register(registry)?;
    binnacle_structural::register_metrics(registry)?;
    binnacle_registry::register_metrics(registry)?;
    binnacle_webhook::register_metrics(registry)?;
    ValidationMetrics::register(registry).map(drop)
}

families! {
    struct VersionFamilies {
        info: GaugeVec = "version_info" by ["binary", "component", "emulation", "min_compat"],
            "[ALPHA] Provides the compatibility version info of the component. The component label is the name of the \
             component, usually kube, but is relevant for aggregated-apiservers.";
    }
}

/// Sets the metric `version_info`: the server's version, and its emulated and minimum compatible versions.
fn register_version(config: &Settings, registry: &Registry) -> Result<(), prometheus::Error> {
    let own =
        KUBERNETES_VERSION.trim_start_matches('v').rsplit_once('.').map_or(KUBERNETES_VERSION, |(minor, _)| minor);
    let gates = &config.generic.gates;
    let [emulation, compatible] = [gates.emulated(), gates.compatible()].map(|version| version.to_string());
    let VersionFamilies { info } = VersionFamilies::register(registry)?;
    info.with_label_values(&[own, "kube", &emulation, &compatible]).set(1.0);
    Ok(())
}

/// Loads the egress selector for outgoing connections.
pub(super) fn load_egress(config: &Settings, registry: &Registry) -> Result<Egress, StartFailure> {
    match config.debugging.egress_config.as_deref() {
        Some(path) => Ok(Egress::load(path, &DialMetrics::register(registry).map_err(not_registered)?)?),
        None => Ok(Egress::default()),
    }
}

/// Loads the options of admission plugins from the settings and their configuration file.
pub(super) fn load_plugin_options(config: &Settings, features: &Arc<Features>) -> Result<PluginOptions, StartFailure> {
    let mut plugins = PluginOptions { features: features.clone(), ..config.admission.options.clone() };
    let is_enabled = |plugin: &str| config.admission.enables(plugin);
    binnacle_admission::configure(config.admission.config_file.as_deref(), &is_enabled, &mut plugins)?;
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
