//! Clients of watch caches while etcd and the servers with the caches are killed at any moment: in the end each client
//! must have all objects. A watch that ends is restarted at its last revision. A watch that hangs or skips events is a
//! failure.
//!
//! `BINNACLE_OUTAGES` is the number of rounds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use binnacle_store::{Expect, Op, RangeRequest, Revision, Store, Txn, TxnResponse, prefix_range};
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

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn watches_survive_outages_of_etcd_and_servers() {
    let mut etcd = Etcd::single();
    let rounds = std::env::var("BINNACLE_OUTAGES").ok().and_then(|text| text.parse().ok()).unwrap_or(6);
    let endpoints = etcd.endpoints();
    let shared_servers: Vec<SharedServer> = (0..2).map(|_| Arc::new(Mutex::new(Server::start(&endpoints)))).collect();
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
    // There are always writes, but not of every kind.
    for (number, shared) in shared_servers.iter().enumerate() {
        let (shared, paused, writing) = (shared.clone(), paused.clone(), writing.clone());
        tasks.spawn(async move {
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
        });
    }
    let mut dice = u64::from(std::process::id()) | 1;
    let mut roll = move |end: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % end
    };
    for round in 0..rounds {
        // Servers and etcd are killed in any order, close together.
        for shared in &shared_servers {
            if roll(4) > 0 {
                *shared.lock() = Server::start(&endpoints);
                tokio::time::sleep(Duration::from_millis(roll(300))).await;
            }
        }
        if roll(6) > 0 {
            let before = Instant::now();
            tokio::task::block_in_place(|| etcd.restart(0));
            println!("{round}: etcd was away for {:?}", before.elapsed());
        }
        paused.store(true, Ordering::SeqCst);
        while writing.load(Ordering::SeqCst) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        for kind in 0..KINDS {
            let started = Instant::now();
            let server = shared_servers[kind % 2].lock().clone();
            while put(&*server.store, format!("/k{kind}/marker")).await.is_none() {
                assert!(started.elapsed() < PATIENCE, "a write");
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        }
        let mut expected = Vec::new();
        for kind in 0..KINDS {
            let store = shared_servers[0].lock().store.clone();
            let range = prefix_range(prefix(kind).as_bytes());
            let request = RangeRequest { range, revision: None, limit: 0, count_only: false };
            let all = store.range(request).await.expect("etcd is there");
            let path = |key: &[u8]| String::from_utf8_lossy(&key[prefix(kind).len()..]).into_owned();
            expected.push(all.kvs.iter().map(|kv| (path(&kv.key), kv.mod_revision.0)).collect::<BTreeMap<_, _>>());
        }
        let started = Instant::now();
        loop {
            if let Some(ended) = tasks.try_join_next() {
                ended.expect("nobody failed");
            }
            let behind: Vec<_> = clients
                .iter()
                .enumerate()
                .filter(|(_, (kind, _, copy))| *copy.lock() != expected[*kind])
                .map(|(n, (kind, activity, _))| {
                    let server = shared_servers[n / (KINDS * CLIENTS)].lock().clone();
                    format!("client {n}: {}, {:?}", activity.lock(), server.caches[*kind].stats())
                })
                .collect();
            if behind.is_empty() {
                println!("{round}: all know after {:?}", started.elapsed());
                paused.store(false, Ordering::SeqCst);
                break;
            }
            assert!(started.elapsed() < PATIENCE, "{round}: {behind:#?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
