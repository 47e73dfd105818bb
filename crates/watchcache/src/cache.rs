//! The cache of one resource: its public face.

use std::sync::Arc;
use std::time::Duration;

use binnacle_meta::Text;
use binnacle_store::{KeyValue, RangeRequest, Revision, Store, StoreError};
use tokio::time::{Instant, timeout_at};

use crate::attrs::Indexer;
use crate::backlog::Backlog;
use crate::distribution::Distribution;
use crate::entry::Entry;
use crate::error::{CacheError, WatchError};
use crate::follower;
use crate::selection::{Interest, Selection};
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::stats::CacheStats;
use crate::watcher::{Start, Watcher};
use crate::window::WindowLimits;

/// The time that a read waits for the cache before it is refused, as in kube-apiserver.
pub const BLOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// The revision of the empty store: no client of the cache was ever told of it, so nobody can come back to it.
const NOTHING: Revision = Revision(1);

/// Follows one prefix of the store and serves reads and watches of it. Nothing happens before the first use.
#[derive(Debug)]
pub struct Cache {
    shared: Arc<Shared>,
}

impl Cache {
    /// A cache of the keys that start with `prefix`, which ends with a slash.
    pub fn new(store: Arc<dyn Store>, prefix: &str, indexer: Arc<dyn Indexer>, limits: WindowLimits) -> Self {
        Self::with_backlog(store, prefix, indexer, limits, Backlog::with_default_limit())
    }

    /// As [`Cache::new`], with a bound that is shared with other caches on the memory that slow watchers hold.
    pub fn with_backlog(
        store: Arc<dyn Store>,
        prefix: &str,
        indexer: Arc<dyn Indexer>,
        limits: WindowLimits,
        backlog: Arc<Backlog>,
    ) -> Self {
        Self { shared: Shared::new(store, prefix, indexer, limits, backlog) }
    }

    /// Prepares an interest for this resource.
    pub fn selection(&self, interest: Interest) -> Arc<Selection> {
        Arc::new(Selection::new(interest, self.shared.indexer.fields()))
    }

    /// Begins to follow the store, if that has not happened yet.
    pub fn start(&self) {
        self.shared.start();
    }

    /// Begins to follow the store if anything is stored in the range; returns true if there is.
    pub async fn start_unless_empty(&self) -> Result<bool, StoreError> {
        let range = self.shared.range.clone();
        let first = RangeRequest { range, revision: None, limit: 1, count_only: false };
        let empty = match self.shared.store.range(first).await {
            Ok(response) => response.kvs.is_empty(),
            // There is something.
            Err(StoreError::Transform { .. }) => false,
            Err(error) => return Err(error),
        };
        if !empty {
            self.start();
        }
        Ok(!empty)
    }

    /// Returns true if the cache has read its range and follows the store at this moment.
    pub fn is_ready(&self) -> bool {
        self.shared.control.load().is_some()
    }

    /// Returns true if a value of the range cannot be read, so that the cache will not be ready until it has changed.
    /// Single objects can still be read from the store.
    pub fn is_unreadable(&self) -> bool {
        self.shared.is_unreadable()
    }

    /// Returns true if that has lasted for so long, or from the start, that the cache serves nothing any more.
    pub fn is_lost(&self) -> bool {
        self.shared.is_lost()
    }

    /// Returns the error for readers while the cache cannot serve them.
    pub fn not_ready(&self) -> CacheError {
        self.shared.not_ready()
    }

    /// Waits until the cache has read its range for the first time.
    pub async fn ready(&self, deadline: Instant) -> Result<(), CacheError> {
        self.shared.initialized(deadline).await
    }

    /// Returns the present state of the cache, however old that is.
    pub async fn snapshot(&self, deadline: Instant) -> Result<Snapshot, CacheError> {
        self.shared.initialized(deadline).await?;
        Ok(self.shared.snapshot())
    }

    /// A state at least as new as every write that was acknowledged before this was called.
    pub async fn wait_consistent(&self, deadline: Instant) -> Result<Snapshot, CacheError> {
        let revision = self.shared.barrier(deadline, true).await?;
        Ok(Snapshot::new(self.shared.current(), revision))
    }

    /// A state at least as new as `revision`.
    pub async fn wait_for(&self, revision: Revision, deadline: Instant) -> Result<Snapshot, CacheError> {
        self.shared.initialized(deadline).await?;
        let mut known = None;
        while self.shared.progress() < revision {
            // The store may have moved on without a change of this resource: only the store can tell.
            let (current, expired) = match (self.shared.barrier(deadline, true).await, known) {
                (Ok(current), _) => (current, Instant::now() >= deadline),
                // It was asked too late to answer once more.
                (Err(_), Some(current)) if Instant::now() >= deadline => (current, true),
                (Err(CacheError::TooLargeRevision { current, .. }), _) => (current, true),
                (Err(error), _) => return Err(error),
            };
            known = Some(current);
            if current >= revision {
                break;
            }
            if expired {
                return Err(CacheError::TooLargeRevision { requested: revision, current });
            }
            let changed = self.shared.changed.notified();
            let pause = deadline.min(Instant::now() + Duration::from_millis(50));
            let _ = timeout_at(pause, changed).await;
        }
        Ok(self.shared.snapshot())
    }

    /// The state at exactly this revision, when the cache has it at hand: the present one, or one kept by
    /// [`Cache::retain`].
    pub fn snapshot_at(&self, revision: Revision) -> Option<Snapshot> {
        self.shared.snapshot_at(revision)
    }

    /// The state at exactly this revision, when the recent events lead back to it and are no more than `most`; it is
    /// kept as by [`Cache::retain`]. Otherwise the store's history must be asked. kube-apiserver keeps a snapshot for
    /// each of those events (KEP 4988).
    pub async fn rewound(&self, revision: Revision, most: usize, deadline: Instant) -> Option<Snapshot> {
        self.shared.rewound(revision, most, deadline).await
    }

    /// Gives up the states before `revision`, which the store has forgotten, so that a list that is read in pages ends
    /// within the time for which history is kept, wherever its pages come from.
    pub fn forget_before(&self, revision: Revision) {
        self.shared.forget_before(revision);
    }

    /// Keeps a snapshot for a while, so that [`Cache::snapshot_at`] finds it for the next page of a list.
    pub fn retain(&self, snapshot: &Snapshot) {
        self.shared.retain(snapshot);
    }

    /// One object as the cache has it; `path` is `namespace/name`, or the name alone where there are no namespaces.
    /// Makes no snapshot. `None` as well when the cache has not read its range yet.
    pub fn get(&self, path: &str) -> Option<Arc<Entry>> {
        self.shared.get(path)
    }

    /// One object as it is after every write that was acknowledged before this was called.
    pub async fn get_consistent(
        &self,
        path: &str,
        deadline: Instant,
    ) -> Result<(Option<Arc<Entry>>, Revision), CacheError> {
        let revision = self.shared.barrier(deadline, false).await?;
        Ok((self.shared.get(path), revision))
    }

    /// Ends all watches silently, for good: another cache serves their objects, or none does any more. Reads that have
    /// begun go on.
    pub fn retire(&self) {
        self.shared.hub.lock().retire();
    }

    /// Begins a watch.
    pub async fn subscribe(
        &self,
        selection: Arc<Selection>,
        start: Start,
        deadline: Instant,
    ) -> Result<Watcher, WatchError> {
        self.shared.initialized(deadline).await.map_err(|_| WatchError::NotReady)?;
        if self.shared.is_lost() {
            return Err(WatchError::NotReady);
        }
        if let Start::After(revision) = start
            && revision > NOTHING
        {
            self.shared.reach_back(revision, deadline).await?;
        }
        Watcher::open(Arc::clone(&self.shared), selection, start)
    }

    /// Makes the recent events reach back to `revision` where the store's history does. [`Cache::subscribe`] does so, but
    /// for the very beginning.
    pub async fn reach_back(&self, revision: Revision, deadline: Instant) -> Result<(), WatchError> {
        self.shared.initialized(deadline).await.map_err(|_| WatchError::NotReady)?;
        self.shared.reach_back(revision, deadline).await
    }

    /// An object that the store's history holds, in the form of the cache's own: for lists of states that the cache
    /// has forgotten.
    pub fn entry(&self, kv: &KeyValue) -> Result<Arc<Entry>, StoreError> {
        let path = kv.key.get(self.shared.range.start.len()..).map(String::from_utf8_lossy).unwrap_or_default();
        follower::historic(&self.shared, &path, kv).map(Arc::new)
    }

    /// The revision up to which the cache knows everything.
    pub fn progress(&self) -> Revision {
        self.shared.progress()
    }

    /// Asks the store how far it is, so that [`Cache::progress`] and bookmarks of idle watches move on.
    pub async fn refresh_progress(&self, deadline: Instant) -> Result<Revision, CacheError> {
        self.shared.barrier(deadline, true).await
    }

    pub fn stats(&self) -> CacheStats {
        self.shared.stats()
    }

    /// Returns the seconds that reads waited for the cache to be as new as the store.
    pub fn waits(&self) -> &Distribution {
        &self.shared.waits
    }

    /// The selectable fields that objects are indexed by.
    pub fn fields(&self) -> &[Text] {
        self.shared.indexer.fields()
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        if let Some(task) = self.shared.task.lock().take() {
            task.abort();
        }
        self.shared.hub.lock().close();
    }
}
