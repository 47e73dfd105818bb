//! A server, from its first request to its last.

use std::sync::Arc;

use binnacle_server::{Canary, CanaryTimes, Server};
use binnacle_work::RelayThreads;
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Notify, watch};

use crate::admin_socket::AdminSocket;
use crate::cluster::Cluster;
use crate::cluster_storage::ClusterStorage;
use crate::data_dir::DataDir;
use crate::logical_clusters::{ClusterRouter, LogicalClusters};

/// A server that is ready to run.
pub(crate) struct AssembledServer {
    pub(crate) server: Server<ClusterRouter>,
    pub(crate) cluster: Cluster,
    /// The logical clusters that the server hosts.
    pub(crate) clusters: Option<Arc<LogicalClusters>>,
    pub(crate) storage: ClusterStorage,
    /// Dropped before the stores are closed.
    pub(crate) admin_socket: Option<AdminSocket>,
    /// Directories that are removed with the server, if they are temporary.
    pub(crate) data: Option<DataDir>,
    /// Notified when the disk of the store has failed.
    pub(crate) disk_failed: Arc<Notify>,
    /// Its connections end on drop.
    pub(crate) front: FrontRuntime,
    pub(crate) relays: Arc<RelayThreads>,
}

/// The runtime for accepting connections, TLS handshakes and health checks, which the work of requests never blocks.
pub(crate) struct FrontRuntime(Option<Runtime>);

impl AssembledServer {
    /// Serves until `stop` is done. Sends `ready` when the objects of every cluster exist.
    pub(crate) async fn run(mut self, ready: watch::Sender<bool>, stop: impl Future<Output = ()>) {
        let disk_failed = self.disk_failed.clone();
        let stop = async move {
            tokio::select! {
                () = stop => {}
                () = disk_failed.notified() => {}
            }
        };
        {
            let served = self.server.run(stop);
            tokio::pin!(served);
            let Cluster { controllers, failed_tasks, watch_tasks, .. } = &mut self.cluster;
            let serving = async {
                tokio::select! {
                    () = &mut served => {}
                    () = controllers.done() => {
                        ready.send_replace(true);
                        served.await;
                    }
                }
            };
            tokio::select! {
                () = serving => {}
                () = failed_tasks.watch(watch_tasks) => {}
            }
        }
        if let Some(clusters) = &self.clusters {
            clusters.ended().await;
        }
        self.cluster.ended().await;
        drop(self.admin_socket);
        self.storage.stores.close().await;
        drop((self.storage, self.front, self.relays, self.data));
    }
}

// === impl FrontRuntime ===

impl FrontRuntime {
    pub(crate) fn start() -> std::io::Result<Self> {
        // At least two threads, so that one handshake does not delay the next.
        let runtime = Builder::new_multi_thread().worker_threads(2).thread_name("front").enable_all().build()?;
        Ok(Self(Some(runtime)))
    }

    /// Supervises the workers of the current runtime.
    pub(crate) fn watch_workers(&self) -> Arc<Canary> {
        let workers = Handle::current();
        Canary::start(&workers, &self.handle().unwrap_or_else(|| workers.clone()), CanaryTimes::default())
    }

    /// Returns `None` after the runtime has ended.
    pub(crate) fn handle(&self) -> Option<Handle> {
        self.0.as_ref().map(|runtime| runtime.handle().clone())
    }
}

impl Drop for FrontRuntime {
    fn drop(&mut self) {
        // This may be a thread of another runtime, which must not block.
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
