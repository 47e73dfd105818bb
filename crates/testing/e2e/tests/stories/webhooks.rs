//! Admission webhooks as in real clusters: correct, slow, dead, and with invalid responses.

mod answers;
mod custom;
mod itself;
mod time;
mod types_and_names;

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::{Hook, Server, TempDir, wait_until};
use http::{Request, Response};
use parking_lot::Mutex;
use serde_json::{Value, json};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// One of the two kinds of configurations.
#[derive(Clone, Copy)]
enum Kind {
    Mutating,
    Validating,
}

/// A response of the server.
struct Answer {
    status: u16,
    warnings: Vec<String>,
    body: Value,
}

async fn send(server: &Server, method: &str, path: &str, body: &Value) -> Answer {
    let headers = [("content-type", "application/json")];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = server.client().await.send(method, path, &headers, body).await.unwrap();
    let warnings = answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap().to_owned()).collect();
    Answer { status: answer.status, warnings, body: serde_json::from_str(&answer.body).unwrap_or(Value::Null) }
}

/// Tries to create a config map, as a dry run.
async fn try_config_map(server: &Server, query: &str) -> Answer {
    let object = json!({"metadata": {"name": "tried"}, "data": {"k": "v"}});
    send(server, "POST", &format!("{CONFIG_MAPS}?dryRun=All{query}"), &object).await
}

/// Returns a webhook for new config maps.
fn webhook(name: &str, hook: &Hook, more: Value) -> Value {
    let mut webhook = json!({
        "name": format!("{name}.hooks.test"),
        "clientConfig": {"url": format!("{}/{name}", hook.url()), "caBundle": BASE64_STANDARD.encode(&hook.authority)},
        "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}],
        "sideEffects": "None", "admissionReviewVersions": ["v1"], "timeoutSeconds": 30,
    });
    webhook.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    webhook
}

fn path(kind: Kind) -> String {
    let kind = match kind {
        Kind::Mutating => "mutating",
        Kind::Validating => "validating",
    };
    format!("/apis/admissionregistration.k8s.io/v1/{kind}webhookconfigurations")
}

/// Writes a configuration and waits until it is effective: an added webhook rejects leases with its label.
async fn configure(server: &Server, kind: Kind, name: &str, mut webhooks: Vec<Value>) {
    let canary = allowing(|_| json!({"allowed": false, "status": {"message": "canary"}})).await;
    let canary_name = format!("canary-{}", canary.address.port());
    let rules = json!([{
        "apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["leases"],
    }]);
    let labels = json!({"canary": canary_name});
    webhooks.push(webhook(&canary_name, &canary, json!({"rules": rules, "objectSelector": {"matchLabels": labels}})));
    let place = format!("{}/{name}", path(kind));
    let live = send(server, "GET", &place, &Value::Null).await;
    let written = if live.status == 200 {
        let metadata = json!({"name": name, "resourceVersion": live.body["metadata"]["resourceVersion"]});
        send(server, "PUT", &place, &json!({"metadata": metadata, "webhooks": webhooks})).await
    } else {
        send(server, "POST", &path(kind), &json!({"metadata": {"name": name}, "webhooks": webhooks})).await
    };
    assert!(matches!(written.status, 200 | 201), "{}", written.body);
    let lease = json!({"metadata": {"name": "l", "labels": labels}});
    wait_until("the configuration to be known", async || {
        let leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases?dryRun=All";
        let refused = send(server, "POST", leases, &lease).await;
        refused.body["message"].as_str().is_some_and(|told| told.contains(&canary_name)).then_some(())
    })
    .await;
}

/// Starts a webhook that responds to reviews with the result of `respond` for the request; the uid is added.
async fn allowing(respond: impl Fn(&Value) -> Value + Send + Sync + 'static) -> Hook {
    let respond = Arc::new(respond);
    Hook::start(move |request: Request<Vec<u8>>| {
        let respond = respond.clone();
        async move { answer(request.body(), &*respond) }
    })
    .await
}

fn answer(review: &[u8], respond: &(dyn Fn(&Value) -> Value + Send + Sync)) -> Response<Vec<u8>> {
    let review: Value = serde_json::from_slice(review).unwrap();
    let mut response = json!({"uid": review["request"]["uid"], "allowed": true});
    response.as_object_mut().unwrap().extend(respond(&review["request"]).as_object().unwrap().clone());
    let answer = json!({"apiVersion": review["apiVersion"], "kind": "AdmissionReview", "response": response});
    Response::new(answer.to_string().into_bytes())
}

fn patch(operations: &Value) -> Value {
    json!({"patch": BASE64_STANDARD.encode(operations.to_string()), "patchType": "JSONPatch"})
}

/// Returns the sum of the series of a family whose labels contain a text.
async fn metric(server: &Server, family: &str, labels: &str) -> f64 {
    let text = server.client().await.get("/metrics").await.unwrap().body;
    let series = text.lines().filter(|line| line.starts_with(family) && line.contains(labels));
    series.filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok()).sum()
}

/// Correct webhooks: consecutive patches, reinvocation of a webhook that needs the final object, the requests that both
/// kinds get, and denials.
#[tokio::test(flavor = "multi_thread")]
async fn mutating_webhooks_run_before_validating_ones() {
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let first = {
        let seen = seen.clone();
        allowing(move |request| {
            seen.lock().push(request["object"]["metadata"]["labels"].clone());
            let labels = json!({"first": seen.lock().len().to_string()});
            let labels = json!([{"op": "add", "path": "/metadata/annotations", "value": labels}]);
            patch(&labels)
        })
        .await
    };
    let second =
        allowing(|_| patch(&json!([{"op": "add", "path": "/metadata/labels", "value": {"second": "x"}}]))).await;
    let judge = allowing(|request| {
        let labels = &request["object"]["metadata"]["labels"];
        let forbidden = request["object"]["data"]["k"] == "forbidden";
        assert_eq!(request["object"]["metadata"]["uid"].is_string(), request["operation"] == "CREATE");
        json!({
            "allowed": !forbidden, "warnings": [format!("labels {labels}")],
            "status": {"code": 409, "reason": "Conflict", "message": "not that"},
        })
    })
    .await;
    let server = Server::ephemeral();
    let again = json!({"reinvocationPolicy": "IfNeeded"});
    let hooks = vec![webhook("first", &first, again), webhook("second", &second, json!({}))];
    configure(&server, Kind::Mutating, "m", hooks).await;
    configure(&server, Kind::Validating, "v", vec![webhook("judge", &judge, json!({}))]).await;

    let object = json!({"metadata": {"name": "a"}, "data": {"k": "v"}});
    let made = send(&server, "POST", CONFIG_MAPS, &object).await;
    assert_eq!(made.status, 201, "{}", made.body);
    assert_eq!(made.body["metadata"]["labels"], json!({"second": "x"}));
    assert_eq!(made.body["metadata"]["annotations"], json!({"first": "2"}));
    assert_eq!(*seen.lock(), [Value::Null, json!({"second": "x"})]);
    assert_eq!(made.warnings, ["299 - \"labels {\\\"second\\\":\\\"x\\\"}\""]);

    let object = json!({"metadata": {"name": "b"}, "data": {"k": "forbidden"}});
    let refused = send(&server, "POST", CONFIG_MAPS, &object).await;
    let why = "admission webhook \"judge.hooks.test\" denied the request: not that";
    assert_eq!(
        (refused.status, &refused.body["message"], &refused.body["reason"]),
        (409, &json!(why), &json!("Conflict"))
    );
    let rejections = "apiserver_admission_webhook_rejection_count";
    let labels = "error_type=\"no_error\",name=\"judge.hooks.test\",operation=\"CREATE\",rejection_code=\"409\"";
    assert_eq!(metric(&server, rejections, labels).await, 1.0);

    // A user who broke the cluster with a webhook can repair it.
    let gone = send(&server, "DELETE", &format!("{}/v", path(Kind::Validating)), &Value::Null).await;
    assert_eq!(gone.status, 200, "{}", gone.body);
    wait_until("the webhook to be gone", async || {
        let object = json!({"metadata": {"name": "c"}, "data": {"k": "forbidden"}});
        (send(&server, "POST", CONFIG_MAPS, &object).await.status == 201).then_some(())
    })
    .await;
}

/// Configurations are created and deleted while config maps are created: each create sees one state or the next, and
/// none fails.
#[tokio::test(flavor = "multi_thread")]
async fn configuration_changes_fail_no_request() {
    let hook = allowing(|_| patch(&json!([{"op": "add", "path": "/metadata/labels", "value": {"by": "hook"}}]))).await;
    let server = Arc::new(Server::ephemeral());
    configure(&server, Kind::Mutating, "m", vec![webhook("one", &hook, json!({}))]).await;
    let load = {
        let server = server.clone();
        tokio::spawn(async move {
            let mut client = server.client().await;
            for i in 0..100 {
                let object = json!({"metadata": {"name": format!("c{i}")}}).to_string();
                let made = client.send("POST", CONFIG_MAPS, &[("content-type", "application/json")], object).await;
                assert_eq!(made.unwrap().status, 201, "config map {i}");
            }
        })
    };
    let place = format!("{}/m", path(Kind::Mutating));
    for round in 0.. {
        if load.is_finished() {
            break;
        }
        let hooks: Vec<Value> = (0..round % 4).map(|i| webhook(&format!("w{i}"), &hook, json!({}))).collect();
        let live = send(&server, "GET", &place, &Value::Null).await.body;
        let changed = json!({
            "metadata": {"name": "m", "resourceVersion": live["metadata"]["resourceVersion"]}, "webhooks": hooks,
        });
        assert_eq!(send(&server, "PUT", &place, &changed).await.status, 200);
    }
    load.await.unwrap();
    // In the end the last write counts.
    let live = send(&server, "GET", &place, &Value::Null).await.body;
    let labelled = live["webhooks"].as_array().is_some_and(|webhooks| !webhooks.is_empty());
    wait_until("the last configuration to count", async || {
        let tried = try_config_map(&server, "").await;
        (tried.status == 201 && tried.body["metadata"]["labels"].is_object() == labelled).then_some(())
    })
    .await;
}
