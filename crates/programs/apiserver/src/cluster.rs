//! A running cluster: the handler chain of its requests, and the tasks behind it.

use std::sync::Arc;
use std::time::Duration;

use binnacle_audit::Auditor;
use binnacle_controllers::{Manager, PostStartHook};
use binnacle_registry::Catalog;
use binnacle_request::ShutdownTrigger;
use binnacle_server::Chain;
use binnacle_store::StorageUsage;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::health::FailedTasks;
use crate::store_maintenance::StoreMaintenance;

/// A whole Kubernetes API without a listener. Its requests enter through the chain.
pub(crate) struct Cluster {
    pub(crate) chain: Arc<Chain>,
    pub(crate) triggers: ShutdownTriggers,
    pub(crate) resources: Catalog,
    pub(crate) controllers: Manager,
    /// Tasks that watch the data of components; they end with the cluster.
    pub(crate) watch_tasks: JoinSet<()>,
    pub(crate) failed_tasks: FailedTasks,
    /// The hooks that are done when the cluster can serve.
    pub(crate) serves_after: Vec<PostStartHook>,
    /// Background tasks for the stores.
    pub(crate) store_maintenance: StoreMaintenance,
    /// The auditor that ends with the cluster.
    pub(crate) auditor: Option<Arc<Auditor>>,
    /// What a logical cluster has stored, if its quota limits it.
    pub(crate) usage: Option<Arc<StorageUsage>>,
    pub(crate) _shutdown_on_drop: ShutdownOnDrop,
}

/// The triggers of the stages of a shutdown.
#[derive(Clone)]
pub(crate) struct ShutdownTriggers {
    /// Ends watches, controllers and tasks.
    pub(crate) shutdown: ShutdownTrigger,
    /// Announces the shutdown: requests are still served.
    pub(crate) terminating: ShutdownTrigger,
    /// Refuses new requests.
    pub(crate) draining: ShutdownTrigger,
}

/// A guard that ends all tasks on drop: neither a failed start nor the shutdown of the runtime leaves a task behind.
pub(crate) struct ShutdownOnDrop(pub(crate) ShutdownTrigger);

/// The maximum time that a cluster waits for the responses of its requests before it ends.
const DRAIN_PATIENCE: Duration = Duration::from_secs(10);

impl Cluster {
    /// Runs a cluster without a listener until `stopped` is done. Sends `ready` when it can serve, with the objects that
    /// every cluster has.
    pub(crate) async fn run(mut self, ready: watch::Sender<bool>, stopped: impl Future<Output = ()>) {
        {
            let Self { serves_after, failed_tasks, watch_tasks, .. } = &mut self;
            let serving = async {
                for hook in serves_after.iter() {
                    hook.wait().await;
                }
                ready.send_replace(true);
                std::future::pending::<()>().await;
            };
            tokio::select! {
                () = stopped => {}
                () = serving => {}
                () = failed_tasks.watch(watch_tasks) => {}
            }
        }
        self.triggers.terminating.fire();
        self.triggers.shutdown.fire();
        // Long-running requests end with the signal.
        let _ = tokio::time::timeout(DRAIN_PATIENCE, self.chain.short_requests_done()).await;
        self.ended().await;
    }

    /// Waits until all tasks have ended, after the shutdown signal.
    pub(crate) async fn ended(mut self) {
        drop(self.store_maintenance);
        self.controllers.ended().await;
        // After the last writes of controllers.
        if let Some(auditor) = self.auditor {
            auditor.shutdown().await;
        }
        self.failed_tasks.wait(&mut self.watch_tasks).await;
        self.resources.close();
    }
}

impl Drop for ShutdownOnDrop {
    fn drop(&mut self) {
        self.0.fire();
    }
}
