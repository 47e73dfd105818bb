//! Query parameters with empty, blank, repeated and differently cased values: none of them turns a dry run into a
//! write.

use binnacle_testkit::Server;
use binnacle_testkit::https::Client;
use serde_json::{Value, json};

const NAMESPACE: &str = "/api/v1/namespaces/default";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

async fn send(client: &mut Client, method: &str, path: &str, kind: &str, body: &Value) -> (u16, Value) {
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let headers = [("content-type", kind)];
    let headers = if body.is_empty() { &headers[..0] } else { &headers[..] };
    let answer = client.send(method, path, headers, body).await.unwrap();
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

fn pod() -> Value {
    let spec = json!({"containers": [{"name": "c", "image": "registry.test/app:1"}]});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec})
}

fn deployment() -> Value {
    let template = json!({"metadata": {"labels": {"app": "d"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let spec = json!({"selector": {"matchLabels": {"app": "d"}}, "template": template});
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": spec})
}

/// Starts a server with a config map, a completed pod, an account and a deployment.
async fn server() -> (Server, Client) {
    let server = Server::start(&["--ephemeral", "--disable-admission-plugins=ServiceAccount"]);
    let mut client = server.client().await;
    let account = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "builder"}});
    for (path, object) in [
        (format!("{NAMESPACE}/configmaps"), config_map("kept")),
        (format!("{NAMESPACE}/pods"), pod()),
        (format!("{NAMESPACE}/serviceaccounts"), account),
        ("/apis/apps/v1/namespaces/default/deployments".to_owned(), deployment()),
    ] {
        let (code, answer) = send(&mut client, "POST", &path, JSON, &object).await;
        assert_eq!(code, 201, "{answer}");
    }
    (server, client)
}

/// Returns the objects of the tests, with their versions.
async fn state(client: &mut Client) -> Vec<Value> {
    let mut objects = Vec::new();
    for path in [
        format!("{NAMESPACE}/configmaps"),
        format!("{NAMESPACE}/pods"),
        format!("{NAMESPACE}/serviceaccounts"),
        "/apis/apps/v1/namespaces/default/deployments".to_owned(),
    ] {
        let (code, list) = send(client, "GET", &path, JSON, &Value::Null).await;
        assert_eq!(code, 200, "{list}");
        objects.push(list["items"].clone());
    }
    objects
}

/// Every kind of write: method, path, content type, body, and the options that kube-apiserver reads.
fn writes() -> Vec<(&'static str, String, &'static str, Value, &'static str)> {
    let map = format!("{NAMESPACE}/configmaps/kept");
    let at_pod = |part: &str| format!("{NAMESPACE}/pods/p{part}");
    let scale = "/apis/apps/v1/namespaces/default/deployments/d/scale".to_owned();
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    let binding = json!({"metadata": {"name": "p"}, "target": {"name": "node"}});
    let token = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": ["a"]}});
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}});
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews".to_owned();
    let applied = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"b": "2"}});
    let phase = json!({"status": {"phase": "Failed"}});
    let delete = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
    vec![
        ("POST", format!("{NAMESPACE}/configmaps"), JSON, config_map("new"), "CreateOptions"),
        ("PUT", map.clone(), JSON, config_map("kept"), "UpdateOptions"),
        ("PATCH", map.clone(), MERGE, json!({"data": {"a": "2"}}), "PatchOptions"),
        ("PATCH", format!("{map}?fieldManager=m"), APPLY, applied, "PatchOptions"),
        ("DELETE", map, JSON, Value::Null, "DeleteOptions"),
        ("DELETE", format!("{NAMESPACE}/configmaps"), JSON, Value::Null, "DeleteOptions"),
        ("PATCH", at_pod("/status"), MERGE, phase, "PatchOptions"),
        ("POST", at_pod("/eviction"), JSON, eviction, "CreateOptions"),
        ("POST", at_pod("/binding"), JSON, binding, "CreateOptions"),
        ("PATCH", scale, MERGE, json!({"spec": {"replicas": 5}}), "PatchOptions"),
        ("POST", format!("{NAMESPACE}/serviceaccounts/builder/token"), JSON, token, "CreateOptions"),
        ("POST", reviews, JSON, review, "CreateOptions"),
        // The query is not read if the body contains the options.
        ("DELETE", at_pod(""), JSON, delete, ""),
    ]
}

#[tokio::test]
async fn invalid_dry_run_changes_nothing() {
    let (_server, mut client) = server().await;
    let before = state(&mut client).await;
    let queries = [
        ("dryRun=", r#"[""]"#),
        ("dryRun", r#"[""]"#),
        ("dryRun=All&dryRun=", r#"["All",""]"#),
        ("dryRun=&dryRun=All", r#"["","All"]"#),
        ("dryRun=%20", r#"[" "]"#),
        ("dryRun=all", r#"["all"]"#),
        ("dryRun=true", r#"["true"]"#),
    ];
    for (method, path, kind, body, options) in writes().iter().filter(|write| !write.4.is_empty()) {
        let joint = if path.contains('?') { '&' } else { '?' };
        for (query, shown) in queries {
            let path = format!("{path}{joint}{query}");
            let (code, status) = send(&mut client, method, &path, kind, body).await;
            let want = format!(
                r#"{options}.meta.k8s.io "" is invalid: dryRun: Unsupported value: {shown}: supported values: "All""#
            );
            assert_eq!((code, status["message"].as_str()), (422, Some(want.as_str())), "{method} {path}");
        }
    }
    assert_eq!(state(&mut client).await, before);
    for (method, path, kind, body, _) in writes().iter().filter(|write| !write.4.is_empty()) {
        let joint = if path.contains('?') { '&' } else { '?' };
        let (code, status) =
            send(&mut client, method, &format!("{path}{joint}dryRun=All&dryRun=All"), kind, body).await;
        assert!(matches!(code, 200 | 201), "{method} {path}: {status}");
    }
    assert_eq!(state(&mut client).await, before);
    let last = writes().pop().unwrap();
    let (code, status) = send(&mut client, last.0, &format!("{}?dryRun=", last.1), last.2, &last.3).await;
    assert_eq!(code, 200, "{status}");
}

#[tokio::test]
async fn parses_query_parameters_like_kube_apiserver() {
    let (_server, mut client) = server().await;
    let maps = format!("{NAMESPACE}/configmaps");
    let map = format!("{maps}/kept");
    let syntax = |value: &str| format!("strconv.ParseInt: parsing {value:?}: invalid syntax");
    let invalid = |kind: &str, why: &str| format!("{kind}.meta.k8s.io \"\" is invalid: {why}");
    let policies = r#"supported values: "Foreground", "Background", "Orphan", "nil""#;
    let blank_policy = invalid("DeleteOptions", &format!("propagationPolicy: Unsupported value: \"\": {policies}"));
    let blank_validation = invalid(
        "PatchOptions",
        r#"fieldValidation: Unsupported value: " ": supported values: "", "Ignore", "Strict", "Warn""#,
    );
    let forced = invalid("PatchOptions", "force: Forbidden: may not be specified for non-apply patch");
    let initial = invalid("ListOptions", "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list");
    let out_of_range = "strconv.ParseInt: parsing \"9223372036854775808\": value out of range".to_owned();
    let ok = String::new;
    for (method, path, query, code, message) in [
        ("GET", &maps, "limit=", 400, syntax("")),
        ("GET", &maps, "limit", 400, syntax("")),
        ("GET", &maps, "limit=%20", 400, syntax(" ")),
        ("GET", &maps, "limit=1&limit=", 200, ok()),
        ("GET", &maps, "limit=&limit=1", 400, syntax("")),
        ("GET", &maps, "limit=9223372036854775808", 400, out_of_range),
        ("GET", &maps, "limit=-1&Limit=", 200, ok()),
        ("GET", &maps, "timeoutSeconds=", 400, syntax("")),
        ("GET", &maps, "timeoutSeconds=%20", 400, syntax(" ")),
        ("GET", &maps, "labelSelector=&fieldSelector=&resourceVersion=&resourceVersionMatch=&continue=", 200, ok()),
        ("GET", &maps, "labelSelector=%20", 200, ok()),
        ("GET", &maps, "watch=0&watch=1", 200, ok()),
        ("GET", &maps, "sendInitialEvents=", 422, initial),
        ("GET", &map, "resourceVersion=", 200, ok()),
        ("PATCH", &map, "fieldManager=&fieldValidation=", 200, ok()),
        ("PATCH", &map, "fieldValidation=%20", 422, blank_validation),
        ("PATCH", &map, "force=", 422, forced),
        ("DELETE", &maps, "limit=", 400, syntax("")),
        ("DELETE", &maps, "timeoutSeconds=", 400, syntax("")),
        ("DELETE", &maps, "gracePeriodSeconds=", 400, syntax("")),
        ("DELETE", &map, "gracePeriodSeconds=", 400, syntax("")),
        ("DELETE", &map, "gracePeriodSeconds=0&gracePeriodSeconds=", 200, ok()),
        ("DELETE", &map, "propagationPolicy=", 422, blank_policy),
        ("DELETE", &map, "uid=&resourceVersion=&orphanDependents=false&dryRun=All", 404, "*".to_owned()),
    ] {
        let body = if method == "PATCH" { json!({"data": {"b": "2"}}) } else { Value::Null };
        let (got, answer) = send(&mut client, method, &format!("{path}?{query}"), MERGE, &body).await;
        assert_eq!(got, code, "{method} {query}: {answer}");
        if code != 200 && message != "*" {
            assert_eq!(answer["message"], message, "{method} {query}");
        }
    }
}

#[tokio::test]
async fn watch_ends_with_a_negative_timeout() {
    let (_server, mut client) = server().await;
    for timeout in ["-1", "-9223372036854775808"] {
        let path = format!("{NAMESPACE}/configmaps?watch=1&resourceVersion=0&timeoutSeconds={timeout}");
        let answer = client.send("GET", &path, &[], String::new()).await.unwrap();
        assert_eq!(answer.status, 200, "{timeout}: {}", answer.body);
    }
}
