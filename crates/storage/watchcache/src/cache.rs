//! The cache of one resource: its public interface.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use binnacle_meta::Text;
use binnacle_store::{Count, KeyValue, RangeRequest, Revision, Store, StoreError};
use tokio::time::{Instant, timeout_at};

use crate::attrs::Indexer;
use crate::backlog::Backlog;
use crate::check_intervals::CheckIntervals;
use crate::distribution::Distribution;
use crate::entry::Entry;
use crate::error::{CacheError, WatchError};
use crate::reflector;
use crate::selection::{Interest, Selection};
use crate::shared::Shared;
use crate::snapshot::Snapshot;
use crate::stats::CacheStats;
use crate::store_history::NOTHING;
use crate::watcher::{Start, Watcher};
use crate::window::WindowLimits;

/// How long a read waits for the cache before it fails, as in kube-apiserver.
pub const BLOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// A cache that reflects one prefix of the store and serves reads and watches of it. It does nothing before its first
/// use.
#[derive(Debug)]
pub struct Cache {
    shared: Arc<Shared>,
}

impl Cache {
    /// Creates a cache of the keys that start with `prefix`, which ends with a slash.
    pub fn new(store: Arc<dyn Store>, prefix: &str, indexer: Arc<dyn Indexer>, limits: WindowLimits) -> Self {
        Self::with_backlog(store, prefix, indexer, limits, Backlog::with_default_limit())
    }

    /// Creates a cache like [`Cache::new`], with a limit on the memory of slow watchers that caches share.
    pub fn with_backlog(
        store: Arc<dyn Store>,
        prefix: &str,
        indexer: Arc<dyn Indexer>,
        limits: WindowLimits,
        backlog: Arc<Backlog>,
    ) -> Self {
        Self { shared: Shared::new(store, prefix, indexer, limits, backlog) }
    }

    /// Makes the cache compare itself with the store, starting when the cache is started.
    pub fn with_checks(self, times: CheckIntervals) -> Self {
        let _ = self.shared.checks.set(times);
        self
    }

    /// Returns false after a failed comparison with the store, until all objects have been read again.
    pub fn is_consistent(&self) -> bool {
        !self.shared.inconsistent.load(Ordering::Acquire)
    }

    /// Resolves an interest for matching objects of this resource.
    pub fn selection(&self, interest: Interest) -> Arc<Selection> {
        Arc::new(Selection::new(interest, self.shared.indexer.fields()))
    }

    /// Starts to watch the store, unless the cache is already started.
    pub fn start(&self) {
        self.shared.start();
    }

    /// Starts to watch the store if the range has a key. Returns true if it has.
    pub async fn start_unless_empty(&self) -> Result<bool, StoreError> {
        let range = self.shared.range.clone();
        let first = RangeRequest { range, revision: None, limit: 1, count: Count::Returned };
        let empty = match self.shared.store.range(first).await {
            Ok(response) => response.kvs.is_empty(),
            // The range has a value, but it cannot be decrypted.
            Err(StoreError::Transform { .. }) => false,
            Err(error) => return Err(error),
        };
        if !empty {
            self.start();
        }
        Ok(!empty)
    }

    /// Returns true if the cache has read its range and is watching the store.
    pub fn is_ready(&self) -> bool {
        self.shared.control.load().is_some()
    }

    /// Returns true if a value of the range cannot be read. The cache is not ready until that value has changed, but
    /// single objects can still be read from the store.
    pub fn is_unreadable(&self) -> bool {
        self.shared.is_unreadable()
    }

    /// Returns true if a value was unreadable at the start, or has been for so long that the cache no longer serves
    /// reads.
    pub fn is_unavailable(&self) -> bool {
        self.shared.is_unavailable()
    }

    /// Returns the error for readers while the cache cannot serve reads.
    pub fn not_ready(&self) -> CacheError {
        self.shared.not_ready()
    }

    /// Waits until the cache has read its range for the first time.
    pub async fn ready(&self, deadline: Instant) -> Result<(), CacheError> {
        self.shared.initialized(deadline).await
    }

    /// Returns the current state of the cache, which may be outdated.
    pub async fn snapshot(&self, deadline: Instant) -> Result<Snapshot, CacheError> {
        self.shared.initialized(deadline).await?;
        Ok(self.shared.snapshot())
    }

    /// Returns a state at least as new as every write that was acknowledged before the call.
    pub async fn wait_consistent(&self, deadline: Instant) -> Result<Snapshot, CacheError> {
        let revision = self.shared.barrier(deadline, true).await?;
        Ok(Snapshot::new(self.shared.current(), revision))
    }

    /// Returns a state at least as new as `revision`.
    pub async fn wait_for(&self, revision: Revision, deadline: Instant) -> Result<Snapshot, CacheError> {
        self.shared.initialized(deadline).await?;
        let mut known = None;
        while self.shared.progress() < revision {
            // The store's revision may have increased without a change of this resource, so only the store has the
            // current one.
            let (current, expired) = match (self.shared.barrier(deadline, true).await, known) {
                (Ok(current), _) => (current, Instant::now() >= deadline),
                // The deadline passed before the store could respond again.
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

    /// Returns the state at exactly this revision if the cache has it: the current state, or one retained by
    /// [`Cache::retain`].
    pub fn snapshot_at(&self, revision: Revision) -> Option<Snapshot> {
        self.shared.snapshot_at(revision)
    }

    /// Returns the state at exactly this revision if it can be computed from at most `most` recent events, and retains
    /// it like [`Cache::retain`]. Otherwise the store's history must be read. kube-apiserver keeps a snapshot for each
    /// of these events (KEP-4988).
    pub async fn rewind(&self, revision: Revision, most: usize, deadline: Instant) -> Option<Snapshot> {
        self.shared.rewind(revision, most, deadline).await
    }

    /// Drops the states before `revision`, which the store has compacted, so that a paginated list expires with the
    /// store's history even if its pages come from the cache.
    pub fn forget_before(&self, revision: Revision) {
        self.shared.forget_before(revision);
    }

    /// Retains a snapshot for a while, for [`Cache::snapshot_at`] of the next page of a list.
    pub fn retain(&self, snapshot: &Snapshot) {
        self.shared.retain(snapshot);
    }

    /// Returns one cached object, or `None` if the cache has not read its range yet. `path` is `namespace/name`, or
    /// only the name for cluster-scoped resources. Creates no snapshot.
    pub fn get(&self, path: &str) -> Option<Arc<Entry>> {
        self.shared.get(path)
    }

    /// Returns one object as of every write that was acknowledged before the call.
    pub async fn get_consistent(
        &self,
        path: &str,
        deadline: Instant,
    ) -> Result<(Option<Arc<Entry>>, Revision), CacheError> {
        let revision = self.shared.barrier(deadline, false).await?;
        Ok((self.shared.get(path), revision))
    }

    /// Ends all watches silently and permanently, because another cache (or none) serves their objects. Reads in
    /// progress continue.
    pub fn retire(&self) {
        self.shared.hub.lock().retire();
    }

    /// Starts a watch.
    pub async fn subscribe(
        &self,
        selection: Arc<Selection>,
        start: Start,
        deadline: Instant,
    ) -> Result<Watcher, WatchError> {
        self.shared.initialized(deadline).await.map_err(|_| WatchError::NotReady)?;
        if self.shared.is_unavailable() {
            return Err(WatchError::NotReady);
        }
        if let Start::After(revision) = start
            && revision > NOTHING
        {
            self.shared.load_history(revision, deadline).await?;
        }
        Watcher::open(Arc::clone(&self.shared), selection, start)
    }

    /// Extends the recent events back to `revision`, if the store's history has them. [`Cache::subscribe`] does this
    /// itself, except for the revision of an empty store.
    pub async fn load_history(&self, revision: Revision, deadline: Instant) -> Result<(), WatchError> {
        self.shared.initialized(deadline).await.map_err(|_| WatchError::NotReady)?;
        self.shared.load_history(revision, deadline).await
    }

    /// Returns an entry for an object from the store's history, for lists of states that the cache no longer has.
    pub fn entry(&self, kv: &KeyValue) -> Result<Arc<Entry>, StoreError> {
        let path = kv.key.get(self.shared.range.start.len()..).map(String::from_utf8_lossy).unwrap_or_default();
        reflector::entry_from_history(&self.shared, &path, kv).map(Arc::new)
    }

    /// Returns the revision up to which the cache is complete.
    pub fn progress(&self) -> Revision {
        self.shared.progress()
    }

    /// Reads the store's revision, to advance [`Cache::progress`] and bookmarks of idle watches.
    pub async fn refresh_progress(&self, deadline: Instant) -> Result<Revision, CacheError> {
        self.shared.barrier(deadline, true).await
    }

    /// Returns the number of watchers, or `None` while they are changing or receiving an event.
    pub fn watchers(&self) -> Option<usize> {
        self.shared.hub.try_lock().map(|hub| hub.watchers())
    }

    pub fn stats(&self) -> CacheStats {
        self.shared.stats()
    }

    /// Returns the distribution of the seconds that reads waited for the cache to reach the store's revision.
    pub fn waits(&self) -> &Distribution {
        &self.shared.waits
    }

    /// Returns the selectable fields of the indexer.
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
