//! Following a resource through its watch cache: a loop looks at objects when they change, and never polls.

use std::time::Duration;

use binnacle_meta::{LabelSelector, Text};
use binnacle_registry::{Context, ListOptions, Resource, WatchFrom};
use binnacle_watchcache::{WatchItem, Watcher};

/// The maximum number of changes that are taken at once.
const BATCH: usize = 256;
/// The pause before a watch that did not open is tried again.
const RETRY: Duration = Duration::from_millis(250);

/// A position in the sequence of a resource's changes.
pub(crate) struct Follow<'a> {
    resource: &'a Resource,
    namespace: Text,
    options: ListOptions,
    watcher: Option<Watcher>,
}

/// The objects that may have changed since the last look.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    /// All of them: this is the first look, or changes were missed.
    Anything,
    /// The objects of these names, which may be gone; a name may stand there more than once.
    Named(Vec<Text>),
}

impl<'a> Follow<'a> {
    /// All objects of a resource.
    pub(crate) fn all(resource: &'a Resource) -> Self {
        Self { resource, namespace: Text::default(), options: ListOptions::default(), watcher: None }
    }

    /// Those of one namespace that have these labels.
    pub(crate) fn labelled(resource: &'a Resource, namespace: &str, labels: LabelSelector) -> Self {
        let options = ListOptions { labels, ..ListOptions::default() };
        Self { namespace: namespace.into(), options, ..Self::all(resource) }
    }

    /// One object.
    pub(crate) fn one(resource: &'a Resource, namespace: &str, name: &str) -> Self {
        use binnacle_meta::{FieldSelector, FieldTerm};
        let term = FieldTerm { field: "metadata.name".into(), value: name.into(), negated: false };
        let options = ListOptions { fields: FieldSelector::new(vec![term]), ..ListOptions::default() };
        Self { namespace: namespace.into(), options, ..Self::all(resource) }
    }

    /// Waits until something has changed. Reads from the cache are then at least as new. Dropping the future loses
    /// nothing.
    pub(crate) async fn changed(&mut self) -> Changed {
        loop {
            let Some(watcher) = &mut self.watcher else {
                self.open().await;
                return Changed::Anything;
            };
            let mut items: Vec<WatchItem> = Vec::new();
            match watcher.next_batch(BATCH, &mut items).await {
                Ok(()) => {
                    let name = |item: &WatchItem| item.entry().map(|entry| Text::new(entry.name()));
                    return Changed::Named(items.iter().filter_map(name).collect());
                }
                // Too slow for the window, or the cache has read everything again.
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
