//! The disk fails, or the power goes, at every single write: nothing acknowledged is lost, nothing half done appears.

mod support;

use std::sync::Arc;

use binnacle_store::{Expect, Op, Revision, Store, StoreError, Txn};
use binnacle_store_embedded::{EmbeddedStore, OpenError, WatchOptions};
use bytes::Bytes;
use support::crash_disk::{CrashDisk, FAULTS, Fault};
use support::model::{Model, events, list};
use support::work::{Rng, Work};

fn open(disk: &CrashDisk) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open_on(Arc::new(disk.clone()), WatchOptions::default())
}

/// Works until something fails. The model of what was acknowledged, and what was under way.
async fn work_until_failure(disk: &CrashDisk, seed: u64, steps: usize) -> (Model, Option<Work>, Option<EmbeddedStore>) {
    let mut model = Model::default();
    let Ok(store) = open(disk) else { return (model, None, None) };
    let mut rng = Rng::new(seed);
    for _ in 0..steps {
        let work = rng.work(&model);
        if let Err(error) = work.run(&store, &mut model).await {
            assert!(matches!(error, StoreError::Io(_)), "{error:?}");
            return (model, Some(work), Some(store));
        }
    }
    (model, None, Some(store))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn failing_at_every_write() {
    const STEPS: usize = 60;
    for seed in 0..3 {
        let whole = CrashDisk::default();
        work_until_failure(&whole, seed, STEPS).await;
        assert!(whole.writes() > 30, "there is something to fail");
        for at in 0..whole.writes() {
            for fault in FAULTS {
                fail_at(seed, at, fault, STEPS).await;
            }
        }
    }
}

async fn fail_at(seed: u64, at: u64, fault: Fault, steps: usize) {
    let context = format!("seed {seed}, {fault:?} at write {at}");
    let disk = CrashDisk::default();
    disk.plan(at, fault);
    let (model, under_way, store) = work_until_failure(&disk, seed, steps).await;
    if let (Some(store), Some(_)) = (&store, &under_way) {
        running_store_after_failure(store, &model, fault, &context).await;
    }
    drop(store);
    for survived in [0, disk.erasing() / 2, disk.erasing()] {
        let restarted = disk.restarted(survived);
        let store = open(&restarted).unwrap_or_else(|error| panic!("{context}: {error}"));
        let mut expected = model.clone();
        // What was under way may have happened or not, as a whole.
        let revision = store.current_revision().await.expect("a revision").0;
        let compacted = store.compacted_revision().await.expect("a revision").0;
        if let Some(work) = &under_way
            && (revision, compacted) != (model.revision(), model.compacted)
        {
            work.apply(&mut expected);
        }
        expected.check(&store, &context).await;
        // And it works on, without reusing a revision.
        let mut rng = Rng::new(seed + 1000);
        for _ in 0..5 {
            let work = Work::Txn(rng.txn(&expected));
            work.run(&store, &mut expected).await.expect("it works again");
        }
        expected.check(&store, &context).await;
    }
}

/// A store whose disk has failed shows what was acknowledged and takes no more writes.
async fn running_store_after_failure(store: &EmbeddedStore, model: &Model, fault: Fault, context: &str) {
    let everything = binnacle_store::prefix_range(b"/");
    // A compaction whose erasure failed has been noted, so only what is live is looked at.
    let live = list(store, &everything, None).await.expect("reads go on");
    assert_eq!(live, model.live().values().cloned().collect::<Vec<_>>(), "{context}");
    assert_eq!(store.current_revision().await.expect("a revision").0, model.revision(), "{context}");
    let op = Op::Put { value: Bytes::new(), lease: None };
    let put = store.txn(Txn { key: Bytes::from_static(b"/a/0"), expect: Expect::Anything, op }).await;
    assert!(matches!(put, Err(StoreError::Io(_))), "{context}: {put:?}");
    assert!(matches!(store.health().await, Err(StoreError::Io(_))), "{context}");
    if matches!(fault, Fault::Refused | Fault::WrittenButFailed)
        && store.compacted_revision().await.expect("a revision").0 == model.compacted
    {
        model.check(store, context).await;
    }
}

/// Of many concurrent writers whose writes share a failing commit, none is told that it was done.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_writers_and_a_failing_disk() {
    for fault in FAULTS {
        let disk = CrashDisk::default();
        disk.plan(20, fault);
        let store = Arc::new(open(&disk).expect("the store opens"));
        let writers = (0..16).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let mut acknowledged = Vec::new();
                for n in 0.. {
                    let key = Bytes::from(format!("/a/{writer}/{n}"));
                    let op = Op::Put { value: key.clone(), lease: None };
                    match store.txn(Txn { key: key.clone(), expect: Expect::Absent, op }).await {
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
        assert_eq!(keys(list(&*store, &range, None).await.expect("reads go on")), acknowledged, "{fault:?}");
        let told = events(&*store, range.clone(), 0, if fault_cuts(fault) { 0 } else { acknowledged.len() }).await;
        assert!(told.len() <= acknowledged.len());
        drop(store);
        let store = open(&disk.restarted(0)).expect("the store opens");
        let found = keys(list(&store, &range, None).await.expect("a list"));
        assert!(acknowledged.iter().all(|key| found.binary_search(key).is_ok()), "{fault:?}");
        assert!(found.len() <= acknowledged.len() + 16, "{fault:?}: at most one of each writer was under way");
    }
}

fn fault_cuts(fault: Fault) -> bool {
    matches!(fault, Fault::CutBefore | Fault::CutAfter)
}

/// A log from which something is missing, or in which something is not as it was written, is refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn any_missing_or_changed_record_is_noticed() {
    for seed in 0..4 {
        let disk = CrashDisk::default();
        let (model, _, store) = work_until_failure(&disk, seed, 120).await;
        drop(store);
        let whole = disk.restarted(usize::MAX);
        let mut revisions = Vec::new();
        whole.tamper(|records| revisions.extend(records.keys().copied()));
        assert!(!revisions.is_empty());
        for revision in revisions {
            let lost = whole.restarted(0);
            lost.tamper(|records| drop(records.remove(&revision)));
            refused(&lost, &format!("seed {seed}: revision {revision} of {} lost", model.revision()));
            let changed = whole.restarted(0);
            changed.tamper(|records| {
                if let Some(record) = records.get_mut(&revision) {
                    let mut bytes = record.to_vec();
                    let last = bytes.len() - 1;
                    bytes[last] ^= 1;
                    *record = Bytes::from(bytes);
                }
            });
            refused(&changed, &format!("seed {seed}: revision {revision} changed"));
        }
    }
}

fn refused(disk: &CrashDisk, context: &str) {
    match open(disk) {
        Err(OpenError::Damaged { .. }) => {}
        Err(other) => panic!("{context}: {other}"),
        Ok(_) => panic!("{context}: it was believed"),
    }
}

/// A read of a damaged past says so, and nothing else.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damage_found_while_running() {
    let disk = CrashDisk::default();
    let store = open(&disk).expect("the store opens");
    let mut model = Model::default();
    for value in ["one", "two"] {
        let op = Op::Put { value: Bytes::from(value), lease: None };
        let txn = Txn { key: Bytes::from_static(b"/a/0"), expect: Expect::Anything, op };
        Work::Txn(txn).run(&store, &mut model).await.expect("a put");
    }
    disk.tamper(|records| drop(records.remove(&2)));
    let past = store.get(Bytes::from_static(b"/a/0"), Some(Revision(2))).await;
    assert!(matches!(past, Err(StoreError::Damaged(_))), "{past:?}");
    let (now, _) = store.get(Bytes::from_static(b"/a/0"), None).await.expect("the present is whole");
    assert_eq!(now.map(|kv| kv.value), Some(Bytes::from_static(b"two")));
}
