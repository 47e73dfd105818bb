//! The garbage collector: objects whose owners are gone are deleted; owners in deletion wait for their dependents, or
//! are removed from them.
//!
//! A [`Graph`] of owners and dependents follows the watch caches of all resources. Each decision reads the object and
//! its owners again.

mod collect;
mod events;
mod graph;
mod meta;
mod receiver;
mod recent;

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_controllers::Objects;
use binnacle_meta::{Status, Text};
use binnacle_registry::Resource;
use bytes::Bytes;
use parking_lot::Mutex;

use self::graph::{Checks, Graph, ObjectKey};
use self::meta::{Meta, MetaReader, Owner};
use self::recent::RecentUids;
use crate::context::ClusterContext;
use crate::monitors::Monitors;
use crate::queue::Queue;

pub(crate) const NAME: &str = "garbage-collector-controller";
const ACCOUNT: &str = "generic-garbage-collector";
/// The number of objects that are processed at the same time.
const WORKERS: usize = 20;

pub(super) struct GarbageCollector {
    context: ClusterContext,
    events: Objects,
    graph: Mutex<Graph>,
    /// Owners that were seen to be deleted.
    absent: Mutex<RecentUids>,
    monitors: Monitors,
    /// The readers of the resources that are watched, by the prefix of the stored objects.
    readers: Mutex<HashMap<Bytes, Arc<MetaReader>>>,
    deletions: Queue<Text>,
    orphanings: Queue<Text>,
}

pub(crate) async fn run(context: ClusterContext) {
    let Ok(events) = context.objects(ACCOUNT, ("", "v1", "events")) else { return };
    let queue = |name: &str| Queue::new(context.queues.queue(name));
    let collector = Arc::new(GarbageCollector {
        events,
        graph: Mutex::default(),
        absent: Mutex::default(),
        monitors: Monitors::default(),
        readers: Mutex::default(),
        deletions: queue("garbage_collector_attempt_to_delete"),
        orphanings: queue("garbage_collector_attempt_to_orphan"),
        context: context.clone(),
    });
    tokio::join!(collector.monitors.run(&context, &collector), collector.work());
}

impl GarbageCollector {
    /// Processes the objects that the watches add to the queues.
    async fn work(&self) {
        let ClusterContext { leadership, shutdown, .. } = &self.context;
        // The watches start in the first poll of `Monitors::run`.
        tokio::task::yield_now().await;
        tokio::select! {
            () = self.monitors.started() => {}
            () = shutdown.fired() => return,
        }
        tokio::join!(
            self.deletions.work(NAME, WORKERS, leadership, shutdown, |uid| self.delete(uid)),
            self.orphanings.work(NAME, WORKERS, leadership, shutdown, |uid| self.orphan(uid)),
        );
    }

    /// Records an object that was created or has changed.
    fn put(&self, place: ObjectKey, meta: Meta) {
        let uid = meta.uid.clone();
        let owners = meta.owners.clone();
        let affected = self.graph.lock().put(place.clone(), meta);
        if affected.has_new_owners && !owners.iter().all(|owner| self.is_there(owner, &place)) {
            self.deletions.add(uid);
        }
        self.enqueue(affected);
    }

    /// Records an object that was deleted.
    fn removed(&self, uid: &Text) {
        let affected = self.graph.lock().remove(uid);
        if !affected.delete.is_empty() {
            self.absent.lock().add(uid.clone());
        }
        self.enqueue(affected);
    }

    /// Records which objects of a resource there are.
    fn retain(&self, resource: &Resource, exists: &dyn Fn(&str) -> bool) {
        let affected = self.graph.lock().retain(resource, exists);
        self.enqueue(affected);
    }

    fn enqueue(&self, affected: Checks) {
        affected.delete.into_iter().for_each(|uid| self.deletions.add(uid));
        affected.orphan.into_iter().for_each(|uid| self.orphanings.add(uid));
    }

    /// Returns true if an owner surely exists and stays. Almost all do, so that their dependents need no check.
    fn is_there(&self, owner: &Owner, dependent: &ObjectKey) -> bool {
        let snapshot = self.context.resources.snapshot();
        let Some(resource) = owner.resource(&snapshot) else { return false };
        let namespace = match resource.description.namespaced {
            true if dependent.namespace.is_empty() => return false,
            true => dependent.namespace.clone(),
            false => Text::default(),
        };
        let place = ObjectKey { resource: resource.clone(), namespace, name: owner.name.clone() };
        let Some(entry) = resource.collection.cache.get(&place.path()) else { return false };
        let Some(reader) = self.readers.lock().get(&resource.collection.prefix).cloned() else { return false };
        let meta = reader.read(&resource.collection, &entry);
        meta.is_some_and(|meta| meta.uid == owner.uid && !meta.waits_for_dependents())
    }

    /// Returns a client of a resource in the name of the garbage collector.
    fn objects(&self, place: &ObjectKey) -> Objects {
        self.context.objects_of(ACCOUNT, place.resource.clone())
    }

    async fn uid_of(&self, place: &ObjectKey) -> Result<Option<Text>, Status> {
        let found = Objects::of(place.resource.clone()).get(&place.namespace, &place.name).await?;
        Ok(found.map(|object| Meta::of(&object).uid))
    }
}
