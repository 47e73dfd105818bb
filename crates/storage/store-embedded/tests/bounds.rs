//! The bound on the size of the files for all kinds of writes, and writes on a full disk.

mod support;

use std::sync::Arc;

use binnacle_store::{Expect, Op, Store, StoreError, Txn};
use binnacle_store_embedded::log::LogOptions;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bytes::Bytes;
use support::model::Model;
use support::sim_files::{ENOSPC, Fault, SimFiles, SurvivingBytes};
use support::turnstile::Operation;
use support::work::{RandomOperation, Rng};

const SEGMENT: u64 = 64 << 10;

fn open(files: &SimFiles) -> EmbeddedStore {
    let log = LogOptions { min_segment: SEGMENT, max_segment: SEGMENT, background: false };
    EmbeddedStore::open_in(Arc::new(files.clone()), &EmbeddedOptions { log, ..EmbeddedOptions::new("") })
        .expect("the store opens")
}

fn put(key: String, len: usize) -> RandomOperation {
    let op = Op::Put { value: Bytes::from(vec![b'v'; len]), lease: None };
    RandomOperation::Txn(Txn { key: key.into(), expect: Expect::Anything, op })
}

fn delete(key: String) -> RandomOperation {
    RandomOperation::Txn(Txn { key: key.into(), expect: Expect::Anything, op: Op::Delete })
}

/// Objects of all sizes are updated, created and deleted, with a compaction some time later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_stay_within_bound() {
    for (keys, len) in [(4, 20_000), (4, 60_000), (40, 1500), (200, 100)] {
        let files = SimFiles::default();
        let store = open(&files);
        let mut rng = Rng::new(keys);
        let mut written = 0;
        let mut last = 0;
        let mut moved = 0;
        while written < 3 << 20 {
            let key = format!("/a/{}", rng.below(keys));
            let op = match rng.below(4) {
                0 => Op::Delete,
                _ => Op::Put { value: Bytes::from(vec![b'v'; len / 2 + rng.below(len as u64) as usize]), lease: None },
            };
            written += match &op {
                Op::Put { value, .. } => value.len(),
                Op::Delete => 50,
            };
            store.txn(Txn { key: key.into(), expect: Expect::Anything, op }).await.expect("a write");
            let revision = store.current_revision().await.expect("a revision");
            if revision.0 >= last + 20 {
                last = revision.0;
                store.compact(revision).await.expect("a compaction");
            }
            let stats = store.stats();
            // One large value may need a segment of its own size.
            let bound = 2 * stats.needed_bytes + 2 * SEGMENT + 2 * len as u64;
            let disk = stats.disk_bytes - stats.reserve_bytes;
            assert!(disk <= bound, "{keys} keys of {len}: {disk} of {bound}, {stats:?}");
            moved = stats.moved_bytes;
        }
        assert!(moved < 2 * written as u64, "{keys} keys of {len}: {moved} bytes moved for {written} written");
    }
}

/// On a full disk, puts are rejected with an error; deletions and compactions continue, and free space again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn full_disk_accepts_deletions_and_recovers() {
    let files = SimFiles::default();
    let store = open(&files);
    let mut model = Model::default();
    files.limit_space(Some(12 * SEGMENT));
    let mut written = 0;
    let refused = loop {
        match put(format!("/a/{written}"), 6000).run(&store, &mut model).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(&refused, StoreError::NoSpace(why) if why.contains("KiB are free")), "{refused:?}");
    assert!(written > 50, "{written}");
    assert!(matches!(store.readiness().await, Err(StoreError::NoSpace(_))));
    store.health().await.expect("it serves");
    assert!(store.stats().full);
    model.check(&store, "full").await;
    RandomOperation::Grant.run(&store, &mut model).await.expect("leases are taken");
    for n in 0..written / 2 {
        delete(format!("/a/{n}")).run(&store, &mut model).await.expect("deletions are taken");
    }
    let again = put("/a/x".to_owned(), 10).run(&store, &mut model).await;
    assert!(matches!(again, Err(StoreError::NoSpace(_))), "{again:?}");
    // A process that starts on the full disk finds it unchanged.
    drop(store);
    let files = files.restarted(SurvivingBytes::Synced);
    let store = open(&files);
    model.check(&store, "full, started again").await;
    RandomOperation::Compact(model.revision()).run(&store, &mut model).await.expect("compactions are taken");
    for n in 0..50 {
        put(format!("/b/{n}"), 1000).run(&store, &mut model).await.expect("there is room again");
    }
    store.readiness().await.expect("it is ready");
    model.check(&store, "healed").await;
    assert!(files.used() <= 12 * SEGMENT);
}

/// On a full disk, small values under the reserved prefixes are accepted as long as deletions still have room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reserve_accepts_heartbeats_on_full_disk() {
    let files = SimFiles::default();
    let log = LogOptions { min_segment: SEGMENT, max_segment: SEGMENT, background: false };
    let reserve_prefixes = vec![Bytes::from_static(b"/leases/")];
    let options = EmbeddedOptions { log, reserve_prefixes, ..EmbeddedOptions::new("") };
    let store = EmbeddedStore::open_in(Arc::new(files.clone()), &options).expect("it opens");
    let mut model = Model::default();
    files.limit_space(Some(12 * SEGMENT));
    let mut written = 0;
    while put(format!("/a/{written}"), 6000).run(&store, &mut model).await.is_ok() {
        written += 1;
    }
    for n in 0..30 {
        let lease = format!("/leases/{}", n % 3);
        put(lease, 400).run(&store, &mut model).await.unwrap_or_else(|error| panic!("heartbeat {n}: {error}"));
    }
    assert!(store.stats().full);
    for refused in [put("/a/0".to_owned(), 10), put("/leases/large".to_owned(), 20_000)] {
        let refused = refused.run(&store, &mut model).await;
        assert!(matches!(refused, Err(StoreError::NoSpace(_))), "{refused:?}");
    }
    // They end before the reserve does, and there is room for all deletions.
    let mut heartbeats = 0;
    while put("/leases/0".to_owned(), 400).run(&store, &mut model).await.is_ok() {
        heartbeats += 1;
        assert!(heartbeats < 1000, "they never end");
    }
    for n in 0..written {
        delete(format!("/a/{n}")).run(&store, &mut model).await.expect("deletions are taken");
    }
    RandomOperation::Compact(model.revision()).run(&store, &mut model).await.expect("a compaction");
    put("/a/0".to_owned(), 6000).run(&store, &mut model).await.expect("there is room again");
    model.check(&store, "healed").await;
}

/// The bound for the end of the log is durable soon after a write, not only when a segment is started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledged_end_is_durable_soon() {
    let files = SimFiles::default();
    let options = EmbeddedOptions::new("");
    let store = EmbeddedStore::open_in(Arc::new(files.clone()), &options).expect("it opens");
    let mut model = Model::default();
    let head = |files: &SimFiles| {
        let mut head = Vec::new();
        files.show("head", |bytes| head = bytes.to_vec());
        head
    };
    for round in 0..2 {
        for n in 0..3 {
            put(format!("/a/{n}"), 100).run(&store, &mut model).await.expect("a put");
        }
        let written = head(&files);
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        while head(&files.restarted(SurvivingBytes::Synced)) != written {
            assert!(std::time::Instant::now() < deadline, "round {round}: it is never synced");
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }
}

/// Returns the end of the written bytes of a file.
fn written(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

/// Returns a store whose process was killed while it wrote a frame.
async fn torn() -> (SimFiles, Model) {
    let files = SimFiles::default();
    let store = open(&files);
    let mut model = Model::default();
    for n in 0..40 {
        put(format!("/a/{n}"), 100).run(&store, &mut model).await.expect("a put");
    }
    drop(store);
    let segment = files.names().into_iter().rfind(|name| name.starts_with("log-")).expect("a segment");
    files.tamper(&segment, |bytes| {
        let end = written(bytes).next_multiple_of(8);
        bytes[end..end + 9000].fill(0xA5);
    });
    (files, model)
}

/// No file can be created any more: deletions overwrite an unfinished frame.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn deletions_overwrite_unfinished_write() {
    let run = |at: Option<u64>, fault: Fault, full: bool| async move {
        let (files, mut model) = torn().await;
        if full {
            files.limit_space(Some(files.used()));
        }
        if let Some(at) = at {
            files.plan(files.operations() + at, fault);
        }
        let before = files.operations();
        let mut under_way = None;
        let mut done = 0;
        let log = LogOptions { min_segment: SEGMENT, max_segment: SEGMENT, background: false };
        if let Ok(store) =
            EmbeddedStore::open_in(Arc::new(files.clone()), &EmbeddedOptions { log, ..EmbeddedOptions::new("") })
        {
            for n in 0..10 {
                let work = delete(format!("/a/{n}"));
                match work.run(&store, &mut model).await {
                    Ok(()) => done += 1,
                    // A process that is killed now may have executed the first of them.
                    Err(StoreError::NoSpace(_) | StoreError::Unavailable(_)) => under_way = under_way.or(Some(work)),
                    Err(_) => {
                        under_way = Some(work);
                        break;
                    }
                }
            }
            // As if the process were killed.
            std::mem::forget(store);
        }
        let operations = files.operations() - before;
        (files, model, under_way, done, operations)
    };
    let (files, model, _, done, operations) = run(None, Fault::Short, true).await;
    assert_eq!(done, 10, "all are taken");
    model.check(&open(&files.restarted(SurvivingBytes::Everything)), "on a full disk").await;
    // While there is space, nothing is written to a segment whose last write may have failed.
    let newest = |files: &SimFiles| files.names().into_iter().rfind(|name| name.starts_with("log-"));
    let (before, _) = torn().await;
    assert_eq!(newest(&files), newest(&before), "the old segment is continued");
    let (files, _, _, done, _) = run(None, Fault::Short, false).await;
    assert_eq!(done, 10);
    assert!(newest(&files) > newest(&before), "a new segment was started");
    let faults = [Fault::CutBefore, Fault::CutAfter, Fault::Short, Fault::Dropped, Fault::Refused(ENOSPC)];
    for at in 0..operations + 8 {
        for fault in faults {
            for full in [true, false] {
                let (files, model, under_way, ..) = run(Some(at), fault, full).await;
                files.limit_space(None);
                for survives in [SurvivingBytes::Everything, SurvivingBytes::Synced, SurvivingBytes::Some(at)] {
                    let context = format!("{fault:?} at operation {at}, full: {full}, {survives:?}");
                    let store = open(&files.restarted(survives));
                    let mut expected = model.clone();
                    let revision = store.current_revision().await.expect("a revision").0;
                    if let Some(work) = under_way.as_ref().filter(|_| revision != model.revision()) {
                        work.apply(&mut expected);
                    }
                    expected.check(&store, &context).await;
                }
            }
        }
    }
}

/// The zeros over an unfinished frame cannot be made durable: nothing is written there, and the store waits for room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovers_from_failed_wipe_of_unfinished_write() {
    let (files, mut model) = torn().await;
    files.limit_space(Some(files.used()));
    let store = open(&files);
    files.refuse(Some(Operation::Sync));
    let refused = delete("/a/0".to_owned()).run(&store, &mut model).await;
    assert!(matches!(refused, Err(StoreError::NoSpace(_))), "{refused:?}");
    files.refuse(None);
    store.health().await.expect("it serves");
    let again = delete("/a/0".to_owned()).run(&store, &mut model).await;
    assert!(matches!(again, Err(StoreError::NoSpace(_))), "it is wiped once: {again:?}");
    files.limit_space(None);
    delete("/a/0".to_owned()).run(&store, &mut model).await.expect("there is room");
    model.check(&store, "with room").await;
    drop(store);
    model.check(&open(&files.restarted(SurvivingBytes::Synced)), "started again").await;
}

/// Rewriting fails for a while: it is retried, and the store is ready when no segment needs it any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn recovers_from_failed_rewrite() {
    for refused in [Operation::Rename, Operation::SyncDir] {
        let files = SimFiles::default();
        let log = LogOptions { min_segment: SEGMENT, max_segment: SEGMENT, background: true };
        let options = EmbeddedOptions { log, ..EmbeddedOptions::new("") };
        let store = EmbeddedStore::open_in(Arc::new(files.clone()), &options).expect("it opens");
        let mut model = Model::default();
        for n in 0..200 {
            put(format!("/a/{}", n % 10), 4000).run(&store, &mut model).await.expect("a put");
        }
        files.refuse(Some(refused));
        RandomOperation::Compact(model.revision()).run(&store, &mut model).await.expect("a compaction");
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(60);
        let wait = async |ready: bool| {
            while store.readiness().await.is_ok() != ready {
                assert!(std::time::Instant::now() < deadline, "{refused:?}, ready: {ready} is awaited");
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        wait(false).await;
        let moves = store.stats().moves;
        files.refuse(None);
        wait(true).await;
        assert!(store.stats().moves > moves, "{refused:?}: segments are rewritten");
        model.check(&store, &format!("{refused:?}, rewritten")).await;
    }
}
