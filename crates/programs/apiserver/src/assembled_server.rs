//! A server, from its first request to its last.

use std::sync::Arc;

use binnacle_audit::Auditor;
use binnacle_controllers::Manager;
use binnacle_registry::Catalog;
use binnacle_request::ShutdownTrigger;
use binnacle_server::{Canary, CanaryTimes, Server};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use crate::admin_socket::AdminSocket;
use crate::data_dir::DataDir;
use crate::encryption::AtRest;
use crate::health::FailedTasks;
use crate::store_maintenance::StoreMaintenance;
use crate::stores::Stores;

/// A server that is ready to run.
pub(crate) struct AssembledServer {
    pub(crate) server: Server,
    pub(crate) resources: Catalog,
    pub(crate) stores: Stores,
    /// Dropped before the stores are closed.
    pub(crate) admin_socket: Option<AdminSocket>,
    pub(crate) at_rest: Option<AtRest>,
    pub(crate) controllers: Manager,
    /// Tasks that watch the data of components; they end with the server.
    pub(crate) watch_tasks: JoinSet<()>,
    pub(crate) failed_tasks: FailedTasks,
    /// Background tasks for the stores.
    pub(crate) store_maintenance: StoreMaintenance,
    pub(crate) auditor: Option<Arc<Auditor>>,
    /// Directories that are removed with the server, if they are temporary.
    pub(crate) data: Option<DataDir>,
    /// Notified when the disk of the store has failed.
    pub(crate) disk_failed: Arc<Notify>,
    /// Its connections end on drop.
    pub(crate) front: FrontRuntime,
    pub(crate) shutdown_on_drop: ShutdownOnDrop,
}

/// The runtime for accepting connections, TLS handshakes and health checks, which the work of requests never blocks.
pub(crate) struct FrontRuntime(Option<Runtime>);

/// A guard that ends all tasks on drop: neither a failed start nor the shutdown of the runtime leaves a task behind.
pub(crate) struct ShutdownOnDrop(pub(crate) ShutdownTrigger);

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
            let serving = async {
                tokio::select! {
                    () = &mut served => {}
                    () = self.controllers.done() => {
                        ready.send_replace(true);
                        served.await;
                    }
                }
            };
            tokio::select! {
                () = serving => {}
                () = self.failed_tasks.watch(&mut self.watch_tasks) => {}
            }
        }
        drop((self.store_maintenance, self.at_rest));
        if let Some(auditor) = self.auditor {
            auditor.shutdown().await;
        }
        self.controllers.ended().await;
        self.failed_tasks.wait(&mut self.watch_tasks).await;
        drop(self.admin_socket);
        self.resources.close();
        self.stores.close().await;
        drop((self.shutdown_on_drop, self.front, self.data));
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

// === impl ShutdownOnDrop ===

impl Drop for ShutdownOnDrop {
    fn drop(&mut self) {
        self.0.fire();
    }
}
