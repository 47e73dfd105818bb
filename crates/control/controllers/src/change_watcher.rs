//! Watching a resource through its watch cache, so that controllers process objects when they change, and never poll.

use std::time::Duration;

use binnacle_meta::{LabelSelector, Text};
use binnacle_registry::{Context, ListOptions, Resource, WatchFrom};
use binnacle_watchcache::{WatchItem, Watcher};

/// The maximum number of changes in a batch.
const BATCH: usize = 256;
/// The pause before a failed watch is opened again.
const RETRY: Duration = Duration::from_millis(250);

/// A position in the sequence of a resource's changes.
pub struct ChangeWatcher<'a> {
    resource: &'a Resource,
    namespace: Text,
    options: ListOptions,
    watcher: Option<Watcher>,
}

/// The objects that may have changed since the last call.
#[derive(Debug, PartialEq, Eq)]
pub enum Changes {
    /// All objects: this is the first call, or changes were missed.
    Anything,
    /// The objects with these names, which may be deleted; names can be repeated.
    Named(Vec<Text>),
}

impl<'a> ChangeWatcher<'a> {
    /// Watches all objects of a resource.
    pub fn all(resource: &'a Resource) -> Self {
        Self { resource, namespace: Text::default(), options: ListOptions::default(), watcher: None }
    }

    /// Watches the objects in a namespace that a label selector matches.
    pub fn labelled(resource: &'a Resource, namespace: &str, labels: LabelSelector) -> Self {
        let options = ListOptions { labels, ..ListOptions::default() };
        Self { namespace: namespace.into(), options, ..Self::all(resource) }
    }

    /// Watches one object.
    pub fn one(resource: &'a Resource, namespace: &str, name: &str) -> Self {
        use binnacle_meta::{FieldSelector, FieldTerm};
        let term = FieldTerm { field: "metadata.name".into(), value: name.into(), negated: false };
        let options = ListOptions { fields: FieldSelector::new(vec![term]), ..ListOptions::default() };
        Self { namespace: namespace.into(), options, ..Self::all(resource) }
    }

    /// Waits for a change. Later reads from the cache are at least as new. Cancelling the future loses no change.
    pub async fn changed(&mut self) -> Changes {
        loop {
            let Some(watcher) = &mut self.watcher else {
                self.open().await;
                return Changes::Anything;
            };
            let mut items: Vec<WatchItem> = Vec::new();
            match watcher.next_batch(BATCH, &mut items).await {
                Ok(()) => {
                    let name = |item: &WatchItem| item.entry().map(|entry| Text::new(entry.name()));
                    return Changes::Named(items.iter().filter_map(name).collect());
                }
                // This watcher was too slow for the cache's window, or the cache was filled again.
                Err(_) => self.watcher = None,
            }
        }
    }

    async fn open(&mut self) {
        let context = Context::internal(&self.namespace);
        loop {
            match self.resource.watch(&context, &self.options, WatchFrom::ChangesOnly).await {
                Ok(Ok(watcher)) => {
                    self.watcher = Some(watcher);
                    return;
                }
                Ok(Err(_)) | Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }
}
