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
