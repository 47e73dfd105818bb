//! Small requests that cause much work: the sender gets a Status, and no other client is affected.
//!
//! Test servers measure the polls of their tasks: a test fails when it stops its server if a poll blocked a worker for
//! too long.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use binnacle_testkit::TempDir;
use serde_json::{Value, json};

use crate::authorization::{RBAC, Rig, binding, role, until};

const MAPS: &str = "/api/v1/namespaces/team/configmaps";
/// The maximum growth of the server's memory, in KiB.
const GROWTH: usize = 200 << 10;

/// A request of the attacker.
struct Attack {
    method: &'static str,
    path: String,
    kind: &'static str,
    body: String,
    /// The expected status code.
    code: u16,
}

/// Starts a server with a namespace in which alice may write objects.
async fn rig() -> Rig {
    let rig = Rig::start(TempDir::new(), &[]);
    rig.make_namespace("team").await;
    let mut tenant = role(
        "tenant",
        &["create", "get", "list", "update", "patch", "delete"],
        &["configmaps", "roles", "resourceclaims"],
    );
    tenant["rules"][0]["apiGroups"] = json!(["", "rbac.authorization.k8s.io", "resource.k8s.io"]);
    rig.make(&format!("{RBAC}/namespaces/team/roles"), tenant).await;
    rig.make(&format!("{RBAC}/namespaces/team/rolebindings"), binding("tenant", "tenant", "User", "alice")).await;
    until("the binding counts", async || rig.code("alice", "GET", MAPS).await == 200).await;
    rig
}

/// Returns the server's memory in KiB.
fn memory(rig: &Rig) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{}/status", rig.server.id())).expect("a running server");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("its memory");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Sends the attack on several connections at the same time while others read. Fails unless every response is as
/// expected.
async fn attack(rig: &Rig, attack: Attack, connections: usize) {
    let before = memory(rig);
    let (ended, reads) = (AtomicBool::new(false), AtomicUsize::new(0));
    let attacker = async {
        let requests = (0..connections).map(|_| async {
            let headers = [("authorization", "Bearer alice"), ("content-type", attack.kind)];
            let mut client = rig.client().await;
            client.send(attack.method, &attack.path, &headers, attack.body.clone()).await.expect("an answer")
        });
        let answers = futures::future::join_all(requests).await;
        ended.store(true, Ordering::SeqCst);
        answers
    };
    let others = async {
        while !ended.load(Ordering::SeqCst) {
            assert_eq!(rig.code("root", "GET", "/api/v1/namespaces/default").await, 200);
            assert_eq!(rig.code("root", "GET", "/livez").await, 200);
            reads.fetch_add(1, Ordering::SeqCst);
        }
    };
    let (answers, ()) = tokio::join!(attacker, others);
    for answer in answers {
        assert_eq!(answer.status, attack.code, "{} {}: {}", attack.method, attack.path, answer.body);
        assert!(answer.body.len() < 2 << 20, "an answer of {} bytes", answer.body.len());
    }
    let grown = memory(rig).saturating_sub(before);
    assert!(grown < GROWTH, "{}: {grown} KiB more", attack.path);
    assert!(reads.into_inner() > 0, "nobody else was served");
}

#[tokio::test(flavor = "multi_thread")]
async fn expands_yaml_aliases_in_turns() {
    let rig = rig().await;
    let mut body = String::from(
        "kind: SelfSubjectAccessReview\napiVersion: authorization.k8s.io/v1\nspec:\n  resourceAttributes: {verb: get, resource: pods}\n\
         x:\n",
    );
    // kube-apiserver allows up to 99 expanded nodes for each node in the document.
    for (level, (element, count)) in [("a", 8000), ("*l0", 40)].into_iter().enumerate() {
        body.push_str(&format!("  l{level}: &l{level} [{}]\n", vec![element; count].join(",")));
    }
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned();
    attack(&rig, Attack { method: "POST", path, kind: "application/yaml", body, code: 201 }, 12).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn does_not_build_the_product_of_a_rule() {
    let rig = rig().await;
    for count in [30, 64] {
        let names: Vec<String> = (0..count).map(|n| format!("a{n:02}")).collect();
        let rule = json!({"verbs": names, "apiGroups": names, "resources": names, "resourceNames": names});
        let body = json!({"metadata": {"name": "wide"}, "rules": [rule]}).to_string();
        let path = format!("{RBAC}/namespaces/team/roles");
        attack(&rig, Attack { method: "POST", path, kind: "application/json", body, code: 403 }, 4).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_long_lists_in_turns() {
    let rig = rig().await;
    let finalizers: Vec<String> = (0..40_000).map(|n| format!("a.b/c{n:05}")).collect();
    rig.make(MAPS, json!({"metadata": {"name": "long", "finalizers": finalizers}})).await;
    let pair = [
        json!({"op": "add", "path": "/metadata/finalizers/0", "value": "x.y/z"}),
        json!({"op": "remove", "path": "/metadata/finalizers/0"}),
    ];
    let body = Value::from_iter(pair.iter().cycle().take(4000).cloned()).to_string();
    let path = format!("{MAPS}/long?dryRun=All");
    attack(&rig, Attack { method: "PATCH", path, kind: "application/json-patch+json", body, code: 200 }, 3).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stops_cel_patterns_at_the_budget() {
    let rig = rig().await;
    let expression = |claim: usize| {
        let calls = (1..=30).map(|n| format!("''.matches('\\\\pL{{{}}}')", n + 30 * claim));
        calls.collect::<Vec<_>>().join(" || ")
    };
    let selectors: Vec<Value> = (0..28).map(|n| json!({"cel": {"expression": expression(n)}})).collect();
    let request = json!({"name": "r", "exactly": {"deviceClassName": "c", "selectors": selectors}});
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [request]}}});
    let path = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims?dryRun=All".to_owned();
    let body = claim.to_string();
    let requests = (0..3).map(|_| async {
        let headers = [("authorization", "Bearer alice"), ("content-type", "application/json")];
        rig.client().await.send("POST", &path, &headers, body.clone()).await.expect("an answer")
    });
    let before = memory(&rig);
    for answer in futures::future::join_all(requests).await {
        assert!([201, 413, 422, 429].contains(&answer.status), "{}: {}", answer.status, answer.body);
    }
    assert!(memory(&rig).saturating_sub(before) < GROWTH);
    assert_eq!(rig.code("root", "GET", "/api/v1/namespaces/default").await, 200);
}

/// The exceeded limit is named in the response and counted in a metric.
#[tokio::test(flavor = "multi_thread")]
async fn reports_an_exceeded_budget() {
    let rig = rig().await;
    let body = format!(r#"{{"metadata":{{"name":"m","managedFields":[{}]}}}}"#, vec!["{}"; 900_000].join(","));
    let headers = [("authorization", "Bearer alice"), ("content-type", "application/json")];
    let answer = rig.client().await.send("POST", MAPS, &headers, body).await.expect("an answer");
    assert_eq!(answer.status, 413, "{}", answer.body);
    let status: Value = serde_json::from_str(&answer.body).expect("a Status");
    assert_eq!(status["reason"], "RequestEntityTooLarge");
    assert!(status["message"].as_str().is_some_and(|message| message.contains("bytes of memory")), "{status}");
    let metrics = rig.send("root", "GET", "/metrics", &Value::Null).await.body;
    assert!(metrics.contains("binnacle_request_work_largest{unit=\"steps\"}"), "the work of requests is measured");
}
