//! The stores behind the server: the embedded one, or etcd clusters.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use binnacle_egress::{Egress, Network};
use binnacle_features::Features;
use binnacle_meta::{GroupResource, Text};
use binnacle_metrics::Registry;
use binnacle_registry::{ROOT, StorageOptions};
use binnacle_resources::key_prefixes;
use binnacle_server::Health;
use binnacle_storage_metrics::{TimedStore, register_embedded};
use binnacle_store::{ReadOnlyStore, Store, StoreError, prefix_range, unfinished_migration_key};
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use binnacle_store_etcd::{EtcdOptions, EtcdStore, KeyOwner, Metrics, TlsPaths};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep, sleep_until};

use crate::admin_socket::AdminSocket;
use crate::data_dir::DataDir;
use crate::health::StoreCheck;
use crate::settings::{DiskFailure, Etcd, Host, OnReading, Storage};
use crate::start_failure::{StartFailure, not_registered};

/// Keys of heartbeats and leader election, of the cluster and of its servers, which still work when the disk is full.
const HEARTBEAT_PREFIXES: [&str; 2] = ["leases/", "masterleases/"];

/// The time without an answer of etcd after which the log reports that the start waits for it, and the interval of
/// further reports.
const FIRST_REPORT: Duration = Duration::from_secs(1);
const REPORT_INTERVAL: Duration = Duration::from_secs(10);
/// The time between two attempts to reach etcd.
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// All stores of the server.
pub(crate) enum Stores {
    Embedded {
        store: Arc<EmbeddedStore>,
        /// The same store with metrics, for requests.
        timed: Arc<TimedStore>,
        /// `None` for a store in memory.
        directory: Option<PathBuf>,
    },
    Etcd(EtcdClusters),
}

pub(crate) struct EtcdClusters {
    /// The first store has all resources without an override.
    stores: Vec<Arc<EtcdStore>>,
    /// Indexes in `stores`.
    overrides: HashMap<GroupResource, usize>,
    root: String,
    /// Descriptions of the stores, with their URLs, in the order of `stores`.
    locations: Vec<String>,
    read_only: bool,
}

impl Stores {
    pub(crate) async fn open(
        storage: &Storage,
        host: &Host,
        failed: &Arc<Notify>,
        data: &mut Option<DataDir>,
        egress: &Egress,
        registry: &Registry,
    ) -> Result<Self, StartFailure> {
        if let Some(etcd) = &storage.etcd {
            return Ok(Self::Etcd(EtcdClusters::connect(etcd, storage.read_only, egress, registry)?));
        }
        let (store, directory) = match data {
            Some(data) if !storage.ephemeral => {
                let directory = data.private("store")?;
                // The store's lock keeps a second server out of the directory.
                let failed = failed.clone();
                let on_failure = host.on_disk_failure;
                let on_failure = move |why: &str| disk_failed(on_failure, &failed, why);
                let options = EmbeddedOptions {
                    on_failure: Some(Arc::new(on_failure)),
                    reserve_prefixes: HEARTBEAT_PREFIXES.map(|prefix| format!("{ROOT}{prefix}").into()).to_vec(),
                    on_reading: host.on_reading.as_ref().map(|OnReading(report)| report.clone()),
                    ends_with_process: host.ends_with_server,
                    ..EmbeddedOptions::new(&directory)
                };
                let store = Arc::new(read_embedded(options).await?);
                register_embedded(&store, registry).map_err(not_registered)?;
                data.locked();
                (store, Some(directory))
            }
            _ => (Arc::new(EmbeddedStore::ephemeral()), None),
        };
        Self::embedded_with(store, directory, registry)
    }

    /// Opens a store of its own in memory, without metrics.
    pub(crate) fn in_memory() -> Result<Self, StartFailure> {
        Self::embedded_with(Arc::new(EmbeddedStore::ephemeral()), None, &Registry::default())
    }

    fn embedded_with(
        store: Arc<EmbeddedStore>,
        directory: Option<PathBuf>,
        registry: &Registry,
    ) -> Result<Self, StartFailure> {
        let metrics = Metrics::new(registry, key_owners(ROOT)).map_err(not_registered)?;
        let timed = Arc::new(TimedStore::new(store.clone(), metrics));
        Ok(Self::Embedded { store, timed, directory })
    }

    /// Waits until each etcd cluster answers. Refuses a store with an unfinished migration: it is not complete.
    pub(crate) async fn check_unfinished_migration(&self) -> Result<(), StartFailure> {
        let root = self.root();
        for (at, store) in self.all().into_iter().enumerate() {
            let read = || store.get(unfinished_migration_key(root), None);
            let marker = match self {
                Self::Embedded { .. } => read().await,
                Self::Etcd(clusters) => answer_of(&clusters.locations[at], read).await,
            };
            match (marker, self) {
                (Ok((None, _)), _) => {}
                (Ok((Some(_), _)), _) => return Err(StartFailure::UnfinishedMigration),
                (Err(error), Self::Embedded { .. }) => return Err(StartFailure::StoreRead(error)),
                // Missing permissions, for example: the health checks report them until an administrator grants them.
                (Err(error), Self::Etcd(clusters)) => {
                    tracing::warn!(%error, "cannot read from {}", clusters.locations[at]);
                }
            }
        }
        Ok(())
    }

    /// Serves the embedded store to the program `binnacle`.
    pub(crate) fn open_admin_socket(&self) -> Option<AdminSocket> {
        match self {
            Self::Embedded { store, directory: Some(directory), .. } => AdminSocket::open(directory, store.clone()),
            _ => None,
        }
    }

    /// Returns the storage options of the resources.
    pub(crate) fn options(&self, storage: &Storage, features: &Arc<Features>) -> StorageOptions {
        let overrides = match self {
            Self::Embedded { .. } => HashMap::new(),
            Self::Etcd(clusters) => clusters.overrides(),
        };
        StorageOptions {
            root: self.root().to_owned(),
            overrides,
            media_type: storage.media_type,
            uncached: storage.uncached.clone(),
            event_ttl: storage.event_ttl,
            lease_reuse: storage.lease_reuse,
            delete_workers: storage.delete_workers,
            garbage_collector: storage.garbage_collector,
            features: features.clone(),
            ..StorageOptions::new(self.main())
        }
    }

    /// Returns the prefix of all keys, which ends with a slash.
    pub(crate) fn root(&self) -> &str {
        match self {
            Self::Embedded { .. } => ROOT,
            Self::Etcd(clusters) => &clusters.root,
        }
    }

    /// Returns every store once, the main one first.
    pub(crate) fn all(&self) -> Vec<Arc<dyn Store>> {
        match self {
            Self::Embedded { timed, .. } => vec![timed.clone()],
            Self::Etcd(clusters) => clusters.stores.iter().map(|store| clusters.guarded(store)).collect(),
        }
    }

    /// Returns the index in [`Stores::all`] of a resource's store.
    pub(crate) fn index_of(&self, resource: &GroupResource) -> usize {
        match self {
            Self::Embedded { .. } => 0,
            Self::Etcd(clusters) => clusters.overrides.get(resource).copied().unwrap_or_default(),
        }
    }

    pub(crate) fn clusters(&self) -> &[Arc<EtcdStore>] {
        match self {
            Self::Embedded { .. } => &[],
            Self::Etcd(clusters) => &clusters.stores,
        }
    }

    /// Returns the embedded store, if it has a directory.
    pub(crate) fn embedded(&self) -> Option<Arc<EmbeddedStore>> {
        match self {
            Self::Embedded { store, directory: Some(_), .. } => Some(store.clone()),
            _ => None,
        }
    }

    pub(crate) fn are_remote(&self) -> bool {
        matches!(self, Self::Etcd(_))
    }

    /// Returns a description of where objects are stored.
    pub(crate) fn place(&self) -> String {
        match self {
            Self::Embedded { .. } => String::new(),
            Self::Etcd(clusters) => clusters.locations[0].clone(),
        }
    }

    /// Adds the health checks, with kube-apiserver's names.
    pub(crate) fn add_checks(&self, mut health: Health, storage: &Storage) -> Health {
        let stores = self.all();
        for (n, store) in stores.into_iter().enumerate() {
            let (alive, ready) = match n.checked_sub(1) {
                None => ("etcd".to_owned(), "etcd-readiness".to_owned()),
                Some(n) => (format!("etcd-override-{n}"), format!("etcd-override-readiness-{n}")),
            };
            let check = |name, timeout, ready| Arc::new(StoreCheck { name, store: store.clone(), timeout, ready });
            health = health.everywhere(check(alive, storage.health_timeout, false)).ready(check(
                ready,
                storage.ready_timeout,
                true,
            ));
        }
        health
    }

    pub(crate) async fn close(&self) {
        match self {
            Self::Embedded { store, .. } => store.close().await,
            Self::Etcd(clusters) => clusters.stores.iter().for_each(|store| store.close()),
        }
    }

    pub(crate) fn main(&self) -> Arc<dyn Store> {
        match self {
            Self::Embedded { timed, .. } => timed.clone(),
            Self::Etcd(clusters) => clusters.guarded(&clusters.stores[0]),
        }
    }
}

/// Opens the store on a thread for blocking work: the workers serve probes while a large one is read.
async fn read_embedded(options: EmbeddedOptions) -> Result<EmbeddedStore, StartFailure> {
    let opened = tokio::task::spawn_blocking(|| EmbeddedStore::open(options)).await;
    Ok(opened.map_err(|error| StartFailure::Runtime(error.into()))??)
}

/// Stops the server or the process: a failing disk may have lost writes, which only the next start can detect.
fn disk_failed(then: DiskFailure, failed: &Notify, why: &str) {
    match then {
        DiskFailure::StopServer => {
            tracing::error!(why, "the disk of the store failed, stopping the server");
            failed.notify_one();
        }
        DiskFailure::EndProcess(status) => {
            tracing::error!(why, status, "the disk of the store failed, terminating the process");
            std::process::exit(status);
        }
    }
}

impl EtcdClusters {
    fn connect(etcd: &Etcd, read_only: bool, egress: &Egress, registry: &Registry) -> Result<Self, StartFailure> {
        let metrics = Metrics::new(registry, key_owners(&etcd.root)).map_err(not_registered)?;
        let tls =
            TlsPaths { ca: etcd.ca_file.clone(), certificate: etcd.cert_file.clone(), key: etcd.key_file.clone() };
        let open = |servers: &[String]| {
            let options = EtcdOptions {
                endpoints: servers.to_vec(),
                tls: tls.clone(),
                watched: prefix_range(etcd.root.as_bytes()),
                metrics: metrics.clone(),
                dialer: egress.dialer(Network::Etcd),
            };
            EtcdStore::new(&options).map(Arc::new)
        };
        let mut stores = vec![open(&etcd.servers)?];
        let describe = |servers: &[String]| format!("etcd at {}", servers.join(","));
        let mut locations = vec![describe(&etcd.servers)];
        // Several resources may be in the same cluster.
        let mut indexes: HashMap<Vec<String>, usize> = HashMap::new();
        let mut overrides = HashMap::new();
        for (resource, servers) in &etcd.overrides {
            let mut sorted = servers.clone();
            sorted.sort();
            let at = match indexes.get(&sorted) {
                Some(at) => *at,
                None => {
                    stores.push(open(servers)?);
                    locations.push(describe(servers));
                    indexes.insert(sorted, stores.len() - 1);
                    stores.len() - 1
                }
            };
            overrides.insert(resource.clone(), at);
        }
        Ok(Self { stores, overrides, root: etcd.root.clone(), locations, read_only })
    }

    /// Returns a store as the rest of the server uses it: only for reading if this server must not write.
    fn guarded(&self, store: &Arc<EtcdStore>) -> Arc<dyn Store> {
        match self.read_only {
            true => Arc::new(ReadOnlyStore::new(store.clone())),
            false => store.clone(),
        }
    }

    fn overrides(&self) -> HashMap<GroupResource, Arc<dyn Store>> {
        let store = |at: &usize| self.guarded(&self.stores[*at]);
        self.overrides.iter().map(|(resource, at)| (resource.clone(), store(at))).collect()
    }
}

/// Repeats a call until etcd answers it, with success or an error, and reports the wait.
async fn answer_of<T, F>(location: &str, call: impl Fn() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let mut next_report = Instant::now() + FIRST_REPORT;
    let mut last_error = None;
    let mut was_reported = false;
    loop {
        let attempt = async {
            let answer = call().await;
            if matches!(&answer, Err(error) if is_unanswered(error)) {
                sleep(RETRY_INTERVAL).await;
            }
            answer
        };
        tokio::pin!(attempt);
        let answer = loop {
            tokio::select! {
                answer = &mut attempt => break answer,
                () = sleep_until(next_report) => {
                    match &last_error {
                        Some(error) => tracing::warn!(%error, "waiting for {location}"),
                        None => tracing::warn!("waiting for {location}"),
                    }
                    was_reported = true;
                    next_report += REPORT_INTERVAL;
                }
            }
        };
        match answer {
            Err(error) if is_unanswered(&error) => last_error = Some(error),
            answer => {
                if was_reported {
                    tracing::info!("{location} answers");
                }
                return answer;
            }
        }
    }
}

/// Returns true for errors of connections and members, which may work later. Other errors are answers of etcd.
fn is_unanswered(error: &StoreError) -> bool {
    match error {
        StoreError::Timeout => true,
        StoreError::Unavailable(why) => match why.strip_prefix("etcdserver: ") {
            Some(why) => why.contains("no leader") || why.contains("timed out"),
            None => true,
        },
        _ => false,
    }
}

fn key_owners(root: &str) -> Vec<KeyOwner> {
    let owner = |(prefix, resource): (Text, GroupResource)| KeyOwner {
        prefix: format!("{root}{prefix}/"),
        group: resource.group.into(),
        resource: resource.resource.into(),
    };
    key_prefixes().map(owner).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waits_for_an_answer_of_etcd() {
        let unavailable = |why: &str| StoreError::Unavailable(why.to_owned());
        let calls = AtomicUsize::new(0);
        let begin = Instant::now();
        let answer = answer_of("etcd at http://a:1", || async {
            match calls.fetch_add(1, Ordering::Relaxed) {
                0 => Err(unavailable("rpc error: code = Unavailable desc = connection refused")),
                1 => Err(unavailable("etcdserver: no leader")),
                2 => Err(StoreError::Timeout),
                _ => Ok(7),
            }
        });
        assert_eq!(answer.await.unwrap(), 7);
        assert_eq!(begin.elapsed(), 3 * RETRY_INTERVAL);
        let denied =
            answer_of("etcd at http://a:1", || async { Err::<(), _>(unavailable("etcdserver: permission denied")) });
        assert!(denied.await.unwrap_err().to_string().contains("permission denied"));
    }
}
