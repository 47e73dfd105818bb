//! Keeps a cache up to date with the store: reads the range once, follows its watch, and restarts when that fails.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use binnacle_store::{Digest, KeyValue, PageSize, Pages, Revision, StoreError, ValueHash, Watch, WatchMessage};
use bytes::Bytes;
use futures::StreamExt;
use tokio::time::{Instant, sleep};

use crate::attrs::{IndexError, Meta};
use crate::consistency::{Checker, Inconsistent, diagnose};
use crate::entry::{Entry, Event};
use crate::index::Objects;
use crate::shared::Shared;
use crate::state::State;

const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// The bounds of each read of the range: etcd and gRPC fail on answers of gigabytes, and hold up others with large ones.
const PAGE: PageSize = PageSize { objects: 5_000, bytes: 16 << 20 };
/// The number of objects processed before other tasks run.
const TURN: usize = 256;
const UPKEEP: Duration = Duration::from_secs(15);
/// The pause between two turns of compressing values.
const PACKING: Duration = Duration::from_millis(20);

/// Runs until it is aborted. After a panic (`again`), which may have left a partial change, all is read again.
pub(crate) async fn run(shared: Arc<Shared>, again: bool) {
    shared.control.store(None);
    let mut pause = FIRST_PAUSE;
    let mut continues = !again;
    let mut unreadable = false;
    let mut restored = false;
    let mut checker = Checker::new(&shared);
    loop {
        let begun = Instant::now();
        let continued = continues && !restored && shared.has_begun();
        let ended = match connect(&shared, continued, restored).await {
            Ok(watch) => {
                restored = false;
                checker.begin();
                follow(&shared, watch, continued && unreadable, &mut checker).await
            }
            Err(error) => Ended::Failed(error),
        };
        let error = match ended {
            Ended::Failed(error) => error,
            Ended::Inconsistent(Inconsistent) => {
                // Readers wait until all is read again.
                shared.control.store(None);
                diagnose(&shared).await;
                // As after a restored backup: nothing that the cache has is certain, and neither is what watchers have.
                restored = true;
                continue;
            }
        };
        restored |= matches!(error, StoreError::Restored);
        unreadable = error.is_unreadable();
        // An unreadable event comes again with each new watch, so its object is looked for by reading all objects. If
        // that fails too, both are tried in turn, since continuing the watch leaves no gap for watchers.
        continues = !(unreadable && continued);
        shared.control.store(None);
        // A watch that lasted for a while does not count as a failed start.
        if begun.elapsed() > LONGEST_PAUSE {
            pause = FIRST_PAUSE;
        }
        // The server stops, or is about to.
        if matches!(error, StoreError::Closed) {
            tracing::debug!(range = ?shared.range.start, "the store is closed");
        } else {
            tracing::warn!(%error, range = ?shared.range.start, "watch of the store ended, beginning anew");
        }
        shared.fail(error);
        if shared.is_lost() {
            // The watchers would wait silently for events that cannot be sent.
            shared.hub.lock().dismiss();
        }
        shared.changed.notify_waiters();
        if !continues {
            continue;
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Returns a watch that continues at the cache's revision if possible; if the store cannot continue, all objects are
/// read again. `restored` is true when the store may have another history than the cache, whatever its revision is.
async fn connect(shared: &Shared, continues: bool, restored: bool) -> Result<Watch, StoreError> {
    if continues {
        let known = shared.progress();
        // A store restored from a backup may be behind, and then has another history.
        if shared.store.current_revision().await? >= known {
            match shared.store.watch(shared.range.clone(), known).await {
                Err(StoreError::Compacted { .. } | StoreError::FutureRevision { .. }) => {}
                other => return other,
            }
        }
    }
    let revision = shared.store.current_revision().await?;
    let (objects, digest) = read_all(shared, revision).await?;
    let continues = !restored && shared.has_begun() && shared.progress() == revision;
    shared.counters.initializations.fetch_add(1, Ordering::Relaxed);
    shared.counters.initial_events.fetch_add(objects.len() as u64, Ordering::Relaxed);
    shared.change(|state| {
        state.replace(objects, digest, revision);
        state.era += u64::from(!continues);
    });
    if !continues {
        // The events in between are unknown, so no watch can continue without a gap.
        shared.hub.lock().break_off(revision);
    }
    shared.begin(revision);
    shared.store.watch(shared.range.clone(), revision).await
}

async fn read_all(shared: &Shared, revision: Revision) -> Result<(Objects, Digest), StoreError> {
    let known = shared.state.lock().objects.clone();
    let mut objects = Objects::new();
    let mut digest = Digest::default();
    let mut pages = Pages::new(&*shared.store, shared.range.clone(), revision).sized(PAGE);
    while let Some(page) = pages.next().await? {
        for (count, kv) in page.into_iter().enumerate() {
            if count % TURN == TURN - 1 {
                tokio::task::yield_now().await;
            }
            let Some(path) = path_of(shared, &kv.key) else { continue };
            let entry = match known.get(path) {
                Some(same) if is_same(same, &kv) => Arc::clone(same),
                other => {
                    pace(&kv);
                    let (meta, value) = look_at(shared, path, &kv)?;
                    let entry = Arc::new(entry(shared, meta, value, &kv, other.map(|old| &old.meta)));
                    note_unpacked(shared, [&entry]);
                    entry
                }
            };
            digest.add(entry.fingerprint());
            objects.insert(entry.meta.clone(), entry);
        }
    }
    Ok((objects, digest))
}

/// Returns true if an entry was made from this version. The value is compared as well: a restored store can use a
/// revision again.
fn is_same(entry: &Entry, kv: &KeyValue) -> bool {
    entry.revision() == kv.mod_revision && *entry.value() == kv.value && entry.value_hash() == ValueHash::of(&kv.value)
}

/// Why a watch of the store is not read any more.
enum Ended {
    Failed(StoreError),
    /// The cache is not what the store has.
    Inconsistent(Inconsistent),
}

impl From<Inconsistent> for Ended {
    fn from(inconsistent: Inconsistent) -> Self {
        Self::Inconsistent(inconsistent)
    }
}

impl From<StoreError> for Ended {
    fn from(error: StoreError) -> Self {
        Self::Failed(error)
    }
}

/// Reads the watch until it ends. A `doubted` one, whose first event was unreadable before, counts from that event on.
async fn follow(shared: &Shared, mut watch: Watch, doubted: bool, checker: &mut Checker) -> Ended {
    let mut control = Some(watch.control);
    let mut trust = || {
        if let Some(control) = control.take() {
            shared.control.store(Some(Arc::new(control)));
            shared.recover();
            shared.changed.notify_waiters();
        }
    };
    if !doubted {
        trust();
    }
    let mut upkeep = pin!(sleep(UPKEEP));
    let mut idle = false;
    loop {
        let message = tokio::select! {
            biased;
            message = watch.messages.next() => message,
            checked = checker.check() => {
                if let Err(inconsistent) = checked {
                    return inconsistent.into();
                }
                continue;
            }
            () = &mut upkeep, if !idle => {
                let pause = if shared.unpacked.pack(Instant::now(), |entry| release(shared, entry)) {
                    PACKING
                } else {
                    idle = !shared.upkeep() && shared.unpacked.is_empty();
                    UPKEEP
                };
                upkeep.as_mut().reset(Instant::now() + pause);
                continue;
            }
        };
        match message {
            None => return StoreError::Closed.into(),
            Some(Err(error)) => return error.into(),
            Some(Ok(WatchMessage::Progress(revision))) => shared.advance(None, revision),
            Some(Ok(WatchMessage::Events(events))) => {
                if let Err(ended) = apply(shared, events, checker).await {
                    return ended;
                }
                trust();
                idle = false;
            }
        }
    }
}

/// A change whose attributes were read, but which was not applied yet.
struct Prepared {
    path: Bytes,
    revision: Revision,
    /// The object after the change; `None` for a deletion.
    new: Option<(Meta, Bytes, KeyValue)>,
}

/// The number of changes, and of deliveries, before other tasks run.
const CHUNK: usize = 64;
const CHUNK_DELIVERIES: usize = 16_384;

/// Applies the changes up to the first unreadable one.
async fn apply(shared: &Shared, events: Vec<binnacle_store::Event>, checker: &mut Checker) -> Result<(), Ended> {
    let at = Instant::now();
    expect_new(shared, &events).map_err(|revision| checker.refuse(revision, shared.applied()))?;
    checker.note_changes();
    shared.counters.events_received.fetch_add(events.len() as u64, Ordering::Relaxed);
    // Reading attributes is the expensive part, and does not block readers.
    let mut changes = VecDeque::with_capacity(events.len());
    let mut failed = None;
    let mut read_to = Revision(0);
    for event in events {
        let revision = event.revision();
        match prepare(shared, event) {
            Ok(prepared) => {
                changes.extend(prepared);
                read_to = revision;
            }
            Err(error) => {
                // A revision is applied as a whole or not at all.
                changes.retain(|change: &Prepared| change.revision < revision);
                failed = Some(error);
                break;
            }
        }
    }
    while let Some(first) = changes.front() {
        let mut last = first.revision;
        let stop = checker.stop().filter(|stop| last <= *stop);
        let size = CHUNK.min(CHUNK_DELIVERIES / (shared.hub.lock().watchers() + 1)).max(1);
        let mut chunk = Vec::with_capacity(size.min(changes.len()));
        // A revision is never split: a reader in between would see half of it.
        while let Some(next) = changes.front()
            && (chunk.len() < size || next.revision == last)
            && stop.is_none_or(|stop| next.revision <= stop)
        {
            last = next.revision;
            chunk.extend(changes.pop_front());
        }
        let events: Vec<Event> =
            shared.change(|state| chunk.into_iter().filter_map(|prepared| make(shared, state, prepared, at)).collect());
        note_unpacked(shared, events.iter().filter_map(Event::new_entry));
        shared.counters.events_dispatched.fetch_add(events.len() as u64, Ordering::Relaxed);
        shared.publish(events);
        shared.advance(Some(last), last);
        checker.compare()?;
        shared.bound_retained();
        if !changes.is_empty() {
            tokio::task::yield_now().await;
        }
    }
    match failed {
        Some(error) => Err(error.into()),
        None => {
            // The last events may be of ignored keys: a reader that waits for their revision must not wait longer.
            if shared.progress() < read_to {
                shared.advance(Some(read_to), read_to);
            }
            checker.compare()?;
            Ok(())
        }
    }
}

/// Fails with the first revision that is not newer than what was applied before: events are sent once and in order.
/// Events of one revision come in one message.
fn expect_new(shared: &Shared, events: &[binnacle_store::Event]) -> Result<(), Revision> {
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

fn make(shared: &Shared, state: &mut State, Prepared { path, revision, new }: Prepared, at: Instant) -> Option<Event> {
    // `prepare` accepts only valid paths.
    let path = std::str::from_utf8(&path).ok()?;
    let new = new.map(|(meta, value, kv)| {
        let old = state.objects.get(path).map(|old| old.meta.clone());
        Arc::new(entry(shared, meta, value, &kv, old.as_ref()))
    });
    let old = state.apply(path, new.clone(), revision);
    // No reader has seen an object that was deleted without ever being in the cache.
    (old.is_some() || new.is_some()).then(|| Event::new(revision, old, new, at))
}

/// Returns `None` for keys that are not objects of the cache.
fn prepare(shared: &Shared, event: binnacle_store::Event) -> Result<Option<Prepared>, StoreError> {
    let (key, revision, kv) = match event {
        binnacle_store::Event::Put { kv, .. } => (kv.key.clone(), kv.mod_revision, Some(kv)),
        binnacle_store::Event::Delete { key, revision, .. } => (key, revision, None),
    };
    let Some(path) = path_of(shared, &key) else { return Ok(None) };
    let new = match kv {
        Some(kv) => {
            pace(&kv);
            let (meta, value) = look_at(shared, path, &kv)?;
            Some((meta, value, kv))
        }
        None => None,
    };
    let path = key.slice(shared.range.start.len()..);
    Ok(Some(Prepared { path, revision, new }))
}

/// The steps per byte of reading an object for its attributes.
const STEPS: u64 = 2;

/// Announces the reading of an object, so that a large one does not keep the worker from other tasks.
fn pace(kv: &KeyValue) {
    binnacle_work::pace(STEPS * kv.value.len() as u64);
}

pub(crate) fn path_of<'a>(shared: &Shared, key: &'a Bytes) -> Option<&'a str> {
    let path = key.strip_prefix(shared.range.start.as_ref()).and_then(|path| std::str::from_utf8(path).ok());
    if path.is_none() {
        tracing::warn!(?key, "a key that is no path of a resource is left out");
        shared.has_foreign_keys.store(true, Ordering::Relaxed);
    }
    path
}

/// Reads the attributes of a stored value. An invalid value keeps the cache from being filled, since a list with a
/// missing object is worse than an error.
pub(crate) fn look_at(shared: &Shared, path: &str, kv: &KeyValue) -> Result<(Meta, Bytes), StoreError> {
    // A panic must not end the task that keeps the cache up to date.
    let index = AssertUnwindSafe(|| shared.indexer.index(&kv.key, &kv.value, kv.mod_revision));
    let result = catch_unwind(index).unwrap_or_else(|_| Err(IndexError("looking at the object panicked".to_owned())));
    let attrs = result.map_err(|IndexError(why)| {
        let error = StoreError::no_object(kv, why);
        if matches!(error, StoreError::Undecodable { .. }) {
            shared.counters.undecodable.fetch_add(1, Ordering::Relaxed);
        }
        tracing::warn!(key = ?kv.key, %error, "a stored object cannot be read");
        error
    })?;
    let value = attrs.value.unwrap_or_else(|| kv.value.clone());
    Ok((Meta::new(path, &attrs.labels, &attrs.fields), value))
}

/// Returns an entry for an object from the store's history.
pub(crate) fn historic(shared: &Shared, path: &str, kv: &KeyValue) -> Result<Entry, StoreError> {
    let (meta, value) = look_at(shared, path, kv)?;
    Ok(entry(shared, meta, value, kv, None))
}

/// Creates an entry. Most updates do not change labels and selectable fields; then it shares them with the old one.
fn entry(shared: &Shared, meta: Meta, value: Bytes, kv: &KeyValue, old: Option<&Meta>) -> Entry {
    let meta = match old {
        Some(old) if old.same_attributes(&meta) => old.clone(),
        _ => meta,
    };
    Entry::new(meta, value, shared.indexer.packs(), kv)
}

/// Tells the store that the cache keeps the value of an entry, in a smaller form.
fn release(shared: &Shared, entry: &Entry) {
    let key = [&shared.range.start[..], entry.path().as_bytes()].concat();
    shared.store.release(&key, entry.revision());
}

/// Notes new entries whose values are compressed after a while.
fn note_unpacked<'e>(shared: &Shared, entries: impl IntoIterator<Item = &'e Arc<Entry>>) {
    if shared.indexer.packs() {
        shared.unpacked.extend(entries);
    }
}
