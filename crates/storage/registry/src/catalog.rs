//! All resources of a server, as immutable snapshots that are replaced as a whole.

use std::sync::Arc;

use arc_swap::ArcSwap;
use binnacle_features::Features;
use binnacle_meta::{Status, Text};
use binnacle_scheme::{Kinds, NoKinds, ServedResources, Shared};
use imbl::HashMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::resource::Resource;

/// The current resources of a server. Clones share the same catalog. A new catalog is empty, since hooks and admission
/// are part of resources and hold the catalog.
///
/// Each request uses one [`Snapshot`] until it is finished.
#[derive(Clone)]
pub struct Catalog(Arc<Inner>);

struct Inner {
    features: Arc<Features>,
    current: ArcSwap<Snapshot>,
    /// Held while a snapshot is derived from the previous one.
    changing: Mutex<()>,
    /// The number of changes.
    changes: watch::Sender<u64>,
}

/// The resources that a server serves at one time: their descriptions in [`ServedResources`], and a [`Resource`] for each of
/// them that is stored. Clones share their contents.
#[derive(Clone)]
pub struct Snapshot {
    served: Arc<ServedResources>,
    resources: HashMap<Name, Arc<Resource>>,
    kinds: Shared<dyn Kinds>,
}

/// Group, version and plural.
type Name = (Text, Text, Text);

// === impl Catalog ===

impl Default for Catalog {
    fn default() -> Self {
        Self::new(Shared::Static(&NoKinds), Arc::default())
    }
}

impl Catalog {
    /// Creates a catalog without resources, for a server with these kinds and features.
    pub fn new(kinds: Shared<dyn Kinds>, features: Arc<Features>) -> Self {
        let snapshot = Snapshot { served: Arc::default(), resources: HashMap::new(), kinds };
        let current = ArcSwap::from_pointee(snapshot);
        Self(Arc::new(Inner { features, current, changing: Mutex::new(()), changes: watch::Sender::new(0) }))
    }

    /// Returns the feature gates and the settings of the server.
    pub fn features(&self) -> &Arc<Features> {
        &self.0.features
    }

    /// Returns the resources that are currently served.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.current.load_full()
    }

    /// Changes the served resources for later requests. The cost depends only on the size of the change.
    pub fn change<T>(&self, change: impl FnOnce(&mut Snapshot) -> T) -> T {
        let changed = {
            let _changing = self.0.changing.lock();
            let mut snapshot = Snapshot::clone(&self.0.current.load());
            let changed = change(&mut snapshot);
            self.0.current.store(Arc::new(snapshot));
            changed
        };
        self.0.changes.send_modify(|changes| *changes += 1);
        changed
    }

    /// Removes all resources and stops their caches. This is needed to free the memory of a stopped server, because
    /// hooks and admission hold the catalog that holds them.
    pub fn close(&self) {
        let closed = self.change(|snapshot| {
            snapshot.served = Arc::default();
            std::mem::take(&mut snapshot.resources)
        });
        closed.values().for_each(|resource| resource.collection.cache.retire());
    }

    /// Returns a receiver that is notified of each change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// Returns a stored resource of the current snapshot.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.0.current.load().find(group, version, plural).cloned()
    }

    /// Returns a stored resource like [`Catalog::find`], or an internal error if the version is not served.
    pub fn require(&self, group: &str, version: &str, plural: &str) -> Result<Arc<Resource>, Status> {
        self.find(group, version, plural).ok_or_else(|| {
            tracing::error!(group, version, plural, "the server itself needs a resource that it does not serve");
            Status::internal(format!("{plural}.{version}.{group} is not served"))
        })
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// Adds stored resources, or replaces those with the same names.
    pub fn insert(&mut self, resources: impl IntoIterator<Item = Arc<Resource>>) {
        for resource in resources {
            let d = &resource.description;
            self.resources.insert((d.group.clone(), d.version.clone(), d.plural.clone()), resource);
        }
    }

    /// Removes a stored resource.
    pub fn remove(&mut self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.resources.remove(&(group.into(), version.into(), plural.into()))
    }

    /// Changes the served group versions and the descriptions of their resources.
    pub fn serve(&mut self, change: impl FnOnce(&mut ServedResources)) {
        change(Arc::make_mut(&mut self.served));
    }

    /// Returns the served group versions. The value stays the same as long as they do not change.
    pub fn served(&self) -> &Arc<ServedResources> {
        &self.served
    }

    /// Returns the built-in kinds.
    pub fn kinds(&self) -> &dyn Kinds {
        &*self.kinds
    }

    /// Returns a stored resource.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.into(), version.into(), plural.into()))
    }

    /// Returns the stored resource with objects of this kind.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let description = self.served.find_kind(group, version, kind)?;
        self.find(group, version, &description.plural)
    }

    /// Returns all stored resources, in no particular order.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }
}
