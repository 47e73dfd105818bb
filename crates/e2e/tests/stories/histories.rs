//! Histories of many clients against servers and etcd members that die, hang, are cut off, get a slow or failing disk or
//! a wrong clock and come back, and a checker that says whether one correct server could have answered so.
//!
//! `BINNACLE_HISTORY_SECONDS` makes the run longer; `BINNACLE_HISTORY_SEED` has the same faults in the same order.

mod check;
mod clients;
mod faults;
mod subjects;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use binnacle_testkit::{Etcd, FaultyDisk, Server, ShiftedClock, Surroundings, wait_until};
use kube::api::{ListParams, PostParams};
use parking_lot::Mutex;

use self::check::check;
use self::clients::{History, LAST, Objects, SHADE, ask, watch};
use self::faults::{Faults, Random};
use self::subjects::{Subject, version};

const NAMESPACE: &str = "histories";
const CLIENTS: u64 = 8;
/// Kills leave addresses behind until they are repaired: there are enough.
const ADDRESSES: &str = "--service-cluster-ip-range=10.96.0.0/16";

#[tokio::test(flavor = "multi_thread")]
async fn servers_on_etcd_answer_as_one_correct_server() {
    if !Etcd::available() {
        return;
    }
    let (etcd, servers) = tokio::task::block_in_place(|| {
        let etcd = Etcd::fragile(3);
        let flag = etcd.servers();
        // Longer than a member is away: who comes back finds the history it needs.
        let flags = [flag.as_str(), "--etcd-compaction-interval=30s", ADDRESSES];
        let server = |_| {
            Server::durable_in(Surroundings { clock: ShiftedClock::available(), ..Surroundings::default() }, &flags)
        };
        let servers = (0..3).map(server).collect();
        (etcd, servers)
    });
    answers_are_those_of_one_correct_server(Some(etcd), servers).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_store_answers_as_one_correct_server() {
    let disk = FaultyDisk::available().then(FaultyDisk::failing);
    let surroundings = Surroundings { disk, clock: ShiftedClock::available(), ..Surroundings::default() };
    let flags = ["--etcd-compaction-interval=2s", ADDRESSES];
    let servers = tokio::task::block_in_place(|| vec![Server::durable_in(surroundings, &flags)]);
    answers_are_those_of_one_correct_server(None, servers).await;
}

async fn answers_are_those_of_one_correct_server(etcd: Option<Etcd>, servers: Vec<Server>) {
    let setting = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    let seconds = setting("BINNACLE_HISTORY_SECONDS").unwrap_or(20);
    let seed = setting("BINNACLE_HISTORY_SEED").unwrap_or_else(|| u64::from(std::process::id()));
    println!("seed {seed}");
    let mut clients = Vec::new();
    for server in &servers {
        clients.push(server.kube().await);
    }
    crate::namespace(&clients[0], NAMESPACE).await;

    let done = Arc::new(AtomicBool::new(false));
    let mut subjects = Vec::new();
    for subject in Subject::ALL {
        let (history, last, mut watches) = (History::default(), Arc::new(Mutex::new(None)), Vec::new());
        for client in &clients {
            let objects = Objects::new(subject, client);
            let listed = wait_until("a list", async || objects.api.list(&ListParams::default()).await.ok()).await;
            assert!(listed.items.is_empty());
            let from = listed.metadata.resource_version.unwrap().parse().unwrap();
            for selector in ["", SHADE] {
                watches.push(tokio::spawn(watch(objects.clone(), selector, from, last.clone())));
            }
        }
        subjects.push((subject, history, last, watches));
    }
    let histories: Vec<_> = subjects.iter().map(|(subject, history, ..)| (*subject, history.clone())).collect();
    let asking: Vec<_> = (0..CLIENTS)
        .map(|n| tokio::spawn(ask(clients.clone(), Random::new(seed + n), n, histories.clone(), done.clone())))
        .collect();
    drop(histories);
    let mut faults = Faults { etcd, servers, random: Random::new(seed) };
    let happened = faults.happen(Instant::now() + Duration::from_secs(seconds)).await;
    done.store(true, Ordering::SeqCst);
    for client in asking {
        tokio::time::timeout(Duration::from_secs(90), client).await.unwrap().unwrap();
    }
    for (subject, history, last, watches) in subjects {
        // One more write, which ends the watches.
        let api = subject.api(clients[0].clone());
        let object = subject.object(LAST, LAST, 0);
        let last_write = async || api.create(&PostParams::default(), &object).await.ok().as_ref().map(version);
        *last.lock() = Some(wait_until("a last write", last_write).await);
        let mut told = Vec::new();
        for watch in watches {
            told.push(tokio::time::timeout(Duration::from_secs(60), watch).await.unwrap().unwrap());
        }
        let history = Arc::try_unwrap(history).unwrap().into_inner();
        println!(
            "{subject:?}: {} operations, {} events in {seconds} s with {happened:?}",
            history.len(),
            told[0].len()
        );
        for pair in told.chunks(2) {
            assert_eq!(told[0], pair[0], "all servers told the same");
            assert_eq!(check::shaded(&told[0]), pair[1], "a selected watch tells what enters, changes and leaves");
        }
        check(&history, &told[0], subject.can_be_created_by_update());
    }
}
