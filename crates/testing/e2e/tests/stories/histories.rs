//! Histories of many clients, with servers and etcd members that are killed, hang, are cut off, have a slow or failing
//! disk or a wrong clock, and recover. A checker decides whether a single correct server could have given the same
//! responses.
//!
//! `BINNACLE_HISTORY_SECONDS` sets the duration. The same `BINNACLE_HISTORY_SEED` gives the same sequence of faults.
//! `BINNACLE_HISTORY_WATCHED` is the number of servers that are watched, for histories in which the last server is a
//! kube-apiserver: after its start it answers 410 to watches of earlier versions, and a change while it removes the last
//! finalizer of an object is lost.

mod check;
mod clients;
mod definition;
mod faults;
mod subjects;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use binnacle_testkit::{Etcd, FaultyDisk, Server, ServerEnvironment, ShiftedClock, wait_until};
use futures::StreamExt;
use kube::api::{ListParams, PostParams, WatchParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use tokio::task::{JoinHandle, block_in_place};

use self::check::{check, state_at};
use self::clients::{History, HistoryEvent, LAST, ObjectVersions, Objects, SHADE, ask, watch};
use self::faults::Faults;
use self::subjects::{Subject, version};
use crate::random::{Random, setting};

const NAMESPACE: &str = "histories";
const CLIENTS: u64 = 8;
/// Kills leak addresses until they are repaired, so there must be enough.
const ADDRESSES: &str = "--service-cluster-ip-range=10.96.0.0/16";

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn servers_on_etcd_are_linearizable() {
    let (etcd, servers) = on_etcd();
    let mut faults = Faults::new(Some(etcd), servers).await;
    let seconds = setting("BINNACLE_HISTORY_SECONDS").unwrap_or(20);
    era(&mut faults, 0, seconds, Vec::new()).await;
}

/// The cluster is restored from a snapshot repeatedly. Exactly the writes after the snapshot are lost.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn servers_are_linearizable_across_etcd_restores() {
    let (etcd, servers) = on_etcd();
    let mut faults = Faults { restores: true, ..Faults::new(Some(etcd), servers).await };
    let seconds = setting("BINNACLE_HISTORY_SECONDS").unwrap_or(20);
    let until = Instant::now() + Duration::from_secs(seconds);
    let mut events = Vec::new();
    let mut number = 0;
    while number < 2 || Instant::now() < until {
        events = era(&mut faults, number, 10.min(seconds / 2), events).await;
        let mut watches = Vec::new();
        for (n, client) in faults.clients.iter().enumerate() {
            for subject in Subject::ALL {
                watches.push((n, subject, watch_to_the_end(&Objects::new(subject, client)).await));
            }
        }
        let saved = faults.restore_snapshot();
        println!("restored {saved}");
        for (n, subject, watch) in watches {
            let ended = tokio::time::timeout(Duration::from_secs(60), watch).await;
            let received = ended.unwrap_or_else(|_| panic!("a watch of {subject:?} at server {n} goes on")).unwrap();
            assert!(received.is_empty(), "a watch from before goes on with {received:?}");
        }
        events.iter_mut().for_each(|events| events.retain(|event| event.version <= saved));
        number += 1;
    }
    println!("restored {number} times");
}

/// Returns the events of a watch from here on, once it has ended.
async fn watch_to_the_end(objects: &Objects) -> JoinHandle<Vec<HistoryEvent>> {
    let objects = objects.clone();
    let listed = wait_until("a list", async || objects.api.list(&ListParams::default()).await.ok()).await;
    let from = listed.metadata.resource_version.unwrap();
    let params = WatchParams::default().timeout(290).disable_bookmarks();
    let stream = wait_until("a watch", async || objects.api.watch(&params, &from).await.ok()).await;
    let mut stream = stream.boxed();
    tokio::spawn(async move {
        let mut received = Vec::new();
        while let Some(Ok(event)) = stream.next().await {
            received.extend(objects.event_of(event));
        }
        received
    })
}

/// Starts three members and three servers.
fn on_etcd() -> (Etcd, Vec<Server>) {
    block_in_place(|| {
        let etcd = Etcd::fragile(3);
        let flag = etcd.servers();
        // Longer than a member is down, so that it finds the history that it needs after its restart.
        let flags = [flag.as_str(), "--etcd-compaction-interval=30s", ADDRESSES];
        let server = |_| {
            Server::durable_in(
                ServerEnvironment { clock: ShiftedClock::available(), ..ServerEnvironment::default() },
                &flags,
            )
        };
        let servers = (0..3).map(server).collect();
        (etcd, servers)
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn embedded_store_is_linearizable() {
    let disk = FaultyDisk::available().then(FaultyDisk::failing);
    let surroundings = ServerEnvironment { disk, clock: ShiftedClock::available(), ..ServerEnvironment::default() };
    // The history must reach back at least this far: a watch with a selector may get no event for seconds, and on a
    // busy machine it takes longer to start a server.
    let flags = ["--etcd-compaction-interval=15s", ADDRESSES];
    let servers = block_in_place(|| vec![Server::durable_in(surroundings, &flags)]);
    let mut faults = Faults::new(None, servers).await;
    let seconds = setting("BINNACLE_HISTORY_SECONDS").unwrap_or(20);
    era(&mut faults, 0, seconds, Vec::new()).await;
}

/// Returns true if a server is a kube-apiserver.
fn has_another_server() -> bool {
    setting("BINNACLE_HISTORY_WATCHED").is_some()
}

impl Faults {
    /// Creates everything that the clients need.
    async fn new(etcd: Option<Etcd>, servers: Vec<Server>) -> Self {
        let seed = setting("BINNACLE_HISTORY_SEED").unwrap_or_else(|| u64::from(std::process::id()));
        println!("seed {seed}");
        let mut clients = Vec::new();
        for server in &servers {
            clients.push(server.kube_asking_once().await);
        }
        crate::namespace(&clients[0], NAMESPACE).await;
        wait_until("a definition", async || definition::define(&clients[0], 0).await.ok()).await;
        for client in &clients {
            let widgets = Subject::Widgets.api(client.clone());
            wait_until("its resource", async || widgets.list(&ListParams::default()).await.ok()).await;
        }
        let random = Random::new(seed);
        Self { etcd, servers, clients, seed, random, restores: false, saved: None, definitions: 0 }
    }
}

/// One resource with its history and watches.
struct SubjectHistory {
    subject: Subject,
    history: History,
    /// The version of the last write, once it is done.
    last: Arc<Mutex<Option<u64>>>,
    /// The version at which the watches began, and the events up to it.
    from: u64,
    before: Vec<HistoryEvent>,
    /// Watches of all objects, and of those that match [`SHADE`], at each server.
    watches: Vec<JoinHandle<Vec<HistoryEvent>>>,
}

impl SubjectHistory {
    /// Starts the watches. The events `before` must contain all existing objects.
    async fn begin(subject: Subject, clients: &[Client], before: Vec<HistoryEvent>) -> Self {
        let (history, last) = (History::default(), Arc::default());
        let (mut from, mut watches) = (0, Vec::new());
        let expected = state_at(&before, u64::MAX);
        let watched = setting("BINNACLE_HISTORY_WATCHED").and_then(|count| usize::try_from(count).ok());
        for client in clients.iter().take(watched.unwrap_or(usize::MAX)) {
            let objects = Objects::new(subject, client);
            let listed = wait_until("a list", async || objects.api.list(&ListParams::default()).await.ok()).await;
            from = listed.metadata.resource_version.unwrap().parse().unwrap();
            let found = listed.items.iter().map(|object| (object.name_any(), objects.described(object)));
            assert_eq!(found.collect::<ObjectVersions>(), expected, "{subject:?}: what there must be at {from}");
            for selector in ["", SHADE] {
                watches.push(tokio::spawn(watch(objects.clone(), selector, from, Arc::clone(&last))));
            }
        }
        Self { subject, history, last, from, before, watches }
    }

    /// Ends the watches with one more write. Returns their events, after those from before.
    async fn end(&mut self, client: &Client, number: u64) -> Vec<HistoryEvent> {
        let api = self.subject.api(client.clone());
        let object = self.subject.object(&format!("{LAST}-{number}"), LAST, 0);
        let last_write = async || api.create(&PostParams::default(), &object).await.ok().as_ref().map(version);
        *self.last.lock() = Some(wait_until("a last write", last_write).await);
        let mut events = Vec::new();
        for watch in self.watches.drain(..) {
            events.push(tokio::time::timeout(Duration::from_secs(60), watch).await.unwrap().unwrap());
        }
        let whole = [self.before.clone(), events[0].clone()].concat();
        let selected = check::shaded(&whole).split_off(check::shaded(&self.before).len());
        for pair in events.chunks(2) {
            assert_eq!(events[0], pair[0], "all servers told the same");
            assert_eq!(selected, pair[1], "a selected watch tells what enters, changes and leaves");
        }
        whole
    }
}

/// Runs clients during faults, and checks that a single correct server could have given their responses. Takes the
/// events `before` of each resource, and returns them with those of this era.
async fn era(faults: &mut Faults, number: u64, seconds: u64, before: Vec<Vec<HistoryEvent>>) -> Vec<Vec<HistoryEvent>> {
    let clients = faults.clients.clone();
    let mut parts = Vec::new();
    let mut before = before.into_iter();
    for subject in Subject::ALL {
        parts.push(SubjectHistory::begin(subject, &clients, before.next().unwrap_or_default()).await);
    }
    let histories: Vec<_> = parts.iter().map(|part| (part.subject, Arc::clone(&part.history))).collect();
    let done = Arc::new(AtomicBool::new(false));
    let first = number * CLIENTS;
    let asking: Vec<_> = (first..first + CLIENTS)
        .map(|n| tokio::spawn(ask(clients.clone(), Random::new(faults.seed + n), n, histories.clone(), done.clone())))
        .collect();
    drop(histories);
    let happened = faults.happen(Instant::now() + Duration::from_secs(seconds)).await;
    done.store(true, Ordering::SeqCst);
    for client in asking {
        tokio::time::timeout(Duration::from_secs(90), client).await.unwrap().unwrap();
    }
    // Writes at the end of an era are lost in the restore.
    if faults.restores && faults.saved.is_none() {
        faults.save_snapshot();
    }
    println!("{seconds} s with {happened:?}");
    let (mut all, mut deletions) = (Vec::new(), 0);
    for mut part in parts {
        let events = part.end(&clients[0], number).await;
        let history = Arc::try_unwrap(part.history).unwrap().into_inner();
        let (operations, count) = (history.len(), events.len() - part.before.len());
        println!("{:?}: {operations} operations, {count} events", part.subject);
        deletions += check(&history, &events, part.from, part.subject.can_be_created_by_update());
        all.push(events);
    }
    assert!(deletions > 0, "something was deleted");
    all
}
