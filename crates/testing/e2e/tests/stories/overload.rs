//! More requests than the server may execute concurrently: each user's share is kept, and the rest is rejected in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::https::{Answer, Client, Handshake};
use binnacle_testkit::{Hook, Server, wait_until};
use http::{Request, Response};
use serde_json::{Value, json};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const NODES: &str = "/api/v1/nodes";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces";
const GROUP: &str = "crowd";

/// A connection on which the administrator impersonates a user.
struct ImpersonatingClient {
    client: Client,
    name: String,
    group: &'static str,
}

impl ImpersonatingClient {
    async fn new(server: &Server, handshake: &Handshake, name: &str, group: &'static str) -> Self {
        Self { client: server.connect(handshake).await, name: name.to_owned(), group }
    }

    async fn send(&mut self, method: &str, path: &str, body: &Value) -> Answer {
        let mut headers = vec![("content-type", "application/json"), ("impersonate-user", self.name.as_str())];
        for group in [self.group, "system:authenticated"] {
            headers.push(("impersonate-group", group));
        }
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.client.send(method, path, &headers, body).await.unwrap()
    }
}

async fn make(client: &mut Client, path: &str, object: &Value) {
    let answer = client.send("POST", path, &[("content-type", "application/json")], object.to_string()).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
}

/// Grants the crowd all permissions for config maps.
async fn allow_the_crowd(server: &Server, client: &mut Client, handshake: &Handshake) {
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"verbs": ["*"], "apiGroups": [""], "resources": ["configmaps"]}]);
    make(client, &format!("{rbac}/clusterroles"), &json!({"metadata": {"name": "crowd"}, "rules": rules})).await;
    let binding = json!({
        "metadata": {"name": "crowd"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "crowd"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": GROUP}],
    });
    make(client, &format!("{rbac}/clusterrolebindings"), &binding).await;
    let mut one = ImpersonatingClient::new(server, handshake, "crowd-0", GROUP).await;
    wait_until("the permission to count", async || {
        (one.send("GET", &format!("{MAPS}?limit=1"), &Value::Null).await.status == 200).then_some(())
    })
    .await;
}

/// A lease, which its holder renews.
struct Lease {
    holder: ImpersonatingClient,
    namespace: &'static str,
    name: &'static str,
    kept: Value,
}

impl Lease {
    async fn new(holder: ImpersonatingClient, namespace: &'static str, name: &'static str) -> Self {
        let spec = json!({"holderIdentity": name, "leaseTransitions": 0});
        let mut lease = Self { holder, namespace, name, kept: json!({"metadata": {"name": name}, "spec": spec}) };
        lease.write("POST", "").await;
        lease
    }

    async fn write(&mut self, method: &str, name: &str) {
        let path = format!("{LEASES}/{}/leases{name}", self.namespace);
        let answer = self.holder.send(method, &path, &self.kept).await;
        assert!(matches!(answer.status, 200 | 201), "{}: {} {}", self.name, answer.status, answer.body);
        self.kept = serde_json::from_str(&answer.body).unwrap();
    }

    async fn renew(&mut self, number: usize) {
        self.kept["spec"]["leaseTransitions"] = json!(number);
        self.write("PUT", &format!("/{}", self.name)).await;
    }
}

/// Returns the lease of a node and that of the scheduler.
async fn leases(server: &Server, client: &mut Client, handshake: &Handshake) -> [Lease; 2] {
    make(client, NODES, &json!({"metadata": {"name": "n1"}})).await;
    // The server creates the namespace.
    wait_until("the namespace of leases", async || {
        (client.get("/api/v1/namespaces/kube-node-lease").await.unwrap().status == 200).then_some(())
    })
    .await;
    let node = ImpersonatingClient::new(server, handshake, "system:node:n1", "system:nodes").await;
    let scheduler = ImpersonatingClient::new(server, handshake, "system:kube-scheduler", "system:authenticated").await;
    [Lease::new(node, "kube-node-lease", "n1").await, Lease::new(scheduler, "kube-system", "kube-scheduler").await]
}

/// Returns the value of the first line of a metric with these labels.
async fn counted(client: &mut Client, metric: &str, labels: &[&str]) -> f64 {
    let text = client.get("/metrics").await.unwrap().body;
    let found = text.lines().filter(|line| line.starts_with(metric) && labels.iter().all(|label| line.contains(label)));
    found.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// Many clients with different identities list everything repeatedly; the node and the scheduler do not have to wait
/// for them. `bench/leases.py` measures the latency.
#[tokio::test(flavor = "multi_thread")]
async fn renews_leases_under_a_flood_of_lists() {
    const LISTERS: usize = 100;
    const RENEWALS: usize = 30;
    let server = Server::start(&["--ephemeral", "--max-requests-inflight=8", "--max-mutating-requests-inflight=4"]);
    let handshake = server.admin();
    let mut client = server.connect(&handshake).await;
    allow_the_crowd(&server, &mut client, &handshake).await;
    for n in 0..300 {
        let map = json!({"metadata": {"name": format!("map-{n}")}, "data": {"text": "x".repeat(4000)}});
        make(&mut client, MAPS, &map).await;
    }
    let mut leases = leases(&server, &mut client, &handshake).await;
    let ended = Arc::new(AtomicBool::new(false));
    let mut crowd = JoinSet::new();
    for n in 0..LISTERS {
        let (ended, mut one) =
            (ended.clone(), ImpersonatingClient::new(&server, &handshake, &format!("crowd-{n}"), GROUP).await);
        crowd.spawn(async move {
            let mut lists = 0;
            while !ended.load(Ordering::Relaxed) {
                let answer = one.send("GET", MAPS, &Value::Null).await;
                assert!(matches!(answer.status, 200 | 429), "{} {}", answer.status, answer.body);
                lists += usize::from(answer.status == 200);
            }
            lists
        });
    }
    let waiting = "apiserver_flowcontrol_current_inqueue_requests";
    wait_until("the crowd to wait", async || {
        (counted(&mut client, waiting, &["flow_schema=\"global-default\""]).await > 0.0).then_some(())
    })
    .await;
    for number in 1..=RENEWALS {
        for lease in &mut leases {
            lease.renew(number).await;
        }
    }
    ended.store(true, Ordering::Relaxed);
    let lists: usize = crowd.join_all().await.into_iter().sum();
    assert!(lists > LISTERS, "{lists}");
    let rejected = "apiserver_flowcontrol_rejected_requests_total";
    for level in ["node-high", "leader-election"] {
        assert_eq!(counted(&mut client, rejected, &[&format!("priority_level=\"{level}\"")]).await, 0.0, "{level}");
    }
}

/// Many times the concurrency limit of the server: requests that do not fit in the queue of the flow are rejected with
/// a retry delay, queued ones are executed, and other users' requests are served meanwhile.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_excess_requests_in_time() {
    const REQUESTS: usize = 500;
    let server = Server::start(&["--ephemeral", "--max-requests-inflight=40", "--max-mutating-requests-inflight=20"]);
    let handshake = server.admin();
    let mut client = server.connect(&handshake).await;
    allow_the_crowd(&server, &mut client, &handshake).await;
    let mut leases = leases(&server, &mut client, &handshake).await;
    let slow = Hook::start(|request: Request<Vec<u8>>| async move {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let response = json!({"uid": review["request"]["uid"], "allowed": true});
        let answer = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
        Response::new(answer.to_string().into_bytes())
    })
    .await;
    let webhook = json!({
        "name": "slow.hooks.test", "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
        "clientConfig": {"url": slow.url(), "caBundle": BASE64_STANDARD.encode(&slow.authority)},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
    });
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    make(&mut client, hooks, &json!({"metadata": {"name": "slow"}, "webhooks": [webhook]})).await;
    let resident = |name: &str| -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
        line.split_whitespace().next().unwrap().parse::<u64>().unwrap() / 1024
    };
    let before = resident("VmRSS:");
    let gate = Arc::new(Barrier::new(REQUESTS));
    let mut crowd = JoinSet::new();
    for n in 0..REQUESTS {
        let mut one = ImpersonatingClient::new(&server, &handshake, "crowd-0", GROUP).await;
        let gate = gate.clone();
        crowd.spawn(async move {
            let map = json!({"metadata": {"name": format!("map-{n}")}, "data": {"text": "x".repeat(100_000)}});
            gate.wait().await;
            one.send("POST", MAPS, &map).await
        });
    }
    let waiting = "apiserver_flowcontrol_current_inqueue_requests";
    wait_until("the crowd to wait", async || {
        (counted(&mut client, waiting, &["flow_schema=\"global-default\""]).await > 0.0).then_some(())
    })
    .await;
    for number in 1..=5 {
        for lease in &mut leases {
            lease.renew(number).await;
        }
    }
    let still = counted(&mut client, waiting, &["flow_schema=\"global-default\""]).await;
    assert!(still > 0.0, "leases were renewed only after the crowd");
    let answers = crowd.join_all().await;
    let (served, refused): (Vec<&Answer>, Vec<&Answer>) = answers.iter().partition(|answer| answer.status == 201);
    for answer in &refused {
        // The longer it lasts, the longer the delay.
        let later: u32 = answer.header("retry-after").parse().unwrap_or_default();
        assert!(answer.status == 429 && (1..=8).contains(&later), "{} {later} {}", answer.status, answer.body);
    }
    // A flow has six queues of fifty, and its seats.
    assert!(!refused.is_empty() && served.len() >= 300, "{} served, {} refused", served.len(), refused.len());
    let rejected = "apiserver_flowcontrol_rejected_requests_total";
    let of_level = ["flow_schema=\"global-default\"", "reason=\"queue-full\""];
    assert_eq!(counted(&mut client, rejected, &of_level).await, refused.len() as f64);
    // 50 MB were sent, and 30 MB are kept.
    assert!(resident("VmHWM:") < before + 200, "{} MB, {before} MB before", resident("VmHWM:"));
    let kept: Value = serde_json::from_str(&client.get(&format!("{MAPS}?limit=1")).await.unwrap().body).unwrap();
    let all = 1 + usize::try_from(kept["metadata"]["remainingItemCount"].as_u64().unwrap()).unwrap();
    assert!((served.len()..=served.len() + 1).contains(&all), "{all} are kept, {} were told of", served.len());
}
