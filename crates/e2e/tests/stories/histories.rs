//! Histories of many clients against servers and etcd members that die, hang and come back, and a checker that says
//! whether one correct server could have answered so.
//!
//! resourceVersions are the order in which it would have: every write that happened is an event of the watches, and all
//! else that was answered has to fit into that one row. `BINNACLE_HISTORY_SECONDS` makes the run longer.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use binnacle_testkit::{Etcd, Server, wait_until};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, PostParams, Preconditions, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

const NAMESPACE: &str = "histories";
const KEYS: u64 = 6;
const CLIENTS: u64 = 8;

/// An operation as its client saw it.
#[derive(Clone, Debug)]
struct Operation {
    began: Instant,
    /// `None` when no answer came.
    ended: Option<Instant>,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// A write that expects the key to be at `base` (0: absent) and gives it a value that nobody else writes.
    Write {
        key: String,
        base: u64,
        value: String,
        outcome: Outcome,
    },
    /// A deletion of just this version.
    Delete {
        key: String,
        base: u64,
        outcome: Outcome,
    },
    /// The version and value of a key, if there was one.
    Get {
        key: String,
        found: Option<(u64, String)>,
    },
    List {
        version: u64,
        found: BTreeMap<String, (u64, String)>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// At this version, 0 where the answer does not say.
    Done(u64),
    Refused,
    Unknown,
}

/// What a watch told.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Told {
    version: u64,
    key: String,
    /// `None` for a deletion.
    value: Option<String>,
}

type History = Arc<Mutex<Vec<Operation>>>;

#[tokio::test(flavor = "multi_thread")]
async fn answers_are_those_of_one_correct_server() {
    if !Etcd::available() {
        return;
    }
    let seconds = std::env::var("BINNACLE_HISTORY_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(12);
    let mut etcd = Etcd::cluster(3);
    let flag = etcd.servers();
    let mut servers: Vec<Server> =
        tokio::task::block_in_place(|| (0..2).map(|_| Server::durable_with(&[&flag])).collect());
    let clients = [servers[0].kube().await, servers[1].kube().await];
    crate::namespace(&clients[0], NAMESPACE).await;

    let done = Arc::new(AtomicBool::new(false));
    let (history, last) = (History::default(), Arc::new(Mutex::new(None)));
    let mut watches = Vec::new();
    for client in &clients {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
        let listed = wait_until("a list", async || maps.list(&ListParams::default()).await.ok()).await;
        assert!(listed.items.is_empty());
        let from = listed.metadata.resource_version.unwrap().parse().unwrap();
        watches.push(tokio::spawn(watch(maps, from, last.clone())));
    }
    let asking: Vec<_> =
        (0..CLIENTS).map(|n| tokio::spawn(ask(clients.clone(), n, history.clone(), done.clone()))).collect();
    let faults = disturb(&mut etcd, &mut servers, Instant::now() + Duration::from_secs(seconds)).await;
    done.store(true, Ordering::SeqCst);
    for client in asking {
        tokio::time::timeout(Duration::from_secs(90), client).await.unwrap().unwrap();
    }
    // One more write, which ends the watches.
    let maps: Api<ConfigMap> = Api::namespaced(clients[0].clone(), NAMESPACE);
    let end =
        wait_until("a last write", async || maps.create(&PostParams::default(), &object("end", "end", 0)).await.ok())
            .await;
    *last.lock() = Some(version(&end));
    let mut told = Vec::new();
    for watch in watches {
        told.push(tokio::time::timeout(Duration::from_secs(60), watch).await.unwrap().unwrap());
    }
    let history = Arc::try_unwrap(history).unwrap().into_inner();
    println!("{} operations, {} events, {faults} faults in {seconds} s", history.len(), told[0].len());
    assert_eq!(told[0], told[1], "both servers told the same");
    check(&history, &told[0]);
}

/// Kills and freezes in turn until the time is over, and leaves all in good health. Answers how often.
async fn disturb(etcd: &mut Etcd, servers: &mut [Server], until: Instant) -> usize {
    let mut faults = 0;
    while Instant::now() < until {
        tokio::time::sleep(Duration::from_millis(500)).await;
        let (member, server) = (faults % 3, faults % servers.len());
        match faults % 4 {
            0 => tokio::task::block_in_place(|| servers[server].restart()),
            1 => tokio::task::block_in_place(|| etcd.restart(member)),
            2 => {
                etcd.freeze(member);
                tokio::time::sleep(Duration::from_millis(1500)).await;
                etcd.thaw(member);
            }
            _ => tokio::task::block_in_place(|| {
                let leader = etcd.leader();
                etcd.kill(leader);
                servers[server].restart();
                etcd.restart(leader);
            }),
        }
        faults += 1;
    }
    faults
}

/// Everything that happens, resumed where it broke off, until the last write has been told.
async fn watch(maps: Api<ConfigMap>, mut reached: u64, last: Arc<Mutex<Option<u64>>>) -> Vec<Told> {
    let mut told = Vec::new();
    loop {
        let params = WatchParams::default().timeout(20).disable_bookmarks();
        if let Ok(stream) = maps.watch(&params, &reached.to_string()).await {
            let mut stream = stream.boxed();
            loop {
                if last.lock().is_some_and(|last| reached >= last) {
                    return told;
                }
                let event = match tokio::time::timeout(Duration::from_secs(1), stream.try_next()).await {
                    Err(_) => continue,
                    Ok(Ok(Some(event))) => event,
                    Ok(_) => break,
                };
                let (map, gone) = match event {
                    WatchEvent::Added(map) | WatchEvent::Modified(map) => (map, false),
                    WatchEvent::Deleted(map) => (map, true),
                    // Nothing was compacted: history is there.
                    WatchEvent::Error(status) if status.code == 410 => panic!("the watch has a gap: {status:?}"),
                    WatchEvent::Error(_) | WatchEvent::Bookmark(_) => break,
                };
                reached = version(&map);
                told.push(Told { version: reached, key: map.name_any(), value: (!gone).then(|| value(&map)) });
            }
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A client that reads, writes what it has read, deletes and lists.
async fn ask(clients: [Client; 2], number: u64, history: History, done: Arc<AtomicBool>) {
    let maps = clients.map(|client| Api::<ConfigMap>::namespaced(client, NAMESPACE));
    let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = move |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    for n in 0.. {
        if done.load(Ordering::SeqCst) {
            return;
        }
        let maps = &maps[next(2) as usize];
        let key = format!("k{}", next(KEYS));
        let began = Instant::now();
        if next(5) == 0 {
            let Ok(listed) = maps.list(&ListParams::default()).await else { continue };
            let found = listed.items.iter().map(|map| (map.name_any(), (version(map), value(map)))).collect();
            let version = listed.metadata.resource_version.unwrap().parse().unwrap();
            note(&history, began, true, What::List { version, found });
            continue;
        }
        let Ok(found) = maps.get_opt(&key).await else { continue };
        let found = found.map(|map| (version(&map), value(&map)));
        note(&history, began, true, What::Get { key: key.clone(), found: found.clone() });
        let began = Instant::now();
        let base = found.map_or(0, |(version, _)| version);
        let (answered, what) = if base > 0 && next(6) == 0 {
            let preconditions = Preconditions { resource_version: Some(base.to_string()), uid: None };
            let params = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
            let outcome = outcome(maps.delete(&key, &params).await.map(|_| 0));
            (outcome != Outcome::Unknown, What::Delete { key, base, outcome })
        } else {
            let value = format!("{number}-{n}");
            let object = object(&key, &value, base);
            let params = PostParams::default();
            let written = match base {
                0 => maps.create(&params, &object).await,
                _ => maps.replace(&key, &params, &object).await,
            };
            let outcome = outcome(written.map(|map| version(&map)));
            (outcome != Outcome::Unknown, What::Write { key, base, value, outcome })
        };
        note(&history, began, answered, what);
    }
}

fn note(history: &History, began: Instant, answered: bool, what: What) {
    let ended = answered.then(Instant::now);
    history.lock().push(Operation { began, ended, what });
}

/// 404 and 409 say that nothing was written; anything else may have been.
fn outcome(answer: kube::Result<u64>) -> Outcome {
    match answer {
        Ok(version) => Outcome::Done(version),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Outcome::Refused,
        Err(_) => Outcome::Unknown,
    }
}

fn object(name: &str, value: &str, base: u64) -> ConfigMap {
    let mut metadata = json!({"name": name});
    if base > 0 {
        metadata["resourceVersion"] = json!(base.to_string());
    }
    serde_json::from_value(json!({"metadata": metadata, "data": {"v": value}})).unwrap()
}

fn version(map: &ConfigMap) -> u64 {
    map.resource_version().unwrap().parse().unwrap()
}

fn value(map: &ConfigMap) -> String {
    map.data.as_ref().unwrap()["v"].clone()
}

/// Whether everything that was answered fits into the row of events.
fn check(history: &[Operation], told: &[Told]) {
    assert!(told.is_sorted_by(|a, b| a.version < b.version), "events come in order, and once");
    // The state of each key before and after each event.
    let mut versions: HashMap<&str, Vec<(u64, Option<&str>)>> = HashMap::new();
    for event in told {
        versions.entry(&event.key).or_default().push((event.version, event.value.as_deref()));
    }
    let before = |key: &str, version: u64| {
        let row = versions.get(key)?;
        row[..row.partition_point(|(at, _)| *at < version)].last().copied()
    };
    let written: HashMap<&str, &Told> =
        told.iter().filter_map(|event| Some((event.value.as_deref()?, event))).collect();

    // When each event was certainly there, and when it could be there at the earliest.
    let mut known: Vec<(Instant, u64)> = Vec::new();
    let mut deletions = 0;
    for operation in history {
        let (key, base, at) = match &operation.what {
            What::Write { key, base, value, outcome } => {
                let event = written.get(value.as_str());
                match outcome {
                    Outcome::Done(version) => {
                        assert_eq!(
                            event.map(|event| event.version),
                            Some(*version),
                            "{operation:?} was told otherwise"
                        );
                    }
                    Outcome::Refused => assert!(event.is_none(), "{operation:?} was refused and is told by {event:?}"),
                    Outcome::Unknown => {}
                }
                let Some(event) = event else { continue };
                assert_eq!(&event.key, key);
                (key, *base, event.version)
            }
            What::Delete { key, base, outcome } => {
                let row = versions.get(key.as_str()).map(Vec::as_slice).unwrap_or_default();
                let next = row.iter().find(|(at, _)| at > base);
                let gone = next.filter(|(_, value)| value.is_none());
                if let Outcome::Done(_) = outcome {
                    assert!(gone.is_some(), "{operation:?} is not told, but {next:?}");
                    deletions += 1;
                }
                match (outcome, gone) {
                    (Outcome::Done(_), Some((at, _))) => (key, *base, *at),
                    _ => continue,
                }
            }
            What::Get { .. } | What::List { .. } => continue,
        };
        let there = before(key, at).map_or(0, |(version, value)| if value.is_some() { version } else { 0 });
        assert_eq!(there, base, "{operation:?} happened at {at}, when the key was not at its base");
        if let Some(ended) = operation.ended {
            known.push((ended, at));
        }
    }
    assert!(deletions > 0, "something was deleted");

    // What was answered before an operation began happened before it.
    for operation in history {
        let (version, found) = match &operation.what {
            What::Write { outcome: Outcome::Done(version), .. } => (*version, None),
            What::List { version, found } => (*version, Some(found)),
            _ => continue,
        };
        let newer = known.iter().find(|(ended, at)| *ended < operation.began && *at > version);
        assert!(newer.is_none(), "{operation:?} is older than {newer:?}, which was answered before");
        if let Some(found) = found {
            let state = |key: &str| before(key, version + 1).and_then(|(at, value)| Some((at, value?.to_owned())));
            let replayed: BTreeMap<_, _> =
                versions.keys().filter_map(|key| Some(((*key).to_owned(), state(key)?))).collect();
            assert_eq!(*found, replayed, "a list at {version} is what the watch tells up to there");
        }
    }
    for operation in history {
        let What::Get { key, found } = &operation.what else { continue };
        let row = versions.get(key.as_str()).map(Vec::as_slice).unwrap_or_default();
        // The newest event of this key that was answered before the read began, and all after it, could be seen.
        let keys = |version: &u64| row.binary_search_by_key(version, |(at, _)| *at).is_ok();
        let floor = known
            .iter()
            .filter(|(ended, at)| *ended < operation.began && keys(at))
            .map(|(_, at)| *at)
            .max()
            .unwrap_or(0);
        let possible = match found {
            Some((version, value)) => {
                *version >= floor && row.iter().any(|(at, told)| at == version && *told == Some(value.as_str()))
            }
            None => floor == 0 || row.iter().any(|(at, value)| *at >= floor && value.is_none()),
        };
        assert!(possible, "{operation:?} could not be seen any more after {floor}");
    }
}
