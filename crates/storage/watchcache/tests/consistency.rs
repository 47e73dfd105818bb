//! Caches that compare themselves with the store detect faults, and read everything again.
#![allow(clippy::unwrap_used, reason = "tests panic on errors")]

mod support;

use std::sync::Arc;
use std::time::Duration;

use binnacle_store::{
    Count, KeyValue, LayeredStore, RangeRequest, Store, StoreError, Txn, ValueTransformer, prefix_range,
};
use binnacle_watchcache::{Cache, CheckIntervals, CheckStats, Start, WatchError, WindowLimits};
use bytes::Bytes;
use futures::future::BoxFuture;
use support::{Dice, Fault, FaultyStore, Listing, PREFIX, Things, delete, interest, list, put, soon, try_read_until};
use tokio::time::sleep;

const TIMES: CheckIntervals =
    CheckIntervals { digests: Duration::from_millis(4), overdue: Duration::from_millis(100), objects: None };
/// Intervals that are short enough to compare caches in every state, for tests without faults.
const OFTEN: CheckIntervals = CheckIntervals {
    digests: Duration::from_millis(1),
    overdue: Duration::from_secs(20),
    objects: Some(Duration::from_millis(5)),
};

fn checked_cache(store: Arc<dyn Store>, times: CheckIntervals) -> Cache {
    Cache::new(store, PREFIX, Things::new(), WindowLimits::default()).with_checks(times)
}

async fn until(cache: &Cache, condition: impl Fn(CheckStats) -> bool) {
    let deadline = soon();
    while !condition(cache.stats().checks) {
        assert!(tokio::time::Instant::now() < deadline, "{:?}", cache.stats().checks);
        sleep(Duration::from_millis(1)).await;
    }
}

/// Changes one of a few objects.
async fn change(store: &dyn Store, dice: &mut Dice) {
    let path = format!("a/{}", dice.roll(8));
    match dice.roll(4) {
        0 => delete(store, &path).await,
        _ => put(store, &path, &format!("n={}||{}", dice.roll(3), dice.roll(1000))).await,
    };
}

/// Returns the contents of the store.
async fn stored(store: &dyn Store) -> Listing {
    let request = RangeRequest { range: prefix_range(PREFIX.as_bytes()), revision: None, limit: 0, count: Count::All };
    let kvs = store.range(request).await.unwrap().kvs;
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    kvs.iter().map(|kv| (text(&kv.key[PREFIX.len()..]), (kv.mod_revision.0, text(&kv.value)))).collect()
}

/// Injects faults of one kind. Each one must be detected and repaired.
async fn inject(fault: Fault, count: u64, seed: u64) {
    let store = FaultyStore::new();
    let cache = checked_cache(store.clone(), TIMES);
    let mut dice = Dice(seed);
    put(&*store, "a/first", "||0").await;
    cache.start();
    until(&cache, |checks| checks.successes > 0).await;
    for done in 0..count {
        for _ in 0..dice.roll(4) {
            change(&*store, &mut dice).await;
        }
        // Waits for the effects of these changes, so that the fault affects the next one.
        list(&cache, interest("", "", "")).await;
        *store.fault.lock() = Some(fault);
        // Later changes of the same object could undo the fault before it is detected.
        put(&*store, &format!("b/{}", dice.roll(8)), &format!("n={}||x", dice.roll(3))).await;
        for _ in 0..1 + dice.roll(3) {
            change(&*store, &mut dice).await;
        }
        until(&cache, |checks| checks.failures == done + 1).await;
        let before = cache.stats().checks.successes;
        put(&*store, "a/first", &format!("||{done}")).await;
        until(&cache, |checks| checks.successes > before).await;
        assert!(cache.is_consistent());
        assert_eq!(list(&cache, interest("", "", "")).await.1, stored(&*store).await);
    }
    assert_eq!(cache.stats().checks.failures, count);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detects_and_repairs_lost_events() {
    inject(Fault::Loss, 250, 0x1057).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detects_and_repairs_duplicate_events() {
    inject(Fault::Duplicate, 250, 0xd0b1).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detects_and_repairs_reordered_events() {
    inject(Fault::Reorder, 250, 0x0bde).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detects_and_repairs_flipped_bits() {
    inject(Fault::BitFlip, 250, 0xf11b).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ends_watches_after_lost_event() {
    let store = FaultyStore::new();
    let cache = checked_cache(store.clone(), TIMES);
    put(&*store, "a/1", "||1").await;
    let all = cache.selection(interest("", "", ""));
    let mut watcher = cache.subscribe(all, Start::Now, soon()).await.unwrap();
    until(&cache, |checks| checks.successes > 0).await;
    *store.fault.lock() = Some(Fault::Loss);
    let lost = put(&*store, "a/2", "||2").await;
    let ended = try_read_until(&mut watcher, lost).await;
    assert!(matches!(ended, Err(WatchError::Expired { .. })), "{ended:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn busy_cache_raises_no_false_alarm() {
    let store = FaultyStore::new();
    let cache = Arc::new(checked_cache(store.clone(), OFTEN));
    cache.start();
    let writers = (1..=4).map(|seed| {
        let store = store.clone();
        tokio::spawn(async move {
            let mut dice = Dice(seed * 7919);
            for _ in 0..1500 {
                change(&*store, &mut dice).await;
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap();
    }
    let before = cache.stats().checks.successes;
    until(&cache, |checks| checks.successes > before + 3).await;
    assert_eq!(cache.stats().checks.failures, 0);
}

/// Values that can only be read while a permit is available, as if a webhook converted them.
struct ValueGate(tokio::sync::Semaphore);

impl ValueTransformer for ValueGate {
    fn transform_from_storage<'a>(&'a self, _: Vec<&'a mut KeyValue>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async { self.0.acquire().await.map(drop).map_err(|_| StoreError::Closed) })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_conversion_is_no_lost_event() {
    let (store, gate) = (FaultyStore::new(), Arc::new(ValueGate(tokio::sync::Semaphore::new(1))));
    let layered = Arc::new(LayeredStore::<_, dyn Store>::new(store.clone(), gate.clone()));
    let cache = checked_cache(layered, TIMES);
    put(&*store, "a/1", "||1").await;
    cache.start();
    until(&cache, |checks| checks.successes > 0).await;
    let all = gate.0.acquire().await.unwrap();
    put(&*store, "a/2", "||2").await;
    // Longer than the time after which other events are considered lost.
    sleep(4 * TIMES.overdue).await;
    drop(all);
    let before = cache.stats().checks.successes;
    until(&cache, |checks| checks.successes > before).await;
    assert_eq!((cache.stats().checks.failures, cache.stats().objects), (0, 2));
}

/// An expired lease deletes several objects at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expiring_objects_raise_no_false_alarm() {
    let store = FaultyStore::new();
    let cache = checked_cache(store.clone(), OFTEN);
    cache.start();
    for round in 0..50 {
        let lease = store.grant_lease(60).await.unwrap();
        for n in 0..5 {
            let key = support::key(&format!("a/{round}-{n}"));
            let op = binnacle_store::Op::Put { value: Bytes::from_static(b"||v"), lease: Some(lease) };
            store.txn(Txn { key, expect: binnacle_store::Expect::Anything, op }).await.unwrap();
        }
        store.revoke_lease(lease).await.unwrap();
    }
    let before = cache.stats().checks.successes;
    until(&cache, |checks| checks.successes > before + 3).await;
    assert_eq!((cache.stats().checks.failures, cache.stats().objects), (0, 0));
}
