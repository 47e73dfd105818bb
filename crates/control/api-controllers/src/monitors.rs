//! Watches of all resources. They follow the catalog: a resource that is no longer served is no longer watched, and a new
//! one is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use binnacle_registry::{ListOptions, Resource};
use binnacle_supervise::supervise;
use binnacle_watchcache::BLOCK_TIMEOUT;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};

use crate::changes::{Position, Receiver, follow};
use crate::context::ClusterContext;
use crate::stored_resources::deletable;

/// The maximum time that decisions wait for resources that cannot be read, for example because their conversion fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// The watches, by the prefix of the stored objects.
#[derive(Default)]
pub(crate) struct Monitors {
    running: Mutex<HashMap<Bytes, Monitor>>,
    /// When the last completed wait for all watches began.
    caught_up: tokio::sync::Mutex<Option<Instant>>,
}

struct Monitor {
    resource: Arc<Resource>,
    position: Arc<Position>,
    task: AbortHandle,
}

/// The receivers of the changes of all resources.
pub(crate) trait Receivers: Send + Sync {
    /// Returns the receiver of a resource's changes; `None` if it is not watched.
    fn receiver(&self, resource: &Arc<Resource>) -> Option<Arc<dyn Receiver>>;

    /// Called for a resource that is no longer served. The objects of a definition are deleted before it.
    fn ended(&self, resource: &Resource) {
        let _ = resource;
    }
}

impl Monitors {
    /// Starts and ends watches as the catalog changes, until the shutdown signal.
    pub(crate) async fn run(&self, context: &ClusterContext, receivers: &dyn Receivers) {
        let (catalog, shutdown) = (&context.resources, &context.shutdown);
        let mut tasks = JoinSet::new();
        let mut changes = catalog.changes();
        loop {
            changes.mark_unchanged();
            self.adjust(context, receivers, &mut tasks);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = shutdown.fired() => break,
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    fn adjust(&self, context: &ClusterContext, receivers: &dyn Receivers, tasks: &mut JoinSet<()>) {
        let snapshot = context.resources.snapshot();
        let watched: HashMap<Bytes, Arc<Resource>> =
            deletable(&snapshot).into_iter().map(|resource| (resource.collection.prefix.clone(), resource)).collect();
        let mut running = self.running.lock();
        let mut ended = Vec::new();
        running.retain(|prefix, monitor| {
            let same = |resource: &Arc<Resource>| Arc::ptr_eq(&resource.collection, &monitor.resource.collection);
            let stays = watched.get(prefix).is_some_and(same);
            if !stays {
                monitor.task.abort();
                if !watched.contains_key(prefix) {
                    ended.push(monitor.resource.clone());
                }
            }
            stays
        });
        for (prefix, resource) in watched {
            if !running.contains_key(&prefix)
                && let Some(receiver) = receivers.receiver(&resource)
            {
                running.insert(prefix, start(context, resource, receiver, tasks));
            }
        }
        drop(running);
        while tasks.try_join_next().is_some() {}
        ended.iter().for_each(|resource| receivers.ended(resource));
    }

    /// Waits until all watches have received what was written before the call, as far as it can be read.
    pub(crate) async fn catch_up(&self) {
        let called = Instant::now();
        let mut caught_up = self.caught_up.lock().await;
        // Another call has waited, and began after this one.
        if caught_up.is_some_and(|began| began >= called) {
            return;
        }
        let began = Instant::now();
        let monitors: Vec<(Arc<Resource>, Arc<Position>)> = {
            let running = self.running.lock();
            running.values().map(|monitor| (monitor.resource.clone(), monitor.position.clone())).collect()
        };
        let all = monitors.into_iter().map(|(resource, position)| async move {
            let deadline = began + BLOCK_TIMEOUT;
            if let Ok(snapshot) = resource.collection.cache.wait_consistent(deadline).await {
                position.reached(snapshot.revision()).await;
            }
        });
        if timeout(PATIENCE, futures::future::join_all(all)).await.is_err() {
            tracing::warn!("controllers continue without resources that cannot be read");
        }
        *caught_up = Some(began);
    }

    /// Waits until all existing objects were received, as far as they can be read.
    pub(crate) async fn started(&self) {
        let positions: Vec<Arc<Position>> =
            self.running.lock().values().map(|monitor| monitor.position.clone()).collect();
        let all = positions.into_iter().map(|position| async move { position.started().await });
        if timeout(PATIENCE, futures::future::join_all(all)).await.is_err() {
            tracing::warn!("controllers start without resources that cannot be read");
        }
    }
}

fn start(
    context: &ClusterContext,
    resource: Arc<Resource>,
    receiver: Arc<dyn Receiver>,
    tasks: &mut JoinSet<()>,
) -> Monitor {
    let position = Arc::new(Position::default());
    let (watched, shutdown, of_task) = (resource.clone(), context.shutdown.clone(), position.clone());
    let task = tasks.spawn(supervise("controllers' watch", move || {
        let (resource, receiver) = (watched.clone(), receiver.clone());
        let (position, shutdown) = (of_task.clone(), shutdown.clone());
        async move { follow(&resource, &ListOptions::default(), &*receiver, &position, &shutdown).await }
    }));
    Monitor { resource, position, task }
}
