//! Clients of watch caches while etcd and the servers with the caches are killed at any moment: in the end each client
//! must have all objects. A watch that ends is restarted at its last revision. A watch that hangs or skips events is a
//! failure.
//!
//! `BINNACLE_OUTAGES` is the number of rounds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use binnacle_store::{Count, Expect, Op, RangeRequest, Revision, Store, Txn, TxnResponse, prefix_range};
use binnacle_store_etcd::WatchLimits;
use binnacle_testkit::Etcd;
use binnacle_watchcache::{
    Attrs, Cache, CacheError, Change, IndexError, Indexer, Interest, Start, WatchError, WindowLimits,
};
use bytes::Bytes;
use parking_lot::Mutex;

use crate::support::open;

const KINDS: usize = 4;
const CLIENTS: usize = 6;
/// The time limit for a client to catch up after the outages.
const PATIENCE: Duration = Duration::from_secs(60);

struct EmptyIndexer;

impl Indexer for EmptyIndexer {
    fn fields(&self) -> &[binnacle_meta::Text] {
        &[]
    }

    fn index(&self, _: &[u8], _: &Bytes, _: Revision) -> Result<Attrs, IndexError> {
        Ok(Attrs::default())
    }
}

/// The paths and versions of objects.
type Objects = Arc<Mutex<BTreeMap<String, u64>>>;

/// A server process: its store, and the caches on it.
struct Server {
    store: Arc<dyn Store>,
    caches: Vec<Cache>,
}

impl Server {
    fn start(etcd: &[String]) -> Arc<Self> {
        let store: Arc<dyn Store> = Arc::new(open(etcd.to_vec(), WatchLimits::default()));
        let cache = |kind| Cache::new(store.clone(), &prefix(kind), Arc::new(EmptyIndexer), WindowLimits::default());
        Arc::new(Self { caches: (0..KINDS).map(cache).collect(), store })
    }
}

fn prefix(kind: usize) -> String {
    format!("/k{kind}/")
}

/// The server that clients use, which is replaced at a restart.
type SharedServer = Arc<Mutex<Arc<Server>>>;

fn soon() -> tokio::time::Instant {
    tokio::time::Instant::now() + Duration::from_secs(3)
}

/// Lists and watches. Resumes at its last revision when the watch ends or the server is replaced.
async fn list_and_watch(shared: SharedServer, kind: usize, activity: Arc<Mutex<String>>, copy: Objects) {
    let mut from: Option<Revision> = None;
    loop {
        let server = shared.lock().clone();
        let cache = &server.caches[kind];
        let start = match from {
            Some(from) => from,
            None => {
                *activity.lock() = "listing".to_owned();
                match cache.wait_consistent(soon()).await {
                    Ok(snapshot) => {
                        let all = cache.selection(Interest::default());
                        *copy.lock() = snapshot
                            .iter(&all, "")
                            .map(|entry| (entry.path().to_owned(), entry.revision().0))
                            .collect();
                        snapshot.revision()
                    }
                    Err(CacheError::Closed) => panic!("closed"),
                    Err(error) => {
                        *activity.lock() = format!("listing failed: {error}");
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        continue;
                    }
                }
            }
        };
        from = Some(start);
        *activity.lock() = format!("opening after {}", start.0);
        let selection = cache.selection(Interest::default());
        let mut watcher = match cache.subscribe(selection, Start::After(start), soon()).await {
            Ok(watcher) => watcher,
            Err(WatchError::Expired { .. }) => {
                from = None;
                continue;
            }
            Err(error) => {
                *activity.lock() = format!("opening after {} failed: {error}", start.0);
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        *activity.lock() = format!("watching after {}", start.0);
        loop {
            let mut items = Vec::new();
            let next = tokio::time::timeout(Duration::from_millis(20), watcher.next_batch(100, &mut items)).await;
            for item in &items {
                let revision = item.revision();
                assert!(Some(revision) > from, "{revision:?} after {from:?}");
                from = Some(revision);
                let entry = item.entry().expect("an object");
                match item.change() {
                    Some(Change::Deleted) => assert!(copy.lock().remove(entry.path()).is_some(), "was there"),
                    _ => {
                        copy.lock().insert(entry.path().to_owned(), revision.0);
                    }
                }
            }
            match next {
                Ok(Ok(())) => {}
                Err(_) if Arc::ptr_eq(&server, &shared.lock()) => {}
                Ok(Err(WatchError::Expired { .. })) => {
                    from = None;
                    break;
                }
                Ok(Err(_)) | Err(_) => break,
            }
        }
    }
}

async fn put(store: &dyn Store, key: String) -> Option<Revision> {
    write(store, key, Op::Put { value: Bytes::from_static(b"x"), lease: None }).await
}

async fn delete(store: &dyn Store, key: String) -> Option<Revision> {
    write(store, key, Op::Delete).await
}

async fn write(store: &dyn Store, key: String, op: Op) -> Option<Revision> {
    match store.txn(Txn { key: key.into(), expect: Expect::Anything, op }).await {
        Ok(TxnResponse::Done { revision, .. }) => Some(revision),
        _ => None,
    }
}

/// A generator of pseudorandom numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

/// A client: its kind, its activity and its copy of the objects.
type Client = (usize, Arc<Mutex<String>>, Objects);

/// Servers on one etcd, with clients and writers.
struct Cluster {
    endpoints: Vec<String>,
    shared_servers: Vec<SharedServer>,
    clients: Vec<Client>,
    tasks: tokio::task::JoinSet<()>,
    /// True if writers do not start a write.
    paused: Arc<AtomicBool>,
    /// The number of writers that may be writing.
    writing: Arc<AtomicUsize>,
}

impl Cluster {
    fn start(endpoints: Vec<String>) -> Self {
        let shared_servers: Vec<SharedServer> =
            (0..2).map(|_| Arc::new(Mutex::new(Server::start(&endpoints)))).collect();
        let mut clients = Vec::new();
        let mut tasks = tokio::task::JoinSet::new();
        for shared in &shared_servers {
            for kind in 0..KINDS {
                for _ in 0..CLIENTS {
                    let activity = Arc::new(Mutex::new(String::new()));
                    let copy = Objects::default();
                    tasks.spawn(list_and_watch(shared.clone(), kind, activity.clone(), copy.clone()));
                    clients.push((kind, activity, copy));
                }
            }
        }
        let (paused, writing) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        for (number, shared) in shared_servers.iter().enumerate() {
            tasks.spawn(write_unless_paused(number, shared.clone(), paused.clone(), writing.clone()));
        }
        Self { endpoints, shared_servers, clients, tasks, paused, writing }
    }

    async fn restart_some_servers(&self, dice: &mut Dice) {
        for shared in &self.shared_servers {
            if dice.roll(4) > 0 {
                *shared.lock() = Server::start(&self.endpoints);
                tokio::time::sleep(Duration::from_millis(dice.roll(300))).await;
            }
        }
    }

    /// Waits until no writer is writing.
    async fn pause_writers(&self) {
        self.paused.store(true, Ordering::SeqCst);
        while self.writing.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    fn resume_writers(&self) {
        self.paused.store(false, Ordering::SeqCst);
    }

    /// Writes an object of each kind.
    async fn put_markers(&self) {
        for kind in 0..KINDS {
            let started = Instant::now();
            let server = self.shared_servers[kind % 2].lock().clone();
            while put(&*server.store, format!("/k{kind}/marker")).await.is_none() {
                assert!(started.elapsed() < PATIENCE, "a write");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
    }

    /// Returns the stored objects by kind.
    async fn stored(&self) -> Vec<BTreeMap<String, u64>> {
        let mut expected = Vec::new();
        for kind in 0..KINDS {
            let store = self.shared_servers[0].lock().store.clone();
            let range = prefix_range(prefix(kind).as_bytes());
            let request = RangeRequest { range, revision: None, limit: 0, count: Count::All };
            let all = store.range(request).await.expect("etcd is there");
            let path = |key: &[u8]| String::from_utf8_lossy(&key[prefix(kind).len()..]).into_owned();
            expected.push(all.kvs.iter().map(|kv| (path(&kv.key), kv.mod_revision.0)).collect::<BTreeMap<_, _>>());
        }
        expected
    }

    /// Returns descriptions of the clients that do not have the objects.
    fn clients_behind(&self, expected: &[BTreeMap<String, u64>]) -> Vec<String> {
        self.clients
            .iter()
            .enumerate()
            .filter(|(_, (kind, _, copy))| *copy.lock() != expected[*kind])
            .map(|(n, (kind, activity, _))| {
                let server = self.shared_servers[n / (KINDS * CLIENTS)].lock().clone();
                format!("client {n}: {}, {:?}", activity.lock(), server.caches[*kind].stats())
            })
            .collect()
    }

    /// Waits until all clients have the stored objects.
    async fn wait_for_all_clients(&mut self, round: u32) {
        let expected = self.stored().await;
        let started = Instant::now();
        loop {
            if let Some(ended) = self.tasks.try_join_next() {
                ended.expect("nobody failed");
            }
            let behind = self.clients_behind(&expected);
            if behind.is_empty() {
                println!("{round}: all know after {:?}", started.elapsed());
                break;
            }
            assert!(started.elapsed() < PATIENCE, "{round}: {behind:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Writes objects all the time, but not of every kind.
async fn write_unless_paused(number: usize, shared: SharedServer, paused: Arc<AtomicBool>, writing: Arc<AtomicUsize>) {
    for n in 0_u64.. {
        let server = shared.lock().clone();
        writing.fetch_add(1, Ordering::SeqCst);
        if !paused.load(Ordering::SeqCst) {
            let key = format!("/k{}/w{number}-{}", n % (KINDS as u64 - 1), n % 7);
            if n % 5 == 4 {
                delete(&*server.store, key).await
            } else {
                put(&*server.store, key).await
            };
        }
        writing.fetch_sub(1, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(3)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn watches_survive_outages_of_etcd_and_servers() {
    let mut etcd = Etcd::single();
    let rounds = std::env::var("BINNACLE_OUTAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let mut cluster = Cluster::start(etcd.endpoints());
    let mut dice = Dice(u64::from(std::process::id()) | 1);
    for round in 0..rounds {
        // Servers and etcd are killed in any order, close together.
        cluster.restart_some_servers(&mut dice).await;
        if dice.roll(6) > 0 {
            let before = Instant::now();
            tokio::task::block_in_place(|| etcd.restart(0));
            println!("{round}: etcd was away for {:?}", before.elapsed());
        }
        cluster.pause_writers().await;
        cluster.put_markers().await;
        cluster.wait_for_all_clients(round).await;
        cluster.resume_writers();
    }
}
