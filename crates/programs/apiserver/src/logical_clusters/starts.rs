//! Starts of logical clusters: few at once, on threads that may block, and measured.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use binnacle_controlplane::Bootstrap;
use binnacle_metrics::{LoneHistogram, Registry, families};
use binnacle_registry::Catalog;
use binnacle_request::BoxError;
use binnacle_store::{StorageLimits, StoreError};
use prometheus::IntGauge;
use tokio::sync::Semaphore;

use super::template::Template;
use super::{ClusterHost, ClusterInfo, StartOptions};
use crate::cluster::Cluster;
use crate::cluster_storage::ClusterStorage;

families! {
    #[derive(Clone)]
    pub(super) struct Metrics {
        pub(super) served: IntGauge = "binnacle_logical_clusters",
            "Number of logical clusters that are served.";
        pub(super) awake: IntGauge = "binnacle_logical_clusters_awake",
            "Number of logical clusters that are running.";
        pub(super) starts: LoneHistogram = "binnacle_logical_cluster_start_duration_seconds"
            buckets [0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0],
            "Time from the request that starts a logical cluster until it serves.";
    }
}

/// The host of clusters that start.
pub(super) struct Starts {
    pub(super) host: Arc<dyn ClusterHost>,
    pub(super) metrics: Metrics,
    /// A start takes processor time: more of them at once would take longer, and longer from requests.
    turns: Semaphore,
    /// The objects of new clusters, once a new one has them.
    template: OnceLock<Template>,
}

/// A cluster that was started.
pub(super) struct StartedCluster {
    pub(super) cluster: Cluster,
    /// True if the cluster had no objects, so that those that it has soon are those of every new cluster.
    pub(super) is_new: bool,
}

/// A cluster that counts as awake until this is dropped.
pub(super) struct AwakeGuard(IntGauge);

impl Starts {
    pub(super) fn new(host: Arc<dyn ClusterHost>, registry: &Registry) -> Result<Self, prometheus::Error> {
        let turns = std::thread::available_parallelism().map_or(1, usize::from);
        Ok(Self {
            host,
            metrics: Metrics::register(registry)?,
            turns: Semaphore::new(turns),
            template: OnceLock::new(),
        })
    }

    /// Starts a cluster.
    pub(super) async fn start(
        &self,
        info: &Arc<ClusterInfo>,
        storage: ClusterStorage,
        options: StartOptions,
    ) -> Result<StartedCluster, BoxError> {
        let (bootstrap, is_new) = self.bootstrap(info, &storage).await?;
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await.ok();
        let (host, info) = (self.host.clone(), info.clone());
        match tokio::task::spawn_blocking(move || host.start(&info, storage, options, bootstrap)).await {
            Ok(started) => Ok(StartedCluster { cluster: started?, is_new }),
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Err(error) => Err(error.into()),
        }
    }

    /// Writes the objects of a new cluster, if they are known. Returns true if it is one whose objects are to be recorded.
    async fn bootstrap(&self, info: &ClusterInfo, storage: &ClusterStorage) -> Result<(Bootstrap, bool), StoreError> {
        if info.has_started.load(Ordering::Relaxed) {
            return Ok((Bootstrap::Complete, false));
        }
        // A quota refuses single objects.
        let has_quota = *info.limits.storage.borrow() != StorageLimits::default();
        if has_quota || !storage.is_empty().await? {
            return Ok((Bootstrap::Unknown, false));
        }
        let Some(template) = self.template.get() else { return Ok((Bootstrap::Unknown, true)) };
        template.write(storage).await?;
        Ok((Bootstrap::Written, false))
    }

    /// Records the objects of a new cluster, which no request has reached yet.
    pub(super) async fn record(&self, resources: &Catalog) {
        if self.template.get().is_some() {
            return;
        }
        match Template::record(resources).await {
            // Another new cluster may have been faster.
            Ok(template) => drop(self.template.set(template)),
            Err(status) => {
                tracing::warn!(error = status.message(), "cannot record the objects of new logical clusters");
            }
        }
    }

    /// Counts a cluster as awake, which was requested at `began`.
    pub(super) fn count(&self, began: Instant) -> AwakeGuard {
        self.metrics.starts.observe(began.elapsed().as_secs_f64());
        self.metrics.awake.inc();
        AwakeGuard(self.metrics.awake.clone())
    }
}

impl Drop for AwakeGuard {
    fn drop(&mut self) {
        self.0.dec();
    }
}
