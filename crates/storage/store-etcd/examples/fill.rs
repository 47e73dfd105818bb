//! The first fill of a cache from an etcd, by pages or by streams:
//! `cargo run --release -p binnacle-store-etcd --example fill http://127.0.0.1:2379 put|pages|stream`.
//!
//! `put` writes 50,000 objects of 5 kB; the others print the time, the CPU time and the peak memory of this process.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_metrics::Registry;
use binnacle_store::{
    Answer, Expect, KeyValue, Op, RangeRequest, RangeResponse, Revision, Store, Txn, TxnResponse, Watch, prefix_range,
};
use binnacle_store_etcd::{EtcdOptions, EtcdStore, Metrics, TlsPaths};
use binnacle_watchcache::{Attrs, Cache, IndexError, Indexer, Interest, WindowLimits};
use bytes::Bytes;
use futures::{StreamExt, stream};

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const PREFIX: &str = "/registry/pods/";
const OBJECTS: usize = 50_000;
const BODY: usize = 5_000;
const CONCURRENT_WRITES: usize = 128;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), BoxError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [endpoint, what] = &arguments[..] else { return Err("an endpoint, and put, pages or stream".into()) };
    let store = Arc::new(EtcdStore::new(&EtcdOptions {
        endpoints: vec![endpoint.clone()],
        tls: TlsPaths::default(),
        watched: prefix_range(b"/registry/"),
        metrics: Metrics::new(&Registry::new(), Vec::new())?,
        dialer: None,
    })?);
    match what.as_str() {
        "put" => put(&store).await,
        "pages" => fill(Arc::new(PagesOnly(store))).await,
        "stream" => fill(store).await,
        other => Err(format!("{other}?").into()),
    }
}

async fn put(store: &EtcdStore) -> Result<(), BoxError> {
    let mut writes = stream::iter(0..OBJECTS)
        .map(|n| {
            let op = Op::Put { value: vec![b'x'; BODY].into(), lease: None };
            let key = Bytes::from(format!("{PREFIX}namespace-{}/pod-{n:06}", n % 50));
            store.txn(Txn { key, expect: Expect::Anything, op })
        })
        .buffer_unordered(CONCURRENT_WRITES);
    while let Some(written) = writes.next().await {
        written?;
    }
    Ok(())
}

async fn fill(store: Arc<dyn Store>) -> Result<(), BoxError> {
    let started = Instant::now();
    let cache = Cache::new(store, PREFIX, Arc::new(NoIndexes), WindowLimits::default());
    let snapshot = cache.wait_consistent(tokio::time::Instant::now() + Duration::from_secs(600)).await?;
    let elapsed = started.elapsed();
    let objects = snapshot.iter(&cache.selection(Interest::default()), "").count();
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let ticks: f64 = stat.split(' ').skip(13).take(2).filter_map(|word| word.parse::<f64>().ok()).sum();
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find(|line| line.starts_with("VmHWM")).unwrap_or_default();
    println!("{objects} objects in {elapsed:.2?}, CPU {:.2} s, {peak}", ticks / 100.0);
    Ok(())
}

struct NoIndexes;

impl Indexer for NoIndexes {
    fn fields(&self) -> &[binnacle_meta::Text] {
        &[]
    }

    fn index(&self, _: &[u8], _: &Bytes, _: Revision) -> Result<Attrs, IndexError> {
        Ok(Attrs::default())
    }
}

/// A store without streams.
struct PagesOnly(Arc<EtcdStore>);

impl Store for PagesOnly {
    binnacle_store::delegate_maintenance_to!(0);

    fn get(&self, key: Bytes, revision: Option<Revision>) -> Answer<'_, (Option<KeyValue>, Revision)> {
        self.0.get(key, revision)
    }

    fn range(&self, request: RangeRequest) -> Answer<'_, RangeResponse> {
        self.0.range(request)
    }

    fn txn(&self, txn: Txn) -> Answer<'_, TxnResponse> {
        self.0.txn(txn)
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> Answer<'_, Watch> {
        self.0.watch(range, after)
    }
}
