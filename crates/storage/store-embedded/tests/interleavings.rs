//! Writes, deletions and compactions between the operations of a thread that rewrites segments, and power failures
//! between them: no deleted object reappears, and nothing else is lost.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_store::{Expect, Op, Store, StoreError, Txn, prefix_range};
use binnacle_store_embedded::log::LogOptions;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError};
use bytes::Bytes;
use futures::future::join_all;
use support::model::{Model, list};
use support::sim_files::{Fault, SimFiles, SurvivingBytes};
use support::turnstile::Operation;
use support::work::{RandomOperation, Rng};

fn try_open(files: &SimFiles, segment: u64, background: bool) -> Result<EmbeddedStore, OpenError> {
    let log = LogOptions { min_segment: segment, max_segment: segment, background };
    EmbeddedStore::open_in(Arc::new(files.clone()), &EmbeddedOptions { log, ..EmbeddedOptions::new("") })
}

fn open(files: &SimFiles, segment: u64, background: bool) -> EmbeddedStore {
    try_open(files, segment, background).unwrap_or_else(|error| panic!("{error}: {:?}", files.names()))
}

fn put(key: &str, len: usize) -> RandomOperation {
    let op = Op::Put { value: Bytes::from(vec![b'v'; len]), lease: None };
    RandomOperation::Txn(Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op })
}

fn delete(key: &str) -> RandomOperation {
    RandomOperation::Txn(Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op: Op::Delete })
}

async fn run(works: impl IntoIterator<Item = RandomOperation>, store: &EmbeddedStore, model: &mut Model) {
    for work in works {
        work.run(store, model).await.expect("nothing fails");
    }
}

/// Compares the files with the model as they would be after a power failure now, and after the first work of a start.
async fn check_cut(files: &SimFiles, survives: SurvivingBytes, model: &Model, context: &str) {
    let mut left = files.restarted(survives);
    for round in 0..2 {
        let store = try_open(&left, SMALL, false).unwrap_or_else(|error| panic!("{context}, start {round}: {error}"));
        model.check(&store, &format!("{context}, start {round}")).await;
        drop(store);
        left = left.restarted(SurvivingBytes::Synced);
    }
}

/// The size of segments that a few writes fill.
const SMALL: u64 = 8 << 10;

/// The mover is held at each of its operations while clients continue; the power fails between any two steps of either.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn survives_power_failure_during_rewrite() {
    let (mut moves, mut steps) = (0, 0);
    for seed in 0..12 {
        let files = SimFiles::default();
        let store = open(&files, SMALL, true);
        let mut model = Model::default();
        let mut rng = Rng::new(seed);
        let held = files.mover.hold(None);
        for step in 0..150 {
            let work = rng.bulky_work(&model, step);
            run([work], &store, &mut model).await;
            if rng.below(3) > 0 {
                steps += u64::from(held.step());
            }
            let survives = match rng.below(15) {
                0 => SurvivingBytes::Synced,
                1 => SurvivingBytes::Some(seed * 1000 + step as u64),
                2 => SurvivingBytes::Everything,
                _ => continue,
            };
            check_cut(&files, survives, &model, &format!("seed {seed}, step {step}, {survives:?}")).await;
        }
        drop(held);
        model.check(&store, &format!("seed {seed}")).await;
        moves += store.stats().moves;
        drop(store);
        check_cut(&files, SurvivingBytes::Synced, &model, &format!("seed {seed}, closed")).await;
    }
    assert!(moves > 12 && steps > 200, "{moves} segments are rewritten, in {steps} steps");
}

/// An object is deleted while its segment is rewritten: its deletion stays in the log as long as the object does.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn object_deleted_during_rewrite_stays_deleted() {
    const SEGMENT: u64 = 32 << 10;
    let filler = |n: usize| put(&format!("/a/{}", n % 4), 600);
    for at in [Operation::Write, Operation::Resize, Operation::Rename, Operation::SyncDir] {
        let files = SimFiles::default();
        let store = open(&files, SEGMENT, true);
        let mut model = Model::default();
        run([put("/gone", 600)], &store, &mut model).await;
        run((0..100).map(filler), &store, &mut model).await;
        // The first write of the mover belongs to a rewrite, since spare files are only created.
        let held = files.mover.hold(Some(Operation::Write));
        run([RandomOperation::Compact(model.revision())], &store, &mut model).await;
        held.wait();
        if at != Operation::Write {
            held.go_on_to(at);
        }
        run([delete("/gone"), put("/b", 10)], &store, &mut model).await;
        run([RandomOperation::Compact(model.revision())], &store, &mut model).await;
        held.go_on_to(Operation::Remove);
        let rewritten = |name: &String| name.starts_with("log-0000000000-") && !name.ends_with("-0000000000");
        assert!(files.names().iter().any(rewritten), "{at:?}: the object was not in {:?}", files.names());
        drop(held);
        // Until both records have been dropped.
        let deadline = Instant::now() + Duration::from_secs(60);
        while has(&files, b"/gone") {
            assert!(Instant::now() < deadline, "{at:?}: it is kept forever");
            run((0..20).map(filler), &store, &mut model).await;
            run([RandomOperation::Compact(model.revision())], &store, &mut model).await;
            check_cut(&files, SurvivingBytes::Synced, &model, &format!("{at:?}")).await;
        }
    }
}

/// Returns true if a segment has these bytes.
fn has(files: &SimFiles, bytes: &[u8]) -> bool {
    files.names().into_iter().filter(|name| name.starts_with("log-")).any(|name| {
        let mut found = false;
        files.try_show(&name, |all| found = all.windows(bytes.len()).any(|some| some == bytes));
        found
    })
}

/// The number of objects that are created and deleted: more than one step of an erasure marks as dead.
const MANY: usize = 2300;
const LARGE: u64 = 16 << 10;
/// One in this many objects stays.
const STAYS: usize = 5;
/// One in this many operations is tried. No kind of operation occurs at such intervals.
const TRIED: usize = 13;

/// Returns the files of a store in which many objects were created, and most of them deleted.
async fn mostly_deleted_store() -> SimFiles {
    let files = SimFiles::default();
    let store = open(&files, LARGE, false);
    let key = |n: usize| Bytes::from(format!("/{}/{n}", if n.is_multiple_of(STAYS) { "left" } else { "gone" }));
    let all = MANY * STAYS / (STAYS - 1);
    let puts = (0..all).map(|n| (key(n), Op::Put { value: vec![b'v'; 60].into(), lease: None }));
    let deletions = (0..all).filter(|n| !n.is_multiple_of(STAYS)).map(|n| (key(n), Op::Delete));
    let txns: Vec<_> = puts.chain(deletions).map(|(key, op)| Txn { key, expect: Expect::Anything, op }).collect();
    // Many in each frame, so that nearly all bytes belong to records.
    for together in txns.chunks(50) {
        for done in join_all(together.iter().map(|txn| store.txn(txn.clone()))).await {
            done.expect("nothing fails");
        }
    }
    drop(store);
    files.restarted(SurvivingBytes::Synced)
}

async fn compact_all(store: &EmbeddedStore) -> Result<(), StoreError> {
    store.compact(store.current_revision().await?).await
}

/// Waits for the erasure that an earlier process did not finish.
async fn finish_erasure(store: &EmbeddedStore) -> Result<(), StoreError> {
    let op = Op::Put { value: vec![b'v'; 60].into(), lease: None };
    store.txn(Txn { key: "/left/0".into(), expect: Expect::Anything, op }).await?;
    compact_all(store).await
}

async fn all_gone_stay_gone(files: &SimFiles, context: &str) {
    let store = try_open(files, LARGE, false).unwrap_or_else(|error| panic!("{context}: {error}"));
    let left = list(&store, &prefix_range(b"/"), None).await.expect("a list");
    assert!(left.iter().all(|kv| kv.key.starts_with(b"/left/")), "{context}");
    assert_eq!(left.len(), (MANY * STAYS / (STAYS - 1)).div_ceil(STAYS), "{context}");
}

/// An erasure takes several steps, between which segments are rewritten. The power fails in the meantime, and again in
/// the start that resumes the erasure.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn survives_power_failure_during_erasure() {
    let before = mostly_deleted_store().await;
    let interrupted = before.restarted(SurvivingBytes::Synced);
    let store = open(&interrupted, LARGE, false);
    let first = interrupted.operations();
    compact_all(&store).await.expect("nothing fails");
    finish_erasure(&store).await.expect("nothing fails");
    let (operations, finished) = (interrupted.operations() - 1, store.stats());
    assert!(finished.moves > 3, "{finished:?}");
    drop(store);
    for at in (first..operations).step_by(TRIED) {
        let files = before.restarted(SurvivingBytes::Synced);
        files.plan(at, Fault::CutAfter);
        let store = open(&files, LARGE, false);
        let cut = async {
            compact_all(&store).await?;
            finish_erasure(&store).await
        };
        assert!(cut.await.is_err(), "operation {at}");
        drop(store);
        all_gone_stay_gone(&files.restarted(SurvivingBytes::Synced), &format!("operation {at}")).await;
    }

    // The marker of the compaction is durable, and nothing is marked as dead yet.
    let files = before.restarted(SurvivingBytes::Synced);
    files.plan(first + 1, Fault::CutAfter);
    let store = open(&files, LARGE, false);
    compact_all(&store).await.expect_err("the power fails");
    drop(store);
    let marked = files.restarted(SurvivingBytes::Synced);
    let again = marked.restarted(SurvivingBytes::Synced);
    let store = open(&again, LARGE, false);
    assert!(store.compacted_revision().await.expect("a revision").0 > 1);
    finish_erasure(&store).await.expect("nothing fails");
    assert_eq!(store.stats().needed_bytes, finished.needed_bytes, "leftovers of an earlier process are erased");
    let operations = again.operations();
    drop(store);
    for at in (0..operations).step_by(TRIED) {
        let files = marked.restarted(SurvivingBytes::Synced);
        files.plan(at, Fault::CutAfter);
        if let Ok(store) = try_open(&files, LARGE, false) {
            // It ends with the power failure at the latest.
            let _ = finish_erasure(&store).await;
        }
        all_gone_stay_gone(&files.restarted(SurvivingBytes::Synced), &format!("operation {at} of the second process"))
            .await;
    }
}

/// A power failure leaves an old `head`. That is safe, but it lists each segment in which a write was acknowledged: if
/// a disk loses the newest one, that is detected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detects_segment_lost_in_power_failure() {
    let files = SimFiles::default();
    let store = open(&files, SMALL, false);
    let mut model = Model::default();
    let (mut seen, mut rng) = (Vec::new(), Rng::new(5));
    for step in 0..90 {
        run([rng.bulky_work(&model, step)], &store, &mut model).await;
        let left = files.restarted(SurvivingBytes::Synced);
        let newest = left.names().into_iter().rfind(|name| name.starts_with("log-")).expect("a segment");
        let head = {
            let mut head = Vec::new();
            left.show("head", |bytes| head = bytes.to_vec());
            head
        };
        let mut now = Vec::new();
        files.show("head", |bytes| now = bytes.to_vec());
        left.lose(&newest);
        let refused = try_open(&left, SMALL, false).map(drop).expect_err("acknowledged writes are lost");
        assert!(matches!(refused, OpenError::Damaged { .. }), "step {step}: {refused}");
        seen.push((newest, head == now));
    }
    seen.dedup();
    assert!(seen.iter().filter(|(_, current)| !current).count() > 3, "old heads were tried: {seen:?}");
}
