//! The part of the stores that has the objects of one cluster: all of it, or the keys below a prefix.

pub(crate) mod bases;
mod loaded_bases;

use std::convert::Infallible;
use std::sync::Arc;

use binnacle_apiextensions::{Schemas, StructuralRules};
use binnacle_builtin::{Releases, stored_type};
use binnacle_features::Features;
use binnacle_meta::{GroupResource, Status};
use binnacle_registry::{StorageOptions, store_failure};
use binnacle_request::Shutdown;
use binnacle_resources::key_prefixes;
use binnacle_scheme::StoredType;
use binnacle_store::{
    Count, Expect, FairStore, KeyspaceStore, Op, OverlayStore, PastStore, QuotaStore, RangeRequest, Revision, Snapshot,
    StorageLimits, StorageUsage, Store, StoreError, Txn, WriteShares, WriteWaits, prefix_range,
};
use bytes::Bytes;
use tokio::sync::watch;
use tokio::task::JoinSet;

use self::loaded_bases::LoadedBases;
use crate::encryption::AtRest;
use crate::settings::Storage;
use crate::stores::Stores;

/// The key of a logical cluster that was restored from a backup, beside those of its objects.
const RESTORED: &[u8] = b"/restored";

/// The key of a logical cluster that is being restored.
const RESTORING: &[u8] = b"/restoring";

/// The beginning of the keys, below the root, of leases that servers of the cluster hold for themselves.
pub(crate) const IDENTITY_LEASES: &str = "leases/kube-system/apiserver-";

/// The stored objects of a cluster. Clones share the stores.
#[derive(Clone)]
pub(crate) struct ClusterStorage {
    pub(crate) stores: Arc<Stores>,
    pub(crate) at_rest: Option<Arc<AtRest>>,
    pub(crate) compactions: Arc<Compactions>,
    /// The prefix of all keys of a logical cluster in the stores; the keys of the cluster itself begin with the same root
    /// as those of the host. `None` for the host cluster, whose stores are its own.
    keyspace: Option<String>,
    /// The shares of the clusters in the writes, by store. `None` if the host has no logical clusters.
    shares: Option<Arc<[Arc<WriteShares>]>>,
    /// The waits of this cluster for its share.
    waits: Arc<WriteWaits>,
    /// Limits what a logical cluster stores.
    usage: Option<Arc<StorageUsage>>,
    /// The revisions, by store, before which the cluster has no history, since it was restored or forked at them.
    history: Vec<Revision>,
    /// The base that a cluster begins with, by store, if it has one.
    base: Option<Arc<[Arc<Snapshot>]>>,
    /// True if the base is that of a fork, not that of all new clusters.
    is_fork: bool,
    loaded_bases: Arc<LoadedBases>,
    /// The revision at which the storage ends, for reads of the past.
    at: Option<Revision>,
}

/// The last compacted revisions of the stores, for the caches of all clusters in them.
pub(crate) struct Compactions(Vec<watch::Sender<Revision>>);

/// Fails unless the history of a store has a revision.
pub(crate) async fn check_kept(store: &dyn Store, revision: Revision) -> Result<(), Status> {
    let oldest = store.compacted_revision().await.map_err(store_failure)?;
    if revision < oldest {
        let why = format!("revision {} is no longer kept: the oldest one is {}", revision.0, oldest.0);
        return Err(Status::expired(why));
    }
    let newest = store.current_revision().await.map_err(store_failure)?;
    match revision > newest {
        true => Err(Status::bad_request(format!("revision {} is in the future: it is {} now", revision.0, newest.0))),
        false => Ok(()),
    }
}

/// Returns true if there are no keys besides these.
async fn has_no_keys(views: &[Arc<dyn Store>], besides: &[&[u8]]) -> Result<bool, StoreError> {
    for store in views {
        let (range, limit) = (prefix_range(b"/"), besides.len() + 1);
        let first = RangeRequest { range, revision: None, limit, count: Count::Returned };
        if store.range(first).await?.kvs.iter().any(|kv| !besides.contains(&&*kv.key)) {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the type of the objects of a built-in resource, to read them without its registry.
pub(crate) fn built_in_type(group: &str, plural: &str) -> Option<StoredType> {
    let mut all = binnacle_resources::all();
    let described = all.find(|described| (&*described.group, &*described.plural) == (group, plural))?;
    stored_type(described, Releases::default())
}

// === impl ClusterStorage ===

impl ClusterStorage {
    /// Returns the storage of the cluster that owns the stores, which it may share with logical clusters.
    pub(crate) fn of_host(stores: Stores, at_rest: Option<AtRest>, is_shared: bool) -> Self {
        let count = stores.all().len();
        let compactions = Arc::new(Compactions::new(count));
        Self {
            stores: Arc::new(stores),
            at_rest: at_rest.map(Arc::new),
            compactions,
            keyspace: None,
            shares: is_shared.then(|| (0..count).map(|_| WriteShares::new()).collect()),
            waits: Arc::default(),
            usage: None,
            history: Vec::new(),
            base: None,
            is_fork: false,
            loaded_bases: Arc::default(),
            at: None,
        }
    }

    /// Returns the storage of the logical cluster with this UID, whose keys are below the root of the stores.
    pub(crate) fn of_logical_cluster(&self, uid: &str) -> Self {
        let root = self.stores.root();
        let keyspace = format!("{root}logicalclusters/{uid}");
        let at_rest = self.at_rest.as_ref().map(|at_rest| Arc::new(at_rest.below(&format!("{keyspace}{root}"))));
        let (stores, compactions, shares) = (self.stores.clone(), self.compactions.clone(), self.shares.clone());
        let loaded_bases = self.loaded_bases.clone();
        Self {
            stores,
            at_rest,
            compactions,
            keyspace: Some(keyspace),
            shares,
            waits: Arc::default(),
            usage: None,
            history: Vec::new(),
            base: None,
            is_fork: false,
            loaded_bases,
            at: None,
        }
    }

    /// Returns the same storage with limits. They apply once [`ClusterStorage::follow_usage`] was called.
    pub(crate) fn limited(self, limits: watch::Receiver<StorageLimits>) -> Self {
        let usage = StorageUsage::new(limits, self.stores.all().len());
        Self { usage: Some(usage), ..self }
    }

    /// Returns the same storage, whose waits are added to `waits`.
    pub(crate) fn count_waits(self, waits: Arc<WriteWaits>) -> Self {
        Self { waits, ..self }
    }

    /// Returns a store as this cluster writes to it, if it shares the store with others.
    fn fair(&self, index: usize, store: Arc<dyn Store>) -> Arc<dyn Store> {
        match self.shares.as_ref().and_then(|shares| shares.get(index)) {
            Some(shares) => {
                let name = self.keyspace.as_deref().unwrap_or_default();
                Arc::new(FairStore::new(store, shares.share(name.into(), self.waits.clone())))
            }
            None => store,
        }
    }

    /// Returns what the cluster has stored, if it has limits.
    pub(crate) fn usage(&self) -> Option<Arc<StorageUsage>> {
        self.usage.clone()
    }

    /// Starts to count what the cluster stores, whenever it has limits.
    pub(crate) fn follow_usage(&self, tasks: &mut JoinSet<()>, shutdown: &Shutdown) {
        let (Some(usage), Some(keyspace)) = (&self.usage, &self.keyspace) else { return };
        for (index, store) in self.stores.all().into_iter().enumerate() {
            let following = usage.clone().follow(index, store, prefix_range(format!("{keyspace}/").as_bytes()));
            let stopped = shutdown.fired();
            tasks.spawn(async move {
                tokio::select! {
                    () = following => {}
                    () = stopped => {}
                }
            });
        }
    }

    /// Returns true if other clusters use the same stores and this one does not maintain them.
    pub(crate) fn is_logical(&self) -> bool {
        self.keyspace.is_some()
    }

    /// Deletes all objects of a logical cluster.
    pub(crate) async fn delete_all(&self) -> Result<(), StoreError> {
        let Some(keyspace) = &self.keyspace else { return Err(StoreError::Shared) };
        for store in self.stores.all() {
            store.delete_range(prefix_range(format!("{keyspace}/").as_bytes())).await?;
        }
        Ok(())
    }

    /// Returns the same storage as it was at a revision, without limits.
    pub(crate) fn at(self, revision: Revision) -> Self {
        Self { at: Some(revision), usage: None, ..self }
    }

    /// Returns true if the storage has only one history, so that a revision is the same for all its resources.
    pub(crate) fn has_one_store(&self) -> bool {
        self.stores.clusters().len() <= 1
    }

    /// Returns the store of most resources as the cluster sees its history.
    pub(crate) fn main_view(&self) -> Arc<dyn Store> {
        let store = self.stores.main();
        match &self.keyspace {
            Some(keyspace) => {
                let begins = self.history.first().copied().unwrap_or_default();
                Arc::new(KeyspaceStore::new(store, keyspace.clone()).since(begins))
            }
            None => store,
        }
    }

    /// Returns the stores as a logical cluster sees them: its keys only, with those that a fork has in common with
    /// others, and values without encryption.
    pub(crate) fn views(&self) -> Vec<Arc<dyn Store>> {
        self.own_views().into_iter().enumerate().map(|(index, own)| self.overlay(index, own)).collect()
    }

    fn overlay(&self, index: usize, own: Arc<dyn Store>) -> Arc<dyn Store> {
        match self.base.as_ref().and_then(|base| base.get(index)) {
            Some(base) => Arc::new(OverlayStore::new(own, base.clone())),
            None => own,
        }
    }

    /// Returns the view of the first store with the markers of a cluster, which are not encrypted.
    fn marker_view(&self) -> Arc<dyn Store> {
        Arc::new(KeyspaceStore::new(self.stores.main(), self.keyspace.clone().unwrap_or_default()))
    }

    /// Returns the stores with what a logical cluster has written itself.
    fn own_views(&self) -> Vec<Arc<dyn Store>> {
        let keyspace = self.keyspace.clone().unwrap_or_default();
        let stores = self.stores.all().into_iter().enumerate().map(|(index, store)| self.fair(index, store));
        let stores = stores.map(|store| match &self.at_rest {
            Some(at_rest) => at_rest.wrap_store(store),
            None => store,
        });
        stores.map(|store| -> Arc<dyn Store> { Arc::new(KeyspaceStore::new(store, keyspace.clone())) }).collect()
    }

    /// Returns true if a logical cluster has no keys.
    pub(crate) async fn is_empty(&self) -> Result<bool, StoreError> {
        has_no_keys(&self.views(), &[]).await
    }

    /// Returns the prefix of all keys of a cluster, as it sees them.
    pub(crate) fn root(&self) -> &str {
        self.stores.root()
    }

    /// Returns the index of the store for a key without the root.
    pub(crate) fn store_index(&self, key: &str) -> usize {
        if self.stores.clusters().len() <= 1 {
            return 0;
        }
        let is_prefix = |prefix: &str| key.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'));
        let resource = key_prefixes().find(|(prefix, _)| is_prefix(prefix)).map(|(_, resource)| resource);
        self.index_of(resource.as_ref())
    }

    fn index_of(&self, resource: Option<&GroupResource>) -> usize {
        resource.map_or(0, |resource| self.stores.index_of(resource))
    }

    /// Notes that parts of a restore follow.
    pub(crate) async fn begin_restore(&self) -> Result<(), StoreError> {
        self.mark_restoring(Op::Put { value: Bytes::from_static(b"restoring"), lease: None }).await
    }

    /// Returns true if parts of a restore are expected.
    pub(crate) async fn is_restoring(&self) -> Result<bool, StoreError> {
        Ok(self.marker_view().get(Bytes::from_static(RESTORING), None).await?.0.is_some())
    }

    async fn mark_restoring(&self, op: Op) -> Result<(), StoreError> {
        let txn = Txn { key: Bytes::from_static(RESTORING), expect: Expect::Anything, op };
        self.marker_view().txn(txn).await.map(drop)
    }

    /// Ends a restore: the history of the cluster begins now. Its clients may know other revisions of a former host.
    pub(crate) async fn end_restore(&self) -> Result<(), StoreError> {
        for store in self.own_views() {
            let op = Op::Put { value: Bytes::from_static(b"restored"), lease: None };
            store.txn(Txn { key: Bytes::from_static(RESTORED), expect: Expect::Anything, op }).await?;
        }
        self.mark_restoring(Op::Delete).await
    }

    /// Returns the current revisions of the stores.
    pub(crate) async fn current_revisions(&self) -> Result<Vec<u64>, StoreError> {
        let mut revisions = Vec::new();
        for store in self.stores.all() {
            revisions.push(store.current_revision().await?.0);
        }
        Ok(revisions)
    }

    /// Returns true if a logical cluster has written no objects, whatever its base has.
    pub(crate) async fn has_no_own_objects(&self) -> Result<bool, StoreError> {
        const MARKERS: [&[u8]; 3] = [bases::ORIGIN, RESTORED, RESTORING];
        has_no_keys(&self.own_views(), &MARKERS).await
    }

    /// Returns the same storage with the history that the cluster has, and with its base.
    pub(crate) async fn with_history(self) -> Result<Self, StoreError> {
        let origin = self.origin().await?;
        let mut history = Vec::new();
        for (index, store) in self.own_views().iter().enumerate() {
            let (restored, _) = store.get(Bytes::from_static(RESTORED), None).await?;
            let restored = restored.map(|kv| kv.mod_revision).unwrap_or_default();
            let forked = origin.as_ref().and_then(|origin| origin.revisions.get(index)).copied().unwrap_or_default();
            history.push(restored.max(Revision(forked)));
        }
        let is_fork = origin.as_ref().is_some_and(|origin| !origin.is_of(bases::INITIAL_OBJECTS));
        let base = match origin {
            Some(origin) => Some(self.bases().load(&origin.base).await?),
            None => None,
        };
        Ok(Self { history, base, is_fork, ..self })
    }

    /// Returns the cache of the schemas of custom resources. Forks of the same contents share one; other clusters do not, since
    /// the time of a request would show which schemas others have.
    pub(crate) fn schemas(&self, rules: StructuralRules) -> Schemas {
        let make = || Ok::<_, Infallible>(Schemas::new(rules));
        match self.base.as_ref().and_then(|base| base.first()).filter(|_| self.is_fork) {
            Some(base) => match base.derived(Bytes::from_static(b"schemas"), make) {
                Ok(schemas) => Schemas::clone(&schemas),
            },
            None => Schemas::new(rules),
        }
    }

    /// Returns the storage options of the cluster's resources.
    pub(crate) fn options(&self, storage: &Storage, features: &Arc<Features>) -> StorageOptions {
        let mut options = self.stores.options(storage, features);
        if let Some(revision) = self.at {
            options = options.map_stores(|store| Arc::new(PastStore::new(store, revision)));
        }
        options = options.map_stores_of(|resource, store| self.fair(self.index_of(resource), store));
        if let Some(usage) = &self.usage {
            options = options.map_stores_of(|resource, store| {
                Arc::new(QuotaStore::new(store, usage.clone(), self.index_of(resource)))
            });
        }
        if let Some(at_rest) = &self.at_rest {
            options = at_rest.wrap(options);
        }
        if let Some(keyspace) = &self.keyspace {
            // Above the encryption, whose values are bound to the keys in the stores.
            options = options.map_stores_of(|resource, store| {
                let begins = self.history.get(self.index_of(resource)).copied().unwrap_or_default();
                let own = Arc::new(KeyspaceStore::new(store, keyspace.clone()).since(begins));
                self.overlay(self.index_of(resource), own)
            });
        }
        options
    }
}

// === impl Compactions ===

impl Compactions {
    fn new(stores: usize) -> Self {
        Self((0..stores).map(|_| watch::Sender::new(Revision(0))).collect())
    }

    /// Reports a compaction of the store with this index.
    pub(crate) fn report(&self, store: usize, revision: Revision) {
        if let Some(sender) = self.0.get(store) {
            sender.send_replace(revision);
        }
    }

    /// Returns the compactions of each store from now on.
    pub(crate) fn subscribe(&self) -> Vec<watch::Receiver<Revision>> {
        self.0.iter().map(watch::Sender::subscribe).collect()
    }
}
