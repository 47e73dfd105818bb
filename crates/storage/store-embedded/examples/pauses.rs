//! The time that writers wait because of the engine itself, and the size of its files: objects of several sizes are
//! written again and again while history is compacted and segments are rewritten. In an in-memory directory, for
//! example below /dev/shm, the speed of a disk has no effect.
//!
//! `cargo run --release -p binnacle-store-embedded --example pauses -- DIR [SECONDS]`

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use binnacle_store::{Expect, Op, Revision, Store, Txn};
use binnacle_store_embedded::log::LogOptions;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bytes::Bytes;

/// Value sizes in bytes, and numbers of keys: about 100 MB of live values, or 200,000 small ones.
const LOADS: [(usize, usize); 4] = [(100, 200_000), (5_000, 20_000), (200_000, 500), (1_500_000, 70)];

#[tokio::main]
async fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().expect("the first argument is a directory that may be filled"));
    let seconds: u64 = args.next().map_or(10, |text| text.parse().expect("seconds"));
    println!("bytes writers  puts/s  MB/s   p50 us  p99.9 ms  max ms  gap ms  moves  over the bound: MiB, ms");
    for (size, keys) in LOADS {
        for writers in [1, 32] {
            let store_dir = dir.join(format!("{size}-{writers}"));
            run(&store_dir, size, keys, writers, Duration::from_secs(seconds)).await;
            std::fs::remove_dir_all(store_dir).expect("the store goes");
        }
    }
}

async fn run(dir: &Path, size: usize, keys: usize, writers: usize, duration: Duration) {
    let store = Arc::new(EmbeddedStore::open(EmbeddedOptions::new(dir)).expect("the store opens"));
    let stop = Arc::new(AtomicBool::new(false));
    let watch = std::thread::spawn({
        let (store, stop, dir) = (store.clone(), stop.clone(), dir.to_owned());
        move || watch_disk(&store, &dir, &stop)
    });
    let compact = tokio::spawn(compact_every_second(store.clone(), stop.clone()));
    let tasks: Vec<_> =
        (0..writers).map(|n| tokio::spawn(write(store.clone(), stop.clone(), n, writers, size, keys))).collect();
    let started = Instant::now();
    tokio::time::sleep(duration).await;
    stop.store(true, Ordering::Relaxed);
    let mut done = Vec::new();
    for task in tasks {
        done.extend(task.await.expect("a writer"));
    }
    let elapsed = started.elapsed();
    compact.await.expect("compactions");
    let (excess, over) = watch.join().expect("the watching thread");
    let stats = store.stats();
    store.close().await;
    let mut latencies: Vec<_> = done.iter().map(|(begun, ended)| *ended - *begun).collect();
    latencies.sort_unstable();
    let mut ends: Vec<_> = done.iter().map(|(_, ended)| *ended).collect();
    ends.sort_unstable();
    let gap = ends.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default();
    let at = |permille: usize| latencies[(latencies.len() - 1) * permille / 1000];
    let rate = latencies.len() as f64 / elapsed.as_secs_f64();
    println!(
        "{size:>7} {writers:>3} {rate:>9.0} {:>6.0} {:>8} {:>8.1} {:>8.1} {:>7.1} {:>6} {:>8} {:>6}",
        rate * size as f64 / 1e6,
        at(500).as_micros(),
        at(999).as_secs_f64() * 1e3,
        at(1000).as_secs_f64() * 1e3,
        gap.as_secs_f64() * 1e3,
        stats.moves,
        excess >> 20,
        over.as_millis(),
    );
}

/// Writes until `stop`, and returns the start and end times of each write.
async fn write(
    store: Arc<EmbeddedStore>,
    stop: Arc<AtomicBool>,
    writer: usize,
    writers: usize,
    size: usize,
    keys: usize,
) -> Vec<(Instant, Instant)> {
    /// A prime, so that each writer cycles through all keys, in no order.
    const STEP: usize = 1_000_003;
    let value = Bytes::from(vec![b'x'; size]);
    let mut done = Vec::new();
    for turn in (writer..).step_by(writers) {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let key = Bytes::from(format!("/registry/things/thing-{:07}", turn * STEP % keys));
        // Some objects are deleted and created again.
        let op = match turn % 17 {
            16 => Op::Delete,
            _ => Op::Put { value: value.clone(), lease: None },
        };
        let begun = Instant::now();
        store.txn(Txn { key, expect: Expect::Anything, op }).await.expect("a write");
        done.push((begun, Instant::now()));
    }
    done
}

async fn compact_every_second(store: Arc<EmbeddedStore>, stop: Arc<AtomicBool>) {
    let mut before = Revision(0);
    while !stop.load(Ordering::Relaxed) {
        tokio::time::sleep(Duration::from_secs(1)).await;
        let now = store.current_revision().await.expect("a revision");
        if before > Revision(0) && before < now {
            store.compact(before).await.expect("a compaction");
        }
        before = now;
    }
}

/// Returns the maximum bytes by which the files exceeded their bound, and the longest uninterrupted time of that.
fn watch_disk(store: &EmbeddedStore, dir: &Path, stop: &AtomicBool) -> (u64, Duration) {
    let (mut worst, mut longest) = (0, Duration::ZERO);
    let mut since = None;
    while !stop.load(Ordering::Relaxed) {
        let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
        let disk: u64 = entries.filter_map(|entry| entry.metadata().ok()).map(|metadata| metadata.blocks() * 512).sum();
        let bound = 2 * store.stats().needed_bytes + 2 * LogOptions::default().max_segment;
        if disk > bound {
            worst = worst.max(disk - bound);
            longest = longest.max(since.get_or_insert_with(Instant::now).elapsed());
        } else {
            since = None;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    (worst, longest)
}
