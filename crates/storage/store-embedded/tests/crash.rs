//! Every single file operation fails, or the power fails at it: no acknowledged write is lost, no partial write
//! appears, and the store recovers from transient errors.

mod support;

use std::sync::Arc;

use binnacle_store::{Expect, LeaseId, Op, Revision, Store, StoreError, Txn, prefix_range};
use binnacle_store_embedded::log::LogOptions;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use bytes::Bytes;
use support::model::{Model, list};
use support::sim_files::{EIO, EMFILE, ENOSPC, Fault, SimFiles, SurvivingBytes};
use support::work::{RandomOperation, Rng};

/// Returns options with small segments, so that a short run starts, rewrites and removes many of them.
fn options() -> EmbeddedOptions {
    let log = LogOptions { min_segment: 8 << 10, max_segment: 8 << 10, background: false };
    EmbeddedOptions { log, ..EmbeddedOptions::new("") }
}

fn open(files: &SimFiles) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open_in(Arc::new(files.clone()), &options())
}

const STEPS: usize = 90;

/// Works until an error. Returns the model of acknowledged work, and the work in progress.
async fn work_until_failure(files: &SimFiles, seed: u64) -> (Model, Option<RandomOperation>, Option<EmbeddedStore>) {
    let mut model = Model::default();
    let Ok(store) = open(files) else { return (model, None, None) };
    let mut rng = Rng::new(seed);
    for step in 0..STEPS {
        let work = rng.bulky_work(&model, step);
        if work.run(&store, &mut model).await.is_err() {
            return (model, Some(work), Some(store));
        }
    }
    (model, None, Some(store))
}

/// Returns the number of operations of a run, and checks that every kind occurs.
async fn operations(seed: u64) -> u64 {
    let files = SimFiles::default();
    let (model, _, store) = work_until_failure(&files, seed).await;
    let store = store.expect("it opens");
    let stats = store.stats();
    assert!(stats.moves > 1, "segments are rewritten: {stats:?}");
    model.check(&store, "nothing fails").await;
    files.operations()
}

/// Opens the remaining files, and compares the store with its possible states.
async fn check_restart(
    files: &SimFiles,
    model: &Model,
    under_way: Option<&RandomOperation>,
    seed: u64,
    context: &str,
) -> SimFiles {
    let store = open(files).unwrap_or_else(|error| panic!("{context}: {error} {:?}", files.names()));
    let mut expected = model.clone();
    // The work in progress was executed as a whole, or not at all.
    let revision = store.current_revision().await.expect("a revision").0;
    let compacted = store.compacted_revision().await.expect("a revision").0;
    let lease_is_gone = match under_way {
        Some(RandomOperation::Revoke(lease)) => store.lease_remaining(LeaseId(*lease)).await.is_err(),
        _ => false,
    };
    if let Some(work) = under_way
        && (lease_is_gone || (revision, compacted) != (model.revision(), model.compacted))
    {
        work.apply(&mut expected);
    }
    expected.check(&store, context).await;
    // The store works, and does not reuse a revision.
    let mut rng = Rng::new(seed + 1000);
    for step in 0..12 {
        let work = match step {
            6 => RandomOperation::Compact(expected.revision()),
            _ => RandomOperation::Txn(rng.txn(&expected)),
        };
        work.run(&store, &mut expected).await.expect("it works again");
    }
    expected.check(&store, context).await;
    drop(store);
    only_needed_files(files, context);
    // The state that was read before is durable.
    let again = files.restarted(SurvivingBytes::Synced);
    let store = open(&again).unwrap_or_else(|error| panic!("{context}, once more: {error}"));
    expected.check(&store, &format!("{context}, once more")).await;
    again
}

/// Checks that the leftovers of earlier processes are removed: each number of a segment is in one file, and there are
/// no other files.
fn only_needed_files(files: &SimFiles, context: &str) {
    let names = files.names();
    let mut next = 0;
    for name in names.iter().filter(|name| *name != "head") {
        let numbers = name.strip_prefix("log-").into_iter().flat_map(|rest| rest.split('-'));
        let numbers: Vec<u64> = numbers.map(|number| number.parse().expect("a number")).collect();
        assert!(numbers.first() == Some(&next), "{context}: {names:?}");
        next = numbers[1] + 1;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn survives_power_failure_at_every_operation() {
    for seed in 0..2 {
        for at in 0..operations(seed).await {
            for fault in [Fault::CutBefore, Fault::CutAfter] {
                let files = SimFiles::default();
                files.plan(at, fault);
                let (model, under_way, store) = work_until_failure(&files, seed).await;
                drop(store);
                for survives in [SurvivingBytes::Synced, SurvivingBytes::Some(at), SurvivingBytes::Some(at + 7777)] {
                    let context = format!("seed {seed}, {fault:?} at operation {at}, {survives:?}");
                    check_restart(&files.restarted(survives), &model, under_way.as_ref(), seed, &context).await;
                }
            }
        }
    }
}

/// A process is killed at every operation, and a second one, which found writes that were not durable, loses power.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn survives_kill_then_power_failure() {
    for at in 0..operations(3).await {
        for fault in [Fault::CutBefore, Fault::CutAfter, Fault::Dropped] {
            let files = SimFiles::default();
            files.plan(at, fault);
            let (model, under_way, store) = work_until_failure(&files, 3).await;
            // The process is killed: no destructor runs.
            std::mem::forget(store);
            let context = format!("{fault:?} at operation {at}, killed");
            check_restart(&files.restarted(SurvivingBytes::Everything), &model, under_way.as_ref(), 3, &context).await;
            // The same, but the power fails as soon as a read of the second process has returned.
            let second = files.restarted(SurvivingBytes::Everything);
            let store = open(&second).unwrap_or_else(|error| panic!("{context}: {error}"));
            let shown = list(&store, &binnacle_store::prefix_range(b"/"), None).await.expect("a list");
            let revision = store.current_revision().await.expect("a revision");
            std::mem::forget(store);
            let store =
                open(&second.restarted(SurvivingBytes::Synced)).unwrap_or_else(|error| panic!("{context}: {error}"));
            assert_eq!(store.current_revision().await.expect("a revision"), revision, "{context}");
            let again = list(&store, &binnacle_store::prefix_range(b"/"), None).await.expect("a list");
            assert_eq!(again, shown, "{context}");
        }
    }
}

/// One operation fails and the next ones do not: the store recovers automatically.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovers_from_transient_failure_at_every_operation() {
    let faults = [Fault::Refused(EIO), Fault::Refused(ENOSPC), Fault::Refused(EMFILE), Fault::Short, Fault::Dropped];
    for at in 0..operations(1).await {
        for (n, fault) in faults.into_iter().enumerate() {
            let survives = [SurvivingBytes::Everything, SurvivingBytes::Synced, SurvivingBytes::Some(at)];
            fail_and_go_on(at, fault, survives[(at as usize + n) % 3]).await;
        }
    }
}

async fn fail_and_go_on(at: u64, fault: Fault, survives: SurvivingBytes) {
    let context = format!("{fault:?} at operation {at}, {survives:?}");
    let files = SimFiles::default();
    files.plan(at, fault);
    let mut model = Model::default();
    // A start may fail.
    let store = match open(&files) {
        Ok(store) => store,
        Err(_) => open(&files).unwrap_or_else(|error| panic!("{context}, opened again: {error}")),
    };
    let mut rng = Rng::new(1);
    for step in 0..STEPS {
        let work = rng.bulky_work(&model, step);
        if let Err(error) = work.run(&store, &mut model).await {
            assert!(matches!(error, StoreError::NoSpace(_) | StoreError::Unavailable(_)), "{context}: {error:?}");
            model.check(&store, &format!("{context}, refused")).await;
            // The rejected write has no effect, now or later.
            work.run(&store, &mut model).await.unwrap_or_else(|error| panic!("{context}, tried again: {error}"));
        }
    }
    model.check(&store, &context).await;
    assert_eq!(files.written_after_failure(), None, "{context}: its contents are unknown");
    drop(store);
    check_restart(&files.restarted(survives), &model, None, 1, &context).await;
}

/// The disk fails permanently: acknowledged writes can be read, new ones are rejected, and the failure is reported
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refuses_writes_after_permanent_failure() {
    for at in (40..operations(2).await).step_by(7) {
        let files = SimFiles::default();
        files.plan(at, Fault::RefusedFromNowOn(EIO));
        let reports = Arc::new(std::sync::atomic::AtomicU64::new(0));
        let count = reports.clone();
        let count = move |_: &str| {
            count.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        };
        let options = EmbeddedOptions { on_failure: Some(Arc::new(count)), ..options() };
        let store = EmbeddedStore::open_in(Arc::new(files.clone()), &options).expect("it opens");
        let mut model = Model::default();
        let mut rng = Rng::new(2);
        let under_way = loop {
            let work = RandomOperation::Txn(rng.txn(&model));
            if let Err(error) = work.run(&store, &mut model).await {
                assert!(matches!(error, StoreError::Io(_)), "{error:?}");
                break work;
            }
        };
        let again = RandomOperation::Grant.run(&store, &mut model).await;
        assert!(matches!(again, Err(StoreError::Io(_))), "{again:?}");
        assert!(matches!(store.health().await, Err(StoreError::Io(_))));
        model.check(&store, "the disk is gone").await;
        assert_eq!(reports.load(std::sync::atomic::Ordering::Relaxed), 1);
        drop(store);
        for survives in [SurvivingBytes::Everything, SurvivingBytes::Synced, SurvivingBytes::Some(at)] {
            let context = format!("the disk is gone at {at}, {survives:?}");
            check_restart(&files.restarted(survives), &model, Some(&under_way), 2, &context).await;
        }
    }
}

/// Many concurrent writers share a failing group, and none of them succeeds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failed_group_fails_for_all_writers() {
    for at in [20, 21, 40, 41, 61] {
        let files = SimFiles::default();
        files.plan(at, Fault::RefusedFromNowOn(EIO));
        let store = Arc::new(open(&files).expect("the store opens"));
        let writers = (0..16).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for n in 0.. {
                    let key = Bytes::from(format!("/a/{writer}/{n}"));
                    let op = Op::Put { value: key.clone(), lease: None };
                    let txn = binnacle_store::Txn { key: key.clone(), expect: binnacle_store::Expect::Absent, op };
                    match store.txn(txn).await {
                        Ok(_) => acknowledged.push(key),
                        Err(error) => {
                            assert!(matches!(error, StoreError::Io(_)), "{error:?}");
                            break;
                        }
                    }
                }
                acknowledged
            })
        });
        let mut acknowledged = Vec::new();
        for writer in writers.collect::<Vec<_>>() {
            acknowledged.extend(writer.await.expect("a writer"));
        }
        acknowledged.sort_unstable();
        let range = binnacle_store::prefix_range(b"/a/");
        let keys = |kvs: Vec<binnacle_store::KeyValue>| kvs.into_iter().map(|kv| kv.key).collect::<Vec<_>>();
        assert_eq!(keys(list(&*store, &range, None).await.expect("reads go on")), acknowledged, "{at}");
        drop(store);
        let store = open(&files.restarted(SurvivingBytes::Synced)).expect("the store opens");
        let found = keys(list(&store, &range, None).await.expect("a list"));
        assert!(acknowledged.iter().all(|key| found.binary_search(key).is_ok()), "{at}");
        assert!(found.len() <= acknowledged.len() + 16, "{at}: at most one of each writer was under way");
    }
}

/// A lost file or a changed byte is detected, or makes no difference.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detects_lost_files_and_changed_bytes() {
    for seed in [5, 6] {
        let files = SimFiles::default();
        let (model, _, store) = work_until_failure(&files, seed).await;
        drop(store);
        let files = files.restarted(SurvivingBytes::Everything);
        for name in files.names() {
            let lost = files.restarted(SurvivingBytes::Everything);
            lost.lose(&name);
            refused(&lost, &format!("{name} lost"));
            let mut len = 0;
            files.tamper(&name, |bytes| len = bytes.len());
            let mut noticed = 0;
            for at in (0..len).step_by(if name == "head" { 1 } else { 13 }) {
                let changed = files.restarted(SurvivingBytes::Everything);
                changed.tamper(&name, |bytes| bytes[at] ^= 4);
                let context = format!("byte {at} of {name} changed");
                match open(&changed) {
                    Err(OpenError::Damaged { .. } | OpenError::Format { .. }) => noticed += 1,
                    Err(other) => panic!("{context}: {other}"),
                    // The byte is in one slot of the file `head`, or in unused space.
                    Ok(store) => model.check(&store, &context).await,
                }
            }
            assert!(noticed > 0 || name == "head", "{name}");
        }
    }
}

fn refused(files: &SimFiles, context: &str) {
    match open(files) {
        Err(OpenError::Damaged { .. }) => {}
        Err(other) => panic!("{context}: {other}"),
        Ok(_) => panic!("{context}: it was believed"),
    }
}

/// A read of damaged history only returns that error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_of_damaged_history_fails() {
    let files = SimFiles::default();
    let store = open(&files).expect("the store opens");
    let mut model = Model::default();
    for value in ["one", "two"] {
        let op = Op::Put { value: value.into(), lease: None };
        let txn = binnacle_store::Txn { key: "/a/0".into(), expect: binnacle_store::Expect::Anything, op };
        RandomOperation::Txn(txn).run(&store, &mut model).await.expect("a put");
    }
    let segment = files.names().into_iter().find(|name| name.starts_with("log-")).expect("a segment");
    files.tamper(&segment, |bytes| {
        let at = bytes.windows(3).position(|three| three == b"one").expect("the first value");
        bytes[at] = b'0';
    });
    let past = store.get("/a/0".into(), Some(Revision(2))).await;
    assert!(matches!(past, Err(StoreError::Damaged(_))), "{past:?}");
    let (now, _) = store.get("/a/0".into(), None).await.expect("the present is whole");
    assert_eq!(now.map(|kv| kv.value), Some("two".into()));
}

/// Without a background thread, both the writer and the erasure of a compaction rewrite segments, one after the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rewrites_segments_one_at_a_time() {
    for round in 0..8u64 {
        let files = SimFiles::default();
        let store = Arc::new(open(&files).expect("it opens"));
        let compacting = tokio::spawn({
            let store = store.clone();
            async move {
                while let Ok(now) = store.current_revision().await {
                    match store.compact(now).await {
                        Ok(()) | Err(StoreError::Compacted { .. }) => tokio::task::yield_now().await,
                        Err(_) => break,
                    }
                }
            }
        });
        for n in 0..600u64 {
            let op = Op::Put { value: Bytes::from(vec![b'-'; 600]), lease: None };
            let key = Bytes::from(format!("/{}", (n * 7 + round) % 23));
            let txn = Txn { key, expect: Expect::Anything, op };
            store.txn(txn).await.expect("nothing fails");
        }
        compacting.abort();
        let values = list(&*store, &prefix_range(b"/"), None).await.expect("a list");
        assert_eq!(values.len(), 23);
        drop(store);
        let store =
            open(&files.restarted(SurvivingBytes::Synced)).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert_eq!(list(&store, &prefix_range(b"/"), None).await.expect("a list"), values, "round {round}");
    }
}
