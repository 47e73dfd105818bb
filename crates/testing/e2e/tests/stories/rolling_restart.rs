//! Servers on one etcd are restarted one after the other behind a load balancer, under load: no request is lost.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Etcd, Server, wait_until};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, PostParams};
use parking_lot::Mutex;
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};

const WORKERS: usize = 8;
/// The interval at which the balancer polls `/readyz`. The shutdown delay is several of them.
const LOOK: Duration = Duration::from_millis(50);

/// A server behind the balancer.
struct Member {
    address: SocketAddr,
    ready: AtomicBool,
}

/// A TCP load balancer: new connections go to members with a successful `/readyz` in round-robin order; others stay.
struct Balancer {
    address: SocketAddr,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Balancer {
    async fn start(members: Arc<Vec<Member>>, handshake: Handshake) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut tasks = Vec::new();
        for at in 0..members.len() {
            let (members, handshake) = (members.clone(), handshake.clone());
            tasks.push(tokio::spawn(async move {
                loop {
                    let asked = async {
                        let mut client = Client::connect(members[at].address, &handshake).await.ok()?;
                        Some(client.get("/readyz").await.ok()?.status == 200)
                    };
                    let ready = tokio::time::timeout(Duration::from_secs(2), asked).await.ok().flatten();
                    members[at].ready.store(ready == Some(true), Ordering::SeqCst);
                    tokio::time::sleep(LOOK).await;
                }
            }));
        }
        tasks.push(tokio::spawn(async move {
            let next = AtomicUsize::new(0);
            loop {
                let Ok((mut client, _)) = listener.accept().await else { return };
                let members = members.clone();
                let first = next.fetch_add(1, Ordering::SeqCst);
                tokio::spawn(async move {
                    let mut in_turn = (0..members.len()).map(|n| &members[(first + n) % members.len()]);
                    let Some(member) = in_turn.find(|member| member.ready.load(Ordering::SeqCst)) else { return };
                    if let Ok(mut server) = TcpStream::connect(member.address).await {
                        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
                    }
                });
            }
        }));
        Self { address, tasks }
    }
}

impl Drop for Balancer {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// The outcomes of all requests.
#[derive(Default)]
struct Outcomes {
    answered: AtomicU64,
    /// Responses that request a retry, which clients do.
    put_off: AtomicU64,
    lost: Mutex<Vec<String>>,
}

impl Outcomes {
    /// Counts an outcome. Returns true if the request should be retried.
    fn count<T>(&self, outcome: Result<T, kube::Error>) -> bool {
        match outcome {
            Ok(_) => {
                self.answered.fetch_add(1, Ordering::SeqCst);
                false
            }
            Err(kube::Error::Api(status)) if status.code == 429 => {
                self.put_off.fetch_add(1, Ordering::SeqCst);
                true
            }
            Err(error) => {
                self.lost.lock().push(format!("{error:?}"));
                false
            }
        }
    }
}

/// Writes and reads until `stop` is set.
async fn work(client: kube::Client, outcomes: Arc<Outcomes>, stop: Arc<AtomicBool>, worker: usize) {
    let maps: Api<ConfigMap> = Api::namespaced(client, "default");
    let mut round = 0;
    while !stop.load(Ordering::SeqCst) {
        round += 1;
        let name = format!("m-{worker}-{round}");
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        while outcomes.count(maps.create(&PostParams::default(), &map).await) {
            tokio::time::sleep(LOOK).await;
        }
        while outcomes.count(maps.get(&name).await) {
            tokio::time::sleep(LOOK).await;
        }
        while round % 10 == 0 && outcomes.count(maps.list(&ListParams::default().limit(50)).await) {
            tokio::time::sleep(LOOK).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn loses_no_request_during_a_rolling_restart() {
    let etcd = Etcd::single();
    let flags =
        [etcd.servers(), "--shutdown-delay-duration=2s".to_owned(), "--shutdown-send-retry-after=true".to_owned()];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let first = tokio::task::block_in_place(|| Server::durable_with(&flags));
    // The second server presents the same certificate, and trusts the same clients.
    let pki = |name: &str| first.temp().join(&format!("data/pki/{name}"));
    let shared = [
        format!("--tls-cert-file={}", pki("apiserver.crt")),
        format!("--tls-private-key-file={}", pki("apiserver.key")),
        format!("--client-ca-file={}", pki("ca.crt")),
    ];
    let flags: Vec<&str> = flags.iter().copied().chain(shared.iter().map(String::as_str)).collect();
    let second = tokio::task::block_in_place(|| Server::durable_with(&flags));
    let handshake = first.admin();
    let address = |server: &Server| server.url().replace("https://", "").parse().unwrap();
    let member = |server: &Server| Member { address: address(server), ready: AtomicBool::new(false) };
    let members = Arc::new(vec![member(&first), member(&second)]);
    let balancer = Balancer::start(members.clone(), handshake.clone()).await;
    let ready = |at: usize, wanted: bool| {
        let members = members.clone();
        async move {
            wait_until("a member changes", async || (members[at].ready.load(Ordering::SeqCst) == wanted).then_some(()))
                .await;
        }
    };
    ready(0, true).await;
    ready(1, true).await;

    let (outcomes, stop) = (Arc::new(Outcomes::default()), Arc::new(AtomicBool::new(false)));
    let mut workers = Vec::new();
    for worker in 0..WORKERS {
        let client = first.kube_through(&format!("https://{}", balancer.address)).await;
        workers.push(tokio::spawn(work(client, outcomes.clone(), stop.clone(), worker)));
    }
    let mut servers = [first, second];
    let mut during = Vec::new();
    for (at, server) in servers.iter_mut().enumerate() {
        let before = outcomes.answered.load(Ordering::SeqCst);
        let took = tokio::task::block_in_place(|| server.terminate());
        ready(at, false).await;
        tokio::task::block_in_place(|| server.restart());
        ready(at, true).await;
        during.push((took, outcomes.answered.load(Ordering::SeqCst) - before));
    }
    stop.store(true, Ordering::SeqCst);
    futures::future::try_join_all(workers).await.unwrap();
    let (answered, put_off) = (outcomes.answered.load(Ordering::SeqCst), outcomes.put_off.load(Ordering::SeqCst));
    println!("{answered} answered, {put_off} put off; each restart, with the answers meanwhile: {during:?}");
    let lost = outcomes.lost.lock();
    assert!(lost.is_empty(), "{} of {answered} lost: {:#?}", lost.len(), &lost[..lost.len().min(5)]);
    assert!(during.iter().all(|(_, answered)| *answered > 0), "{during:?}");
}
