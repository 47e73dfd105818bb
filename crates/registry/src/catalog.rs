//! All resources of a server, as immutable snapshots that are swapped whole.

use std::sync::Arc;

use arc_swap::ArcSwap;
use binnacle_features::Features;
use binnacle_meta::{Status, Text};
use binnacle_scheme::{Kinds, NoKinds, Served, Shared};
use imbl::HashMap;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::resource::Resource;

/// The resources of a server over time. Clones are the same catalog. Hooks and admission, which are part of resources,
/// hold it before there are any.
///
/// Each request takes one [`Snapshot`] and keeps it to the end.
#[derive(Clone)]
pub struct Catalog(Arc<Inner>);

struct Inner {
    features: Arc<Features>,
    current: ArcSwap<Snapshot>,
    /// Held while a snapshot is made of the one before.
    changing: Mutex<()>,
    /// Counts the changes.
    changes: watch::Sender<u64>,
}

/// The resources that a server serves at one moment. Clones share what they have in common.
#[derive(Clone)]
pub struct Snapshot {
    served: Arc<Served>,
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
    /// A catalog without resources, of a server with these kinds and features.
    pub fn new(kinds: Shared<dyn Kinds>, features: Arc<Features>) -> Self {
        let snapshot = Snapshot { served: Arc::default(), resources: HashMap::new(), kinds };
        let current = ArcSwap::from_pointee(snapshot);
        Self(Arc::new(Inner { features, current, changing: Mutex::new(()), changes: watch::Sender::new(0) }))
    }

    /// The feature gates of the server, and what it allows.
    pub fn features(&self) -> &Arc<Features> {
        &self.0.features
    }

    /// Returns the resources that are served now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.0.current.load_full()
    }

    /// Changes what is served, for requests that begin afterwards. It costs what changes, not what there is.
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

    /// Lets go of all resources for good, and ends their caches. Hooks and admission hold the catalog that holds them:
    /// without this a server that has ended would stay in memory.
    pub fn close(&self) {
        let closed = self.change(|snapshot| {
            snapshot.served = Arc::default();
            std::mem::take(&mut snapshot.resources)
        });
        closed.values().for_each(|resource| resource.collection.cache.retire());
    }

    /// Wakes its holder after each change.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.0.changes.subscribe()
    }

    /// A stored resource of the present snapshot.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.0.current.load().find(group, version, plural).cloned()
    }

    /// [`Catalog::find`] for who cannot do without: a version that is not served is an internal error.
    pub fn require(&self, group: &str, version: &str, plural: &str) -> Result<Arc<Resource>, Status> {
        self.find(group, version, plural).ok_or_else(|| {
            tracing::error!(group, version, plural, "the server itself needs a resource that it does not serve");
            Status::internal(format!("{plural}.{version}.{group} is not served"))
        })
    }
}

// === impl Snapshot ===

impl Snapshot {
    /// Adds stored resources, or replaces those of the same names.
    pub fn insert(&mut self, resources: impl IntoIterator<Item = Arc<Resource>>) {
        for resource in resources {
            let d = &resource.description;
            self.resources.insert((d.group.clone(), d.version.clone(), d.plural.clone()), resource);
        }
    }

    /// Takes a stored resource out.
    pub fn remove(&mut self, group: &str, version: &str, plural: &str) -> Option<Arc<Resource>> {
        self.resources.remove(&(group.into(), version.into(), plural.into()))
    }

    /// Changes which group versions are served, with the descriptions of their resources.
    pub fn serve(&mut self, change: impl FnOnce(&mut Served)) {
        change(Arc::make_mut(&mut self.served));
    }

    /// The group versions that are served. It is the same value for as long as nothing of it changes.
    pub fn served(&self) -> &Arc<Served> {
        &self.served
    }

    /// The program's own kinds.
    pub fn kinds(&self) -> &dyn Kinds {
        &*self.kinds
    }

    /// A stored resource.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.resources.get(&(group.into(), version.into(), plural.into()))
    }

    /// The stored resource whose objects are of this kind.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<Resource>> {
        let description = self.served.find_kind(group, version, kind)?;
        self.find(group, version, &description.plural)
    }

    /// All stored resources, in no particular order.
    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.resources.values()
    }
}
