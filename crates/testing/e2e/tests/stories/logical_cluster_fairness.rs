//! Writes of logical clusters take turns: one that has more of them in progress than the store carries out at once delays the
//! others by its share, and not by all of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use binnacle_testkit::https::{Answer, Client, Handshake};
use binnacle_testkit::{Etcd, FaultyDisk, Kubectl, Server, ServerEnvironment, wait_until};
use serde_json::{Value, json};

use crate::logical_cluster_host::Host;

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
/// The connections of the noisy cluster, each with one write.
const CROWD: usize = 150;
/// The bytes of each of its objects, of which a share of the store is less than thirty.
const SIZE: usize = 60_000;
/// The flushes of the disk take this long, so that all its writes wait.
const FLUSH: Duration = Duration::from_millis(250);
/// The sequential writes of the other cluster, and the most writes of the noisy one between two of them, on average. Without
/// turns these are all that wait: about [`CROWD`].
const QUIET: u64 = 6;
const BETWEEN: u64 = 60;

fn map(name: &str, size: usize) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"text": "x".repeat(size)}})
        .to_string()
}

async fn send(client: &mut Client, cluster: &str, name: &str, size: usize) -> Answer {
    let path = format!("/clusters/{cluster}/api/v1/namespaces/default/configmaps");
    client.send("POST", &path, &JSON, map(name, size)).await.unwrap()
}

/// Creates an object, and returns its revision.
async fn create(client: &mut Client, cluster: &str, name: &str, size: usize) -> u64 {
    let answer = send(client, cluster, name, size).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    let created: Value = serde_json::from_str(&answer.body).unwrap();
    created["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Returns the value of a gauge of the noisy cluster.
async fn of_noisy(host: &Server, name: &str) -> u64 {
    let metrics = host.connect(&host.admin()).await.get("/metrics").await.unwrap().body;
    let start = format!("{name}{{logical_cluster=\"noisy\"}} ");
    metrics.lines().find_map(|line| line.strip_prefix(&start)?.parse().ok()).unwrap_or(0)
}

/// Writes until `stop` is set.
async fn make_noise(mut client: Client, number: usize, stop: Arc<AtomicBool>) {
    for n in 0.. {
        if stop.load(Ordering::Relaxed) {
            return;
        }
        let answer = send(&mut client, "noisy", &format!("n{number}-{n}"), SIZE).await;
        match answer.status {
            201 => {}
            // The cluster also has too much work that waits for a processor: the time to wait is in the answer.
            429 => tokio::time::sleep(Duration::from_secs(1)).await,
            _ => panic!("{}", answer.body),
        }
    }
}

async fn writes_take_turns(server: Server, etcd: Option<&Etcd>) {
    let (host, [noisy, quiet]) = tokio::task::block_in_place(|| {
        let kubectl = Kubectl::new(&server);
        let host = Host { server, kubectl };
        let clusters = ["noisy", "quiet"].map(|name| {
            host.create(name, &json!({}));
            Handshake::of_kubeconfig(&std::fs::read_to_string(host.kubeconfig(name)).unwrap())
        });
        (host, clusters)
    });
    let mut client = host.server.connect(&quiet).await;
    create(&mut client, "quiet", "first", 10).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut crowd = Vec::new();
    for _ in 0..CROWD {
        crowd.push(host.server.connect(&noisy).await);
    }
    let disk = etcd.map_or_else(|| host.server.disk(), Etcd::disk).unwrap();
    disk.delay(FLUSH);
    let crowd: Vec<_> = crowd
        .into_iter()
        .enumerate()
        .map(|(number, client)| tokio::spawn(make_noise(client, number, stop.clone())))
        .collect();
    let most = u64::try_from(CROWD).unwrap() * 2 / 3;
    wait_until("the noisy cluster has many waiting writes", async || {
        (of_noisy(&host.server, "binnacle_logical_cluster_waiting_writes").await >= most).then_some(())
    })
    .await;
    let mut between = Vec::new();
    let mut last = create(&mut client, "quiet", "begin", 10).await;
    for n in 0..QUIET {
        let revision = create(&mut client, "quiet", &format!("q{n}"), 10).await;
        between.push(revision - last - 1);
        last = revision;
    }
    let still_waiting = of_noisy(&host.server, "binnacle_logical_cluster_waiting_writes").await;
    stop.store(true, Ordering::Relaxed);
    disk.delay(Duration::ZERO);
    for noise in crowd {
        noise.await.unwrap();
    }
    assert!(between.iter().sum::<u64>() <= QUIET * BETWEEN, "{between:?}");
    assert!(still_waiting > 0, "the noisy cluster has paused: {between:?}");
    assert_eq!(of_noisy(&host.server, "binnacle_logical_cluster_waiting_writes").await, 0);
    assert!(of_noisy(&host.server, "binnacle_logical_cluster_waited_writes_total").await > most);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn writes_of_a_cluster_pass_a_crowd_of_another_one() {
    if !FaultyDisk::available() {
        return;
    }
    let environment = ServerEnvironment { disk: Some(FaultyDisk::slow()), ..ServerEnvironment::default() };
    let server = tokio::task::block_in_place(|| Server::durable_in(environment, &["--logical-clusters"]));
    writes_take_turns(server, None).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
async fn writes_of_a_cluster_in_etcd_pass_a_crowd_of_another_one() {
    if !FaultyDisk::available() {
        return;
    }
    let (etcd, server) = tokio::task::block_in_place(|| {
        let etcd = Etcd::fragile(1);
        let server = Server::durable_with(&["--logical-clusters", &etcd.servers()]);
        (etcd, server)
    });
    writes_take_turns(server, Some(&etcd)).await;
}
