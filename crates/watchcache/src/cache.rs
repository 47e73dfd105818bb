//! The cache of one resource: its public face, and what the follower, snapshots and watchers share.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use binnacle_meta::Text;
use binnacle_store::{KeyValue, RangeRequest, Revision, Store, StoreError, WatchControl, prefix_range};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::attrs::Indexer;
use crate::distribution::Distribution;
use crate::entry::Entry;
use crate::error::{CacheError, WatchError};
use crate::follower;
use crate::hub::Hub;
use crate::index::Index;
use crate::selection::{Interest, Property, Selection};
use crate::snapshot::{Snapshot, SnapshotInner};
use crate::state::{State, catch_up};
use crate::stats::{CacheStats, Counters, READ_WAITS};
use crate::watcher::{Start, Watcher};
use crate::window::WindowLimits;

/// How long a read waits for the cache before it is refused, as in the reference.
pub const BLOCK_TIMEOUT: Duration = Duration::from_secs(3);

/// The empty store: no client of the cache was ever told of it, so nobody can come back to it.
const NOTHING: Revision = Revision(1);
/// Indexes that nobody read for this long are dropped.
const INDEX_IDLE: Duration = Duration::from_secs(600);
const MAX_INDEXES: usize = 12;
/// A snapshot kept for the next page of a list waits this long for it, as long as the window's events.
const RETAIN: Duration = Duration::from_secs(75);
const MAX_RETAINED: usize = 64;
/// Kept snapshots hold on to what was replaced since; when that is more than this and half of what the cache holds, the
/// oldest go.
const RETAINED_BYTES: u64 = 64 << 20;

/// Follows one prefix of the store and serves reads and watches of it. Nothing happens before the first use.
#[derive(Debug)]
pub struct Cache {
    shared: Arc<Shared>,
}

impl Cache {
    /// A cache of the keys that start with `prefix`, which ends with a slash.
    pub fn new(store: Arc<dyn Store>, prefix: &str, indexer: Arc<dyn Indexer>, limits: WindowLimits) -> Self {
        let shared = Arc::new_cyclic(|me: &Weak<Shared>| Shared {
            store,
            range: prefix_range(prefix.as_bytes()),
            indexer,
            state: Mutex::default(),
            published: ArcSwapOption::empty(),
            retained: Mutex::default(),
            hub: Mutex::new(Hub::new(limits)),
            progress: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            initialized: AtomicBool::new(false),
            control: ArcSwapOption::empty(),
            trouble: Mutex::default(),
            counters: Counters::default(),
            waits: Distribution::new(&READ_WAITS),
            changed: Notify::new(),
            building: AtomicBool::new(false),
            born: Instant::now(),
            task: Mutex::default(),
            reaching: tokio::sync::Mutex::default(),
            out_of_reach: AtomicU64::new(0),
            rewinding: tokio::sync::Mutex::default(),
            remembered: AtomicU64::new(0),
            me: me.clone(),
        });
        Self { shared }
    }

    /// Prepares an interest for this resource.
    pub fn selection(&self, interest: Interest) -> Arc<Selection> {
        Arc::new(Selection::new(interest, self.shared.indexer.fields()))
    }

    /// Begins to follow the store, if that has not happened yet.
    pub fn start(&self) {
        self.shared.start();
    }

    /// Begins to follow the store if anything is stored in the range, and says whether there is.
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

    /// Whether the cache has read its range and follows the store at this moment.
    pub fn is_ready(&self) -> bool {
        self.shared.control.load().is_some()
    }

    /// Whether a value of the range cannot be read, so that the cache will not be ready until it has changed. Single
    /// objects can still be asked of the store.
    pub fn is_unreadable(&self) -> bool {
        self.shared.is_unreadable()
    }

    /// Whether that has lasted for so long, or from the start, that nothing the cache holds is served any more.
    pub fn is_lost(&self) -> bool {
        self.shared.is_lost()
    }

    /// What a reader is told while the cache cannot serve it.
    pub fn not_ready(&self) -> CacheError {
        self.shared.not_ready()
    }

    /// Waits until the cache has read its range for the first time.
    pub async fn ready(&self, deadline: Instant) -> Result<(), CacheError> {
        self.shared.initialized(deadline).await
    }

    /// What the cache holds now, however old that is.
    pub async fn snapshot(&self, deadline: Instant) -> Result<Snapshot, CacheError> {
        self.shared.initialized(deadline).await?;
        Ok(self.shared.snapshot())
    }

    /// A state at least as new as every write that was acknowledged before this was called.
    pub async fn wait_consistent(&self, deadline: Instant) -> Result<Snapshot, CacheError> {
        let revision = self.shared.barrier(deadline).await?;
        Ok(Snapshot::new(self.shared.current(), revision))
    }

    /// A state at least as new as `revision`.
    pub async fn wait_for(&self, revision: Revision, deadline: Instant) -> Result<Snapshot, CacheError> {
        self.shared.initialized(deadline).await?;
        let mut known = None;
        while self.shared.progress() < revision {
            // Nothing may have happened to this resource while the store moved on: only the store can tell.
            let (current, expired) = match (self.shared.barrier(deadline).await, known) {
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
    /// kept as by [`Cache::retain`]. Otherwise the store's history must be asked. The reference keeps a snapshot for
    /// each of those events (KEP 4988).
    pub async fn rewound(&self, revision: Revision, most: usize, deadline: Instant) -> Option<Snapshot> {
        self.shared.rewound(revision, most, deadline).await
    }

    /// The store has forgotten the states before `revision`. Those that are still at hand are given up as well, so that
    /// a list that is read in pages ends within the time for which history is kept, wherever its pages come from.
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
        let revision = self.shared.barrier(deadline).await?;
        Ok((self.shared.get(path), revision))
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
        self.shared.barrier(deadline).await
    }

    pub fn stats(&self) -> CacheStats {
        self.shared.stats()
    }

    /// How many seconds reads waited for the cache to be as new as the store.
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

/// What the parts of a cache share. Locks are taken in the order state, hub, mailbox, and never state with hub.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) range: Range<Bytes>,
    pub(crate) indexer: Arc<dyn Indexer>,
    pub(crate) state: Mutex<State>,
    /// The present state as readers see it; made when one asks, taken away by the next change. Written under `state`.
    published: ArcSwapOption<SnapshotInner>,
    retained: Mutex<Vec<Retained>>,
    pub(crate) hub: Mutex<Hub>,
    /// Everything up to this revision is in `state` and was handed to the watchers.
    progress: AtomicU64,
    /// The newest event that is in `state` and was handed to the watchers.
    applied: AtomicU64,
    initialized: AtomicBool,
    /// There while the store is followed.
    pub(crate) control: ArcSwapOption<Box<dyn WatchControl>>,
    /// Why the store is not followed, and since when.
    pub(crate) trouble: Mutex<Option<(Arc<StoreError>, Instant)>>,
    pub(crate) counters: Counters,
    waits: Distribution,
    /// Told of every step forward.
    pub(crate) changed: Notify,
    /// An index is being made.
    building: AtomicBool,
    born: Instant,
    task: Mutex<Option<AbortHandle>>,
    /// Held by whoever reads the store's history into the window.
    pub(crate) reaching: tokio::sync::Mutex<()>,
    /// What the window cannot reach back to for want of room.
    pub(crate) out_of_reach: AtomicU64,
    /// Held by whoever makes a state of the past.
    pub(crate) rewinding: tokio::sync::Mutex<()>,
    /// The first state that may still be read by its revision.
    remembered: AtomicU64,
    me: Weak<Shared>,
}

#[derive(Debug)]
struct Retained {
    snapshot: Snapshot,
    until: Instant,
}

impl Shared {
    fn start(&self) {
        let mut task = self.task.lock();
        if task.is_some() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            tracing::error!("a watch cache was used outside of a runtime");
            return;
        };
        if let Some(shared) = self.me.upgrade() {
            *task = Some(runtime.spawn(follower::run(shared)).abort_handle());
        }
    }

    async fn initialized(&self, deadline: Instant) -> Result<(), CacheError> {
        loop {
            let changed = self.changed.notified();
            if self.initialized.load(Ordering::Acquire) {
                return Ok(());
            }
            self.start();
            self.wait(changed, deadline).await?;
        }
    }

    /// Asks the store where it is and waits until the cache knows everything up to there.
    async fn barrier(&self, deadline: Instant) -> Result<Revision, CacheError> {
        let begun = std::time::Instant::now();
        let reached = self.reach(deadline).await;
        self.waits.add(begun.elapsed().as_secs_f64());
        reached
    }

    async fn reach(&self, deadline: Instant) -> Result<Revision, CacheError> {
        loop {
            let changed = self.changed.notified();
            let Some(control) = self.control.load_full() else {
                self.start();
                self.wait(changed, deadline).await?;
                continue;
            };
            let barrier = match timeout_at(deadline, control.barrier()).await {
                Ok(Ok(barrier)) => barrier,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the store did not tell its revision");
                    // The follower will see the same and begin anew.
                    let pause = deadline.min(Instant::now() + Duration::from_millis(20));
                    let _ = timeout_at(pause, changed).await;
                    if Instant::now() >= deadline {
                        return Err(error.into());
                    }
                    continue;
                }
                Err(_) => return Err(StoreError::Timeout.into()),
            };
            loop {
                let changed = self.changed.notified();
                if self.applied.load(Ordering::Acquire) >= barrier.last_event.0 {
                    self.progress.fetch_max(barrier.current.0, Ordering::AcqRel);
                    return Ok(barrier.current);
                }
                if !self.control.load().as_ref().is_some_and(|now| Arc::ptr_eq(now, &control)) {
                    break;
                }
                if timeout_at(deadline, changed).await.is_err() {
                    let current = Revision(self.applied.load(Ordering::Acquire));
                    return Err(CacheError::TooLargeRevision { requested: barrier.last_event, current });
                }
            }
        }
    }

    pub(crate) fn progress(&self) -> Revision {
        Revision(self.progress.load(Ordering::Acquire))
    }

    /// Everything up to `progress` was applied, the newest of it at `event`.
    pub(crate) fn advance(&self, event: Option<Revision>, progress: Revision) {
        if let Some(event) = event {
            self.applied.fetch_max(event.0, Ordering::AcqRel);
        }
        self.progress.fetch_max(progress.0, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// The state was read anew at `revision`, which may lie before the old one when the store was restored.
    pub(crate) fn begin(&self, revision: Revision) {
        self.applied.store(revision.0, Ordering::Release);
        self.progress.store(revision.0, Ordering::Release);
        self.initialized.store(true, Ordering::Release);
    }

    pub(crate) fn has_begun(&self) -> bool {
        self.initialized.load(Ordering::Acquire)
    }

    /// Changes the state; whoever has a snapshot keeps it.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state.lock();
        if self.published.load().is_some() {
            self.published.store(None);
        }
        change(&mut state)
    }

    pub(crate) fn current(&self) -> Arc<SnapshotInner> {
        if let Some(published) = self.published.load_full() {
            return published;
        }
        let state = self.state.lock();
        if let Some(published) = self.published.load_full() {
            return published;
        }
        let inner = Arc::new(SnapshotInner {
            objects: state.objects.clone(),
            indexes: state.indexes.clone(),
            changed: state.changed,
            written: state.written,
            owner: self.me.clone(),
            counts: Mutex::default(),
        });
        self.published.store(Some(Arc::clone(&inner)));
        inner
    }

    fn snapshot(&self) -> Snapshot {
        // Read first, so that the state is at least as new.
        let progress = self.progress();
        Snapshot::new(self.current(), progress)
    }

    pub(crate) fn get(&self, path: &str) -> Option<Arc<Entry>> {
        match &*self.published.load() {
            Some(published) => published.objects.get(path).cloned(),
            None => self.state.lock().objects.get(path).cloned(),
        }
    }

    fn forget_before(&self, revision: Revision) {
        self.remembered.fetch_max(revision.0, Ordering::AcqRel);
        self.retained.lock().retain(|kept| kept.snapshot.revision() >= revision);
    }

    /// Whether the store has forgotten the state.
    pub(crate) fn is_forgotten(&self, revision: Revision) -> bool {
        revision.0 < self.remembered.load(Ordering::Acquire)
    }

    pub(crate) fn snapshot_at(&self, revision: Revision) -> Option<Snapshot> {
        if self.is_forgotten(revision) {
            return None;
        }
        let present = self.snapshot();
        if present.inner.changed <= revision && revision <= present.revision() {
            return Some(Snapshot::new(present.inner, revision));
        }
        let mut retained = self.retained.lock();
        let fits = |kept: &Retained| kept.snapshot.inner.changed <= revision && revision <= kept.snapshot.revision();
        let kept = retained.iter_mut().find(|kept| fits(kept))?;
        kept.until = Instant::now() + RETAIN;
        Some(Snapshot::new(Arc::clone(&kept.snapshot.inner), revision))
    }

    pub(crate) fn retain(&self, snapshot: &Snapshot) {
        let until = Instant::now() + RETAIN;
        let mut retained = self.retained.lock();
        let same = |kept: &&mut Retained| Arc::ptr_eq(&kept.snapshot.inner, &snapshot.inner);
        match retained.iter_mut().find(same) {
            Some(kept) => {
                kept.until = until;
                if snapshot.revision() > kept.snapshot.revision() {
                    kept.snapshot = snapshot.clone();
                }
            }
            None => retained.push(Retained { snapshot: snapshot.clone(), until }),
        }
        if retained.len() > MAX_RETAINED {
            retained.remove(0);
        }
    }

    /// Drops what nobody came for; returns whether there is anything left that time will take.
    pub(crate) fn upkeep(&self) -> bool {
        let now = Instant::now();
        let indexes = {
            let mut state = self.state.lock();
            let oldest = self.now().saturating_sub(INDEX_IDLE.as_secs());
            if state.indexes.iter().any(|index| index.last_used() < oldest) {
                self.published.store(None);
                state.indexes.retain(|index| index.last_used() >= oldest);
            }
            state.indexes.len()
        };
        let retained = self.bound_retained();
        let mut hub = self.hub.lock();
        hub.window.trim(now);
        hub.window.can_shrink() || retained > 0 || indexes > 0
    }

    /// Drops snapshots that waited long enough or hold on to too much; returns how many are left.
    pub(crate) fn bound_retained(&self) -> usize {
        if self.retained.lock().is_empty() {
            return 0;
        }
        let (written, bytes) = {
            let state = self.state.lock();
            (state.written, state.bytes as u64)
        };
        let (now, may_hold) = (Instant::now(), RETAINED_BYTES.max(bytes / 2));
        let mut retained = self.retained.lock();
        retained.retain(|kept| kept.until > now && written.saturating_sub(kept.snapshot.inner.written) <= may_hold);
        retained.len()
    }

    /// Seconds since the cache was made.
    pub(crate) fn now(&self) -> u64 {
        self.born.elapsed().as_secs()
    }

    /// A list was slow for want of an index: makes it beside the road, one at a time.
    pub(crate) fn want_index(&self, property: Property) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Some(shared) = self.me.upgrade() else { return };
        if self.building.swap(true, Ordering::AcqRel) {
            return;
        }
        runtime.spawn_blocking(move || {
            shared.build_index(property);
            shared.building.store(false, Ordering::Release);
            shared.changed.notify_waiters();
        });
    }

    fn build_index(&self, property: Property) {
        let from = self.current();
        let mut index = Index::build(property, &from.objects, self.now());
        // What changed meanwhile, once without the lock, and the little rest under it.
        let then = self.current();
        catch_up(&mut index, &from.objects, &then.objects);
        self.change(|state| {
            if state.indexes.len() >= MAX_INDEXES {
                let oldest = state.indexes.iter().enumerate().min_by_key(|(_, index)| index.last_used());
                if let Some((position, _)) = oldest {
                    state.indexes.swap_remove(position);
                }
            }
            state.adopt(index, &then.objects);
        });
    }

    fn stats(&self) -> CacheStats {
        let (objects, bytes, value_bytes, indexes) = {
            let state = self.state.lock();
            (state.objects.len(), state.bytes, state.value_bytes, state.indexes.len())
        };
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let retained_snapshots = self.retained.lock().len();
        let hub = self.hub.lock();
        CacheStats {
            objects,
            bytes,
            watchers: hub.watchers(),
            window_events: hub.window.len(),
            window_bytes: hub.window.bytes(),
            indexes,
            retained_snapshots,
            value_bytes,
            capacity: hub.window.capacity(),
            initializations: count(&self.counters.initializations),
            initial_events: count(&self.counters.initial_events),
            told_initially: count(&self.counters.told_initially),
            events_received: count(&self.counters.events_received),
            events_dispatched: count(&self.counters.events_dispatched),
            terminated: count(&self.counters.terminated),
            undecodable: count(&self.counters.undecodable),
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("range", &self.range).field("progress", &self.progress).finish_non_exhaustive()
    }
}
