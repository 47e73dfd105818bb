//! The shared parts of a cache: the state, its published form, and the progress of the reflector.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use arc_swap::ArcSwapOption;
use binnacle_store::{Revision, Store, StoreError, WatchControl, prefix_range};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;
use tokio::time::{Instant, timeout_at};

use crate::attrs::Indexer;
use crate::backlog::Backlog;
use crate::check_intervals::CheckIntervals;
use crate::compression_queue::CompressionQueue;
use crate::distribution::Distribution;
use crate::entry::{Entry, Event};
use crate::error::CacheError;
use crate::hub::Hub;
use crate::index::{Index, IndexOwner};
use crate::mailbox::Mailbox;
use crate::selection::Property;
use crate::snapshot::{Snapshot, SnapshotInner};
use crate::state::{State, catch_up};
use crate::stats::{CacheStats, CheckStats, Counters, READ_WAITS};
use crate::window::WindowLimits;

/// The time without a read after which an index is dropped.
const MAX_INDEX_IDLE: Duration = Duration::from_secs(600);
const MAX_INDEXES: usize = 12;
/// How long a snapshot is retained for the next page of a list. It is the same as for the window's events.
const RETAIN_FOR: Duration = Duration::from_secs(75);
const MAX_RETAINED: usize = 64;
/// Retained snapshots hold replaced objects. If these take more than this and more than half of the cache's memory, the
/// oldest snapshots are dropped.
const MAX_RETAINED_BYTES: u64 = 64 << 20;
const MANY_INITIALIZING: usize = 64;

/// The shared parts of a cache. Locks are taken in the order state, hub, mailbox. State and hub are never locked at the
/// same time.
pub(crate) struct Shared {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) range: Range<Bytes>,
    pub(crate) indexer: Arc<dyn Indexer>,
    pub(crate) state: Mutex<State>,
    /// The current state for readers, which is created by the first one, and removed by the next change. Written under
    /// `state`.
    published: ArcSwapOption<SnapshotInner>,
    retained: Mutex<Vec<RetainedSnapshot>>,
    /// Watches that may still be reading their initial state.
    initializing: Mutex<Vec<Weak<Mailbox>>>,
    pub(crate) hub: Mutex<Hub>,
    pub(crate) compression_queue: CompressionQueue,
    /// Everything up to this revision is in `state` and was passed to the watchers.
    progress: AtomicU64,
    /// The newest event that is in `state` and was passed to the watchers.
    applied: AtomicU64,
    initialized: AtomicBool,
    /// Present while the store is being watched.
    pub(crate) control: ArcSwapOption<Box<dyn WatchControl>>,
    /// The error that prevents the cache from watching the store, and the time of the first of these errors.
    pub(crate) failure: Mutex<Option<(Arc<StoreError>, Instant)>>,
    pub(crate) counters: Counters,
    /// Unset if the cache is not compared with the store.
    pub(crate) checks: OnceLock<CheckIntervals>,
    /// True after a failed comparison, until all objects have been read again.
    pub(crate) inconsistent: AtomicBool,
    /// True if the range has keys that are not paths, which the cache ignores.
    pub(crate) has_foreign_keys: AtomicBool,
    pub(crate) waits: Distribution,
    /// Notified of all progress.
    pub(crate) changed: Notify,
    /// True while an index is being built.
    building: AtomicBool,
    created: Instant,
    pub(crate) task: Mutex<Option<AbortHandle>>,
    /// Held while the store's history is read into the window.
    pub(crate) history_lock: Arc<tokio::sync::Mutex<()>>,
    /// The newest revision that the window cannot reach back to, because there is not enough room.
    pub(crate) unreachable: AtomicU64,
    /// Held while an earlier state is computed.
    pub(crate) rewind_lock: tokio::sync::Mutex<()>,
    /// The oldest revision whose state may still be read.
    oldest_readable: AtomicU64,
    pub(crate) weak_self: Weak<Shared>,
}

#[derive(Debug)]
struct RetainedSnapshot {
    snapshot: Snapshot,
    until: Instant,
}

impl Shared {
    /// Creates the parts for the keys that start with `prefix`.
    pub(crate) fn new(
        store: Arc<dyn Store>,
        prefix: &str,
        indexer: Arc<dyn Indexer>,
        limits: WindowLimits,
        backlog: Arc<Backlog>,
    ) -> Arc<Self> {
        Arc::new_cyclic(|weak_self: &Weak<Shared>| Shared {
            store,
            range: prefix_range(prefix.as_bytes()),
            indexer,
            state: Mutex::default(),
            published: ArcSwapOption::empty(),
            retained: Mutex::default(),
            initializing: Mutex::default(),
            hub: Mutex::new(Hub::new(limits, backlog)),
            compression_queue: CompressionQueue::default(),
            progress: AtomicU64::new(0),
            applied: AtomicU64::new(0),
            initialized: AtomicBool::new(false),
            control: ArcSwapOption::empty(),
            failure: Mutex::default(),
            counters: Counters::default(),
            checks: OnceLock::new(),
            inconsistent: AtomicBool::new(false),
            has_foreign_keys: AtomicBool::new(false),
            waits: Distribution::new(&READ_WAITS),
            changed: Notify::new(),
            building: AtomicBool::new(false),
            created: Instant::now(),
            task: Mutex::default(),
            history_lock: Arc::default(),
            unreachable: AtomicU64::new(0),
            rewind_lock: tokio::sync::Mutex::default(),
            oldest_readable: AtomicU64::new(0),
            weak_self: weak_self.clone(),
        })
    }

    pub(crate) async fn initialized(&self, deadline: Instant) -> Result<(), CacheError> {
        loop {
            let changed = self.changed.notified();
            if self.initialized.load(Ordering::Acquire) {
                return Ok(());
            }
            self.start();
            self.wait(changed, deadline).await?;
        }
    }

    /// Reads the store's revision and waits until the cache has reached it. A caller that is not `patient` can read the
    /// store itself, and does not wait while an event is unreadable.
    pub(crate) async fn barrier(&self, deadline: Instant, patient: bool) -> Result<Revision, CacheError> {
        let started = std::time::Instant::now();
        let reached = self.reach(deadline, patient).await;
        self.waits.add(started.elapsed().as_secs_f64());
        reached
    }

    pub(crate) async fn reach(&self, deadline: Instant, patient: bool) -> Result<Revision, CacheError> {
        loop {
            let changed = self.changed.notified();
            let Some(control) = self.control.load_full() else {
                self.start();
                if !patient && self.is_unreadable() {
                    return Err(self.stale_error().await);
                }
                self.wait(changed, deadline).await?;
                continue;
            };
            let barrier = match timeout_at(deadline, control.barrier()).await {
                Ok(Ok(barrier)) => barrier,
                Ok(Err(error)) => {
                    tracing::debug!(%error, "the store did not tell its revision");
                    // The reflector will get the same error and restart.
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

    /// Returns the revision of the newest applied event.
    pub(crate) fn applied(&self) -> Revision {
        Revision(self.applied.load(Ordering::Acquire))
    }

    /// Records that everything up to `progress` was applied, and that the newest event has the revision `event`.
    pub(crate) fn advance(&self, event: Option<Revision>, progress: Revision) {
        if let Some(event) = event {
            self.applied.fetch_max(event.0, Ordering::AcqRel);
        }
        self.progress.fetch_max(progress.0, Ordering::AcqRel);
        self.changed.notify_waiters();
    }

    /// Records that the state was read again at `revision`, which may be older than before if the store was restored.
    pub(crate) fn begin(&self, revision: Revision) {
        self.applied.store(revision.0, Ordering::Release);
        self.progress.store(revision.0, Ordering::Release);
        self.inconsistent.store(false, Ordering::Release);
        self.initialized.store(true, Ordering::Release);
    }

    pub(crate) fn is_initialized(&self) -> bool {
        self.initialized.load(Ordering::Acquire)
    }

    /// Changes the state; its snapshots do not change.
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
            era: state.era,
            owner: self.weak_self.clone(),
            counts: Mutex::default(),
        });
        self.published.store(Some(Arc::clone(&inner)));
        inner
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        // Read first, so that the state is at least as new as the progress.
        let progress = self.progress();
        Snapshot::new(self.current(), progress)
    }

    pub(crate) fn get(&self, path: &str) -> Option<Arc<Entry>> {
        match &*self.published.load() {
            Some(published) => published.objects.get(path).cloned(),
            None => self.state.lock().objects.get(path).cloned(),
        }
    }

    pub(crate) fn forget_before(&self, revision: Revision) {
        self.oldest_readable.fetch_max(revision.0, Ordering::AcqRel);
        self.retained.lock().retain(|retained| retained.snapshot.revision() >= revision);
    }

    /// Returns true if the store has compacted the state.
    pub(crate) fn is_forgotten(&self, revision: Revision) -> bool {
        revision.0 < self.oldest_readable.load(Ordering::Acquire)
    }

    pub(crate) fn snapshot_at(&self, revision: Revision) -> Option<Snapshot> {
        if self.is_forgotten(revision) {
            return None;
        }
        let current_snapshot = self.snapshot();
        if current_snapshot.inner.changed <= revision && revision <= current_snapshot.revision() {
            return Some(Snapshot::new(current_snapshot.inner, revision));
        }
        let mut retained = self.retained.lock();
        let fits = |retained: &RetainedSnapshot| {
            let inner = &retained.snapshot.inner;
            inner.era == current_snapshot.inner.era
                && inner.changed <= revision
                && revision <= retained.snapshot.revision()
        };
        let retained = retained.iter_mut().find(|retained| fits(retained))?;
        retained.until = Instant::now() + RETAIN_FOR;
        Some(Snapshot::new(Arc::clone(&retained.snapshot.inner), revision))
    }

    pub(crate) fn retain(&self, snapshot: &Snapshot) {
        let until = Instant::now() + RETAIN_FOR;
        let mut retained = self.retained.lock();
        let same = |retained: &&mut RetainedSnapshot| Arc::ptr_eq(&retained.snapshot.inner, &snapshot.inner);
        match retained.iter_mut().find(same) {
            Some(retained) => {
                retained.until = until;
                if snapshot.revision() > retained.snapshot.revision() {
                    retained.snapshot = snapshot.clone();
                }
            }
            None => retained.push(RetainedSnapshot { snapshot: snapshot.clone(), until }),
        }
        if retained.len() > MAX_RETAINED {
            retained.remove(0);
        }
    }

    /// Drops unused indexes, snapshots and old events. Returns true if anything is left to drop later.
    pub(crate) fn maintain(&self) -> bool {
        let now = Instant::now();
        let indexes = {
            let mut state = self.state.lock();
            let oldest = self.now().saturating_sub(MAX_INDEX_IDLE.as_secs());
            if state.indexes.iter().any(|index| index.last_used() < oldest) {
                self.published.store(None);
                state.indexes.retain(|index| index.last_used() >= oldest);
            }
            state.indexes.len()
        };
        let retained = self.drop_excess_snapshots();
        let mut hub = self.hub.lock();
        hub.window.trim(now);
        if hub.window.has_dropped_events() && hub.window.backlog().is_crowded() {
            self.count_terminated(hub.end_late_watchers());
        }
        hub.window.can_shrink() || hub.window.has_dropped_events() || retained > 0 || indexes > 0
    }

    /// Passes events to the watchers that select them, and ends watchers that hold too many dropped events.
    pub(crate) fn publish(&self, events: Vec<Event>) {
        let object_bytes = self.state.lock().bytes;
        let mut hub = self.hub.lock();
        hub.window.set_object_bytes(object_bytes);
        hub.publish_all(events);
        if hub.window.has_dropped_events() && hub.window.backlog().is_exceeded() {
            self.count_terminated(hub.end_late_watchers());
        }
    }

    fn count_terminated(&self, watchers: usize) {
        self.counters.terminated.fetch_add(watchers as u64, Ordering::Relaxed);
    }

    /// Records a watch that is reading an initial state, which it retains until it has read all of it.
    pub(crate) fn track_initializing(&self, mailbox: &Arc<Mailbox>) {
        let mut initializing = self.initializing.lock();
        // Without changes nothing else cleans up this list, even if many watches start and end.
        if initializing.len() >= MANY_INITIALIZING && initializing.len().is_power_of_two() {
            initializing.retain(|mailbox| mailbox.upgrade().is_some_and(|mailbox| mailbox.initial.lock().is_some()));
        }
        initializing.push(Arc::downgrade(mailbox));
    }

    /// Ends watches that read their initial state so slowly that too much memory is retained.
    fn end_slow_initializing(&self, written: u64, limit: u64) -> usize {
        let mut initializing = self.initializing.lock();
        let before = initializing.len();
        let mut ended = 0;
        initializing.retain(|mailbox| {
            let Some(mailbox) = mailbox.upgrade() else { return false };
            let keeps = mailbox.bound_initial(written, limit);
            ended += usize::from(!keeps && mailbox.queue.lock().end_reason.is_some());
            keeps
        });
        if before > 0 {
            self.count_terminated(ended);
        }
        initializing.len()
    }

    /// Drops snapshots that are too old or retain too much memory. Returns the number of remaining snapshots.
    pub(crate) fn drop_excess_snapshots(&self) -> usize {
        if self.retained.lock().is_empty() && self.initializing.lock().is_empty() {
            return 0;
        }
        let (written, bytes) = {
            let state = self.state.lock();
            (state.written, state.bytes as u64)
        };
        let (now, limit) = (Instant::now(), MAX_RETAINED_BYTES.max(bytes / 2));
        let initializing = self.end_slow_initializing(written, limit);
        let mut retained = self.retained.lock();
        retained.retain(|retained| {
            retained.until > now && written.saturating_sub(retained.snapshot.inner.written) <= limit
        });
        retained.len() + initializing
    }

    /// Returns the seconds since the cache was created.
    pub(crate) fn now(&self) -> u64 {
        self.created.elapsed().as_secs()
    }

    fn build_index(&self, property: Property) {
        let from = self.current();
        let mut index = Index::build(property, &from.objects, self.now());
        // Applies the changes made in the meantime: most of them without the lock, the rest under it.
        let later = self.current();
        catch_up(&mut index, &from.objects, &later.objects);
        self.change(|state| {
            if state.indexes.len() >= MAX_INDEXES {
                let oldest = state.indexes.iter().enumerate().min_by_key(|(_, index)| index.last_used());
                if let Some((position, _)) = oldest {
                    state.indexes.swap_remove(position);
                }
            }
            state.adopt(index, &later.objects);
        });
    }

    pub(crate) fn stats(&self) -> CacheStats {
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
            initial_items_sent: count(&self.counters.initial_items_sent),
            events_received: count(&self.counters.events_received),
            events_dispatched: count(&self.counters.events_dispatched),
            terminated: count(&self.counters.terminated),
            undecodable: count(&self.counters.undecodable),
            shards: hub.shards,
            checks: CheckStats {
                successes: count(&self.counters.checks.successes),
                failures: count(&self.counters.checks.failures),
                errors: count(&self.counters.checks.errors),
            },
        }
    }
}

impl IndexOwner for Shared {
    fn now(&self) -> u64 {
        Self::now(self)
    }

    fn request_index(&self, property: Property) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        let Some(shared) = self.weak_self.upgrade() else { return };
        if self.building.swap(true, Ordering::AcqRel) {
            return;
        }
        runtime.spawn_blocking(move || {
            shared.build_index(property);
            shared.building.store(false, Ordering::Release);
            shared.changed.notify_waiters();
        });
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("range", &self.range).field("progress", &self.progress).finish_non_exhaustive()
    }
}
