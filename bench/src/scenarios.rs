//! The scenarios of the benchmark.

use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Authority, Server, TempDir};
use bytes::Bytes;
use http_body_util::BodyExt;
use serde_json::json;

use crate::client::Clients;
use crate::load::{self, Row};
use crate::{objects, process};

/// The number of pods in most scenarios, and in large ones.
const PODS: usize = 10_000;
const MANY_PODS: usize = 100_000;
/// The number of pods in a list of 100 MB, and the number and speed of clients that read it.
const SLOW_LIST_PODS: usize = 21_000;
const SLOW_CLIENTS: usize = 200;
const SLOW_WINDOW: u32 = 64 << 10;
const SLOW_FOR: Duration = Duration::from_secs(20);
/// The time that a configured server is left alone.
const REST: Duration = Duration::from_secs(15);
const NAMESPACE: &str = "bench";
const PATCH: &[(&str, &str)] = &[("content-type", "application/merge-patch+json")];
const PROTOBUF: &[(&str, &str)] = &[("accept", "application/vnd.kubernetes.protobuf")];

type Rows<'a> = Pin<Box<dyn Future<Output = Vec<Row>> + 'a>>;

pub(crate) struct Scenario {
    pub name: &'static str,
    pub about: &'static str,
    pub run: for<'a> fn(&'a mut Bench) -> Rows<'a>,
}

/// In the order in which they run; scenarios that read create the pods if `create` has not run.
pub(crate) const SCENARIOS: &[Scenario] = &[
    Scenario { name: "idle", about: "memory and time to ready of an empty server", run: |b| Box::pin(b.idle()) },
    Scenario {
        name: "configured",
        about: "the same with a control plane's flags, after a rest",
        run: |b| Box::pin(b.configured()),
    },
    Scenario { name: "create", about: "10,000 pods, 32 at a time", run: |b| Box::pin(b.create()) },
    Scenario { name: "get", about: "single pods, linearizable and from the cache", run: |b| Box::pin(b.get()) },
    Scenario { name: "list", about: "all pods, pages, by label; JSON and protobuf", run: |b| Box::pin(b.list()) },
    Scenario { name: "patch", about: "merge patches of pods", run: |b| Box::pin(b.patch()) },
    Scenario { name: "apply", about: "strategic merge patch and apply", run: |b| Box::pin(b.apply()) },
    Scenario { name: "leases", about: "creating and renewing leases", run: |b| Box::pin(b.leases()) },
    Scenario { name: "watch", about: "100, 1,000 and 10,000 watchers", run: |b| Box::pin(b.watch()) },
    Scenario { name: "restart", about: "time to ready with what is there", run: |b| Box::pin(b.restart()) },
    Scenario {
        name: "slow-lists",
        about: "200 clients list 100 MB each at once, slowly",
        run: |b| Box::pin(b.slow_lists()),
    },
    Scenario { name: "many", about: "memory and time to ready with 100,000 pods", run: |b| Box::pin(b.many()) },
];

/// Describes the start of a server, and its memory now.
fn started(name: &str, server: &Server) -> Row {
    Row {
        name: name.to_owned(),
        count: 1,
        took: server.took,
        bytes: 0,
        cpu: Duration::from_secs_f64(process::cpu_seconds(server.id())),
        latencies: vec![server.took],
        resident: process::resident(server.id()).0,
    }
}

/// A running server, with connections to it.
pub(crate) struct Bench {
    pub server: Server,
    pub clients: Clients,
    /// The factor for the usual numbers; small if a run only checks that everything works.
    scale: f64,
    /// The number of existing pods.
    pods: usize,
    created: usize,
}

impl Bench {
    pub(crate) async fn start(scale: f64) -> Self {
        let server = Server::durable();
        let clients = Clients::connect(server.address, &server.admin(), 4).await;
        let bench = Self { server, clients, scale, pods: 0, created: 0 };
        bench.namespace(NAMESPACE).await;
        bench
    }

    fn pid(&self) -> u32 {
        self.server.id()
    }

    pub(crate) async fn namespace(&self, name: &str) {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        self.clients.send(0, "POST", "/api/v1/namespaces", &[], namespace.to_string().into()).await;
        // Pods need the account, and no controller creates it here.
        let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}});
        let path = format!("/api/v1/namespaces/{name}/serviceaccounts");
        self.clients.send(0, "POST", &path, &[], account.to_string().into()).await;
    }

    async fn idle(&mut self) -> Vec<Row> {
        vec![started("start to ready, empty", &self.server)]
    }

    /// Measures a server of its own with the flags that kubeadm writes, and a token file. Like a kubelet, the bench probes
    /// its health; there are no other requests.
    async fn configured(&mut self) -> Vec<Row> {
        let (authority, temp) = (Authority::make(), TempDir::new());
        let [serving, kubelets, proxy] = ["serving", "kubelets", "front-proxy"].map(|name| authority.issue(name));
        let accounts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../crates/access/jwt/testdata/rsa.pem");
        let tokens = temp.file("tokens.csv", "a-token,somebody,1,\"system:masters\"\n");
        let mut flags = [
            "--allow-privileged=true",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--enable-aggregator-routing=true",
            "--enable-bootstrap-token-auth=true",
            "--kubelet-preferred-address-types=InternalIP,ExternalIP,Hostname",
            "--requestheader-allowed-names=front-proxy",
            "--requestheader-extra-headers-prefix=X-Remote-Extra-",
            "--requestheader-group-headers=X-Remote-Group",
            "--requestheader-username-headers=X-Remote-User",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            "--service-cluster-ip-range=10.96.0.0/12",
        ]
        .map(str::to_owned)
        .to_vec();
        flags.extend(
            [
                ("client-ca-file", authority.ca()),
                ("requestheader-client-ca-file", authority.ca()),
                ("tls-cert-file", serving.0),
                ("tls-private-key-file", serving.1),
                ("kubelet-client-certificate", kubelets.0),
                ("kubelet-client-key", kubelets.1),
                ("proxy-client-cert-file", proxy.0),
                ("proxy-client-key-file", proxy.1),
                ("service-account-key-file", accounts.clone()),
                ("service-account-signing-key-file", accounts),
                ("token-auth-file", tokens.into()),
            ]
            .map(|(flag, file)| format!("--{flag}={}", file.display())),
        );
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let server = Server::durable_with(&flags);
        let handshake = Handshake::new(std::fs::read_to_string(authority.ca()).unwrap());
        for protocol in ["http/1.1", "h2"] {
            let mut probe = Client::connect(server.address, &handshake.clone().alpn(&[protocol])).await.unwrap();
            for path in ["/livez", "/readyz"] {
                let answer = probe.open("GET", path, &[("authorization", "Bearer a-token")], "").await.unwrap();
                assert_eq!(answer.status(), 200);
            }
        }
        tokio::time::sleep(REST).await;
        vec![started("start to ready with a control plane's flags", &server)]
    }

    /// Scales a number, with a minimum of 100.
    fn some(&self, count: usize) -> usize {
        ((count as f64 * self.scale) as usize).max(100)
    }

    async fn create(&mut self) -> Vec<Row> {
        self.create_up_to(PODS).await.into_iter().collect()
    }

    /// Creates the missing pods.
    async fn create_up_to(&mut self, count: usize) -> Option<Row> {
        let (there, wanted) = (self.pods, self.some(count));
        if wanted <= there {
            return None;
        }
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let row = load::run("create pod, 32 at a time", self.pid(), wanted - there, 32, async |n| {
            let n = there + n;
            let pod = objects::pod(&format!("pod-{n:06}"), n).to_string();
            self.clients.send(n, "POST", &path, &[], pod.into()).await
        });
        let row = row.await;
        self.pods = wanted;
        Some(row)
    }

    async fn fill(&mut self) {
        self.create_up_to(PODS).await;
    }

    async fn get(&mut self) -> Vec<Row> {
        self.fill().await;
        let mut rows = Vec::new();
        for (name, query) in
            [("get pod, first JSON", ""), ("get pod", ""), ("get pod, resourceVersion=0", "?resourceVersion=0")]
        {
            let get = async |n: usize| {
                let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/pod-{:06}{query}", n * 7919 % self.pods);
                self.clients.send(n, "GET", &path, &[], Vec::new()).await
            };
            rows.push(load::run(name, self.pid(), self.some(PODS), 32, get).await);
        }
        rows
    }

    async fn list(&mut self) -> Vec<Row> {
        self.fill().await;
        let mut rows = Vec::new();
        for (name, query, headers, count, at_once) in [
            ("list all pods, JSON", "", &[][..], 6, 2),
            ("list all pods, JSON again", "", &[], 10, 2),
            ("list all pods, resourceVersion=0", "?resourceVersion=0", &[], 10, 2),
            ("list all pods, protobuf", "", PROTOBUF, 10, 2),
            ("list with limit=500", "?limit=500", &[], 100, 4),
            ("list by label, one of 100", "?labelSelector=app%3Dapp-7", &[], 500, 4),
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
        let row = load::run("merge patch pod, 32 at a time", self.pid(), self.some(5_000), 32, async |n| {
            let patch = json!({"metadata": {"annotations": {"example.com/checksum": format!("{n:064}")}}}).to_string();
            let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/pod-{:06}", n % self.pods);
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
            load::run("strategic merge patch pod", self.pid(), self.some(3_000), 32, async |n| {
                let path = format!("/api/v1/namespaces/{NAMESPACE}/pods/pod-{:06}", n % self.pods);
                self.clients.send(n, "PATCH", &path, strategic, changed(n).to_string().into()).await
            })
            .await,
        );
        for name in ["apply, creating a pod", "apply, nothing changed"] {
            let row = load::run(name, self.pid(), self.some(3_000), 32, async |n| {
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
        let leases = self.some(5_000);
        let create = load::run("create lease", self.pid(), leases, 32, async |n| {
            let lease = objects::lease(&format!("node-{n:05}")).to_string();
            self.clients.send(n, "POST", &path, &[], lease.into()).await
        });
        let create = create.await;
        let renew = load::run("renew lease (merge patch)", self.pid(), 2 * leases, 32, async |n| {
            let patch =
                json!({"spec": {"renewTime": format!("2026-01-01T00:00:{:02}.{n:06}Z", n / leases)}}).to_string();
            let path = format!("{path}/node-{:05}", n % leases);
            self.clients.send(n, "PATCH", &path, PATCH, patch.into()).await
        });
        vec![create, renew.await]
    }

    async fn watch(&mut self) -> Vec<Row> {
        let mut rows = Vec::new();
        for (watchers, writes) in [(100, 500), (1_000, 200), (10_000, 20)] {
            rows.extend(self.watchers(self.some(watchers), writes).await);
        }
        rows
    }

    /// `watchers` watch a namespace in which `writes` pods are created. Returns two rows: idle watches and events.
    pub(crate) async fn watchers(&mut self, watchers: usize, writes: usize) -> Vec<Row> {
        self.created += 1;
        let namespace = format!("watched-{}", self.created);
        self.namespace(&namespace).await;
        let connections =
            // A connection is limited to some hundred streams.
            Clients::connect(self.server.address, &self.server.admin(), (watchers / 100).clamp(8, 256)).await;
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

    /// Measures the peak memory, which must not grow with lists that are read slowly.
    async fn slow_lists(&mut self) -> Vec<Row> {
        self.create_up_to(SLOW_LIST_PODS).await;
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        let size = self.clients.send(0, "GET", &path, &[], Vec::new()).await.bytes;
        let admin = self.server.admin();
        let clients = Clients::connect_with(self.server.address, &admin, SLOW_CLIENTS, SLOW_WINDOW).await;
        process::forget_peak(self.pid());
        let (before, cpu, began) = (process::resident(self.pid()).0, process::cpu_seconds(self.pid()), Instant::now());
        let opening = (0..SLOW_CLIENTS).map(|n| clients.open(n, "GET", &path, &[], Vec::new()));
        let opened = futures::future::join_all(opening).await;
        let (bytes, long) = (Arc::new(AtomicU64::new(0)), SLOW_FOR.mul_f64(self.scale.min(1.0)));
        let reading = opened.into_iter().map(|response| {
            assert_eq!(response.status(), 200);
            let (bytes, mut body) = (Arc::clone(&bytes), response.into_body());
            async move {
                while began.elapsed() < long {
                    let frame = body.frame().await.unwrap().unwrap();
                    bytes.fetch_add(frame.data_ref().map_or(0, Bytes::len) as u64, Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        });
        futures::future::join_all(reading).await;
        let (_, peak) = process::resident(self.pid());
        let row = |name: String, resident: u64| Row {
            name,
            count: SLOW_CLIENTS as u64,
            took: began.elapsed(),
            bytes: bytes.load(Ordering::Relaxed),
            cpu: Duration::from_secs_f64((process::cpu_seconds(self.pid()) - cpu) / SLOW_CLIENTS as f64),
            latencies: Vec::new(),
            resident,
        };
        let each = size as f64 / 1e6;
        vec![
            row(format!("{SLOW_CLIENTS} clients read {each:.0} MB each slowly: peak"), peak),
            row("the same: more than before".to_owned(), peak.saturating_sub(before)),
        ]
    }

    async fn restart(&mut self) -> Vec<Row> {
        self.fill().await;
        self.restarted().await
    }

    async fn restarted(&mut self) -> Vec<Row> {
        self.server.terminate();
        self.server.restart();
        self.clients = Clients::connect(self.server.address, &self.server.admin(), 4).await;
        self.clients.wait_until_ready().await;
        let mut rows = self.idle().await;
        rows[0].name = format!("start to ready, {} pods", self.pods);
        rows
    }

    async fn many(&mut self) -> Vec<Row> {
        let mut rows: Vec<_> = self.create_up_to(MANY_PODS).await.into_iter().collect();
        if let Some(row) = rows.first_mut() {
            row.name = format!("create pods, up to {}", self.pods);
        }
        rows.extend(self.restarted().await);
        // After the server has read all objects; in both encodings.
        let path = format!("/api/v1/namespaces/{NAMESPACE}/pods");
        for (name, headers) in [("JSON", &[][..]), ("protobuf", PROTOBUF)] {
            let name = format!("list {} pods, {name}", self.pods);
            let list = async |n| self.clients.send(n, "GET", &path, headers, Vec::new()).await;
            rows.push(load::run(name, self.pid(), 2, 1, list).await);
        }
        rows
    }
}
