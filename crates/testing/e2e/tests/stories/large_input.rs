//! Expensive bodies: the responses, the cost for the server, and the delay of other clients.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use binnacle_testkit::{Etcd, Server};
use serde_json::{Value, json};

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

const REVIEWS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const REVISIONS: &str = "/apis/apps/v1/namespaces/default/controllerrevisions";

/// The limit on the server's peak memory, which starts at about 100 MiB.
const MEMORY: u64 = 700 << 20;
/// The maximum wait of other clients. The server is a debug build and shares the machine with other tests.
const TIMEOUT: Duration = Duration::from_secs(4);
/// The maximum response size, in bytes.
const ANSWER: usize = 1 << 20;

struct Attack {
    name: &'static str,
    method: &'static str,
    path: String,
    kind: &'static str,
    body: Vec<u8>,
    code: u16,
    says: &'static str,
}

/// Returns `item` repeated, separated by commas.
fn repeated(before: &str, item: &str, count: usize, after: &str) -> Vec<u8> {
    let list = vec![item; count].join(",");
    format!("{before}{list}{after}").into_bytes()
}

/// Returns items generated from their numbers.
fn numbered(before: &str, item: impl Fn(usize) -> String, count: usize, after: &str) -> Vec<u8> {
    let list = (0..count).map(item).collect::<Vec<_>>().join(",");
    format!("{before}{list}{after}").into_bytes()
}

fn attacks() -> Vec<Attack> {
    let review = |count| {
        repeated(
            r#"{"kind":"SelfSubjectAccessReview","apiVersion":"authorization.k8s.io/v1","spec":{"resourceAttributes":{"fieldSelector":{"requirements":["#,
            "{}",
            count,
            "]}}}}",
        )
    };
    let policy = |count| {
        repeated(r#"{"metadata":{"name":"a"},"spec":{"podSelector":{"matchExpressions":["#, "{}", count, "]}}}")
    };
    let post = |name, path: &str, body, code, says| Attack {
        name,
        method: "POST",
        path: path.to_owned(),
        kind: JSON,
        body,
        code,
        says,
    };
    let many = "too many elements";
    let cut = "too many errors: only the first 256 are shown";
    vec![
        post("a review of 900,000 requirements", REVIEWS, review(900_000), 413, many),
        post("a review of 200,000 requirements", REVIEWS, review(200_000), 413, many),
        post("a review of 100,000 requirements", REVIEWS, review(100_000), 422, cut),
        post("a policy of 800,000 expressions", POLICIES, policy(800_000), 413, many),
        post("a policy of 100,000 expressions", POLICIES, policy(100_000), 422, cut),
        post(
            "a service of 60,000 ports",
            SERVICES,
            numbered(
                r#"{"metadata":{"name":"a"},"spec":{"ports":["#,
                |i| format!(r#"{{"name":"p{i}","port":{}}}"#, i + 1),
                60_000,
                "]}}",
            ),
            413,
            "would take",
        ),
        Attack {
            name: "1,450,000 containers in protobuf",
            method: "POST",
            path: PODS.to_owned(),
            kind: PROTOBUF,
            body: pod_of_empty_containers(1_450_000),
            code: 413,
            says: many,
        },
        Attack {
            name: "an apply of 60,000 ports",
            method: "PATCH",
            path: format!("{DEPLOYMENTS}/a?fieldManager=m"),
            kind: APPLY,
            body: numbered(
                r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i","ports":["#,
                |i| format!(r#"{{"containerPort":{},"protocol":"TCP"}}"#, i + 1),
                60_000,
                "]}]}}}}",
            ),
            code: 413,
            says: "would take",
        },
        Attack {
            name: "a merge patch of 400,000 structs",
            method: "PATCH",
            path: format!("{MAPS}/kube-root-ca.crt"),
            kind: MERGE,
            body: repeated(r#"{"metadata":{"ownerReferences":["#, "{}", 400_000, "]}}"),
            code: 413,
            says: "more memory than the server uses for one request",
        },
        post(
            "100,000 owners that all control",
            MAPS,
            numbered(
                r#"{"metadata":{"name":"a","ownerReferences":["#,
                |i| format!(r#"{{"uid":"{i}","controller":true}}"#),
                70_000,
                "]}}",
            ),
            422,
            // Each error shows the whole list: the size limit is reached first.
            "; too many errors: only the first ",
        ),
        post(
            "a key of two megabytes with a thousand wrong values below",
            POLICIES,
            format!(
                r#"{{"metadata":{{"name":"a","labels":{{"{}":"b"}}}},"spec":{{"podSelector":{{}}}}}}"#,
                "x".repeat(2 << 20)
            )
            .into_bytes(),
            422,
            "more bytes)",
        ),
    ]
}

/// Returns the envelope of a pod; each empty container takes two bytes.
fn pod_of_empty_containers(count: usize) -> Vec<u8> {
    let field = |tag: u8, content: &[u8]| {
        let mut out = vec![tag << 3 | 2];
        let mut length = content.len();
        while length >= 0x80 {
            out.push(length as u8 | 0x80);
            length >>= 7;
        }
        out.push(length as u8);
        out.extend_from_slice(content);
        out
    };
    let spec = [0x12, 0x00].repeat(count);
    let type_meta = [field(1, b"v1"), field(2, b"Pod")].concat();
    [b"k8s\0".to_vec(), field(1, &type_meta), field(2, &field(2, &spec))].concat()
}

/// Another client of the server, which repeatedly requests a health check and an object.
struct Bystander {
    stop: Arc<AtomicBool>,
    task: tokio::task::JoinHandle<(usize, Duration)>,
}

impl Bystander {
    async fn start(server: &Server) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (mut client, stopped) = (server.client().await, Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let (mut asked, mut longest) = (0, Duration::ZERO);
            while !stopped.load(Ordering::SeqCst) {
                for path in ["/livez", "/api/v1/namespaces/default"] {
                    let began = Instant::now();
                    let answer = client.get(path).await.unwrap();
                    assert_eq!(answer.status, 200, "{path}: {}", answer.body);
                    (asked, longest) = (asked + 1, longest.max(began.elapsed()));
                }
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            (asked, longest)
        });
        Self { stop, task }
    }

    /// Stops the requests. Returns their number and the maximum wait.
    async fn stop(self) -> (usize, Duration) {
        self.stop.store(true, Ordering::SeqCst);
        self.task.await.unwrap()
    }
}

/// Returns the peak memory of a process.
fn peak(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() << 10
}

#[tokio::test(flavor = "multi_thread")]
async fn large_bodies_do_not_delay_other_requests() {
    let server = Server::ephemeral();
    let mut client = server.client().await;
    let path = format!("{MAPS}/kube-root-ca.crt");
    let made = client.send(
        "POST",
        MAPS,
        &[("content-type", JSON)],
        json!({"metadata": {"name": "kube-root-ca.crt"}}).to_string(),
    );
    let made = made.await.unwrap();
    assert!(matches!(made.status, 201 | 409), "{path}: {}", made.body);
    for attack in attacks() {
        let bystander = Bystander::start(&server).await;
        let before = peak(&server);
        let began = Instant::now();
        // Two at the same time, as an attacker would send them.
        let mut other = server.client().await;
        let headers = [("content-type", attack.kind)];
        let (one, two) = tokio::join!(
            client.send(attack.method, &attack.path, &headers, attack.body.clone()),
            other.send(attack.method, &attack.path, &headers, attack.body.clone()),
        );
        let took = began.elapsed();
        let (asked, longest) = bystander.stop().await;
        let peak = peak(&server);
        for answer in [one.unwrap(), two.unwrap()] {
            let beginning: String = answer.body.chars().take(400).collect();
            assert_eq!(answer.status, attack.code, "{}: {beginning}", attack.name);
            assert!(answer.body.contains(attack.says), "{}: {beginning}", attack.name);
            assert!(answer.body.len() < ANSWER, "{}: {} bytes", attack.name, answer.body.len());
        }
        println!(
            "{}: {took:?}, memory {} to {} MiB, {asked} requests of others waited {longest:?} at most",
            attack.name,
            before >> 20,
            peak >> 20
        );
        assert!(longest < TIMEOUT, "{}: others waited {longest:?}", attack.name);
        assert!(peak < MEMORY, "{}: {} MiB", attack.name, peak >> 20);
    }
}

/// An object that grows by small requests does not exceed the size that the store accepts, with either engine and any
/// verb.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn limits_the_size_of_objects() {
    let etcd = Etcd::single();
    let servers = [Server::ephemeral(), Server::durable_with(&[&etcd.servers()])];
    for server in &servers {
        let mut client = server.client().await;
        let mut send = async |method: &str, path: &str, kind: &str, body: Value| {
            let answer = client.send(method, path, &[("content-type", kind)], body.to_string()).await.unwrap();
            (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap())
        };
        let refused = |(code, status): (u16, Value), names: &str| {
            assert_eq!((code, &status["reason"]), (413, &json!("RequestEntityTooLarge")), "{status}");
            let message = status["message"].as_str().unwrap();
            assert!(message.starts_with("Request entity too large: ") && message.contains(names), "{message}");
            assert!(message.ends_with("the limit is 1572000 bytes"), "{message}");
        };

        // By patches.
        assert_eq!(send("POST", MAPS, JSON, json!({"metadata": {"name": "grows"}})).await.0, 201);
        let path = format!("{MAPS}/grows");
        let mut rounds = 0;
        let last = loop {
            let finalizer = |i| format!("example.com/{rounds}-{i}-{}", "x".repeat(40));
            let more: Vec<String> = (0..5000).map(finalizer).collect();
            let answer = send("PATCH", &path, STRATEGIC, json!({"metadata": {"finalizers": more}})).await;
            rounds += 1;
            if answer.0 != 200 || rounds > 20 {
                break answer;
            }
        };
        refused(last, "metadata.finalizers (");
        let apply = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "grows", "annotations": {"a": "b"}},
            "data": {"a": ("x".repeat(1000 << 10))}});
        refused(send("PATCH", &format!("{path}?fieldManager=m"), APPLY, apply).await, "metadata.finalizers (");
        // It can be deleted, and is removed with its finalizers.
        let (code, marked) = send("DELETE", &path, JSON, json!({})).await;
        assert!(code == 200 && marked["metadata"]["deletionTimestamp"].is_string(), "{code}");
        assert_eq!(send("PATCH", &path, MERGE, json!({"metadata": {"finalizers": null}})).await.0, 200);
        assert_eq!(send("GET", &path, JSON, json!({})).await.0, 404);

        // By a create, and by an update.
        let revision = |size: usize| json!({"metadata": {"name": "r"}, "revision": 1, "data": {"a": ("x".repeat(size)), "b": "y"}});
        refused(send("POST", REVISIONS, JSON, revision(1600 << 10)).await, "data");
        assert_eq!(send("POST", REVISIONS, JSON, revision(1500 << 10)).await.0, 201);
        let mut larger = revision(1500 << 10);
        larger["metadata"]["annotations"] = json!({"a": ("x".repeat(40 << 10))});
        refused(send("PUT", &format!("{REVISIONS}/r"), JSON, larger).await, "data");

        // By a status.
        assert_eq!(send("POST", "/api/v1/nodes", JSON, json!({"metadata": {"name": "n"}})).await.0, 201);
        let images = json!({"status": {"images": [{"names": [("x".repeat(1700 << 10))]}]}});
        refused(send("PATCH", "/api/v1/nodes/n/status", MERGE, images).await, "status.images (");
    }
}
