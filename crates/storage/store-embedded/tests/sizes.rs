//! The size of the files with the largest values, while several tasks write as fast as they can.

use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use binnacle_store::{Expect, Op, Store, Txn};
use binnacle_store_embedded::log::LogOptions;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bytes::Bytes;

const SEGMENT: u64 = 16 << 20;
const WRITERS: usize = 8;
/// The time within which the space of a compaction must be freed.
const CATCHES_UP: Duration = Duration::from_secs(2);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_stay_within_bound_for_all_value_sizes() {
    // A file system in memory is the fastest.
    let base = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a directory");
    for (size, keys, writes) in
        [(100, 20_000, 100_000), (5_000, 2_000, 40_000), (200_000, 60, 2_000), (1_500_000, 8, 300)]
    {
        let dir = base.path().join(size.to_string());
        let log = LogOptions { max_segment: SEGMENT, ..LogOptions::default() };
        let store = Arc::new(
            EmbeddedStore::open(EmbeddedOptions { log, ..EmbeddedOptions::new(&dir) }).expect("the store opens"),
        );
        let stop = Arc::new(AtomicBool::new(false));
        let watch = std::thread::spawn({
            let (store, stop, dir) = (store.clone(), stop.clone(), dir.clone());
            move || watch_bound(&store, &dir, size as u64, &stop)
        });
        let writers = (0..WRITERS).map(|writer| {
            let store = store.clone();
            tokio::spawn(async move {
                let value = Bytes::from(vec![b'v'; size]);
                for turn in (writer..writes).step_by(WRITERS) {
                    let key = Bytes::from(format!("/things/{}", turn * 7919 % keys));
                    let op = match turn % 13 {
                        12 => Op::Delete,
                        _ => Op::Put { value: value.clone(), lease: None },
                    };
                    store.txn(Txn { key, expect: Expect::Anything, op }).await.expect("a write");
                    if turn % (writes / 40) == 0 {
                        let revision = store.current_revision().await.expect("a revision");
                        // Another writer may have compacted already.
                        let _ = store.compact(revision).await;
                    }
                }
            })
        });
        for writer in writers.collect::<Vec<_>>() {
            writer.await.expect("a writer");
        }
        let moves = store.stats().moves;
        stop.store(true, Ordering::Relaxed);
        watch.join().unwrap_or_else(|_| panic!("values of {size} bytes"));
        assert!(moves > 0, "{size}: segments are rewritten");
        store.close().await;
        drop(store);
        let store = EmbeddedStore::open(EmbeddedOptions::new(&dir)).expect("it opens again");
        store.close().await;
        std::fs::remove_dir_all(&dir).expect("it goes");
    }
}

/// Compares the size of the files with the largest needed size of the last moments.
fn watch_bound(store: &EmbeddedStore, dir: &Path, largest: u64, stop: &AtomicBool) {
    let mut needed = VecDeque::new();
    while !stop.load(Ordering::Relaxed) {
        let now = Instant::now();
        needed.push_back((now, store.stats().needed_bytes));
        while needed.front().is_some_and(|(at, _)| now.duration_since(*at) > CATCHES_UP) {
            needed.pop_front();
        }
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let disk: u64 = entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum();
        let most = needed.iter().map(|(_, needed)| *needed).max().unwrap_or_default();
        // The concurrent writes of all writers are one group. One group may have been written since the bound was
        // compared, and another one since the needed bytes were read.
        let bound = 2 * most + 2 * SEGMENT + 2 * WRITERS as u64 * largest;
        assert!(disk <= bound, "{disk} of {bound}: {:?}", store.stats());
        std::thread::sleep(Duration::from_millis(10));
    }
}
