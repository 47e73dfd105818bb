//! Logical clusters: whole Kubernetes APIs in the process and the stores of one server, the host. Each is an object of the
//! host (`logicalclusters`), and is served below `/clusters/NAME`, and on request at a host name or a port of its own. None
//! sees anything of the host or of another.
//!
//! The objects of a cluster are below a prefix with its UID in the host's stores. A cluster without requests is stopped
//! after some time; the next request starts it again.
//!
//! A cluster may begin as a [fork](forks) of another one.

mod backups;
mod cluster_admission;
mod cluster_info;
mod controller;
mod credentials;
mod definition;
mod domain;
mod finalizer;
mod forks;
mod host_access;
mod initial_objects;
mod limits;
mod metrics;
mod new_identity;
mod ports;
mod router;
mod slot;
mod starts;
mod status;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use binnacle_api_controllers::Selection;
use binnacle_controlplane::Bootstrap;
use binnacle_meta::Text;
use binnacle_metrics::Registry;
use binnacle_registry::Catalog;
use binnacle_request::{BoxError, Shutdown};
use futures::future::join_all;
use parking_lot::RwLock;
use tokio::task::JoinSet;

pub(crate) use self::backups::Backups;
pub(crate) use self::cluster_admission::ClusterAdmission;
pub(crate) use self::cluster_info::ClusterInfo;
pub(crate) use self::definition::{GROUP, PLURAL, VERSION};
pub(crate) use self::domain::Domain;
use self::forks::Forks;
pub(crate) use self::host_access::{HostAccess, HostUsers};
pub(crate) use self::ports::ListenerOptions;
use self::ports::Ports;
pub(crate) use self::router::ClusterRouter;
use self::slot::Slot;
use self::starts::Starts;
use crate::cluster::Cluster;
use crate::cluster_storage::ClusterStorage;

/// The interval between searches for clusters without requests.
const IDLE_CHECK_INTERVAL: Duration = Duration::from_secs(1);

/// The settings of a cluster that apply from its next start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartOptions {
    /// The cluster's own port, which it advertises.
    pub(crate) port: Option<u16>,
    /// The controllers to run in place of the host's.
    pub(crate) controllers: Option<Selection>,
}

/// The host, as its logical clusters use it.
pub(crate) trait ClusterHost: Send + Sync {
    /// Starts a cluster on the current runtime, which takes some milliseconds. Its requests enter through the chain of
    /// the result.
    fn start(
        &self,
        info: &Arc<ClusterInfo>,
        storage: ClusterStorage,
        options: StartOptions,
        bootstrap: Bootstrap,
    ) -> Result<Cluster, BoxError>;

    /// Returns the URLs of a cluster for clients, the preferred one first.
    fn urls_of(&self, name: &str, port: Option<u16>) -> Vec<String>;

    /// Returns the domain of all clusters, if they have one.
    fn domain(&self) -> Option<&Domain>;

    /// Returns the storage of the cluster with this UID. A cluster with the same name as a former one has other keys.
    fn storage_of(&self, uid: &str) -> ClusterStorage;

    /// Returns the storage of a cluster in memory, which has nothing in common with the host's.
    fn memory_storage_of(&self, uid: &str) -> Result<ClusterStorage, BoxError>;

    /// Returns the file with the authorities of the serving certificate, for clients to trust.
    fn authorities(&self) -> &Path;

    /// Returns the number of clusters that may be awake without requests.
    fn max_awake(&self) -> usize;
}

/// The logical clusters of a host, awake or asleep.
pub(crate) struct LogicalClusters {
    starts: Arc<Starts>,
    /// The clusters that are served, by name.
    slots: RwLock<HashMap<Text, Arc<Slot>>>,
    domain: Option<Domain>,
    ports: Ports,
    forks: Forks,
    /// The number of clusters that may be awake without requests.
    max_awake: usize,
    /// True once all clusters were found after the start.
    is_known: AtomicBool,
}

impl LogicalClusters {
    /// Starts to serve the clusters that are objects of the host. The tasks end with the shutdown signal.
    pub(crate) fn start(
        host: Arc<dyn ClusterHost>,
        registry: &Registry,
        catalog: &Catalog,
        tasks: &mut JoinSet<()>,
        shutdown: &Shutdown,
    ) -> Result<Arc<Self>, prometheus::Error> {
        let starts = Arc::new(Starts::new(host, registry)?);
        let clusters = Arc::new(Self {
            max_awake: starts.host.max_awake(),
            domain: starts.host.domain().cloned(),
            starts,
            slots: RwLock::default(),
            ports: Ports::new(),
            forks: Forks::default(),
            is_known: AtomicBool::new(false),
        });
        metrics::register(&clusters, registry)?;
        tasks.spawn(controller::run(clusters.clone(), catalog.clone(), shutdown.clone()));
        let (idle, stopped) = (clusters.clone(), shutdown.clone());
        tasks.spawn(async move {
            tokio::select! {
                () = idle.stop_idle_repeatedly() => {}
                () = stopped.fired() => {}
            }
        });
        Ok(clusters)
    }

    /// Lets clusters listen at ports of their own.
    pub(crate) fn configure_ports(&self, options: ListenerOptions) {
        self.ports.configure(options);
    }

    fn host(&self) -> &dyn ClusterHost {
        &*self.starts.host
    }

    /// Returns a cluster that is served.
    fn find(&self, name: &str) -> Option<Arc<Slot>> {
        self.slots.read().get(name).cloned()
    }

    /// Returns true if one that is not found does not exist, or cannot be served.
    fn are_known(&self) -> bool {
        self.is_known.load(Ordering::Acquire)
    }

    fn mark_known(&self) {
        self.is_known.store(true, Ordering::Release);
    }

    /// Serves a cluster from now on.
    fn insert(&self, slot: Arc<Slot>) {
        let mut slots = self.slots.write();
        slots.insert(slot.name().clone(), slot);
        self.count(&slots);
    }

    /// Stops to serve a cluster. On return, nothing of it runs.
    async fn remove(&self, name: &str) {
        let slot = {
            let mut slots = self.slots.write();
            let slot = slots.remove(name);
            self.count(&slots);
            slot
        };
        self.ports.close(name).await;
        if let Some(slot) = slot {
            slot.close().await;
        }
    }

    fn count(&self, slots: &HashMap<Text, Arc<Slot>>) {
        self.starts.metrics.served.set(i64::try_from(slots.len()).unwrap_or(i64::MAX));
    }

    fn names(&self) -> Vec<Text> {
        self.slots.read().keys().cloned().collect()
    }

    /// Returns the clusters whose usage differs from the one in their objects.
    fn with_unreported_usage(&self) -> Vec<Text> {
        let slots = self.slots.read();
        slots.values().filter(|slot| slot.has_unreported_usage()).map(|slot| slot.name().clone()).collect()
    }

    async fn stop_idle_repeatedly(&self) {
        loop {
            tokio::time::sleep(IDLE_CHECK_INTERVAL).await;
            join_all(self.idle().iter().map(|slot| slot.sleep())).await;
        }
    }

    /// Returns the clusters to stop: those that are idle, and if too many are awake, those that are unused for the
    /// longest time. Anybody can wake clusters, so that their memory needs a bound.
    fn idle(&self) -> Vec<Arc<Slot>> {
        let slots = self.slots.read();
        let unused = slots.values().filter_map(|slot| Some((slot.unused_for()?, slot)));
        let mut unused: Vec<_> = unused.map(|(unused, slot)| (unused, slot.clone())).collect();
        drop(slots);
        unused.sort_by_key(|(unused, _)| *unused);
        let max = self.max_awake;
        let idle =
            unused.into_iter().enumerate().filter(|(n, (unused, slot))| *n >= max || slot.is_idle_after(*unused));
        idle.map(|(_, (_, slot))| slot).collect()
    }

    /// Waits until nothing runs any more, after the shutdown signal of the host.
    pub(crate) async fn ended(&self) {
        self.ports.close_all().await;
        let slots: Vec<_> = self.slots.write().drain().map(|(_, slot)| slot).collect();
        join_all(slots.iter().map(|slot| slot.close())).await;
    }
}
