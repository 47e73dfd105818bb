//! All simulated nodes and their connections.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::future::join_all;
use futures::{StreamExt, stream};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName};
use tokio::net::TcpSocket;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tokio_rustls::TlsConnector;

use super::lease;
use super::node::{Node, WATCHES_OF_NODE};
use super::{PATIENCE, Site};
use crate::client::{Clients, Read};

const LEASE_EVERY: Duration = Duration::from_secs(10);
/// One in this many heartbeats is a status.
const STATUS_EVERY: usize = 30;
const RETRY_AFTER: Duration = Duration::from_millis(200);
const STRATEGIC: &[(&str, &str)] = &[("content-type", "application/strategic-merge-patch+json")];

type Sender = SendRequest<Full<Bytes>>;

pub(crate) struct Fleet {
    address: SocketAddr,
    hosts: Vec<Arc<Host>>,
    nodes: usize,
    pub(crate) counters: Arc<Counters>,
}

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) service_events: AtomicU64,
    /// Watches whose version is too old for the server.
    pub(crate) expired: AtomicU64,
    /// Connections and watches that were refused and tried again.
    pub(crate) retried: AtomicU64,
    /// Open connections that the server closed. Their nodes connect again.
    pub(crate) lost: AtomicU64,
}

/// One connection and the nodes that share it; usually one.
struct Host {
    n: usize,
    nodes: Vec<Arc<Node>>,
    connector: TlsConnector,
    /// False while the nodes are gone.
    is_wanted: AtomicBool,
    open: Mutex<Option<Open>>,
}

#[derive(Clone, Copy)]
enum Heartbeat {
    Lease,
    /// The status of this turn.
    Status(usize),
}

struct Open {
    sender: Sender,
    /// The connection and the readers of watches, which end with this value.
    tasks: JoinSet<()>,
}

/// Writes the lease of a node and remembers its version.
pub(crate) async fn write_lease(clients: &Clients, turn: usize, node: &Node, method: &str) -> Read {
    let (path, version) = match method {
        "POST" => (lease::COLLECTION.to_owned(), None),
        _ => (format!("{}/{}", lease::COLLECTION, node.name), Some(node.lease.load(Ordering::Relaxed))),
    };
    let response = clients.open(turn, method, &path, lease::HEADERS, lease::encode(&node.name, version)).await;
    keep_lease(node, response).await.unwrap()
}

async fn keep_lease(node: &Node, response: Response<Incoming>) -> hyper::Result<Read> {
    let status = response.status().as_u16();
    let body = response.into_body().collect().await?.to_bytes();
    assert!(status < 300, "a lease: status {status} {}", String::from_utf8_lossy(&body));
    node.lease.store(lease::version(&body).unwrap(), Ordering::Relaxed);
    Ok(Read { status, bytes: body.len() as u64 })
}

impl Fleet {
    /// Creates the objects of nodes: a Node, a lease and a pod each.
    pub(crate) async fn create(site: &Site, nodes: usize, connections: usize) -> Self {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(site.authority.certificate.as_bytes()).unwrap()).unwrap();
        let roots = Arc::new(roots);
        let all: Vec<Arc<Node>> = (0..nodes).map(Node::new).collect();
        // A user may write the lease of its own node only: a connection that several share needs another group.
        let group = if nodes > connections { "system:masters" } else { "system:nodes" };
        stream::iter(all.iter().enumerate())
            .for_each_concurrent(64, async |(n, node)| create_node(site, n, node).await)
            .await;
        let hosts = (0..connections).map(|n| {
            let nodes: Vec<_> = all.iter().skip(n).step_by(connections).cloned().collect();
            let connector = site.authority.connector(&roots, &format!("system:node:{}", nodes[0].name), group);
            Arc::new(Host { n, nodes, connector, is_wanted: AtomicBool::new(false), open: Mutex::new(None) })
        });
        let (hosts, counters) = (hosts.collect(), Arc::default());
        let list = site.connect().await.get("/api/v1/namespaces?limit=1").await;
        let list: serde_json::Value = serde_json::from_slice(&list).unwrap();
        let version = list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        all.iter().for_each(|node| node.begin_at(version));
        Self { address: site.server.address, hosts, nodes, counters }
    }

    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }

    pub(crate) fn connections(&self) -> usize {
        self.hosts.len()
    }

    /// Opens all connections and watches at once, and returns when all are open.
    pub(crate) async fn open_all(&self) {
        let mut opening = JoinSet::new();
        for host in &self.hosts {
            host.is_wanted.store(true, Ordering::Relaxed);
            opening.spawn(Arc::clone(host).open(self.address, Arc::clone(&self.counters)));
        }
        while let Some(opened) = opening.join_next().await {
            opened.unwrap();
        }
    }

    /// Closes all connections at once.
    pub(crate) async fn close_all(&self) {
        for host in &self.hosts {
            host.is_wanted.store(false, Ordering::Relaxed);
            drop(host.open.lock().take());
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }

    /// All nodes send their heartbeats for a time. Returns the latencies of leases.
    pub(crate) async fn heartbeats(&self, time: Duration) -> Vec<Duration> {
        let until = Instant::now() + time;
        let latencies = Arc::new(Mutex::new(Vec::new()));
        let mut beating = JoinSet::new();
        for (n, (host, node)) in
            self.hosts.iter().flat_map(|host| host.nodes.iter().map(move |node| (host, node))).enumerate()
        {
            let (latencies, host, node) = (Arc::clone(&latencies), Arc::clone(host), Arc::clone(node));
            let phase = LEASE_EVERY.mul_f64(n as f64 / self.nodes as f64);
            beating.spawn(async move {
                tokio::time::sleep(phase).await;
                for turn in n.. {
                    let began = Instant::now();
                    if began >= until {
                        return;
                    }
                    host.until_sent(&node, Heartbeat::Lease).await;
                    latencies.lock().push(began.elapsed());
                    if turn % STATUS_EVERY == 0 {
                        host.until_sent(&node, Heartbeat::Status(turn)).await;
                    }
                    tokio::time::sleep(LEASE_EVERY.saturating_sub(began.elapsed())).await;
                }
            });
        }
        while let Some(ended) = beating.join_next().await {
            ended.unwrap();
        }
        std::mem::take(&mut *latencies.lock())
    }
}

async fn create_node(site: &Site, n: usize, node: &Node) {
    let (pods, pod) = node.pod();
    for (path, body) in [("/api/v1/nodes", node.object()), (&*pods, pod)] {
        let made = site.clients.send(n, "POST", path, &[], body.to_string().into()).await;
        assert_eq!(made.status, 201, "{path}");
    }
    write_lease(&site.clients, n, node, "POST").await;
    let path = format!("/api/v1/nodes/{}/status", node.name);
    let sent = site.clients.send(n, "PATCH", &path, STRATEGIC, node.status(0).to_string().into()).await;
    assert_eq!(sent.status, 200);
}

fn request(method: &str, path: &str, headers: &[(&str, &str)], body: Vec<u8>) -> Request<Full<Bytes>> {
    let mut request = Request::builder().method(method).uri(format!("https://localhost{path}"));
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.header("user-agent", "kubelet/v1.36.0 (linux/amd64) kubernetes/bench").body(Full::new(body.into())).unwrap()
}

async fn renew(mut sender: Sender, node: &Node) -> hyper::Result<()> {
    let path = format!("{}/{}", lease::COLLECTION, node.name);
    let body = lease::encode(&node.name, Some(node.lease.load(Ordering::Relaxed)));
    sender.ready().await?;
    let mut response = sender.send_request(request("PUT", &path, lease::HEADERS, body)).await?;
    if response.status() == StatusCode::CONFLICT {
        // An earlier attempt was stored although its connection was lost.
        sender.ready().await?;
        response = sender.send_request(request("GET", &path, lease::HEADERS, Vec::new())).await?;
    }
    keep_lease(node, response).await?;
    Ok(())
}

async fn send_status(mut sender: Sender, node: &Node, turn: usize) -> hyper::Result<()> {
    let path = format!("/api/v1/nodes/{}/status", node.name);
    let body = node.status(turn).to_string().into();
    sender.ready().await?;
    let response = sender.send_request(request("PATCH", &path, STRATEGIC, body)).await?;
    assert_eq!(response.status(), 200);
    response.into_body().collect().await?;
    Ok(())
}

impl Host {
    /// Connects, and opens the watches of the nodes where they ended. What is refused is tried again.
    async fn open(self: Arc<Self>, address: SocketAddr, counters: Arc<Counters>) {
        let began = Instant::now();
        loop {
            match self.try_open(address, &counters).await {
                Ok(open) => {
                    let mut current = self.open.lock();
                    // Its nodes may have gone meanwhile.
                    *current = self.is_wanted.load(Ordering::Relaxed).then_some(open);
                    return;
                }
                Err(error) => {
                    assert!(began.elapsed() < PATIENCE, "connection {}: {error}", self.n);
                    counters.retried.fetch_add(1, Ordering::Relaxed);
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    /// Connects again if the server closed the connection, as clients do.
    fn reopen(self: Arc<Self>, address: SocketAddr, counters: Arc<Counters>) {
        if self.is_wanted.load(Ordering::Relaxed) {
            counters.lost.fetch_add(1, Ordering::Relaxed);
            tokio::spawn(self.open(address, counters));
        }
    }

    /// Sends a heartbeat, again after a while if the connection was lost.
    async fn until_sent(&self, node: &Node, heartbeat: Heartbeat) {
        loop {
            let sender = self.open.lock().as_ref().map(|open| open.sender.clone());
            let sent = match (sender, heartbeat) {
                (Some(sender), Heartbeat::Lease) => renew(sender, node).await.is_ok(),
                (Some(sender), Heartbeat::Status(turn)) => send_status(sender, node, turn).await.is_ok(),
                (None, _) => false,
            };
            if sent {
                return;
            }
            tokio::time::sleep(RETRY_AFTER).await;
        }
    }

    async fn try_open(self: &Arc<Self>, address: SocketAddr, counters: &Arc<Counters>) -> Result<Open, String> {
        let socket = TcpSocket::new_v4().unwrap();
        // Each node has an address of its own, and with it all ports.
        let own = Ipv4Addr::from(0x7f01_0000 + self.n as u32);
        socket.bind(SocketAddr::from((own, 0))).unwrap();
        let tcp = socket.connect(address).await.map_err(|error| error.to_string())?;
        tcp.set_nodelay(true).unwrap();
        let name = ServerName::try_from("localhost").unwrap();
        let stream = self.connector.connect(name, tcp).await.map_err(|error| error.to_string())?;
        let built = http2::Builder::new(TokioExecutor::new()).handshake(TokioIo::new(stream)).await;
        let (sender, connection) = built.map_err(|error| error.to_string())?;
        let (is_open, opened) = oneshot::channel::<()>();
        let mut tasks = JoinSet::new();
        let (host, counters_of_host) = (Arc::clone(self), Arc::clone(counters));
        tasks.spawn(async move {
            drop(connection.await);
            // Until all watches are open, `open` connects again itself.
            if opened.await.is_ok() {
                host.reopen(address, counters_of_host);
            }
        });
        let watches = self.nodes.iter().flat_map(|node| (0..WATCHES_OF_NODE).map(move |at| (node, at)));
        let bodies =
            join_all(watches.map(async |(node, at)| (node, at, watch(sender.clone(), node, at, counters).await))).await;
        for (node, at, opened) in bodies {
            let (mut body, node, counters) = (opened?, Arc::clone(node), Arc::clone(counters));
            tasks.spawn(async move {
                while let Some(Ok(frame)) = body.frame().await {
                    let events = node.read(at, frame.data_ref().map_or(&[], |data| data));
                    counters.service_events.fetch_add(events, Ordering::Relaxed);
                }
            });
        }
        let _ = is_open.send(());
        Ok(Open { sender, tasks })
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.tasks.abort_all();
    }
}

/// Lists what a watch selects, so that the watch can restart at a current version.
async fn list(sender: &mut Sender, node: &Node, at: usize) -> hyper::Result<()> {
    sender.ready().await?;
    let response = sender.send_request(request("GET", &node.list(at), &[], Vec::new())).await?;
    let body = response.into_body().collect().await?.to_bytes();
    let list: serde_json::Value = serde_json::from_slice(&body).unwrap();
    node.begin_watch_at(at, list["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap());
    Ok(())
}

/// Opens a watch, again while the server has no room.
async fn watch(mut sender: Sender, node: &Node, at: usize, counters: &Counters) -> Result<Incoming, String> {
    loop {
        sender.ready().await.map_err(|error| error.to_string())?;
        let response = sender.send_request(request("GET", &node.watch(at), &[], Vec::new())).await;
        let response = response.map_err(|error| error.to_string())?;
        match response.status().as_u16() {
            200 => return Ok(response.into_body()),
            410 => {
                counters.expired.fetch_add(1, Ordering::Relaxed);
                list(&mut sender, node, at).await.map_err(|error| error.to_string())?;
            }
            429 => {
                counters.retried.fetch_add(1, Ordering::Relaxed);
                tokio::time::sleep(RETRY_AFTER).await;
            }
            status => {
                let body = response.into_body().collect().await.unwrap().to_bytes();
                panic!("{}: status {status} {}", node.watch(at), String::from_utf8_lossy(&body));
            }
        }
    }
}
