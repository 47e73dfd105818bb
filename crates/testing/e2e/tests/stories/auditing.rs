//! Events of the audit log, and the handling of requests if it cannot be written.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binnacle_testkit::{Hook, Server, TempDir, wait_until};
use http::Response;
use parking_lot::Mutex;
use serde_json::Value;

const POLICY: &str = "
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: None
  nonResourceURLs: ['/healthz*', /readyz]
- level: RequestResponse
  omitManagedFields: true
  resources: [{resources: [configmaps]}]
- level: Metadata
";

fn events(log: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the events with an audit ID.
fn of<'a>(events: &'a [Value], id: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["auditID"] == id).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_requests_with_users_and_outcomes() {
    let temp = TempDir::new();
    let (policy, log) = (temp.join("policy.yaml"), temp.join("logs/audit.log"));
    std::fs::write(&policy, POLICY).unwrap();
    let tokens = temp.file("tokens.csv", "right,jane,1");
    let logging = ["--audit-policy-file", &policy, "--audit-log-path", &log];
    let server = Server::start(&[&["--ephemeral", "--token-auth-file", &tokens], &logging[..]].concat());
    let mut client = server.client().await;
    let json = ("content-type", "application/json");

    let maps = "/api/v1/namespaces/default/configmaps";
    let body = r#"{"metadata":{"name":"a"},"data":{"k":"<v>"}}"#;
    let created = client.send("POST", maps, &[json, ("audit-id", "create")], body).await.unwrap();
    assert_eq!((created.status, created.header("audit-id")), (201, "create"));
    let patch = r#"{"data":{"k":"w"}}"#;
    let merge = ("content-type", "application/merge-patch+json");
    let patched = client.send("PATCH", &format!("{maps}/a"), &[merge, ("audit-id", "patch")], patch).await.unwrap();
    assert_eq!(patched.status, 200);
    let list = client.send("GET", &format!("{maps}?limit=1"), &[("audit-id", "list")], "").await.unwrap();
    assert_eq!(list.status, 200);
    let missing = client.send("GET", "/api/v1/namespaces/none", &[("audit-id", "missing")], "").await.unwrap();
    assert_eq!(missing.status, 404);
    client.send("GET", "/healthz", &[("audit-id", "quiet")], "").await.unwrap();
    let watch = "/api/v1/namespaces?watch=true&timeoutSeconds=1";
    client.send("GET", watch, &[("audit-id", "watch"), ("x-forwarded-for", "192.0.2.7")], "").await.unwrap();
    let token = [("authorization", "Bearer wrong"), ("audit-id", "refused")];
    let mut stranger = server.connect(&binnacle_testkit::https::Handshake::new(server.admin().authority)).await;
    assert_eq!(stranger.send("GET", "/api/v1/nodes", &token, "").await.unwrap().status, 401);
    let path = Path::new(&log);
    wait_until("the watch to be recorded", async || (of(&events(path), "watch").len() == 2).then_some(())).await;

    let events = events(path);
    let [create] = of(&events, "create")[..] else { panic!("{events:?}") };
    assert_eq!(create["stage"], "ResponseComplete");
    assert_eq!(create["verb"], "create");
    assert_eq!(create["user"]["groups"][0], "system:masters");
    assert_eq!(create["objectRef"]["resource"], "configmaps");
    assert_eq!(create["objectRef"]["name"], "a");
    assert_eq!(create["requestObject"]["data"]["k"], "<v>");
    assert_eq!(create["responseObject"]["metadata"]["name"], "a");
    assert!(create["responseObject"]["metadata"].get("managedFields").is_none());
    assert_eq!(create["responseStatus"]["code"], 201);
    assert_eq!(create["annotations"]["authorization.k8s.io/decision"], "allow");
    assert_eq!(create["sourceIPs"][0], "127.0.0.1");

    let [patch] = of(&events, "patch")[..] else { panic!("{events:?}") };
    assert_eq!(patch["requestObject"]["data"]["k"], "w");
    let [list] = of(&events, "list")[..] else { panic!("{events:?}") };
    assert_eq!(list["responseObject"]["kind"], "ConfigMapList");
    let [missing] = of(&events, "missing")[..] else { panic!("{events:?}") };
    assert_eq!(missing["responseStatus"]["reason"], "NotFound");
    assert!(missing.get("responseObject").is_none());
    assert!(of(&events, "quiet").is_empty());
    let [started, complete] = of(&events, "watch")[..] else { panic!("{events:?}") };
    assert_eq!((&started["stage"], &complete["stage"]), (&"ResponseStarted".into(), &"ResponseComplete".into()));
    assert_eq!(started["sourceIPs"], serde_json::json!(["192.0.2.7", "127.0.0.1"]));
    let [refused] = of(&events, "refused")[..] else { panic!("{events:?}") };
    assert_eq!((&refused["stage"], &refused["responseStatus"]["code"]), (&"ResponseStarted".into(), &401.into()));
    assert_eq!(refused["user"], serde_json::json!({}));
    assert_eq!(refused["responseStatus"]["message"], "Unauthorized");
}

/// Returns the completed writes of a user: verb, path and status code.
fn writes_of(events: &[Value], user: &str) -> Vec<String> {
    let complete =
        events.iter().filter(|event| event["stage"] == "ResponseComplete" && event["user"]["username"] == user);
    let text = |event: &Value, name: &str| event[name].as_str().unwrap_or_default().to_owned();
    let write = |event: &Value| {
        format!("{} {} {}", text(event, "verb"), text(event, "requestURI"), event["responseStatus"]["code"])
    };
    complete.map(write).collect()
}

/// The controllers inside the server make no requests, but who changed an object is in the log.
#[tokio::test(flavor = "multi_thread")]
async fn logs_writes_of_controllers() {
    let temp = TempDir::new();
    let (policy, log) = (temp.join("policy.yaml"), temp.join("audit.log"));
    std::fs::write(&policy, POLICY).unwrap();
    let logging = ["--audit-policy-file", &policy, "--audit-log-path", &log];
    let server = Server::start(&[&["--ephemeral", "--run-controllers=*"], &logging[..]].concat());
    let mut client = server.client().await;
    let json = [("content-type", "application/json")];
    let mut post = async |path: &str, body: &str| {
        assert_eq!(client.send("POST", path, &json, body).await.unwrap().status, 201, "{path}");
    };
    post("/api/v1/namespaces", r#"{"metadata":{"name":"n"}}"#).await;
    let maps = "/api/v1/namespaces/n/configmaps";
    let absent = r#"[{"apiVersion":"v1","kind":"ConfigMap","name":"absent","uid":"absent"}]"#;
    post(maps, &format!(r#"{{"metadata":{{"name":"orphan","ownerReferences":{absent}}}}}"#)).await;
    let path = Path::new(&log);
    let collector = "system:serviceaccount:kube-system:generic-garbage-collector";
    let publisher = "system:serviceaccount:kube-system:root-ca-cert-publisher";
    let expect = async |user: &str, write: &str| {
        let found = async || writes_of(&events(path), user).iter().any(|it| it == write).then_some(());
        wait_until(&format!("{write} by {user}"), found).await;
    };
    expect(collector, &format!("delete {maps}/orphan 200")).await;
    expect(publisher, &format!("create {maps} 201")).await;
    assert_eq!(client.send("DELETE", "/api/v1/namespaces/n", &[], "").await.unwrap().status, 200);
    let namespaces = "system:serviceaccount:kube-system:namespace-controller";
    expect(namespaces, &format!("deletecollection {maps} 200")).await;
    expect(namespaces, "update /api/v1/namespaces/n/status 200").await;
    expect(namespaces, "update /api/v1/namespaces/n/finalize 200").await;

    let events = events(path);
    let by = |user: &str| {
        events.iter().find(|event| event["user"]["username"] == user && event["objectRef"]["namespace"] == "n").unwrap()
    };
    let created = by(publisher);
    assert_eq!(created["objectRef"]["name"], "kube-root-ca.crt");
    assert!(created["requestObject"]["data"]["ca.crt"].is_string());
    assert_eq!(created["responseObject"]["metadata"]["namespace"], "n");
    assert!(created["responseObject"]["metadata"].get("managedFields").is_none());
    let deleted = by(collector);
    assert_eq!(deleted["user"]["groups"][0], "system:serviceaccounts");
    assert_eq!(deleted["sourceIPs"], serde_json::json!(["127.0.0.1"]));
    let agent = deleted["userAgent"].as_str().unwrap();
    assert!(agent.starts_with("kube-apiserver/v1.") && agent.ends_with(collector), "{agent}");
    // No request is made for the many kinds of which the namespace has no objects.
    let others = |write: &String| {
        write.starts_with("deletecollection") && !write.contains("/configmaps ") && !write.contains("/serviceaccounts ")
    };
    assert_eq!(writes_of(&events, namespaces).into_iter().find(others), None);
}

/// `/dev/full` behaves like a full disk.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(target_os = "linux"), ignore = "needs /dev/full")]
async fn full_disk_fails_requests_only_in_strict_mode() {
    let temp = TempDir::new();
    let policy = temp.join("policy.yaml");
    std::fs::write(&policy, "apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata}]").unwrap();
    for (mode, status) in [("blocking", 200), ("batch", 200), ("blocking-strict", 500)] {
        let mode = format!("--audit-log-mode={mode}");
        let log = ["--audit-log-path=/dev/full", "--audit-log-maxsize=0"];
        let server = Server::start(&["--ephemeral", "--audit-policy-file", &policy, log[0], log[1], mode.as_str()]);
        let answer = server.client().await.get("/version?a=1&b=2").await.unwrap();
        assert_eq!(answer.status, status, "{mode} {}", answer.body);
        if status == 500 {
            let want = "Internal Server Error: \"/version?a=1&amp;b=2\": failed to store audit event\n";
            assert_eq!(answer.body, want);
        }
    }
}

/// A webhook outage loses no event: events that do not fit the queue are spooled to disk, even across a restart.
#[tokio::test(flavor = "multi_thread")]
async fn queues_events_on_disk_for_the_webhook() {
    let (open, seen) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(BTreeSet::new())));
    let hook = Hook::start({
        let (open, seen) = (open.clone(), seen.clone());
        move |request| {
            let (open, seen) = (open.clone(), seen.clone());
            async move {
                if !open.load(Ordering::SeqCst) {
                    return Response::builder().status(503).body(Vec::new()).unwrap();
                }
                let list: Value = serde_json::from_slice(request.body()).unwrap();
                assert_eq!(list["kind"], "EventList");
                let ids = list["items"].as_array().unwrap().iter();
                seen.lock().extend(ids.map(|event| event["auditID"].as_str().unwrap().to_owned()));
                Response::new(Vec::new())
            }
        }
    })
    .await;
    let temp = TempDir::new();
    let policy = temp.file("policy.yaml", POLICY);
    let authority = temp.file("ca.crt", &hook.authority);
    let config = temp.file(
        "webhook.kubeconfig",
        &format!(
            "clusters: [{{name: c, cluster: {{server: 'https://{}', certificate-authority: {authority}}}}}]\n\
             contexts: [{{name: x, context: {{cluster: c, user: u}}}}]\ncurrent-context: x\nusers: [{{name: u, user: {{}}}}]\n",
            hook.address
        ),
    );
    let spill = temp.join("spill");
    let mut server = tokio::task::block_in_place(|| {
        Server::durable_with(&[
            "--audit-policy-file",
            &policy,
            "--audit-webhook-config-file",
            &config,
            "--audit-webhook-initial-backoff=1ms",
            "--audit-webhook-batch-buffer-size=2",
            "--audit-webhook-batch-max-size=2",
            "--audit-webhook-batch-max-wait=10ms",
            "--audit-webhook-spill-dir",
            &spill,
        ])
    });
    let mut client = server.client().await;
    let mut sent = BTreeSet::new();
    for n in 0..50 {
        let id = format!("story-{n}");
        assert_eq!(client.send("GET", "/api/v1/nodes", &[("audit-id", &id)], "").await.unwrap().status, 200);
        sent.insert(id);
    }
    wait_until("events are on disk", async || {
        let metrics = client.get("/metrics").await.unwrap().body;
        let spilled = metrics.lines().find_map(|line| line.strip_prefix("binnacle_audit_spilled_events_total "))?;
        assert!(metrics.contains("\nbinnacle_audit_spill_dropped_events_total 0\n"), "{metrics}");
        (spilled.parse::<f64>().ok()? >= 50.0).then_some(())
    })
    .await;
    assert!(seen.lock().is_empty());
    tokio::task::block_in_place(|| {
        server.terminate();
        server.restart();
    });
    open.store(true, Ordering::SeqCst);
    wait_until("all events are sent", async || sent.is_subset(&seen.lock()).then_some(())).await;
    wait_until("no file is left", async || {
        let client = &mut server.client().await;
        let metrics = client.get("/metrics").await.unwrap().body;
        let bytes = metrics.lines().find_map(|line| line.strip_prefix("binnacle_audit_spill_bytes "))?;
        (bytes == "0").then_some(())
    })
    .await;
}
