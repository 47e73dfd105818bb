//! Installation of resource types: each one gets its hooks, its admission and its cache on a shared store.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use binnacle_meta::{GroupResource, Text};
use binnacle_scheme::{MediaType, ResourceType, StoredType};
use binnacle_watchcache::{Backlog, Cache, CheckIntervals, EncodingBudget, WindowLimits};
use bytes::Bytes;

use crate::admission::Admission;
use crate::converting_store;
use crate::counts::Counts;
use crate::hooks::{Hooks, NoHooks};
use crate::index::ResourceIndexer;
use crate::request_store::RequestStore;
use crate::resource::{Resource, ResourceStore};
use crate::storage::StorageOptions;

/// The shared parts of a server's resources.
pub struct Installer {
    pub storage: StorageOptions,
    pub admission: Arc<dyn Admission>,
    /// The hooks, by the group and kind of the stored version.
    pub hooks: HashMap<(&'static str, &'static str), Arc<dyn Hooks>>,
    /// The limit on the bytes of cached encodings.
    pub budget: Arc<EncodingBudget>,
    /// The limit on the bytes of events queued for slow watchers.
    pub backlog: Arc<Backlog>,
}

impl Installer {
    /// Creates an installer. `encoding_budget` is the limit on the bytes of cached encodings.
    pub fn new(
        storage: StorageOptions,
        admission: Arc<dyn Admission>,
        hooks: HashMap<(&'static str, &'static str), Arc<dyn Hooks>>,
        encoding_budget: usize,
    ) -> Self {
        let (budget, backlog) = (EncodingBudget::new(encoding_budget), Backlog::with_default_limit());
        Self { storage, admission, hooks, budget, backlog }
    }

    /// Binds resource types to the store. Versions with the same [`StoredType`] share one resource store. Does not read
    /// from the store.
    pub fn install<'t>(&self, types: impl IntoIterator<Item = &'t ResourceType>) -> Vec<Arc<Resource>> {
        self.install_each(types, |kind| {
            let own = self.hooks.get(&(kind.storage.group.as_str(), kind.storage.kind.as_str()));
            own.cloned().unwrap_or_else(|| Arc::new(NoHooks))
        })
    }

    /// Installs resource types like [`Installer::install`], with hooks for them.
    pub fn install_with<'t>(
        &self,
        types: impl IntoIterator<Item = &'t ResourceType>,
        hooks: &Arc<dyn Hooks>,
    ) -> Vec<Arc<Resource>> {
        self.install_each(types, |_| hooks.clone())
    }

    fn install_each<'t>(
        &self,
        types: impl IntoIterator<Item = &'t ResourceType>,
        hooks: impl Fn(&StoredType) -> Arc<dyn Hooks>,
    ) -> Vec<Arc<Resource>> {
        let mut collections: HashMap<*const StoredType, (Arc<ResourceStore>, usize)> = HashMap::new();
        let mut resources = Vec::new();
        for kind in types {
            let (collection, versions) = collections
                .entry(Arc::as_ptr(&kind.stored))
                .or_insert_with(|| (Arc::new(self.collection(&kind.stored, hooks(&kind.stored))), 0));
            resources.push(Arc::new(Resource::new(kind, collection.clone(), *versions)));
            *versions += 1;
        }
        resources
    }

    fn collection(&self, kind: &Arc<StoredType>, hooks: Arc<dyn Hooks>) -> ResourceStore {
        let storage = &kind.storage;
        let prefix = format!("{}{}/", self.storage.root, storage.key_prefix);
        let resource = GroupResource::new(storage.group.clone(), kind.plural.clone());
        let store = converting_store::wrap_store(self.storage.store_of(&resource), kind);
        let too_large = Arc::new(AtomicBool::new(false));
        let sharded = self.storage.features.enabled("ShardedListAndWatch");
        let indexer = Arc::new(ResourceIndexer::new(kind.clone(), sharded, too_large.clone()));
        let counts = Arc::new(Counts::default());
        let mut cache =
            Cache::with_backlog(store.clone(), &prefix, indexer, WindowLimits::default(), self.backlog.clone());
        if self.storage.features.enabled("DetectCacheInconsistency") {
            let mut times = CheckIntervals::default();
            if converting_store::convertible_schema(kind).is_some() {
                // A webhook would have to convert all objects again.
                times.objects = None;
            }
            cache = cache.with_checks(times);
        }
        ResourceStore {
            kind: kind.clone(),
            hooks,
            admission: self.admission.clone(),
            ttl: storage.expires.then(|| Arc::new(self.storage.leases(store.clone(), counts.clone()))),
            counts,
            too_large,
            store: RequestStore::new(store),
            cached: !self.storage.uncached.has(&resource),
            media_type: match kind.custom {
                Some(_) if self.storage.features.enabled("CBORServingAndStorage") => MediaType::Cbor,
                Some(_) => MediaType::Json,
                None => self.storage.media_type,
            },
            delete_workers: self.storage.delete_workers,
            garbage_collector: self.storage.garbage_collector,
            unsafe_deletion: self.storage.features.enabled("AllowUnsafeMalformedObjectDeletion"),
            features: self.storage.features.clone(),
            root: Text::from(self.storage.root.as_str()),
            cache: Arc::new(cache),
            budget: self.budget.clone(),
            prefix: Bytes::from(prefix),
            api_version: storage.group_version_kind().api_version(),
        }
    }
}
