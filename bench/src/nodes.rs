//! Many nodes: connections with the watches of a node, heartbeats, changes for all, and all nodes that come back at once.

mod certificates;
mod fleet;
mod lease;
mod node;

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use binnacle_testkit::{Server, TempDir};
use serde_json::json;

use self::certificates::NodeAuthority;
use self::fleet::Fleet;
use crate::chart::{Chart, Series};
use crate::client::Clients;
use crate::{load, process};

const COUNTS: [usize; 3] = [1_000, 5_000, 20_000];
const LEASES: [usize; 4] = [1_000, 10_000, 50_000, 250_000];
/// Each node has a connection up to this number, which the limit on open files allows; the others share.
const CONNECTIONS: usize = 15_000;
const SERVICES: usize = 20;
/// Changes of a service that are measured one after the other.
const CHANGES: usize = 5;
/// Changes while all nodes are away.
const MISSED: u64 = 3;
/// The time that nodes send heartbeats, and that they are idle, in which each watch gets a bookmark.
const PERIOD: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_secs(60);
const REST: Duration = Duration::from_secs(15);
const PATIENCE: Duration = Duration::from_secs(600);
const PATCH: &[(&str, &str)] = &[("content-type", "application/merge-patch+json")];

/// A server that trusts the certificates of simulated nodes.
struct Site {
    server: Server,
    authority: NodeAuthority,
    clients: Clients,
    _files: TempDir,
}

impl Site {
    async fn start() -> Self {
        let (authority, files) = (NodeAuthority::make(), TempDir::new());
        let (certificate, key) = authority.issue_to_server();
        let server = Server::durable_with(&[
            &format!("--client-ca-file={}", files.file("ca.crt", &authority.certificate)),
            &format!("--tls-cert-file={}", files.file("server.crt", &certificate)),
            &format!("--tls-private-key-file={}", files.file("server.key", &key)),
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--http2-max-streams-per-connection=1000",
        ]);
        let clients = Clients::connect(server.address, &authority.administrator(), 8).await;
        Self { server, authority, clients, _files: files }
    }

    async fn create(&self, path: &str, body: serde_json::Value) {
        let made = self.clients.send(0, "POST", path, &[], body.to_string().into()).await;
        assert!([201, 409].contains(&made.status), "{path}: status {}", made.status);
    }

    /// Creates what nodes watch, and the permission to do so.
    async fn prepare(&self) {
        let role = json!({"metadata": {"name": "bench-agents"}, "rules": [
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]});
        self.create("/apis/rbac.authorization.k8s.io/v1/clusterroles", role).await;
        let binding = json!({
            "metadata": {"name": "bench-agents"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "bench-agents"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:nodes"}],
        });
        self.create("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
        for name in (0..node::NAMESPACES).map(|n| format!("bench-{n}")).chain(["kube-node-lease".to_owned()]) {
            self.create("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
            let accounts = format!("/api/v1/namespaces/{name}/serviceaccounts");
            self.create(&accounts, json!({"metadata": {"name": "default"}})).await;
        }
        for n in 0..SERVICES {
            let object = json!({"metadata": {"name": service(n)}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]}});
            self.create("/api/v1/namespaces/bench-0/services", object).await;
            let slice = json!({
                "metadata": {"name": service(n), "labels": {"kubernetes.io/service-name": service(n)}}, "addressType": "IPv4",
                "endpoints": [{"addresses": ["10.0.0.1"]}], "ports": [{"name": "http", "port": 8080}],
            });
            self.create("/apis/discovery.k8s.io/v1/namespaces/bench-0/endpointslices", slice).await;
        }
    }

    /// Returns new connections: those of the site may have been closed because nobody used them.
    async fn connect(&self) -> Clients {
        Clients::connect(self.server.address, &self.authority.administrator(), 2).await
    }

    fn cpu(&self) -> f64 {
        process::cpu_seconds(self.server.id())
    }

    fn resident(&self) -> u64 {
        process::resident(self.server.id()).0
    }
}

fn service(n: usize) -> String {
    format!("service-{n}")
}

/// What was measured with one number of nodes.
#[derive(Default)]
struct Point {
    nodes: usize,
    connections: usize,
    /// Until all watches were open.
    opened: f64,
    open_cpu: f64,
    /// Resident memory of the server for each connection and for each watch, in KB.
    connection_kb: f64,
    watch_kb: f64,
    /// The part of a processor that the open watches take.
    idle_cpu: f64,
    heartbeats: Heartbeats,
    /// Until the last watcher had the change of a service: median and longest.
    change: (f64, f64),
    /// The 99th percentile of GETs meanwhile.
    get_p99: f64,
    storm: Storm,
    /// Open connections that the server closed.
    lost: u64,
}

#[derive(Default)]
struct Heartbeats {
    per_second: f64,
    /// Microseconds of processor time for each, less what idle watches take.
    cpu: f64,
    p50: f64,
    p99: f64,
}

#[derive(Default)]
struct Storm {
    /// Until all watches were open again, and until all missed events were there.
    opened: f64,
    caught_up: f64,
    cpu: f64,
    /// Answers 410, and connections and watches that were refused once.
    expired: u64,
    retried: u64,
    peak_mb: f64,
    /// Memory afterwards compared with before.
    after: f64,
}

/// Measures each number of nodes with a server of its own, and writes a chart to `directory`.
pub(crate) async fn run(directory: &str, counts: &[usize], scale: f64) {
    let counts = if counts.is_empty() { COUNTS.to_vec() } else { counts.to_vec() };
    println!("{HEAD}");
    let mut points = Vec::new();
    for count in counts {
        let point = measure(((count as f64 * scale) as usize).max(10), scale, Path::new(directory)).await;
        println!("{}", point.row());
        points.push(point);
    }
    let path = Path::new(directory).join("nodes.svg");
    std::fs::write(&path, chart(&points).svg()).unwrap();
    println!("wrote {}", path.display());
}

async fn measure(nodes: usize, scale: f64, directory: &Path) -> Point {
    let site = Site::start().await;
    site.prepare().await;
    let fleet = Fleet::create(&site, nodes, nodes.min(CONNECTIONS)).await;
    let (period, rest) = (PERIOD.mul_f64(scale.clamp(0.1, 1.0)), REST.mul_f64(scale.clamp(0.05, 1.0)));
    let idle = IDLE.mul_f64(scale.clamp(0.05, 1.0));
    tokio::time::sleep(rest).await;
    let mut point = Point { nodes, connections: fleet.connections(), ..Point::default() };
    let (before, cpu, began) = (site.resident(), site.cpu(), Instant::now());
    fleet.open_all().await;
    point.opened = began.elapsed().as_secs_f64();
    point.open_cpu = site.cpu() - cpu;
    tokio::time::sleep(rest).await;
    let memory = site.resident().saturating_sub(before) as f64 / 1e3;
    point.connection_kb = memory / fleet.connections() as f64;
    point.watch_kb = memory / (nodes * node::WATCHES_OF_NODE) as f64;
    if std::env::var("_RJEM_MALLOC_CONF").is_ok_and(|set| set.contains("prof:true")) {
        let path = directory.join(format!("heap-nodes-{nodes}.pb.gz"));
        std::fs::write(&path, site.connect().await.get("/debug/pprof/heap").await).unwrap();
    }
    let cpu = site.cpu();
    tokio::time::sleep(idle).await;
    point.idle_cpu = (site.cpu() - cpu) / idle.as_secs_f64();
    point.heartbeats = heartbeats(&site, &fleet, period, point.idle_cpu).await;
    change_service(&site, &fleet, &mut point).await;
    point.storm = storm(&site, &fleet, rest).await;
    point.lost = fleet.counters.lost.load(Ordering::Relaxed);
    point
}

/// All nodes renew their leases every ten seconds, and send their status every five minutes.
async fn heartbeats(site: &Site, fleet: &Fleet, period: Duration, idle: f64) -> Heartbeats {
    let (cpu, began) = (site.cpu(), Instant::now());
    let mut latencies = fleet.heartbeats(period).await;
    let took = began.elapsed().as_secs_f64();
    latencies.sort();
    let used = site.cpu() - cpu - idle * took;
    let percentile = |percent: usize| latencies[(latencies.len() - 1) * percent / 100].as_secs_f64() * 1e3;
    Heartbeats {
        per_second: latencies.len() as f64 / took,
        cpu: used * 1e6 / latencies.len() as f64,
        p50: percentile(50),
        p99: percentile(99),
    }
}

async fn patch_service(clients: &Clients, turn: u64) {
    let patch = json!({"metadata": {"annotations": {"example.com/turn": turn.to_string()}}}).to_string();
    let path = format!("/api/v1/namespaces/bench-0/services/{}", service(0));
    let patched = clients.send(0, "PATCH", &path, PATCH, patch.into()).await;
    assert_eq!(patched.status, 200);
}

/// Waits until the watches of services have this many events, and returns the time since `began`.
async fn until_events(fleet: &Fleet, wanted: u64, began: Instant) -> f64 {
    while fleet.counters.service_events.load(Ordering::Relaxed) < wanted {
        let found = fleet.counters.service_events.load(Ordering::Relaxed);
        assert!(began.elapsed() < PATIENCE, "{found} events of {wanted}");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    began.elapsed().as_secs_f64() * 1e3
}

async fn change_service(site: &Site, fleet: &Fleet, point: &mut Point) {
    let watchers = (fleet.nodes() * node::OF_SERVICES) as u64;
    let (clients, mut took) = (site.connect().await, Vec::new());
    let changes = async {
        for turn in 0..CHANGES as u64 {
            let (before, began) = (fleet.counters.service_events.load(Ordering::Relaxed), Instant::now());
            patch_service(&clients, turn).await;
            took.push(until_events(fleet, before + watchers, began).await);
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    };
    let mut gets = Vec::new();
    let path = format!("/api/v1/namespaces/bench-0/services/{}", service(1));
    tokio::select! {
        () = changes => {}
        () = async {
            loop {
                let began = Instant::now();
                clients.send(1, "GET", &path, &[], Vec::new()).await;
                gets.push(began.elapsed().as_secs_f64() * 1e3);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        } => {}
    }
    took.sort_by(f64::total_cmp);
    gets.sort_by(f64::total_cmp);
    point.change = (took[took.len() / 2], took[took.len() - 1]);
    point.get_p99 = gets[(gets.len() - 1) * 99 / 100];
}

/// All nodes are gone, miss some events, and come back at once.
async fn storm(site: &Site, fleet: &Fleet, rest: Duration) -> Storm {
    let before = site.resident();
    fleet.close_all().await;
    let events = fleet.counters.service_events.load(Ordering::Relaxed);
    let clients = site.connect().await;
    for turn in 0..MISSED {
        patch_service(&clients, 100 + turn).await;
    }
    drop(clients);
    process::forget_peak(site.server.id());
    let (retried, cpu, began) = (fleet.counters.retried.load(Ordering::Relaxed), site.cpu(), Instant::now());
    fleet.open_all().await;
    let opened = began.elapsed().as_secs_f64();
    let missed = (fleet.nodes() * node::OF_SERVICES) as u64 * MISSED;
    let caught_up = until_events(fleet, events + missed, began).await / 1e3;
    let (cpu, peak) = (site.cpu() - cpu, process::resident(site.server.id()).1);
    tokio::time::sleep(rest).await;
    Storm {
        opened,
        caught_up,
        cpu,
        expired: fleet.counters.expired.load(Ordering::Relaxed),
        retried: fleet.counters.retried.load(Ordering::Relaxed) - retried,
        peak_mb: peak as f64 / 1e6,
        after: site.resident() as f64 / before as f64,
    }
}

const HEAD: &str = "| nodes, connections | open s, CPU s | KB a connection, a watch | idle CPU | heartbeats a second, CPU us, p50, p99 ms \
     | service change: median, longest ms, GET p99 ms | storm: open s, caught up s, CPU s | expired, retried, lost | peak MB, memory after |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |";

impl Point {
    fn row(&self) -> String {
        let (beats, storm) = (&self.heartbeats, &self.storm);
        format!(
            "| {}, {} | {:.1}, {:.1} | {:.1}, {:.2} | {:.3} | {:.0}, {:.0}, {:.1}, {:.1} | {:.0}, {:.0}, {:.1} | {:.1}, {:.1}, {:.1} | {}, {}, {} | {:.0}, {:.2} |",
            self.nodes,
            self.connections,
            self.opened,
            self.open_cpu,
            self.connection_kb,
            self.watch_kb,
            self.idle_cpu,
            beats.per_second,
            beats.cpu,
            beats.p50,
            beats.p99,
            self.change.0,
            self.change.1,
            self.get_p99,
            storm.opened,
            storm.caught_up,
            storm.cpu,
            storm.expired,
            storm.retried,
            self.lost,
            storm.peak_mb,
            storm.after
        )
    }
}

fn chart(points: &[Point]) -> Chart {
    let series = |name: &str, value: &dyn Fn(&Point) -> f64| Series {
        name: name.to_owned(),
        points: points.iter().map(|point| (point.nodes as f64, value(point))).collect(),
    };
    let series = vec![
        series("heartbeat, p99", &|point| point.heartbeats.p99),
        series("change of a service to the last watcher", &|point| point.change.0),
        series("all come back", &|point| point.storm.caught_up * 1e3),
        series("GET meanwhile, p99", &|point| point.get_p99),
    ];
    Chart { title: "Times over nodes", x: "nodes", y: "milliseconds", series }
}

/// Measures renewals of leases, as many as the server manages, with each number of leases.
pub(crate) async fn leases(counts: &[usize], scale: f64) {
    let counts = if counts.is_empty() { LEASES.to_vec() } else { counts.to_vec() };
    let site = Site::start().await;
    site.create("/api/v1/namespaces", json!({"metadata": {"name": "kube-node-lease"}})).await;
    let clients = Clients::connect(site.server.address, &site.authority.administrator(), 16).await;
    let (mut nodes, pid) = (Vec::new(), site.server.id());
    println!("{}", load::Row::HEAD);
    for count in counts {
        let count = ((count as f64 * scale) as usize).max(100);
        let from = nodes.len();
        nodes.extend((from..count).map(node::Node::new));
        if from < count {
            let create = load::run("", pid, count - from, 128, async |n| {
                fleet::write_lease(&clients, n, &nodes[from + n], "POST").await
            });
            create.await;
        }
        let renewals = ((200_000.0 * scale) as usize).max(count).max(500);
        // No lease is renewed twice at a time, which would be a conflict.
        let renew = load::run(format!("renew one of {count} leases"), pid, renewals, 256.min(count / 4), async |n| {
            fleet::write_lease(&clients, n, &nodes[n % count], "PUT").await
        });
        println!("{}", renew.await);
    }
}
