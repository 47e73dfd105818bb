//! Durable puts: rate, latency and CPU with 1, 32 and 128 writers, the time to open the store afterwards, and memory.
//!
//! `cargo run --release -p binnacle-store-embedded --example puts -- DIR [SECONDS] [VALUE_BYTES]` The speed of the disk
//! itself is shown for comparison: repeated appends of the same bytes, each followed by an fdatasync.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use binnacle_store::{Count, Expect, Op, RangeRequest, Store, Txn, prefix_range};
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bytes::Bytes;

fn main() {
    let mut args = std::env::args().skip(1);
    let dir = PathBuf::from(args.next().expect("the first argument is a directory that may be filled"));
    let seconds: u64 = args.next().map_or(5, |text| text.parse().expect("seconds"));
    let size: usize = args.next().map_or(2048, |text| text.parse().expect("bytes"));
    std::fs::create_dir_all(&dir).expect("the directory can be made");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().expect("a runtime");
    println!("resident before: {} KiB", resident());
    append_baseline(&dir, size, 1, seconds);
    append_baseline(&dir, size, 32, seconds);
    append_baseline(&dir, size, 128, seconds);
    let store_dir = dir.join("store");
    let started = Instant::now();
    let store = Arc::new(EmbeddedStore::open(EmbeddedOptions::new(&store_dir)).expect("the store opens"));
    println!("open, empty: {:?}, resident {} KiB", started.elapsed(), resident());
    for writers in [1, 32, 128] {
        runtime.block_on(puts(store.clone(), writers, size, seconds));
    }
    println!("resident after writing: {} KiB", resident());
    runtime.block_on(reads(&store));
    let revision = runtime.block_on(store.current_revision()).expect("a revision");
    let started = Instant::now();
    runtime.block_on(store.close());
    println!("close: {:?}", started.elapsed());
    drop(store);
    let started = Instant::now();
    let store = EmbeddedStore::open(EmbeddedOptions::new(&store_dir)).expect("the store opens");
    let count = runtime.block_on(count(&store));
    println!("open with {} revisions, {count} keys: {:?}", revision.0, started.elapsed());
    let started = Instant::now();
    let cpu = cpu();
    runtime.block_on(store.compact(revision)).expect("a compaction");
    println!("compaction: {:?}, {:?} of CPU", started.elapsed(), self::cpu() - cpu);
    runtime.block_on(store.close());
    drop(store);
    let started = Instant::now();
    let store = EmbeddedStore::open(EmbeddedOptions::new(&store_dir)).expect("the store opens");
    println!("open after compaction: {:?}, resident {} KiB", started.elapsed(), resident());
    drop(store);
}

async fn puts(store: Arc<EmbeddedStore>, writers: usize, size: usize, seconds: u64) {
    let stop = Arc::new(AtomicBool::new(false));
    let (before, started) = (cpu(), Instant::now());
    let tasks: Vec<_> = (0..writers)
        .map(|writer| {
            let (store, stop) = (store.clone(), stop.clone());
            tokio::spawn(async move {
                let mut latencies = Vec::new();
                let value = Bytes::from(vec![b'x'; size]);
                while !stop.load(Ordering::Relaxed) {
                    let key =
                        Bytes::from(format!("/registry/pods/{writers}-{writer}/pod-{:06}", latencies.len() % 500));
                    let op = Op::Put { value: value.clone(), lease: None };
                    let started = Instant::now();
                    store.txn(Txn { key, expect: Expect::Anything, op }).await.expect("a put");
                    latencies.push(started.elapsed());
                }
                latencies
            })
        })
        .collect();
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    stop.store(true, Ordering::Relaxed);
    let mut latencies = Vec::new();
    for task in tasks {
        latencies.extend(task.await.expect("a writer"));
    }
    let (elapsed, cpu) = (started.elapsed(), cpu() - before);
    latencies.sort_unstable();
    let at = |percent: usize| latencies[(latencies.len() - 1) * percent / 100];
    println!(
        "{writers:>4} writers: {:>8.0} puts/s, {:>6.1} us of CPU each, p50 {:?}, p99 {:?}, max {:?}",
        latencies.len() as f64 / elapsed.as_secs_f64(),
        cpu.as_secs_f64() * 1e6 / latencies.len() as f64,
        at(50),
        at(99),
        at(100),
    );
}

async fn reads(store: &EmbeddedStore) {
    let range = prefix_range(b"/registry/pods/");
    let all = RangeRequest { range, revision: None, limit: 0, count: Count::All };
    let started = Instant::now();
    let listed = store.range(all.clone()).await.expect("a list");
    println!("list of {} keys: {:?}", listed.count, started.elapsed());
    let started = Instant::now();
    let past = RangeRequest { revision: Some(binnacle_store::Revision(listed.revision.0 / 2)), ..all };
    let listed_past = store.range(past).await.expect("a list of the past");
    println!("list of {} keys in the past: {:?}", listed_past.count, started.elapsed());
    let (started, rounds) = (Instant::now(), 100_000);
    for n in 0..rounds {
        store.get(listed.kvs[n % listed.kvs.len()].key.clone(), None).await.expect("a get");
    }
    println!("get: {:?} each", started.elapsed() / rounds as u32);
}

async fn count(store: &EmbeddedStore) -> usize {
    let request = RangeRequest { range: prefix_range(b"/"), revision: None, limit: 0, count: Count::Only };
    store.range(request).await.expect("a count").count
}

fn append_baseline(dir: &Path, size: usize, batch: usize, seconds: u64) {
    let path = dir.join("append");
    let mut file = File::create(&path).expect("a file");
    let bytes = vec![b'x'; size * batch];
    let (started, before) = (Instant::now(), cpu());
    let mut batches = 0_u64;
    while started.elapsed() < Duration::from_secs(seconds.min(2)) {
        file.write_all(&bytes).expect("a write");
        file.sync_data().expect("a sync");
        batches += 1;
    }
    let records = batches as f64 * batch as f64;
    println!(
        "append and fdatasync, {batch} at a time: {:.0} records/s, {:.1} us of CPU each",
        records / started.elapsed().as_secs_f64(),
        (cpu() - before).as_secs_f64() * 1e6 / records
    );
    std::fs::remove_file(path).expect("the file goes");
}

/// Returns the CPU time of this process, user and system, converted from clock ticks of a hundredth of a second.
fn cpu() -> Duration {
    let stat = std::fs::read_to_string("/proc/self/stat").expect("Linux");
    let fields: Vec<&str> = stat.rsplit(") ").next().expect("fields").split(' ').collect();
    let ticks: u64 = fields[11].parse::<u64>().expect("utime") + fields[12].parse::<u64>().expect("stime");
    Duration::from_millis(ticks * 10)
}

fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
}
