//! Starts of logical clusters: few at once, on threads that may block, and measured.

use std::sync::Arc;
use std::time::Instant;

use binnacle_controlplane::Bootstrap;
use binnacle_metrics::{IntGauge, LoneHistogram, Registry, families};
use binnacle_request::BoxError;
use tokio::sync::Semaphore;

use super::initial_objects::InitialObjects;
use super::{ClusterHost, ClusterInfo, StartOptions};
use crate::cluster::Cluster;

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
    initial_objects: InitialObjects,
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
            initial_objects: InitialObjects::default(),
        })
    }

    /// Gives a cluster without objects those that every cluster has. Returns what is known of them.
    pub(super) async fn prepare(&self, uid: &str) -> Result<Bootstrap, BoxError> {
        self.initial_objects.give(&self.host, uid).await
    }

    /// Starts a cluster. One without objects gets those that every cluster has.
    pub(super) async fn start(&self, info: &Arc<ClusterInfo>, options: StartOptions) -> Result<Cluster, BoxError> {
        let bootstrap = match info.bootstrap() {
            Bootstrap::Unknown => self.prepare(&info.uid).await?,
            known => known,
        };
        let storage = self.host.storage_of(&info.uid).with_history().await?;
        // The semaphore is never closed.
        let _turn = self.turns.acquire().await.ok();
        let (host, info) = (self.host.clone(), info.clone());
        match tokio::task::spawn_blocking(move || host.start(&info, storage, options, bootstrap)).await {
            Ok(started) => started,
            Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            // The runtime is shutting down.
            Err(error) => Err(error.into()),
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
