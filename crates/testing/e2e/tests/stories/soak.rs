//! Hours of typical work on the embedded store: memory, disk space and the age of pending writes stay within their
//! limits, and the server stays ready.
//!
//! `BINNACLE_SOAK_SECONDS` sets the duration; the state is printed every minute.

use std::collections::{BTreeMap, VecDeque};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use binnacle_testkit::Server;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchParams};
use serde_json::json;

const NAMESPACE: &str = "soak";
/// The compaction interval: history is dropped after one to two of these.
const INTERVAL: Duration = Duration::from_secs(2);
const WATCHERS: usize = 8;
/// The number and size of objects that are updated repeatedly.
const SIZES: [(usize, usize); 3] = [(4, 200_000), (40, 5_000), (200, 300)];

#[tokio::test(flavor = "multi_thread")]
async fn stays_within_its_limits_under_load() {
    let seconds = std::env::var("BINNACLE_SOAK_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(15);
    let interval = format!("--etcd-compaction-interval={}s", INTERVAL.as_secs());
    let server = Server::durable_with(&[&interval]);
    let client = server.kube().await;
    crate::namespace(&client, NAMESPACE).await;
    let work = Arc::new(Work::default());
    let mut tasks = Vec::new();
    for (count, size) in SIZES {
        tasks.push(tokio::spawn(write(client.clone(), count, size, work.clone())));
    }
    tasks.push(tokio::spawn(come_and_go(client.clone(), work.clone())));
    tasks.push(tokio::spawn(read(client.clone(), work.clone())));
    for _ in 0..WATCHERS {
        tasks.push(tokio::spawn(watch(client.clone(), work.clone())));
    }

    let until = Instant::now() + Duration::from_secs(seconds);
    let mut written = WriteLog::default();
    let mut early = None;
    let mut told = Instant::now();
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let disk = disk_bytes(&server.temp().path().join("data"));
        let bound = written.disk_bound(work.bytes.load(Ordering::Relaxed));
        assert!(disk <= bound, "{disk} bytes on disk where {bound} are allowed");
        let age = work.oldest_unacknowledged();
        assert!(age <= OLDEST, "a write has waited for {age:?} to be durable");
        let ready = client.request_text(http::Request::get("/readyz").body(Vec::new()).unwrap()).await;
        assert_eq!(ready.unwrap(), "ok");
        let memory = memory_kib(server.id());
        // From here on every object exists and every buffer has been used.
        if Instant::now() + Duration::from_secs(seconds * 2 / 3) > until {
            let early = *early.get_or_insert(memory);
            assert!(memory <= early * 3 / 2 + 64 * 1024, "{memory} KiB of memory after {early} KiB");
        }
        if told.elapsed() > Duration::from_secs(60) {
            told = Instant::now();
            println!("{memory} KiB of memory, {disk} bytes on disk of {bound}, {}", work.told());
            println!("{}", store_told(&client).await);
        }
    }
    work.done.store(true, Ordering::SeqCst);
    for task in tasks {
        tokio::time::timeout(Duration::from_secs(60), task).await.unwrap().unwrap();
    }
    println!("{seconds} s: {}, the longest write took {:?}", work.told(), work.longest());
    println!("{}", store_told(&client).await);
}

/// Returns figures of the store's own metrics. Checks that no group of writes took longer than the largest bucket, no
/// disk write failed, and the disk was never full.
async fn store_told(client: &Client) -> String {
    let text = client.request_text(http::Request::get("/metrics").body(Vec::new()).unwrap()).await.unwrap();
    let figure = |name: &str| -> f64 {
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    };
    let syncs = figure("binnacle_store_sync_duration_seconds_count");
    let within = figure("binnacle_store_sync_duration_seconds_bucket{le=\"8.192\"}");
    assert_eq!(syncs - within, 0.0, "groups of writes that took longer than 8 s");
    for never in ["binnacle_store_failures_total", "binnacle_store_full"] {
        assert_eq!(figure(never), 0.0, "{never}");
    }
    format!(
        "{syncs} syncs of {:.2} ms, {} segments, {} bytes needed, {} dead, held up for {} s",
        figure("binnacle_store_sync_duration_seconds_sum") / syncs * 1000.0,
        figure("binnacle_store_segments"),
        figure("binnacle_store_needed_bytes"),
        figure("binnacle_store_dead_bytes"),
        figure("binnacle_store_write_delay_seconds"),
    )
}

/// The state of the work.
#[derive(Default)]
struct Work {
    done: AtomicBool,
    /// An upper bound of the stored bytes of all written objects.
    bytes: AtomicU64,
    writes: AtomicU64,
    reads: AtomicU64,
    events: AtomicU64,
    /// The start of each unacknowledged write.
    waiting: Mutex<BTreeMap<u64, Instant>>,
    longest: Mutex<Duration>,
}

/// The greatest age of unacknowledged writes. A write is acknowledged when it is durable.
const OLDEST: Duration = Duration::from_secs(20);

impl Work {
    fn goes_on(&self) -> bool {
        !self.done.load(Ordering::SeqCst)
    }

    fn wrote(&self, size: usize) {
        self.bytes.fetch_add(size as u64 + OVERHEAD, Ordering::Relaxed);
        self.writes.fetch_add(1, Ordering::Relaxed);
    }

    /// Records a write until it is acknowledged.
    async fn waits<T>(&self, write: impl Future<Output = T>) -> T {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let (id, begun) = (NEXT.fetch_add(1, Ordering::Relaxed), Instant::now());
        self.waiting.lock().unwrap().insert(id, begun);
        let answer = write.await;
        self.waiting.lock().unwrap().remove(&id);
        let mut longest = self.longest.lock().unwrap();
        *longest = begun.elapsed().max(*longest);
        answer
    }

    fn oldest_unacknowledged(&self) -> Duration {
        let waiting = self.waiting.lock().unwrap();
        waiting.first_key_value().map(|(_, begun)| begun.elapsed()).unwrap_or_default()
    }

    fn longest(&self) -> Duration {
        *self.longest.lock().unwrap()
    }

    fn told(&self) -> String {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        format!("{} writes, {} reads, {} events", count(&self.writes), count(&self.reads), count(&self.events))
    }
}

/// Names, metadata, managed fields, and the log's own data.
const OVERHEAD: u64 = 2048;

/// The written bytes, by time.
#[derive(Default)]
struct WriteLog(VecDeque<(Instant, u64)>);

impl WriteLog {
    /// Returns the limit on the disk: twice the live data and the history, two segments, and the server's own objects.
    /// On a busy machine some compactions are late.
    fn disk_bound(&mut self, total: u64) -> u64 {
        self.0.push_back((Instant::now(), total));
        while self.0.len() > 1 && self.0[1].0.elapsed() > 5 * INTERVAL {
            self.0.pop_front();
        }
        let history = total - self.0[0].1;
        let live: u64 = SIZES.iter().map(|(count, size)| *count as u64 * (*size as u64 + OVERHEAD)).sum();
        2 * (live + history + (8 << 20)) + 2 * (64 << 20)
    }
}

/// Updates objects in turn, some by patch.
async fn write(client: Client, count: usize, size: usize, work: Arc<Work>) {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    for n in 0.. {
        if !work.goes_on() {
            return;
        }
        let name = format!("s{size}-{}", n % count);
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": name}, "data": {"n": n.to_string(), "padding": "x".repeat(size)},
        });
        let params = PatchParams::apply("soak").force();
        work.waits(api.patch(&name, &params, &Patch::Apply(&object))).await.unwrap();
        work.wrote(size);
        tokio::time::sleep(Duration::from_millis(if size > 100_000 { 20 } else { 2 })).await;
    }
}

/// Creates and deletes objects, the last ones by a collection delete.
async fn come_and_go(client: Client, work: Arc<Work>) {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    for round in 0.. {
        for n in 0..20 {
            if !work.goes_on() {
                return;
            }
            let object = json!({"metadata": {"name": format!("g{round}-{n}"), "labels": {"app": "guest"}}});
            let object = serde_json::from_value(object).unwrap();
            work.waits(api.create(&PostParams::default(), &object)).await.unwrap();
            work.wrote(0);
        }
        for n in 0..10 {
            work.waits(api.delete(&format!("g{round}-{n}"), &DeleteParams::default())).await.unwrap();
            work.wrote(0);
        }
        let guests = ListParams::default().labels("app=guest");
        api.delete_collection(&DeleteParams::default(), &guests).await.unwrap();
        (0..10).for_each(|_| work.wrote(0));
    }
}

async fn read(client: Client, work: Arc<Work>) {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    while work.goes_on() {
        let page = api.list(&ListParams::default().limit(50)).await.unwrap();
        for object in page.items.iter().take(5) {
            // It may be deleted.
            api.get_opt(object.metadata.name.as_deref().unwrap()).await.unwrap();
        }
        work.reads.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// Watches for a while, repeatedly.
async fn watch(client: Client, work: Arc<Work>) {
    let api: Api<ConfigMap> = Api::namespaced(client, NAMESPACE);
    while work.goes_on() {
        let params = WatchParams::default().timeout(5);
        let mut events = api.watch(&params, "0").await.unwrap().boxed();
        while let Some(event) = events.next().await {
            event.unwrap();
            work.events.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Returns the disk space of a directory's files, in bytes.
fn disk_bytes(dir: &Path) -> u64 {
    let mut bytes = 0;
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        // A file may be deleted during the walk.
        match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => bytes += disk_bytes(&entry.path()),
            Ok(metadata) => bytes += metadata.blocks() * 512,
            Err(_) => {}
        }
    }
    bytes
}

fn memory_kib(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
