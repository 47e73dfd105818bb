//! Heartbeats: a few keys are written again and again, and their history is compacted after a while. Disk and memory
//! use should stay constant.
//!
//! `cargo run --release -p binnacle-store-embedded --example churn -- DIR SECONDS KEYS RATE COMPACT_EVERY_SECONDS`

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_store::{Expect, Op, Revision, Store, Txn};
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bytes::Bytes;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let number = |at: usize| args[at].parse::<u64>().expect("a number");
    let (seconds, keys, rate, every) = (number(1), number(2), number(3), number(4));
    let store = Arc::new(EmbeddedStore::open(EmbeddedOptions::new(&args[0])).expect("the store opens"));
    let started = Instant::now();
    let mut ticks = tokio::time::interval(Duration::from_millis(10));
    let (mut written, mut before, mut slowest) = (0, Revision(0), Duration::ZERO);
    let mut cpu_before = cpu();
    for tick in 0.. {
        ticks.tick().await;
        let burst = (0..rate / 100).map(|n| {
            let key = Bytes::from(format!("/registry/leases/kube-node-lease/node-{:06}", (written + n) % keys));
            let op = Op::Put { value: Bytes::from(vec![b'x'; 300]), lease: None };
            store.txn(Txn { key, expect: Expect::Anything, op })
        });
        let begun = Instant::now();
        for done in futures::future::join_all(burst).await {
            done.expect("a put");
        }
        slowest = slowest.max(begun.elapsed());
        written += rate / 100;
        if tick % (100 * every) == 100 * every - 1 {
            let begun = Instant::now();
            if before > Revision(0) {
                store.compact(before).await.expect("a compaction");
            }
            before = store.current_revision().await.expect("a revision");
            println!(
                "{:>4} s: {written} written, compaction {:?}, slowest burst {slowest:?}, {} MiB on disk, {} MiB resident, {:.0} % CPU",
                started.elapsed().as_secs(),
                begun.elapsed(),
                size(Path::new(&args[0])) >> 20,
                resident() >> 10,
                (cpu() - cpu_before).as_secs_f64() * 100.0 / every as f64,
            );
            (slowest, cpu_before) = (Duration::ZERO, cpu());
        }
        if started.elapsed() > Duration::from_secs(seconds) {
            break;
        }
    }
    store.close().await;
}

/// Returns the bytes that all files occupy on disk, since the journal is sparse.
fn size(dir: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => size(&entry.path()),
            Ok(metadata) => metadata.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
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
