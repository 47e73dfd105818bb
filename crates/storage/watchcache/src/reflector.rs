//! The reflector, which keeps a cache up to date with the store: it reads the range once, watches it, and restarts when
//! the watch fails.

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use binnacle_store::{Digest, KeyValue, Layers, PageSize, Pages, Revision, StoreError, ValueHash, Watch, WatchMessage};
use binnacle_work::{Caller, WorkBudget};
use bytes::Bytes;
use futures::StreamExt;
use tokio::time::{Instant, sleep};

use crate::attrs::Meta;
use crate::consistency::{Checker, Inconsistency, diagnose};
use crate::encodings::EncodingBudget;
use crate::entry::{Entry, Event};
use crate::index::Objects;
use crate::shared::Shared;
use crate::state::State;
use crate::stored_objects::{decode_attributes, path_of};

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(5);
/// The bounds of each read of the range: etcd and gRPC fail on answers of gigabytes, and large answers delay others.
const PAGE_SIZE: PageSize = PageSize { objects: 5_000, bytes: 16 << 20 };
/// The number of objects processed before other tasks run.
const YIELD_INTERVAL: usize = 256;
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(15);
/// The pause between two rounds of compressing values.
const COMPRESSION_PAUSE: Duration = Duration::from_millis(20);

impl Shared {
    /// Starts the reflector, if it is not running.
    pub(crate) fn start(&self) {
        let mut task = self.task.lock();
        if task.is_some() {
            return;
        }
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            tracing::error!("a watch cache was used outside of a runtime");
            return;
        };
        if let Some(shared) = self.weak_self.upgrade() {
            // Caches are equal, whatever the size of their objects.
            let caller = Caller { name: String::from_utf8_lossy(&shared.range.start).into(), is_system: true };
            let mut started = false;
            let task_future = binnacle_supervise::supervise("watch cache", move || {
                let again = std::mem::replace(&mut started, true);
                let budget = WorkBudget::background_of("watch cache", caller.clone());
                let shared = Arc::clone(&shared);
                async move { budget.run(Box::pin(run(shared, again))).await }
            });
            *task = Some(runtime.spawn(task_future).abort_handle());
        }
    }
}

/// Runs until it is aborted. After a panic (`restarted`), which may have left a partial change, everything is read
/// again.
pub(crate) async fn run(shared: Arc<Shared>, restarted: bool) {
    shared.control.store(None);
    let mut pause = FIRST_PAUSE;
    let mut resumes = !restarted;
    let mut unreadable = false;
    let mut restored = false;
    let mut checker = Checker::new(&shared);
    loop {
        let started = Instant::now();
        let resuming = resumes && !restored && shared.is_initialized();
        let stop_reason = match list_or_resume(&shared, resuming, restored).await {
            Ok(watch) => {
                restored = false;
                checker.begin();
                handle_watch(&shared, watch, resuming && unreadable, &mut checker).await
            }
            Err(error) => StopReason::Failed(error),
        };
        let error = match stop_reason {
            StopReason::Failed(error) => error,
            StopReason::Inconsistency(Inconsistency) => {
                // Readers wait until everything has been read again.
                shared.control.store(None);
                diagnose(&shared).await;
                // As after a restored backup, neither the contents of the cache nor those of the watchers are certain.
                restored = true;
                continue;
            }
        };
        restored |= matches!(error, StoreError::Restored);
        unreadable = error.is_unreadable();
        // Each new watch delivers an unreadable event again, so the cache tries to read all objects instead. If that
        // fails too, both are tried in turn, since resuming the watch leaves no gap for watchers.
        resumes = !(unreadable && resuming);
        shared.control.store(None);
        // A watch that lasted for a while does not count as a failed start.
        if started.elapsed() > MAX_PAUSE {
            pause = FIRST_PAUSE;
        }
        // The server is stopping, or is about to stop.
        if matches!(error, StoreError::Closed) {
            tracing::debug!(range = ?shared.range.start, "the store is closed");
        } else {
            tracing::warn!(%error, range = ?shared.range.start, "watch of the store ended, restarting");
        }
        shared.record_failure(error);
        if shared.is_unavailable() {
            // The watchers would wait silently for events that cannot be sent.
            shared.hub.lock().dismiss();
        }
        shared.changed.notify_waiters();
        if !resumes {
            continue;
        }
        sleep(pause).await;
        pause = (pause * 2).min(MAX_PAUSE);
    }
}

/// Returns a watch that resumes at the cache's revision if possible. If the store cannot resume it, all objects are
/// read again. `restored` is true if the store may have another history than the cache, regardless of its revision.
async fn list_or_resume(shared: &Shared, resumes: bool, restored: bool) -> Result<Watch, StoreError> {
    if resumes {
        let cached = shared.progress();
        // A store restored from a backup may be behind the cache. Its history differs then.
        if shared.store.current_revision().await? >= cached {
            match shared.store.watch(shared.range.clone(), cached).await {
                Err(StoreError::Compacted { .. } | StoreError::FutureRevision { .. }) => {}
                other => return other,
            }
        }
    }
    let revision = shared.store.current_revision().await?;
    let (objects, digest) = list_all(shared, revision).await?;
    let resumes = !restored && shared.is_initialized() && shared.progress() == revision;
    shared.counters.initializations.fetch_add(1, Ordering::Relaxed);
    shared.counters.initial_events.fetch_add(objects.len() as u64, Ordering::Relaxed);
    shared.change(|state| {
        state.replace(objects, digest, revision);
        state.era += u64::from(!resumes);
    });
    if !resumes {
        // The events in between are missing, so no watch can continue without a gap.
        shared.hub.lock().end_with_gap(revision);
    }
    shared.begin(revision);
    shared.store.watch(shared.range.clone(), revision).await
}

async fn list_all(shared: &Shared, revision: Revision) -> Result<(Objects, Digest), StoreError> {
    let cached = shared.state.lock().objects.clone();
    let (layers, mut objects, mut digest) = match from_base(shared)? {
        Some((layers, base)) => (Some(layers), base.objects.clone(), base.digest),
        None => (None, Objects::new(), Digest::default()),
    };
    let store = layers.as_ref().map_or(&*shared.store, |layers| &*layers.own);
    let mut pages = Pages::new(store, shared.range.clone(), revision).sized(PAGE_SIZE).streamed();
    while let Some(page) = pages.next().await? {
        for (count, kv) in page.into_iter().enumerate() {
            if count % YIELD_INTERVAL == YIELD_INTERVAL - 1 {
                tokio::task::yield_now().await;
            }
            let Some(path) = path_of(shared, &kv.key) else { continue };
            let replaced = if layers.is_some() && Layers::is_deleted(&kv) {
                objects.remove(path)
            } else {
                let entry = match cached.get(path) {
                    Some(same) if is_same(same, &kv) => Arc::clone(same),
                    other => {
                        let entry = Arc::new(read_entry(shared, path, &kv, other.map(|old| &old.meta))?);
                        queue_compression(shared, [&entry]);
                        entry
                    }
                };
                digest.add(entry.fingerprint());
                objects.insert(entry.meta.clone(), entry)
            };
            if let Some(replaced) = replaced {
                digest.remove(replaced.fingerprint());
            }
        }
    }
    Ok((objects, digest))
}

fn read_entry(shared: &Shared, path: &str, kv: &KeyValue, old: Option<&Meta>) -> Result<Entry, StoreError> {
    pace(kv);
    let (meta, value) = decode_attributes(shared, path, kv)?;
    Ok(entry(shared, meta, value, kv, old))
}

/// The objects of a snapshot, which the caches of all stores above it share.
struct BaseObjects {
    objects: Objects,
    digest: Digest,
}

/// The limit on the encodings of such objects, as a multiple of their stored bytes: JSON and protobuf of all fit.
const ENCODED_SIZE: usize = 4;

/// Returns the objects of the store's snapshot, if it has one and all readers make the same of it.
fn from_base(shared: &Shared) -> Result<Option<(Layers, Arc<BaseObjects>)>, StoreError> {
    let Some((layers, key)) = shared.store.layers().zip(shared.indexer.sharing_key()) else { return Ok(None) };
    let name = Bytes::from([&shared.range.start[..], &key[..]].concat());
    let base = layers.base.derived(name, || {
        let kvs = layers.base.range(&shared.range);
        let stored: usize = kvs.iter().map(|kv| kv.value.len()).sum();
        let budget = EncodingBudget::new(stored * ENCODED_SIZE);
        let mut base = BaseObjects { objects: Objects::new(), digest: Digest::default() };
        for kv in kvs {
            let Some(path) = path_of(shared, &kv.key) else { continue };
            pace(kv);
            let (meta, value) = decode_attributes(shared, path, kv)?;
            let entry = Arc::new(Entry::new(meta, value, false, kv).within(&budget));
            base.digest.add(entry.fingerprint());
            base.objects.insert(entry.meta.clone(), entry);
        }
        Ok::<_, StoreError>(base)
    })?;
    Ok(Some((layers, base)))
}

/// Returns true if an entry was created from this version. The value is compared as well, since a restored store can
/// reuse a revision.
fn is_same(entry: &Entry, kv: &KeyValue) -> bool {
    entry.revision() == kv.mod_revision && *entry.value() == kv.value && entry.value_hash() == ValueHash::of(&kv.value)
}

/// The reason why a watch of the store was stopped.
enum StopReason {
    Failed(StoreError),
    /// The cache differs from the store.
    Inconsistency(Inconsistency),
}

impl From<Inconsistency> for StopReason {
    fn from(inconsistent: Inconsistency) -> Self {
        Self::Inconsistency(inconsistent)
    }
}

impl From<StoreError> for StopReason {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// Reads the watch until it ends. An `unverified` watch, whose first event was unreadable before, counts as running
/// from that event on.
async fn handle_watch(shared: &Shared, mut watch: Watch, unverified: bool, checker: &mut Checker) -> StopReason {
    let mut control = Some(watch.control);
    let mut mark_healthy = || {
        if let Some(control) = control.take() {
            shared.control.store(Some(Arc::new(control)));
            shared.recover();
            shared.changed.notify_waiters();
        }
    };
    if !unverified {
        mark_healthy();
    }
    let mut maintenance = pin!(sleep(MAINTENANCE_INTERVAL));
    let mut idle = false;
    loop {
        let message = tokio::select! {
            biased;
            message = watch.messages.next() => message,
            result = checker.check() => {
                if let Err(inconsistent) = result {
                    return inconsistent.into();
                }
                continue;
            }
            () = &mut maintenance, if !idle => {
                let pause = if shared.compression_queue.compress(Instant::now(), |entry| release(shared, entry)) {
                    COMPRESSION_PAUSE
                } else {
                    idle = !shared.maintain() && shared.compression_queue.is_empty();
                    MAINTENANCE_INTERVAL
                };
                maintenance.as_mut().reset(Instant::now() + pause);
                continue;
            }
        };
        match message {
            None => return StoreError::Closed.into(),
            Some(Err(error)) => return error.into(),
            Some(Ok(WatchMessage::Progress(revision))) => shared.advance(None, revision),
            Some(Ok(WatchMessage::Events(events))) => {
                if let Err(stop_reason) = apply(shared, events, checker).await {
                    return stop_reason;
                }
                mark_healthy();
                idle = false;
            }
        }
    }
}

/// A change whose attributes have been read, but which has not been applied yet.
struct PendingChange {
    path: Bytes,
    revision: Revision,
    /// The object after the change, or `None` for a deletion.
    new: Option<(Meta, Bytes, KeyValue)>,
}

/// The number of changes, or of deliveries, before other tasks run.
const MAX_CHUNK: usize = 64;
const MAX_CHUNK_DELIVERIES: usize = 16_384;

/// Applies the changes up to the first unreadable one.
async fn apply(shared: &Shared, events: Vec<binnacle_store::Event>, checker: &mut Checker) -> Result<(), StopReason> {
    let at = Instant::now();
    check_order(shared, &events).map_err(|revision| checker.reject_order(revision, shared.applied()))?;
    checker.record_changes();
    shared.counters.events_received.fetch_add(events.len() as u64, Ordering::Relaxed);
    // Reading attributes is the expensive part, and does not block readers.
    let mut changes = VecDeque::with_capacity(events.len());
    let mut failed = None;
    let mut read_to = Revision(0);
    for event in events {
        let revision = event.revision();
        match prepare(shared, event) {
            Ok(pending) => {
                changes.extend(pending);
                read_to = revision;
            }
            Err(error) => {
                // A revision is applied as a whole or not at all.
                changes.retain(|change: &PendingChange| change.revision < revision);
                failed = Some(error);
                break;
            }
        }
    }
    while let Some(first) = changes.front() {
        let mut last = first.revision;
        let stop_revision = checker.stop_revision().filter(|stop_revision| last <= *stop_revision);
        let size = MAX_CHUNK.min(MAX_CHUNK_DELIVERIES / (shared.hub.lock().watchers() + 1)).max(1);
        let mut chunk = Vec::with_capacity(size.min(changes.len()));
        // A revision is never split, since a reader in between would see half of it.
        while let Some(next) = changes.front()
            && (chunk.len() < size || next.revision == last)
            && stop_revision.is_none_or(|stop_revision| next.revision <= stop_revision)
        {
            last = next.revision;
            chunk.extend(changes.pop_front());
        }
        let events: Vec<Event> = shared
            .change(|state| chunk.into_iter().filter_map(|pending| apply_change(shared, state, pending, at)).collect());
        queue_compression(shared, events.iter().filter_map(Event::new_entry));
        shared.counters.events_dispatched.fetch_add(events.len() as u64, Ordering::Relaxed);
        shared.publish(events);
        shared.advance(Some(last), last);
        checker.compare()?;
        shared.drop_excess_snapshots();
        if !changes.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    match failed {
        Some(error) => Err(error.into()),
        None => {
            // The last events may be of ignored keys. A reader that waits for their revision must not wait longer.
            if shared.progress() < read_to {
                shared.advance(Some(read_to), read_to);
            }
            checker.compare()?;
            Ok(())
        }
    }
}

/// Fails with the first revision that is not newer than the last applied one, since events are sent once and in order.
/// The events of one revision arrive in one message.
fn check_order(shared: &Shared, events: &[binnacle_store::Event]) -> Result<(), Revision> {
    let mut newest = shared.applied();
    for (at, event) in events.iter().enumerate() {
        let revision = event.revision();
        if revision < newest || (at == 0 && revision == newest) {
            return Err(revision);
        }
        newest = revision;
    }
    Ok(())
}

fn apply_change(
    shared: &Shared,
    state: &mut State,
    PendingChange { path, revision, new }: PendingChange,
    at: Instant,
) -> Option<Event> {
    // `prepare` only accepts valid paths.
    let path = std::str::from_utf8(&path).ok()?;
    let new = new.map(|(meta, value, kv)| {
        let old = state.objects.get(path).map(|old| old.meta.clone());
        Arc::new(entry(shared, meta, value, &kv, old.as_ref()))
    });
    let old = state.apply(path, new.clone(), revision);
    // No reader has seen an object that was deleted without ever being in the cache.
    (old.is_some() || new.is_some()).then(|| Event::new(revision, old, new, at))
}

/// Reads the attributes of an event's object. Returns `None` for keys that are not objects of the cache.
fn prepare(shared: &Shared, event: binnacle_store::Event) -> Result<Option<PendingChange>, StoreError> {
    let (key, revision, kv) = match event {
        binnacle_store::Event::Put { kv, .. } => (kv.key.clone(), kv.mod_revision, Some(kv)),
        binnacle_store::Event::Delete { key, revision, .. } => (key, revision, None),
    };
    let Some(path) = path_of(shared, &key) else { return Ok(None) };
    let new = match kv {
        Some(kv) => {
            pace(&kv);
            let (meta, value) = decode_attributes(shared, path, &kv)?;
            Some((meta, value, kv))
        }
        None => None,
    };
    let path = key.slice(shared.range.start.len()..);
    Ok(Some(PendingChange { path, revision, new }))
}

/// The steps of the work budget per byte, for reading the attributes of an object.
const STEPS_PER_BYTE: u64 = 2;

/// Charges the work budget for reading an object, so that a large one does not block other tasks of the worker.
fn pace(kv: &KeyValue) {
    binnacle_work::pace(STEPS_PER_BYTE * kv.value.len() as u64);
}

/// Returns an entry for an object from the store's history.
pub(crate) fn entry_from_history(shared: &Shared, path: &str, kv: &KeyValue) -> Result<Entry, StoreError> {
    let (meta, value) = decode_attributes(shared, path, kv)?;
    Ok(entry(shared, meta, value, kv, None))
}

/// Creates an entry. Most updates do not change labels and selectable fields, in which case they are shared with the
/// old entry.
fn entry(shared: &Shared, meta: Meta, value: Bytes, kv: &KeyValue, old: Option<&Meta>) -> Entry {
    let meta = match old {
        Some(old) if old.same_attributes(&meta) => old.clone(),
        _ => meta,
    };
    Entry::new(meta, value, shared.indexer.compresses(), kv)
}

/// Reports to the store that the cache holds the value of an entry, compressed.
fn release(shared: &Shared, entry: &Entry) {
    let key = [&shared.range.start[..], entry.path().as_bytes()].concat();
    shared.store.release(&key, entry.revision());
}

/// Adds new entries to the queue of values that are compressed after a while.
fn queue_compression<'e>(shared: &Shared, entries: impl IntoIterator<Item = &'e Arc<Entry>>) {
    if shared.indexer.compresses() {
        shared.compression_queue.extend(entries);
    }
}
