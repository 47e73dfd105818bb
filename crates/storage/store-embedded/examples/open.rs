//! The cost of opening and holding a store: time and memory, with N objects in random order.
//!
//! `cargo run --release -p binnacle-store-embedded --example open -- DIR fill N VALUE_BYTES [UPDATES]`, then, in
//! another process so that its memory can be measured, `... -- DIR`, or `... -- DIR ends` to close the store like a
//! process that exits. After half of the updates all earlier history is compacted, so that the log has dead records and
//! retained history.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use binnacle_store::{Count, Expect, Op, RangeRequest, Store, Txn, prefix_range};
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bytes::Bytes;

#[tokio::main]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let before = memory();
    let started = Instant::now();
    let ends_with_process = args.get(1).is_some_and(|arg| arg == "ends");
    let options = EmbeddedOptions { ends_with_process, ..EmbeddedOptions::new(&args[0]) };
    let store = Arc::new(EmbeddedStore::open(options).expect("the store opens"));
    let opened = started.elapsed();
    let after = memory();
    println!("open: {opened:?}; resident {} KiB, before {} KiB", after, before);
    if let Some("fill") = args.get(1).map(String::as_str) {
        let (count, size) = (args[2].parse().expect("a count"), args[3].parse().expect("a size"));
        fill(&store, count, 0..count, size).await;
        let updates: usize = args.get(4).map_or(0, |text| text.parse().expect("a number of updates"));
        if updates > 0 {
            fill(&store, count, count..count + updates / 2, size).await;
            let revision = store.current_revision().await.expect("a revision");
            store.compact(revision).await.expect("a compaction");
            fill(&store, count, count + updates / 2..count + updates, size).await;
        }
        println!("{:?}", store.stats());
    }
    let started = Instant::now();
    let request = RangeRequest { range: prefix_range(b"/"), revision: None, limit: 0, count: Count::All };
    let listed = store.range(request).await.expect("a list");
    let bytes: usize = listed.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
    println!("list of {} keys with {} KiB: {:?}", listed.count, bytes >> 10, started.elapsed());
    drop(listed);
    if after > before && args.len() == 1 {
        println!("resident over the encoded size: {:.2}", (after - before) as f64 * 1024.0 / bytes.max(1) as f64);
    }
    let started = Instant::now();
    store.close().await;
    println!("close: {:?}", started.elapsed());
}

/// Makes one write per turn, cycling through all keys, which are not in order.
async fn fill(store: &Arc<EmbeddedStore>, count: usize, turns: Range<usize>, size: usize) {
    const WRITERS: usize = 256;
    /// A prime, so that every key is written once before one is written again.
    const STEP: usize = 1_000_003;
    let writers = (0..WRITERS).map(|writer| {
        let (store, turns) = (store.clone(), turns.clone());
        tokio::spawn(async move {
            let value = Bytes::from(vec![b'x'; size]);
            for turn in turns.skip(writer).step_by(WRITERS) {
                let n = turn * STEP % count;
                let key = Bytes::from(format!("/registry/pods/namespace-{}/pod-{n:07}", n % 100));
                let op = Op::Put { value: value.clone(), lease: None };
                store.txn(Txn { key, expect: Expect::Anything, op }).await.expect("a put");
            }
        })
    });
    let started = Instant::now();
    for writer in writers.collect::<Vec<_>>() {
        writer.await.expect("a writer");
    }
    println!("filled in {:?}, resident {} KiB", started.elapsed(), memory());
}

fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux");
    let line = status.lines().find(|line| line.starts_with("VmRSS:")).expect("VmRSS");
    line.split_whitespace().nth(1).and_then(|text| text.parse().ok()).expect("a number")
}
