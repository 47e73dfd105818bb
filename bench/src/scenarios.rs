//! What is measured.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use binnacle_testkit::Server;
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::json;

use crate::client::Clients;
use crate::load::{self, Row};
use crate::{objects, process};

const PODS: usize = 10_000;
const NAMESPACE: &str = "bench";
const PATCH: &[(&str, &str)] = &[("content-type", "application/merge-patch+json")];
const PROTOBUF: &[(&str, &str)] = &[("accept", "application/vnd.kubernetes.protobuf")];

type Rows<'a> = Pin<Box<dyn Future<Output = Vec<Row>> + 'a>>;

pub(crate) struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub run: for<'a> fn(&'a mut Bench) -> Rows<'a>,
}

/// In the order in which they run; reads need the pods that `create` makes, and make them if need be.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "idle", about: "memory and time to ready of an empty server", run: |b| Box::pin(b.idle()) },
    Scenario { name: "create", about: "10,000 pods, 32 at a time", run: |b| Box::pin(b.create()) },
    Scenario { name: "get", about: "single pods, linearizable and from the cache", run: |b| Box::pin(b.get()) },
    Scenario { name: "list", about: "all pods, pages, by label; JSON and protobuf", run: |b| Box::pin(b.list()) },
    Scenario { name: "patch", about: "merge patches of pods", run: |b| Box::pin(b.patch()) },
    Scenario { name: "apply", about: "strategic merge patch and apply", run: |b| Box::pin(b.apply()) },
    Scenario { name: "leases", about: "creating and renewing leases", run: |b| Box::pin(b.leases()) },
    Scenario { name: "watch", about: "100, 1,000 and 10,000 watchers", run: |b| Box::pin(b.watch()) },
    Scenario { name: "slow-lists", about: "200 clients list all pods, slowly", run: |b| Box::pin(b.slow_lists()) },
    Scenario { name: "restart", about: "time to ready with what is there", run: |b| Box::pin(b.restart()) },
];

/// A running server and connections to it.
pub(crate) struct Bench {
    pub server: Server,
    pub clients: Clients,
    filled: bool,
    created: usize,
}

impl Bench {
    pub(crate) async fn start() -> Self {
        let server = Server::durable();
        let clients = Clients::connect(server.address, &server.admin(), 4).await;
        let bench = Self { server, clients, filled: false, created: 0 };
        bench.namespace(NAMESPACE).await;
        bench
    }

    fn pid(&self) -> u32 {
        self.server.id()
    }

    pub(crate) async fn namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.clients.send(0, "POST", "/api/v1/namespaces", &[], namespace.to_string().into()).await;
        // Pods need it, and no controller makes it here.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
        self.clients.send(0, "POST", &path, &[], account.to_string().into()).await;
    }

    async fn idle(&mut self) -> Vec<Row> {
        let row = Row {
            name: "start to ready, empty".to_owned(),
            count: 1,
            took: self.server.took,
            bytes: 0,
            cpu: Duration::from_secs_f64(process::cpu_seconds(self.pid())),
            latencies: vec![self.server.took],
            resident: process::resident(self.pid()).0,
        };
        vec![row]
    }

    async fn create(&mut self) -> Vec<Row> {
        self.filled = true;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let row = load::run("create pod, 32 at a time", self.pid(), PODS, 32, async |n| {
            let pod = objects::pod(&format!("pod-{n:06}"), n).to_string();
            self.clients.send(n, "POST", &path, &[], pod.into()).await
        });
        vec![row.await]
    }

    async fn fill(&mut self) {
        if !self.filled {
            self.create().await;
        }
    }

    async fn get(&mut self) -> Vec<Row> {
        self.fill().await;
        let mut rows = Vec::new();
        for (name, query) in
            [("get pod, first JSON", ""), ("get pod", ""), ("get pod, resourceVersion=0", "?resourceVersion=0")]
        {
            let get = async |n: usize| {
                let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/pod-{:06}{query}", n * 7919 % PODS);
                self.clients.send(n, "GET", &path, &[], Vec::new()).await
            };
            rows.push(load::run(name, self.pid(), PODS, 32, get).await);
        }
        rows
    }

    async fn list(&mut self) -> Vec<Row> {
        self.fill().await;
        let mut rows = Vec::new();
        for (name, query, headers, count, at_once) in [
            ("list 10,000 pods, JSON", "", &[][..], 6, 2),
            ("list 10,000 pods, JSON again", "", &[], 10, 2),
            ("list 10,000 pods, resourceVersion=0", "?resourceVersion=0", &[], 10, 2),
            ("list 10,000 pods, protobuf", "", PROTOBUF, 10, 2),
            ("list with limit=500", "?limit=500", &[], 100, 4),
            ("list by label, 100 of 10,000", "?labelSelector=app%3Dapp-7", &[], 500, 4),
            ("list by label, none", "?labelSelector=app%3Dnone", &[], 2000, 4),
        ] {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods{query}");
            let list = async |n| self.clients.send(n, "GET", &path, headers, Vec::new()).await;
            rows.push(load::run(name, self.pid(), count, at_once, list).await);
        }
        rows
    }

    async fn patch(&mut self) -> Vec<Row> {
        self.fill().await;
        let row = load::run("merge patch pod, 32 at a time", self.pid(), 5_000, 32, async |n| {
            let patch = json!({"metadata": {"annotations": {"example.com/checksum": format!("{n:064}")}}}).to_string();
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/pod-{:06}", n % PODS);
            self.clients.send(n, "PATCH", &path, PATCH, patch.into()).await
        });
        vec![row.await]
    }

    async fn apply(&mut self) -> Vec<Row> {
        self.fill().await;
        let strategic = &[("content-type", "application/strategic-merge-patch+json")];
        let apply = &[("content-type", "application/apply-patch+yaml")];
        let mut rows = Vec::new();
        let changed = |n: usize| json!({"spec": {"containers": [{"name": "web", "image": format!("registry.example.com/team/web:2.{n}")}]}});
        rows.push(
            load::run("strategic merge patch pod", self.pid(), 3_000, 32, async |n| {
                let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/pod-{n:06}");
                self.clients.send(n, "PATCH", &path, strategic, changed(n).to_string().into()).await
            })
            .await,
        );
        for name in ["apply, creating a pod", "apply, nothing changed"] {
            let row = load::run(name, self.pid(), 3_000, 32, async |n| {
                let name = format!("applied-{n:06}");
                let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/{name}?fieldManager=bench");
                self.clients.send(n, "PATCH", &path, apply, objects::pod(&name, n).to_string().into()).await
            });
            rows.push(row.await);
        }
        rows
    }

    async fn leases(&mut self) -> Vec<Row> {
        let path = format!("/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases");
        let create = load::run("create lease", self.pid(), 5_000, 32, async |n| {
            let lease = objects::lease(&format!("node-{n:05}")).to_string();
            self.clients.send(n, "POST", &path, &[], lease.into()).await
        });
        let create = create.await;
        let renew = load::run("renew lease (merge patch)", self.pid(), 10_000, 32, async |n| {
            let patch =
                json!({"spec": {"renewTime": format!("2026-01-01T00:00:{:02}.{n:06}Z", n / 5_000)}}).to_string();
            let path = format!("{path}/node-{:05}", n % 5_000);
            self.clients.send(n, "PATCH", &path, PATCH, patch.into()).await
        });
        vec![create, renew.await]
    }

    async fn watch(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (watchers, writes) in [(100, 500), (1_000, 200), (10_000, 20)] {
            rows.extend(self.watchers(watchers, writes).await);
        }
        rows
    }

    /// `watchers` watch a namespace in which `writes` pods are created. Two rows: the idle watches and the events.
    pub(crate) async fn watchers(&mut self, watchers: usize, writes: usize) -> Vec<Row> {
        self.created += 1;
        let namespace = format!("watched-{}", self.created);
        self.namespace(&namespace).await;
        let connections =
            Clients::connect(self.server.address, &self.server.admin(), (watchers / 100).clamp(8, 64)).await;
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let (before, began) = (process::resident(self.pid()).0, Instant::now());
        let cpu = process::cpu_seconds(self.pid());
        let (seen, bytes) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
        let mut tasks = tokio::task::JoinSet::new();
        for n in 0..watchers {
            let response =
                connections.open(n, "GET", &format!("{pods}?watch=true&resourceVersion=0"), &[], Vec::new()).await;
            assert_eq!(response.status(), 200);
            let (seen, bytes) = (Arc::clone(&seen), Arc::clone(&bytes));
            tasks.spawn(async move {
                let mut body = response.into_body();
                while let Some(Ok(frame)) = body.frame().await {
                    let data: &Bytes = frame.data_ref().unwrap();
                    bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
                    seen.fetch_add(memchr::memchr_iter(b'\n', data).count() as u64, Ordering::Relaxed);
                }
            });
        }
        let idle = Row {
            name: format!("open {watchers} watches"),
            count: watchers as u64,
            took: began.elapsed(),
            bytes: 0,
            cpu: Duration::from_secs_f64((process::cpu_seconds(self.pid()) - cpu) / watchers as f64),
            latencies: Vec::new(),
            resident: process::resident(self.pid()).0.saturating_sub(before),
        };
        let (cpu, began) = (process::cpu_seconds(self.pid()), Instant::now());
        let wanted = (watchers * writes) as u64;
        let create = load::run("", self.pid(), writes, 8, async |n| {
            let pod = objects::pod(&format!("pod-{n:06}"), n).to_string();
            self.clients.send(n, "POST", &pods, &[], pod.into()).await
        });
        create.await;
        let patience = Instant::now() + Duration::from_secs(120);
        while seen.load(Ordering::Relaxed) < wanted {
            assert!(Instant::now() < patience, "{} of {wanted} events", seen.load(Ordering::Relaxed));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let events = Row {
            name: format!("event to each of {watchers} watchers"),
            count: wanted,
            took: began.elapsed(),
            bytes: bytes.load(Ordering::Relaxed),
            cpu: Duration::from_secs_f64((process::cpu_seconds(self.pid()) - cpu) / wanted as f64),
            latencies: Vec::new(),
            resident: process::resident(self.pid()).0,
        };
        vec![idle, events]
    }

    /// Memory must not grow with lists that nobody reads: the peak tells.
    async fn slow_lists(&mut self) -> Vec<Row> {
        self.fill().await;
        let clients = Clients::connect(self.server.address, &self.server.admin(), 200).await;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let (cpu, began) = (process::cpu_seconds(self.pid()), Instant::now());
        let mut bodies = Vec::new();
        for n in 0..200 {
            bodies.push(clients.open(n, "GET", &path, &[], Vec::new()).await.into_body());
        }
        let mut bytes = 0;
        // All of them a little, and then no more.
        for body in &mut bodies {
            bytes += body.frame().await.unwrap().unwrap().data_ref().map_or(0, Bytes::len) as u64;
        }
        let row = Row {
            name: "200 slow lists of 10,000 pods, under way".to_owned(),
            count: 200,
            took: began.elapsed(),
            bytes,
            cpu: Duration::from_secs_f64((process::cpu_seconds(self.pid()) - cpu) / 200.0),
            latencies: Vec::new(),
            resident: process::resident(self.pid()).0,
        };
        vec![row]
    }

    async fn restart(&mut self) -> Vec<Row> {
        self.fill().await;
        self.server.terminate();
        self.server.restart();
        self.clients = Clients::connect(self.server.address, &self.server.admin(), 4).await;
        let mut rows = self.idle().await;
        "start to ready, 10,000 pods".clone_into(&mut rows[0].name);
        rows
    }
}
