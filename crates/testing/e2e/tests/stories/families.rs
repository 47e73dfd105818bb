//! Every metric family that kube-apiserver exposes after some requests is exposed here as well, with the same type.
//!
//! docs/operating.md lists the families that are left out. `etcd_bookmark_total` needs an etcd with reliable progress
//! notifications, which this one may not have; `apiserver_request_aborts_total` is not counted.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Etcd, Hook, Server, wait_until};
use http::Response;
use serde_json::{Value, json};

/// Families that have samples after [`provoke`], with their types.
const MOVING: &str = include_str!("families/moving.txt");
/// Families that stay empty unless something fails.
const STILL: &str = include_str!("families/still.txt");

/// Sends requests that reach all parts of the server.
async fn provoke(client: &mut Client, webhook: &Hook) {
    let core = "/api/v1/namespaces/default";
    let container = json!([{"name": "a", "image": "a.test/a"}]);
    let labels = json!({"app": "a"});
    let hooks = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
    let hook = json!({
        "metadata": {"name": "everybody"},
        "webhooks": [{
            "name": "everybody.example.test", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": {
                "url": format!("https://{}/", webhook.address), "caBundle": BASE64_STANDARD.encode(&webhook.authority),
            },
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["secrets"]}],
        }],
    });
    for (path, body) in [
        (hooks.to_owned(), hook),
        (format!("{core}/configmaps"), json!({"metadata": {"name": "a"}, "data": {"a": "b"}})),
        (format!("{core}/serviceaccounts"), json!({"metadata": {"name": "default"}})),
        (format!("{core}/pods"), json!({"metadata": {"name": "a"}, "spec": {"containers": container}})),
        (
            format!("{core}/services"),
            json!({
                "metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}
            }),
        ),
        (
            format!("{core}/replicationcontrollers"),
            json!({
                "metadata": {"name": "a"},
                "spec": {"selector": labels, "template": {"metadata": {"labels": labels}, "spec": {"containers": container}}},
            }),
        ),
    ] {
        let answer =
            client.send("POST", &path, &[("content-type", "application/json")], body.to_string()).await.unwrap();
        assert!(matches!(answer.status, 201 | 409), "{path} {}", answer.body);
    }
    wait_until("the webhook is asked", async || {
        let body = json!({"metadata": {"generateName": "a-"}}).to_string();
        let secrets = format!("{core}/secrets");
        let answer = client.send("POST", &secrets, &[("content-type", "application/json")], body).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.body);
        let metrics = client.get("/metrics").await.unwrap().body;
        metrics.contains("\nrest_client_requests_total{").then_some(())
    })
    .await;
    for (kind, body) in [("application/merge-patch+json", json!({"data": {"a": "c"}}))] {
        let path = format!("{core}/configmaps/a");
        assert_eq!(client.send("PATCH", &path, &[("content-type", kind)], body.to_string()).await.unwrap().status, 200);
    }
    let initial =
        "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    for path in [
        format!("{core}/configmaps?{initial}"),
        format!("{core}/configmaps"),
        format!("{core}/endpoints"),
        format!("{core}/configmaps?fieldValidation=Strict"),
        "/apis".to_owned(),
        "/openapi/v2".to_owned(),
    ] {
        let answer = client.send("GET", &path, &[("accept", "application/json")], String::new()).await.unwrap();
        assert_eq!(answer.status, 200, "{path} {}", answer.body);
    }
    // A user who is not exempt from flow control.
    let jane = [("impersonate-user", "jane"), ("impersonate-group", "system:authenticated")];
    assert_eq!(client.send("GET", &format!("{core}/pods"), &jane, String::new()).await.unwrap().status, 403);
    assert_eq!(client.send("GET", "/version", &jane, String::new()).await.unwrap().status, 200);
    // A server that does not exist.
    let service = json!({
        "metadata": {"name": "v1.nobody.example"},
        "spec": {
            "group": "nobody.example", "version": "v1", "groupPriorityMinimum": 10, "versionPriority": 10,
            "service": {"namespace": "default", "name": "nobody"}, "insecureSkipTLSVerify": true,
        },
    });
    let services = "/apis/apiregistration.k8s.io/v1/apiservices";
    let json = [("content-type", "application/json")];
    assert_eq!(client.send("POST", services, &json, service.to_string()).await.unwrap().status, 201);
    wait_until("the APIService is unavailable", async || {
        (client.get("/apis/nobody.example/v1/things").await.unwrap().status == 503).then_some(())
    })
    .await;
    // The objects of an event lease are counted when the next lease begins.
    let mut events = 0;
    wait_until("a second lease", async || {
        events += 1;
        let event = json!({
            "metadata": {"name": format!("e{events}")},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "a"},
        });
        let path = format!("{core}/events");
        let json = [("content-type", "application/json")];
        assert_eq!(client.send("POST", &path, &json, event.to_string()).await.unwrap().status, 201);
        let metrics = client.get("/metrics").await.unwrap().body;
        (total(&metrics, "etcd_lease_object_counts")? >= 1.0).then_some(())
    })
    .await;
}

/// Starts a webhook that allows everything.
async fn allowing() -> Hook {
    Hook::start(|request| async move {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let answer = json!({
            "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview",
            "response": {"uid": review["request"]["uid"], "allowed": true},
        });
        let response = Response::builder().header("content-type", "application/json");
        response.body(answer.to_string().into_bytes()).unwrap()
    })
    .await
}

/// Returns the sum of a family's values (for histograms and summaries, of their counts), or `None` if it does not
/// exist.
fn total(metrics: &str, family: &str) -> Option<f64> {
    let kind =
        metrics.lines().find_map(|line| line.strip_prefix("# TYPE ")?.strip_prefix(family)?.strip_prefix(' '))?;
    let name = match kind {
        "histogram" | "summary" => format!("{family}_count"),
        _ => family.to_owned(),
    };
    let values = metrics.lines().filter_map(|line| {
        let (series, value) = line.strip_prefix(&name)?.rsplit_once(' ')?;
        if series.is_empty() || series.starts_with('{') { value.parse::<f64>().ok() } else { None }
    });
    Some(values.map(f64::abs).sum())
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn exposes_families_like_kube_apiserver() {
    let etcd = Etcd::single();
    let server = tokio::task::block_in_place(|| {
        Server::durable_with(&[
            &etcd.servers(),
            "--event-ttl=60s",
            "--lease-reuse-duration-seconds=1",
            "--etcd-count-metric-poll-period=50ms",
        ])
    });
    let mut client = server.client().await;
    provoke(&mut client, &allowing().await).await;
    let mut stranger = server.connect(&Handshake::new(server.admin().authority)).await;
    let token = [("authorization", "Bearer wrong")];
    assert_eq!(stranger.send("GET", "/api/v1/nodes", &token, "").await.unwrap().status, 401);
    let missing = |metrics: &str| {
        let lacks = |(family, kind): (&str, &str), moves: bool| {
            let typed = metrics.lines().any(|line| line == format!("# TYPE {family} {kind}"));
            let total = total(metrics, family).unwrap_or_default();
            (!typed || moves && total == 0.0).then(|| family.to_owned())
        };
        let of = |list: &'static str| list.lines().filter_map(|line| line.split_once(' '));
        let mut missing: Vec<String> = of(MOVING).filter_map(|each| lacks(each, true)).collect();
        missing.extend(of(STILL).filter_map(|each| lacks(each, false)));
        missing
    };
    let mut last = Vec::new();
    let all = async || {
        let now = missing(&client.get("/metrics").await.unwrap().body);
        if now != last {
            println!("missing: {now:?}");
            last = now;
        }
        last.is_empty().then_some(())
    };
    wait_until("all families move", all).await;
}
