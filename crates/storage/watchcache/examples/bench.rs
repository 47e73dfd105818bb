//! Benchmarks of the cache alone: `cargo run --release -p binnacle-watchcache --example bench`.
//!
//! CPU times are of the whole process, as counted by the scheduler; they include the store and the writers unless
//! noted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use binnacle_meta::{FieldSelector, LabelSelector, SelectorError, Text};
use binnacle_store::{
    Barrier, Event, KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse,
    Watch, WatchControl, WatchMessage,
};
use binnacle_watchcache::{Attrs, Cache, IndexError, Indexer, Interest, Start, WindowLimits};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use tokio::sync::mpsc;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

const PREFIX: &str = "/registry/pods/";
const BODY: usize = 5_000;

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), BoxError> {
    memory_and_lists().await?;
    one_namespace().await?;
    other_nodes().await?;
    resumed().await?;
    writes_alone().await?;
    reads().await
}

/// The indexer of values with the format `labels|fields|padding`.
struct Pods(Vec<Text>);

impl Indexer for Pods {
    fn fields(&self) -> &[Text] {
        &self.0
    }

    fn index(&self, _key: &[u8], value: &Bytes, _revision: Revision) -> Result<Attrs, IndexError> {
        let head = &value[..value.iter().rposition(|b| *b == b'|').unwrap_or(0)];
        let text = std::str::from_utf8(head).map_err(|error| IndexError(error.to_string()))?;
        let (labels, fields) = text.split_once('|').unwrap_or_default();
        let labels = labels.split(',').filter_map(|label| label.split_once('='));
        let labels = labels.map(|(key, value)| (Text::new(key), Text::new(value))).collect();
        Ok(Attrs { labels, fields: fields.split(',').map(Text::new).collect(), value: None })
    }
}

/// A store that costs nothing: its events are added by hand.
struct MemoryFeed {
    objects: Vec<KeyValue>,
    revision: Arc<AtomicU64>,
    messages: parking_lot::Mutex<Option<mpsc::UnboundedReceiver<Vec<Event>>>>,
}

struct Writer {
    revision: Arc<AtomicU64>,
    send: mpsc::UnboundedSender<Vec<Event>>,
}

fn feed(objects: Vec<KeyValue>) -> (Arc<MemoryFeed>, Writer) {
    let (send, receive) = mpsc::unbounded_channel();
    let revision = Arc::new(AtomicU64::new(objects.len() as u64 + 1));
    let messages = parking_lot::Mutex::new(Some(receive));
    (Arc::new(MemoryFeed { objects, revision: revision.clone(), messages }), Writer { revision, send })
}

impl Writer {
    fn put(&self, path: &str, head: &str) -> Revision {
        let revision = Revision(self.revision.load(Ordering::Relaxed) + 1);
        let kv = object(path, head, revision);
        let _ = self.send.send(vec![Event::Put { kv, previous: None }]);
        self.revision.store(revision.0, Ordering::Release);
        revision
    }
}

fn object(path: &str, head: &str, revision: Revision) -> KeyValue {
    let mut value = format!("{head}|").into_bytes();
    value.resize(BODY, b'x');
    let (key, value) = (format!("{PREFIX}{path}").into(), Bytes::from(value));
    KeyValue { key, value, create_revision: revision, mod_revision: revision, lease: None }
}

struct Control(Arc<AtomicU64>);

impl WatchControl for Control {
    fn barrier(&self) -> BoxFuture<'_, Result<Barrier, StoreError>> {
        let revision = Revision(self.0.load(Ordering::Acquire));
        Box::pin(async move { Ok(Barrier { current: revision, last_event: revision }) })
    }
}

impl Store for MemoryFeed {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        Box::pin(async { Ok(Revision(self.revision.load(Ordering::Acquire))) })
    }

    fn get(&self, _: Bytes, _: Option<Revision>) -> BoxFuture<'_, Result<(Option<KeyValue>, Revision), StoreError>> {
        Box::pin(async { Err(StoreError::Closed) })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, StoreError>> {
        Box::pin(async move {
            let start = self.objects.partition_point(|kv| kv.key < request.range.start);
            let kvs: Vec<KeyValue> = self.objects[start..].iter().take(request.limit).cloned().collect();
            let revision = Revision(self.revision.load(Ordering::Acquire));
            Ok(RangeResponse { more: start + kvs.len() < self.objects.len(), count: self.objects.len(), kvs, revision })
        })
    }

    fn txn(&self, _: Txn) -> BoxFuture<'_, Result<TxnResponse, StoreError>> {
        Box::pin(async { Err(StoreError::Closed) })
    }

    fn delete_range(&self, _: std::ops::Range<Bytes>) -> BoxFuture<'_, Result<u64, StoreError>> {
        Box::pin(async { Err(StoreError::Closed) })
    }

    fn watch(&self, _: std::ops::Range<Bytes>, _: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        Box::pin(async move {
            let receive = self.messages.lock().take().ok_or(StoreError::Closed)?;
            let messages = futures::stream::unfold(receive, |mut receive| async move {
                let mut events = receive.recv().await?;
                while events.len() < 1000
                    && let Ok(more) = receive.try_recv()
                {
                    events.extend(more);
                }
                Some((Ok(WatchMessage::Events(events)), receive))
            });
            Ok(Watch { messages: messages.boxed(), control: Box::new(Control(self.revision.clone())) })
        })
    }

    fn compact(&self, _: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }

    fn compacted_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        Box::pin(async { Ok(Revision(0)) })
    }

    fn grant_lease(&self, _: u64) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        Box::pin(async { Err(StoreError::LeaseNotFound) })
    }

    fn revoke_lease(&self, _: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Err(StoreError::LeaseNotFound) })
    }

    fn lease_remaining(&self, _: LeaseId) -> BoxFuture<'_, Result<std::time::Duration, StoreError>> {
        Box::pin(async { Err(StoreError::LeaseNotFound) })
    }

    fn health(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        Box::pin(async { Ok(()) })
    }
}

fn open(store: Arc<MemoryFeed>) -> Arc<Cache> {
    let fields = ["spec.nodeName", "status.phase"].map(Text::new).to_vec();
    Arc::new(Cache::new(store, PREFIX, Arc::new(Pods(fields)), WindowLimits::default()))
}

fn interest(namespace: Option<&str>, labels: &str, fields: &str) -> Result<Interest, SelectorError> {
    let (labels, fields) = (LabelSelector::parse(labels)?, FieldSelector::parse(fields)?);
    Ok(Interest { namespace: namespace.map(Text::new), name: None, labels, fields, shard: None })
}

/// Measures 300,000 objects: their memory, and lists by selector.
async fn memory_and_lists() -> Result<(), BoxError> {
    const OBJECTS: usize = 300_000;
    let head = |n: usize| {
        format!(
            "app.kubernetes.io/name=app-{},pod-template-hash=7c5ddbdf54,tier=back,controller-uid=u{n}|node-{},Running",
            n % 500,
            n % 3000
        )
    };
    // All values share one buffer, so that only the cache's own memory counts.
    let shared = Bytes::from(vec![b'x'; 10]);
    let mut objects = Vec::new();
    for n in 0..OBJECTS {
        let mut kv = object(&format!("ns-{:04}/app-7c5ddbdf54-{n:06}", n % 100), "", Revision(n as u64 + 2));
        let mut value = head(n).into_bytes();
        value.extend_from_slice(b"|");
        value.extend_from_slice(&shared);
        kv.value = value.into();
        objects.push(kv);
    }
    objects.sort_by(|a, b| a.key.cmp(&b.key));
    let values: usize = objects.iter().map(|kv| kv.value.len() + kv.key.len()).sum();
    let (store, writer) = feed(objects);
    let cache = open(store);
    let (before, started) = (resident()?, Instant::now());
    cache.ready(soon()).await?;
    println!(
        "300k objects: read in {:?}, {} bytes of memory each beside the stored bytes (labels and key have {} bytes)",
        started.elapsed(),
        (resident()? - before) / OBJECTS,
        values / OBJECTS,
    );
    for (case, labels, fields) in [
        ("label, nothing matches", "app.kubernetes.io/name=none", ""),
        ("label, 600 match", "app.kubernetes.io/name=app-7", ""),
        ("unique label", "controller-uid=u777", ""),
        ("node, 100 match", "", "spec.nodeName=node-7"),
        ("no index possible", "app.kubernetes.io/name!=app-7,!tier", ""),
    ] {
        let selection = cache.selection(interest(None, labels, fields)?);
        let snapshot = cache.wait_consistent(soon()).await?;
        let started = Instant::now();
        let found = snapshot.iter(&selection, "").count();
        let first = started.elapsed();
        let (memory, started) = (resident()?, Instant::now());
        let indexes = cache.stats().indexes;
        while cache.stats().indexes == indexes && started.elapsed() < Duration::from_secs(2) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let built = started.elapsed();
        let memory = resident()?.saturating_sub(memory);
        let snapshot = cache.wait_consistent(soon()).await?;
        let started = Instant::now();
        assert_eq!(snapshot.iter(&selection, "").count(), found);
        println!(
            "  {case}: first {first:?}, index after {built:?} with {} KiB, then {:?}",
            memory >> 10,
            started.elapsed()
        );
    }
    let started = Instant::now();
    let rounds = 20_000;
    for n in 0..rounds {
        let n = n * 13 % OBJECTS;
        writer.put(&format!("ns-{:04}/app-7c5ddbdf54-{n:06}", n % 100), &head(n));
    }
    cache.wait_consistent(soon()).await?;
    println!(
        "  update with {} indexes: {:?} each, no readers",
        cache.stats().indexes,
        started.elapsed() / rounds as u32
    );
    let started = Instant::now();
    for n in 0..rounds {
        let n = n * 17 % OBJECTS;
        writer.put(&format!("ns-{:04}/app-7c5ddbdf54-{n:06}", n % 100), &head(n));
        if n.is_multiple_of(10) {
            cache.wait_consistent(soon()).await?;
        }
    }
    cache.wait_consistent(soon()).await?;
    println!("  update with a snapshot taken every ten: {:?} each", started.elapsed() / rounds as u32);
    Ok(())
}

/// Measures 1,000 watchers that all select every event.
async fn one_namespace() -> Result<(), BoxError> {
    const WATCHERS: usize = 1000;
    const EVENTS: usize = 5000;
    for (case, labels, gap) in [
        ("as fast as can be", "", Duration::ZERO),
        ("with a label selector", "app=web,tier in (a,b)", Duration::ZERO),
        ("one every ms", "", Duration::from_millis(1)),
    ] {
        let (store, writer) = feed(Vec::new());
        let cache = open(store);
        cache.ready(soon()).await?;
        let delivered = Arc::new(AtomicU64::new(0));
        let before = resident()?;
        let mut tasks = Vec::new();
        let selection = cache.selection(interest(Some("default"), labels, "")?);
        for _ in 0..WATCHERS {
            let mut watcher = cache.subscribe(selection.clone(), Start::Now, soon()).await?;
            let delivered = delivered.clone();
            tasks.push(tokio::spawn(async move {
                let mut items = Vec::new();
                let mut count = 0;
                while count < EVENTS && watcher.next_batch(1000, &mut items).await.is_ok() {
                    count += items.len();
                    delivered.fetch_add(items.len() as u64, Ordering::Relaxed);
                    items.clear();
                    items.shrink_to(16);
                }
            }));
        }
        let idle = (resident()? - before) / WATCHERS;
        let (started, cpu) = (Instant::now(), cpu_time()?);
        for n in 0..EVENTS {
            writer.put(&format!("default/pod-{}", n % 100), "app=web,tier=a|node-1,Running");
            if !gap.is_zero() {
                tokio::time::sleep(gap).await;
            } else if n.is_multiple_of(100) {
                tokio::task::yield_now().await;
            }
        }
        for task in tasks {
            task.await?;
        }
        let total = delivered.load(Ordering::Relaxed);
        let (took, cpu) = (started.elapsed(), cpu_time()? - cpu);
        println!(
            "1,000 watchers {case}: {total} delivered in {took:?}, {:.2} M/s, {} ns of CPU each; {idle} bytes per idle watch and its task",
            total as f64 / took.as_secs_f64() / 1e6,
            cpu.as_nanos() as u64 / total.max(1),
        );
    }
    Ok(())
}

/// Measures events that one of 20,000 watchers selects.
async fn other_nodes() -> Result<(), BoxError> {
    const NODES: usize = 20_000;
    const EVENTS: usize = 20_000;
    let (store, writer) = feed(Vec::new());
    let cache = open(store);
    cache.ready(soon()).await?;
    let started = Instant::now();
    let mut watchers = Vec::new();
    for node in 0..NODES {
        let selection = cache.selection(interest(None, "", &format!("spec.nodeName=node-{node}"))?);
        watchers.push(cache.subscribe(selection, Start::Now, soon()).await?);
    }
    println!("20,000 watchers opened in {:?}", started.elapsed());
    let (started, cpu) = (Instant::now(), cpu_time()?);
    for n in 0..EVENTS {
        writer.put(&format!("default/pod-{n}"), "app=web|node-none,Running");
    }
    cache.wait_consistent(soon()).await?;
    let cpu = cpu_time()? - cpu;
    println!(
        "an event that none of them wants: {:?} of time, {:?} of CPU, making the object included",
        started.elapsed() / EVENTS as u32,
        cpu / EVENTS as u32
    );
    let started = Instant::now();
    drop(watchers);
    println!("20,000 watchers closed in {:?}", started.elapsed());
    Ok(())
}

/// Measures watches of single nodes that resume before the events of all nodes.
async fn resumed() -> Result<(), BoxError> {
    const NODES: usize = 1_000;
    const EVENTS: usize = 5_000;
    let (store, writer) = feed(Vec::new());
    let cache = open(store);
    cache.ready(soon()).await?;
    let began = writer.put("default/first", "app=web|node-none,Running");
    for n in 0..EVENTS {
        writer.put(&format!("default/pod-{n}"), &format!("app=web|node-{},Running", n % NODES));
    }
    cache.wait_consistent(soon()).await?;
    let cpu = cpu_time()?;
    let resuming = (0..2).map(|half| {
        let cache = Arc::clone(&cache);
        tokio::spawn(async move {
            for node in (half..NODES).step_by(2) {
                let interest = interest(None, "", &format!("spec.nodeName=node-{node}")).unwrap_or_default();
                let selection = cache.selection(interest);
                let Ok(mut watcher) = cache.subscribe(selection, Start::After(began), soon()).await else {
                    return false;
                };
                let mut items = Vec::new();
                while items.len() < EVENTS / NODES {
                    if watcher.next_batch(256, &mut items).await.is_err() {
                        return false;
                    }
                }
            }
            true
        })
    });
    for resumed in resuming.collect::<Vec<_>>() {
        if !resumed.await? {
            return Err("a watch did not resume".into());
        }
    }
    println!("an event that a resumed watch examines: {:?} of CPU", (cpu_time()? - cpu) / (NODES * EVENTS) as u32);
    Ok(())
}

async fn writes_alone() -> Result<(), BoxError> {
    const EVENTS: usize = 50_000;
    let (store, writer) = feed(Vec::new());
    let cache = open(store);
    cache.ready(soon()).await?;
    let started = Instant::now();
    for n in 0..EVENTS {
        std::hint::black_box(object(&format!("default/pod-{n}"), "app=web|node-none,Running", Revision(n as u64)));
    }
    let building = started.elapsed();
    let cpu = cpu_time()?;
    for n in 0..EVENTS {
        writer.put(&format!("default/pod-{n}"), "app=web|node-none,Running");
    }
    cache.wait_consistent(soon()).await?;
    let cpu = cpu_time()? - cpu;
    println!(
        "a new object without watchers: {:?} of CPU, of which making it was {:?}",
        cpu / EVENTS as u32,
        building / EVENTS as u32
    );
    Ok(())
}

async fn reads() -> Result<(), BoxError> {
    let (store, writer) = feed(Vec::new());
    let cache = open(store);
    cache.ready(soon()).await?;
    for n in 0..10_000 {
        writer.put(&format!("default/pod-{n}"), "app=web|node-none,Running");
    }
    let rounds = 200_000;
    cache.wait_consistent(soon()).await?;
    let started = Instant::now();
    for _ in 0..rounds {
        std::hint::black_box(cache.wait_consistent(soon()).await?);
    }
    println!("a consistent snapshot: {:?}", started.elapsed() / rounds);
    let started = Instant::now();
    for n in 0..rounds {
        std::hint::black_box(cache.get_consistent(&format!("default/pod-{}", n % 10_000), soon()).await?);
    }
    println!("a consistent get: {:?}", started.elapsed() / rounds);
    Ok(())
}

fn soon() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(60)
}

fn cpu_time() -> Result<Duration, BoxError> {
    let mut total = 0;
    for task in std::fs::read_dir("/proc/self/task")? {
        let path = task?.path().join("schedstat");
        let text = std::fs::read_to_string(path)?;
        total += text.split(' ').next().unwrap_or_default().parse::<u64>()?;
    }
    Ok(Duration::from_nanos(total))
}

fn resident() -> Result<usize, BoxError> {
    let text = std::fs::read_to_string("/proc/self/statm")?;
    Ok(text.split(' ').nth(1).unwrap_or_default().parse::<usize>()? * 4096)
}
