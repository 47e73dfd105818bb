//! The watches of all resources that feed the graph. They follow the catalog: a resource that is no longer served is no
//! longer watched, and a new one is.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use binnacle_registry::{ListOptions, Resource};
use binnacle_supervise::supervise;
use binnacle_watchcache::{BLOCK_TIMEOUT, Entry};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::task::{AbortHandle, JoinSet};
use tokio::time::{Instant, timeout};

use super::GarbageCollector;
use super::graph::Place;
use super::meta::{Meta, MetaReader};
use crate::changes::{Position, Receiver, follow};
use crate::stored_resources::deletable;

/// The maximum time that decisions wait for resources that cannot be read, for example because their conversion fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// The watches, by the prefix of the stored objects.
#[derive(Default)]
pub(super) struct Monitors {
    running: Mutex<HashMap<Bytes, Monitor>>,
    /// When the last completed wait for all watches began.
    caught_up: tokio::sync::Mutex<Option<Instant>>,
}

struct Monitor {
    resource: Arc<Resource>,
    reader: Arc<MetaReader>,
    position: Arc<Position>,
    task: AbortHandle,
}

/// Passes the changes of one resource to the graph.
struct GraphReceiver {
    collector: Arc<GarbageCollector>,
    resource: Arc<Resource>,
    reader: Arc<MetaReader>,
}

impl Receiver for GraphReceiver {
    fn changed(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let collection = &self.resource.collection;
        let Some(entry) = new else {
            if let Some(meta) = old.and_then(|entry| self.reader.read(collection, entry)) {
                self.collector.removed(&meta.uid);
            }
            return;
        };
        let Some(meta) = self.reader.read(collection, entry) else { return };
        let (namespace, name) = (entry.namespace().into(), entry.name().into());
        self.collector.put(Place { resource: self.resource.clone(), namespace, name }, meta);
    }

    fn listed(&self, exists: &dyn Fn(&str) -> bool) {
        self.collector.retain(&self.resource, exists);
    }
}

impl Monitors {
    /// Starts and ends watches as the catalog changes, until the shutdown signal.
    pub(super) async fn run(&self, collector: &Arc<GarbageCollector>) {
        let (catalog, shutdown) = (&collector.context.resources, &collector.context.shutdown);
        let mut tasks = JoinSet::new();
        let mut changes = catalog.changes();
        loop {
            changes.mark_unchanged();
            self.adjust(collector, &mut tasks);
            tokio::select! {
                changed = changes.changed() => if changed.is_err() { return },
                () = shutdown.fired() => break,
            }
        }
        while tasks.join_next().await.is_some() {}
    }

    fn adjust(&self, collector: &Arc<GarbageCollector>, tasks: &mut JoinSet<()>) {
        let snapshot = collector.context.resources.snapshot();
        let watched: HashMap<Bytes, Arc<Resource>> = deletable(&snapshot)
            .into_iter()
            .filter(|resource| resource.description.plural != "events")
            .map(|resource| (resource.collection.prefix.clone(), resource))
            .collect();
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
            running.entry(prefix).or_insert_with(|| start(collector, resource, tasks));
        }
        drop(running);
        while tasks.try_join_next().is_some() {}
        // The objects of a definition are deleted before it.
        ended.iter().for_each(|resource| collector.retain(resource, &|_| false));
    }

    /// Reads the metadata of an object of a resource that is watched.
    pub(super) fn read(&self, resource: &Resource, entry: &Entry) -> Option<Meta> {
        let reader = self.running.lock().get(&resource.collection.prefix)?.reader.clone();
        reader.read(&resource.collection, entry)
    }

    /// Waits until all watches have received what was written before the call, as far as it can be read: otherwise
    /// dependents that were created just now would be missing in the graph.
    pub(super) async fn catch_up(&self) {
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
            tracing::warn!("garbage collection continues without resources that cannot be read");
        }
        *caught_up = Some(began);
    }

    /// Waits until all existing objects are in the graph, as far as they can be read.
    pub(super) async fn started(&self) {
        let positions: Vec<Arc<Position>> =
            self.running.lock().values().map(|monitor| monitor.position.clone()).collect();
        let all = positions.into_iter().map(|position| async move { position.started().await });
        if timeout(PATIENCE, futures::future::join_all(all)).await.is_err() {
            tracing::warn!("garbage collection starts without resources that cannot be read");
        }
    }
}

fn start(collector: &Arc<GarbageCollector>, resource: Arc<Resource>, tasks: &mut JoinSet<()>) -> Monitor {
    let position = Arc::new(Position::default());
    let reader = Arc::new(MetaReader::new(&resource.collection));
    let receiver =
        Arc::new(GraphReceiver { collector: collector.clone(), resource: resource.clone(), reader: reader.clone() });
    let shutdown = collector.context.shutdown.clone();
    let of_task = position.clone();
    let task = tasks.spawn(supervise("garbage collector watch", move || {
        let (receiver, position, shutdown) = (receiver.clone(), of_task.clone(), shutdown.clone());
        async move { follow(&receiver.resource, &ListOptions::default(), &*receiver, &position, &shutdown).await }
    }));
    Monitor { resource, reader, position, task }
}
