//! The stores of all resources, and their options.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use binnacle_features::Features;
use binnacle_meta::GroupResource;
use binnacle_scheme::MediaType;
use binnacle_store::Store;

use crate::counts::Counts;
use crate::lease_manager::LeaseManager;
use crate::resource::ROOT;

/// The storage options of all built-in resources. The defaults are those of kube-apiserver's flags.
#[derive(Clone)]
pub struct StorageOptions {
    pub store: Arc<dyn Store>,
    /// Resources with other stores (`--etcd-servers-overrides`).
    pub overrides: HashMap<GroupResource, Arc<dyn Store>>,
    /// The prefix of all keys (`--etcd-prefix`), which ends with a slash.
    pub root: String,
    pub media_type: MediaType,
    pub uncached: UncachedResources,
    /// The TTL of events.
    pub event_ttl: Duration,
    /// How long a lease is used for new events.
    pub lease_reuse: Duration,
    /// The number of concurrent deletes in a deletecollection.
    pub delete_workers: usize,
    /// True if deletes set finalizers for the garbage collector (`--enable-garbage-collector`).
    pub garbage_collector: bool,
    /// The feature gates and the settings of the server.
    pub features: Arc<Features>,
}

/// The resources that are read from the store. Their cache is only used for watches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UncachedResources {
    /// All resources (`--watch-cache=false`).
    All,
    /// The resources with size 0 in `--watch-cache-sizes`, and those that kube-apiserver never caches.
    Some(HashSet<GroupResource>),
}

// === impl StorageOptions ===

impl StorageOptions {
    /// Returns the same options with other stores.
    #[must_use]
    pub fn map_stores(self, map: impl Fn(Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        self.map_stores_of(|_, store| map(store))
    }

    /// Returns the same options with other stores. `map` gets the resource of each override, and `None` with the store
    /// of all others.
    #[must_use]
    pub fn map_stores_of(self, map: impl Fn(Option<&GroupResource>, Arc<dyn Store>) -> Arc<dyn Store>) -> Self {
        let overrides = self.overrides.into_iter().map(|(resource, store)| {
            let store = map(Some(&resource), store);
            (resource, store)
        });
        Self { overrides: overrides.collect(), store: map(None, self.store), ..self }
    }

    pub fn new(store: Arc<dyn Store>) -> Self {
        Self {
            store,
            overrides: HashMap::new(),
            root: ROOT.to_owned(),
            media_type: MediaType::default(),
            uncached: UncachedResources::Some(HashSet::new()),
            event_ttl: Duration::from_secs(3600),
            lease_reuse: Duration::from_secs(60),
            delete_workers: 1,
            garbage_collector: true,
            features: Arc::default(),
        }
    }

    pub(crate) fn store_of(&self, resource: &GroupResource) -> Arc<dyn Store> {
        self.overrides.get(resource).unwrap_or(&self.store).clone()
    }

    pub(crate) fn leases(&self, store: Arc<dyn Store>, counts: Arc<Counts>) -> LeaseManager {
        LeaseManager::new(store, self.event_ttl, self.lease_reuse, counts)
    }
}

// === impl UncachedResources ===

impl UncachedResources {
    pub(crate) fn has(&self, resource: &GroupResource) -> bool {
        match self {
            Self::All => true,
            Self::Some(resources) => resources.contains(resource),
        }
    }
}
