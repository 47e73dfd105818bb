//! Comparison of a cache with its store: of digests while the cache changes, and of all objects from time to time.
//!
//! kube-apiserver compares a digest of both sides every five minutes (`DetectCacheInconsistency`). Here the engine may
//! maintain a [digest](binnacle_store::Digest) of what a reader of the watch must have, so that a lost event is
//! detected within a second. The comparison of objects finds what digests cannot: values that changed in memory, and
//! missing entries of indexes.

use std::future::pending;
use std::hash::{BuildHasher, RandomState};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use binnacle_store::{Count, KeyValue, RangeDigest, RangeRequest, Revision, StoreError, ValueHash};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::attrs::Meta;
use crate::check_intervals::CheckIntervals;
use crate::entry::Entry;
use crate::shared::Shared;
use crate::snapshot::SnapshotInner;
use crate::stored_objects::{decode_attributes, path_of};

/// A difference between a cache and its store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    /// The key without the start of the range.
    path: String,
    cached: Option<Revision>,
    stored: Option<Revision>,
    reason: &'static str,
}

/// The cache differs from the store: all objects must be read again.
#[derive(Debug)]
pub(crate) struct Inconsistency;

/// Schedules and runs the comparisons of one cache.
pub(crate) struct Checker {
    shared: Arc<Shared>,
    times: Option<CheckIntervals>,
    /// The time between comparisons of digests.
    interval: Duration,
    /// The number of requests since the last change for which the engine had no digest.
    missing_digests: u8,
    next_digest: Instant,
    /// Compared as soon as the cache has applied its last event.
    expected: Option<RangeDigest>,
    /// The time of the last digest request, or of later activity of the watch.
    last_activity: Instant,
    next_walk: Option<Instant>,
    walk: Option<BoxFuture<'static, Result<Option<Difference>, StoreError>>>,
    /// The time before the next comparison after failed ones, so that a recurring fault does not keep watchers from
    /// making progress.
    pause: Duration,
    failed_before: bool,
}

/// How much less often digests are compared while nothing changes. They are still compared, since a lost event looks
/// the same to the cache as no event.
const IDLE_FACTOR: u32 = 10;
/// The number of requests to an engine without a digest.
const MAX_MISSING_DIGESTS: u8 = 10;

/// The next task of a checker.
enum NextCheck {
    Digest,
    /// A counted event has not been delivered.
    LostEvent,
    Walk,
    WalkDone(Result<Option<Difference>, StoreError>),
}

/// The maximum number of objects in one step of a walk, and the maximum bytes of their values.
const STEP_OBJECTS: usize = 1_000;
const STEP_BYTES: usize = 4 << 20;
/// A walk pauses this many times as long as it works.
const REST_FACTOR: u32 = 20;
const MAX_REST: Duration = Duration::from_secs(1);
/// The number of objects that are compared before other tasks run.
const YIELD_INTERVAL: usize = 64;
const MAX_PAUSE: Duration = Duration::from_secs(300);
/// The time limit of the search for the first differing key after digests differed.
const DIAGNOSIS_TIMEOUT: Duration = Duration::from_secs(2);

// === impl Checker ===

impl Checker {
    pub(crate) fn new(shared: &Arc<Shared>) -> Self {
        let now = Instant::now();
        Self {
            shared: Arc::clone(shared),
            times: shared.checks.get().copied(),
            interval: Duration::ZERO,
            missing_digests: 0,
            next_digest: now,
            expected: None,
            last_activity: now,
            next_walk: None,
            walk: None,
            pause: Duration::ZERO,
            failed_before: false,
        }
    }

    /// Starts to check a new watch of the store.
    pub(crate) fn begin(&mut self) {
        let Some(times) = self.times else { return };
        let now = Instant::now();
        (self.expected, self.walk) = (None, None);
        self.record_changes();
        self.next_digest = now + times.digests.max(self.pause);
        self.next_walk = next_walk_time(times).map(|next| next.max(now + self.pause));
    }

    pub(crate) fn record_changes(&mut self) {
        let Some(times) = self.times else { return };
        (self.missing_digests, self.last_activity) = (0, Instant::now());
        if self.interval > times.digests {
            self.next_digest = self.next_digest.min(self.last_activity + times.digests);
        }
        self.interval = times.digests;
    }

    /// Returns the revision whose changes must be applied before later ones, because digests are compared at this
    /// point.
    pub(crate) fn stop_revision(&self) -> Option<Revision> {
        self.expected.map(|expected| expected.last_event)
    }

    /// Waits for the next comparison and runs it. Can be dropped and called again.
    pub(crate) async fn check(&mut self) -> Result<(), Inconsistency> {
        let Some(times) = self.times else { return pending().await };
        let (next_walk, walking) = (self.next_walk, self.walk.is_some());
        let next_digest = async {
            match self.expected.is_none() && self.missing_digests < MAX_MISSING_DIGESTS {
                true => sleep_until(self.next_digest).await,
                false => pending().await,
            }
        };
        let overdue = async {
            match self.expected {
                Some(expected) if !expected.is_delayed => sleep_until(self.last_activity + times.overdue).await,
                _ => pending().await,
            }
        };
        let result = async {
            match &mut self.walk {
                Some(walk) => walk.await,
                None => pending().await,
            }
        };
        let next = tokio::select! {
            () = next_digest => NextCheck::Digest,
            () = overdue => NextCheck::LostEvent,
            () = sleep_until_some(next_walk), if !walking => NextCheck::Walk,
            result = result => NextCheck::WalkDone(result),
        };
        match next {
            NextCheck::Digest => self.request_digest(times),
            NextCheck::LostEvent => {
                tracing::error!(range = ?self.shared.range.start, "the store reported an event that its watch did not deliver");
                self.fail(None);
                Err(Inconsistency)
            }
            NextCheck::Walk => {
                self.walk = Some(walk(Arc::clone(&self.shared), true).boxed());
                Ok(())
            }
            NextCheck::WalkDone(result) => {
                self.walk = None;
                self.next_walk = next_walk_time(times);
                self.handle_walk_result(result)
            }
        }
    }

    /// Requests the digest of the engine.
    fn request_digest(&mut self, times: CheckIntervals) -> Result<(), Inconsistency> {
        self.last_activity = Instant::now();
        self.next_digest = self.last_activity + self.interval;
        self.interval = (self.interval * 2).min(times.digests * IDLE_FACTOR);
        let control = self.shared.control.load_full();
        self.expected = control.and_then(|control| control.digest());
        // The engine may still be counting. An engine without digests gets the next request after the next change.
        self.missing_digests = if self.expected.is_some() { 0 } else { self.missing_digests + 1 };
        self.compare()
    }

    /// Compares the digests if the cache has applied everything that the engine has counted.
    pub(crate) fn compare(&mut self) -> Result<(), Inconsistency> {
        let Some(expected) = self.expected.take_if(|expected| self.shared.applied() >= expected.last_event) else {
            return Ok(());
        };
        if self.shared.has_foreign_keys.load(Ordering::Relaxed) {
            return Ok(());
        }
        let (digest, objects) = {
            let state = self.shared.state.lock();
            (state.digest, state.objects.len() as u64)
        };
        if expected.matches(&digest) && digest.objects() == objects {
            self.succeed();
            return Ok(());
        }
        self.fail(None);
        Err(Inconsistency)
    }

    fn handle_walk_result(&mut self, result: Result<Option<Difference>, StoreError>) -> Result<(), Inconsistency> {
        match result {
            Ok(None) => {
                self.succeed();
                Ok(())
            }
            Ok(Some(difference)) => {
                self.fail(Some(&difference));
                Err(Inconsistency)
            }
            Err(error) => {
                self.shared.counters.checks.errors.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(%error, range = ?self.shared.range.start, "failed to compare watch cache with the store");
                Ok(())
            }
        }
    }

    /// Reports that events arrived in an impossible order.
    pub(crate) fn reject_order(&mut self, revision: Revision, applied: Revision) -> Inconsistency {
        let range = &self.shared.range.start;
        tracing::error!(?range, revision = revision.0, applied = applied.0, "the store delivered an outdated event");
        self.fail(None);
        Inconsistency
    }

    fn succeed(&mut self) {
        (self.pause, self.failed_before) = (Duration::ZERO, false);
        self.shared.counters.checks.successes.fetch_add(1, Ordering::Relaxed);
    }

    fn fail(&mut self, difference: Option<&Difference>) {
        if std::mem::replace(&mut self.failed_before, true) {
            self.pause = (self.pause * 2).clamp(Duration::from_secs(1), MAX_PAUSE);
        }
        self.shared.counters.checks.failures.fetch_add(1, Ordering::Relaxed);
        self.shared.inconsistent.store(true, Ordering::Release);
        if let Some(difference) = difference {
            difference.report(&self.shared);
        }
    }
}

// === impl Difference ===

impl Difference {
    fn new(path: &str, cached: Option<&Entry>, stored: Option<&KeyValue>, reason: &'static str) -> Self {
        let (cached, stored) = (cached.map(Entry::revision), stored.map(|kv| kv.mod_revision));
        Self { path: path.to_owned(), cached, stored, reason }
    }

    fn report(&self, shared: &Shared) {
        let revision = |revision: Option<Revision>| revision.map_or(0, |revision| revision.0);
        tracing::error!(
            range = ?shared.range.start,
            path = self.path,
            cached = revision(self.cached),
            stored = revision(self.stored),
            "Cache consistency check failed: {}",
            self.reason
        );
    }
}

/// Finds the first key that differs, and logs it.
pub(crate) async fn diagnose(shared: &Arc<Shared>) {
    let range = &shared.range.start;
    match timeout(DIAGNOSIS_TIMEOUT, walk(Arc::clone(shared), false)).await {
        Ok(Ok(Some(difference))) => difference.report(shared),
        Ok(Ok(None)) => tracing::error!(?range, "Cache consistency check failed; no object differs any more"),
        Ok(Err(error)) => tracing::error!(?range, %error, "Cache consistency check failed; the key is not known"),
        Err(_) => tracing::error!(?range, "Cache consistency check failed; the key was not found in time"),
    }
}

/// Returns the time of the next comparison of all objects. It is randomized, so that caches are not all compared at
/// once.
fn next_walk_time(times: CheckIntervals) -> Option<Instant> {
    let random = RandomState::new().hash_one(0) % 1_000;
    times.objects.map(|least| Instant::now() + least + least.mul_f64(random as f64 / 2_000.0))
}

/// Sleeps until a time, or forever without one.
async fn sleep_until_some(time: Option<Instant>) {
    match time {
        Some(time) => sleep_until(time).await,
        None => pending().await,
    }
}

/// Compares all objects with the store, and returns the first difference. Each step is a comparison at its own
/// revision, so that no old state is needed. A `patient` walk pauses between its steps.
async fn walk(shared: Arc<Shared>, patient: bool) -> Result<Option<Difference>, StoreError> {
    let mut start = String::new();
    loop {
        let started = Instant::now();
        let snapshot = shared.snapshot();
        let WalkStep { entries, end } = step(&snapshot.inner, &start);
        let key = |path: &str| Bytes::from([shared.range.start.as_ref(), path.as_bytes()].concat());
        let request = RangeRequest {
            range: key(&start)..end.as_deref().map_or_else(|| shared.range.end.clone(), key),
            revision: (snapshot.revision().0 > 0).then_some(snapshot.revision()),
            // If the store has more objects, one of them is missing in the cache.
            limit: 2 * STEP_OBJECTS,
            count: Count::Returned,
        };
        let stored = shared.store.range(request).await?.kvs;
        if let Some(difference) = compare(&shared, &snapshot.inner, &entries, &stored).await? {
            return Ok(Some(difference));
        }
        match end {
            Some(end) => start = end,
            None => return Ok(None),
        }
        if patient {
            sleep((started.elapsed() * REST_FACTOR).min(MAX_REST)).await;
        }
    }
}

/// The objects of a step, and the path at which the next step starts.
struct WalkStep {
    entries: Vec<Arc<Entry>>,
    end: Option<String>,
}

fn step(state: &SnapshotInner, start: &str) -> WalkStep {
    let (mut entries, mut bytes) = (Vec::new(), 0);
    for (_, entry) in state.objects.range::<_, str>((Bound::Included(start), Bound::Unbounded)) {
        if entries.len() >= STEP_OBJECTS || bytes >= STEP_BYTES {
            return WalkStep { entries, end: Some(entry.path().to_owned()) };
        }
        bytes += entry.value_len();
        entries.push(Arc::clone(entry));
    }
    WalkStep { entries, end: None }
}

/// Compares the objects of a state with the store's objects in the same range.
async fn compare(
    shared: &Shared,
    state: &SnapshotInner,
    entries: &[Arc<Entry>],
    stored: &[KeyValue],
) -> Result<Option<Difference>, StoreError> {
    let mut cached = entries.iter().peekable();
    for (count, kv) in stored.iter().enumerate() {
        if count % YIELD_INTERVAL == YIELD_INTERVAL - 1 {
            tokio::task::yield_now().await;
        }
        let Some(path) = path_of(shared, &kv.key) else { continue };
        if let Some(extra) = cached.next_if(|entry| entry.path() < path) {
            return Ok(Some(Difference::new(extra.path(), Some(extra), None, "the store has no such object")));
        }
        let Some(entry) = cached.next_if(|entry| entry.path() == path) else {
            return Ok(Some(Difference::new(path, None, Some(kv), "the cache lacks an object")));
        };
        if let Some(reason) = compare_one(shared, state, path, entry, kv)? {
            return Ok(Some(Difference::new(path, Some(entry), Some(kv), reason)));
        }
    }
    let extra = cached.next();
    Ok(extra.map(|extra| Difference::new(extra.path(), Some(extra), None, "the store has no such object")))
}

fn compare_one(
    shared: &Shared,
    state: &SnapshotInner,
    path: &str,
    entry: &Entry,
    kv: &KeyValue,
) -> Result<Option<&'static str>, StoreError> {
    if entry.revision() != kv.mod_revision {
        return Ok(Some("the cache has another version of an object"));
    }
    let (meta, value): (Meta, Bytes) = decode_attributes(shared, path, kv)?;
    if entry.value_hash() != ValueHash::of(&kv.value) || *entry.value() != value {
        return Ok(Some("the cache has another value of an object"));
    }
    if !entry.meta.same_attributes(&meta) {
        return Ok(Some("the cache has other labels or fields of an object"));
    }
    let indexed = state.indexes.iter().all(|index| index.has(&meta));
    Ok((!indexed).then_some("an index of the cache lacks an object"))
}

#[cfg(test)]
mod tests {
    use binnacle_meta::Text;
    use binnacle_store::{Expect, Op, Store, Txn};
    use binnacle_store_embedded::EmbeddedStore;

    use super::*;
    use crate::attrs::{Attrs, IndexError, Indexer};
    use crate::backlog::Backlog;
    use crate::index::{Index, Objects};
    use crate::selection::Property;
    use crate::window::WindowLimits;

    /// Objects whose value is the label `v`.
    struct LabelIndexer;

    impl Indexer for LabelIndexer {
        fn fields(&self) -> &[Text] {
            &[]
        }

        fn index(&self, _key: &[u8], value: &Bytes, _revision: Revision) -> Result<Attrs, IndexError> {
            let text = std::str::from_utf8(value).map_err(|error| IndexError(error.to_string()))?;
            Ok(Attrs { labels: vec![("v".into(), text.into())], ..Attrs::default() })
        }
    }

    /// Returns a cache with more objects than one step compares, and an index of their labels.
    async fn filled_cache() -> Arc<Shared> {
        let store = Arc::new(EmbeddedStore::ephemeral());
        for n in 0..STEP_OBJECTS + 200 {
            let (key, value) = (format!("/r/{n:05}").into(), Bytes::from(format!("{}", n % 7)));
            let txn = Txn { key, expect: Expect::Absent, op: Op::Put { value, lease: None } };
            store.txn(txn).await.expect("it is written");
        }
        let (limits, backlog) = (WindowLimits::default(), Backlog::with_default_limit());
        let shared = Shared::new(store, "/r/", Arc::new(LabelIndexer), limits, backlog);
        shared.initialized(Instant::now() + Duration::from_secs(20)).await.expect("it is read");
        let index = Index::build(Property::Label("v".into()), &shared.current().objects, 0);
        shared.change(|state| state.indexes.push(index));
        shared
    }

    async fn difference(shared: &Arc<Shared>) -> Option<(String, &'static str)> {
        let found = walk(Arc::clone(shared), false).await.expect("the store answers");
        found.map(|difference| (difference.path, difference.reason))
    }

    #[tokio::test]
    async fn walk_finds_differences_that_digests_miss() {
        let shared = filled_cache().await;
        assert_eq!(difference(&shared).await, None);
        let original = shared.current();
        let entry = |path: &str| original.objects.get(path).cloned().expect("it is there");
        let restore = || {
            shared.change(|state| (state.objects, state.indexes) = (original.objects.clone(), original.indexes.clone()))
        };
        for path in ["00000", "00007", "01150"] {
            shared.change(|state| state.objects.remove(path));
            assert_eq!(difference(&shared).await, Some((path.to_owned(), "the cache lacks an object")));
            restore();
            let (old, kv) = (entry(path), |value| KeyValue {
                key: Bytes::new(),
                value,
                create_revision: entry(path).create_revision(),
                mod_revision: entry(path).revision(),
                lease: None,
            });
            let other = Entry::new(old.meta.clone(), Bytes::from_static(b"?"), false, &kv(old.value().to_vec().into()));
            shared.change(|state| state.objects.insert(old.meta.clone(), Arc::new(other)));
            assert_eq!(difference(&shared).await, Some((path.to_owned(), "the cache has another value of an object")));
            restore();
            shared.change(|state| state.indexes[0].update(Some(&old.meta), None));
            assert_eq!(difference(&shared).await, Some((path.to_owned(), "an index of the cache lacks an object")));
            restore();
        }
        let extra = Arc::new(Entry::new(
            Meta::new("00007x", &[], &[]),
            Bytes::new(),
            false,
            &KeyValue {
                key: Bytes::new(),
                value: Bytes::new(),
                create_revision: Revision(2),
                mod_revision: Revision(2),
                lease: None,
            },
        ));
        shared.change(|state| state.objects.insert(extra.meta.clone(), extra));
        assert_eq!(difference(&shared).await, Some(("00007x".to_owned(), "the store has no such object")));
        shared.change(|state| state.objects = Objects::new());
        assert_eq!(difference(&shared).await, Some(("00000".to_owned(), "the cache lacks an object")));
    }
}
