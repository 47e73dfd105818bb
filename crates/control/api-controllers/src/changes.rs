//! The changes of one resource as entries of its watch cache, which are not decoded.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use binnacle_meta::Text;
use binnacle_registry::{Context, ListOptions, Resource, WatchFrom};
use binnacle_request::Shutdown;
use binnacle_store::Revision;
use binnacle_watchcache::{Entry, WatchItem, Watcher};
use tokio::sync::{Notify, watch};

/// The maximum number of changes in a batch.
const BATCH: usize = 256;
/// The pause before a failed watch is opened again.
const RETRY: Duration = Duration::from_millis(250);

/// A receiver of changes. Methods must not block.
pub(crate) trait Receiver: Send + Sync {
    /// Called for an object that exists, was created, has changed (both entries), or was deleted.
    fn changed(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>);

    /// Called after all existing objects have been passed on, at the start and again after changes were missed.
    /// `exists` is true for their paths (`namespace/name`).
    fn listed(&self, exists: &dyn Fn(&str) -> bool);
}

/// How far a receiver has followed a resource.
#[derive(Default)]
pub(crate) struct Position {
    /// The revision up to which all changes have been received; 0 until the first list is complete.
    received: watch::Sender<u64>,
    asked: Notify,
}

impl Position {
    /// Waits until the existing objects have been received.
    pub(crate) async fn started(&self) {
        self.reached(Revision(1)).await;
    }

    /// Waits until all changes up to a revision have been received, which the cache must have reached.
    pub(crate) async fn reached(&self, revision: Revision) {
        let mut received = self.received.subscribe();
        self.asked.notify_one();
        // The sender lives as long as `self`.
        let _ = received.wait_for(|received| *received >= revision.0).await;
    }

    fn set(&self, revision: Revision) {
        self.received.send_if_modified(|received| {
            let is_newer = *received < revision.0;
            *received = revision.0.max(*received);
            is_newer
        });
    }
}

/// Passes the changes of the selected objects to `receiver` until the shutdown signal.
pub(crate) async fn follow(
    resource: &Resource,
    options: &ListOptions,
    receiver: &dyn Receiver,
    position: &Position,
    shutdown: &Shutdown,
) {
    tokio::select! {
        () = forever(resource, options, receiver, position) => {}
        () = shutdown.fired() => {}
    }
}

async fn forever(resource: &Resource, options: &ListOptions, receiver: &dyn Receiver, position: &Position) {
    loop {
        if let Ok(mut watcher) = list(resource, options, receiver).await {
            position.set(Revision(watcher.progress().0.max(1)));
            let mut items = Vec::new();
            loop {
                tokio::select! {
                    batch = watcher.next_batch(BATCH, &mut items) => if batch.is_err() { break },
                    () = position.asked.notified() => {}
                }
                items.drain(..).for_each(|item| pass(&item, receiver));
                position.set(watcher.progress());
            }
            // This watcher was too slow for the cache's window, or the cache was filled again.
            items.drain(..).for_each(|item| pass(&item, receiver));
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Opens a watch and passes on the existing objects.
async fn list(resource: &Resource, options: &ListOptions, receiver: &dyn Receiver) -> Result<Watcher, ()> {
    let from = WatchFrom::InitialEvents { not_older_than: None };
    let watch = resource.watch(&Context::internal(""), options, from).await;
    let mut watcher = watch.map_err(|_| ())?.map_err(|_| ())?;
    let mut existing: HashSet<Text> = HashSet::new();
    let mut items = Vec::new();
    loop {
        watcher.next_batch(BATCH, &mut items).await.map_err(|_| ())?;
        let mut complete = false;
        for item in items.drain(..) {
            match &item {
                WatchItem::InitialEventsEnd(_) => {
                    receiver.listed(&|path| existing.contains(path));
                    complete = true;
                }
                item => {
                    if let (false, Some(entry)) = (complete, item.entry()) {
                        existing.insert(entry.path().into());
                    }
                    pass(item, receiver);
                }
            }
        }
        if complete {
            return Ok(watcher);
        }
    }
}

fn pass(item: &WatchItem, receiver: &dyn Receiver) {
    match item {
        WatchItem::Initial(entry) => receiver.changed(None, Some(entry)),
        WatchItem::Event { event, .. } => receiver.changed(event.old(), event.new_entry()),
        WatchItem::InitialEventsEnd(_) => {}
    }
}
