//! Field managers: the recorded entries, and server-side apply.

use serde_json::{Value as Json, json};

use crate::support::{CONFIG_MAPS, Server, TestResponse};

const APPLY: &str = "content-type: application/apply-patch+yaml";

/// Returns the manager, operation and fields of each entry, sorted by manager.
fn entries(response: &TestResponse) -> Vec<(String, String, Json)> {
    let fields = response.at("/metadata/managedFields");
    let text = |entry: &Json, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let entry = |entry: &Json| (text(entry, "manager"), text(entry, "operation"), entry["fieldsV1"].clone());
    let mut entries: Vec<_> = fields.as_array().into_iter().flatten().map(entry).collect();
    entries.sort_by_key(|(manager, operation, _)| (manager.clone(), operation.clone()));
    entries
}

fn data(keys: &[&str]) -> Json {
    let mut members: serde_json::Map<String, Json> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
    members.insert(".".to_owned(), json!({}));
    json!({"f:data": members})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_manager_from_query_or_user_agent() {
    let server = Server::new();
    let long = "m".repeat(129);
    for (name, query, headers, status, manager) in [
        ("a", "", &["user-agent: kubectl/v1.36 (linux)"][..], 201, "kubectl"),
        ("b", "", &[], 201, "unknown"),
        ("c", "?fieldManager=mine", &["user-agent: kubectl/v1.36"], 201, "mine"),
        ("d", &*format!("?fieldManager={long}"), &[], 422, ""),
        ("e", "?fieldManager=%07", &[], 422, ""),
    ] {
        let body = format!("{{\"metadata\": {{\"name\": \"{name}\"}}, \"data\": {{\"k\": \"v\"}}}}");
        let response = server.send(&format!("POST {CONFIG_MAPS}{query}"), headers, &body).await;
        assert_eq!(response.status, status, "{query}: {}", response.text());
        if status == 201 && !manager.is_empty() {
            assert_eq!(entries(&response), [(manager.to_owned(), "Update".to_owned(), data(&["k"]))], "{query}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn apply_creates_merges_conflicts_and_forces() {
    let server = Server::new();
    let map = |data: &str| format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: a}}, data: {data}}}");
    for (case, query, body, status, want) in [
        ("no manager", "", map("{k: v}"), 422, json!("fieldManager: Required value: is required for apply patch")),
        ("an object that is not there", "fieldManager=one", map("{k: v}"), 201, json!({"k": "v"})),
        ("the same again", "fieldManager=one", map("{k: v}"), 200, json!({"k": "v"})),
        ("another's field, as it is", "fieldManager=two", map("{k: v, l: w}"), 200, json!({"k": "v", "l": "w"})),
        (
            "another's field, changed",
            "fieldManager=two",
            map("{k: x}"),
            409,
            json!("Apply failed with 1 conflict: conflict with \"one\": .data.k"),
        ),
        ("by force", "fieldManager=two&force=true", map("{k: x}"), 200, json!({"k": "x"})),
        ("the first lets go", "fieldManager=one", map("{}"), 200, json!({"k": "x"})),
        ("the last lets go", "fieldManager=two", map("{}"), 200, json!(null)),
        ("whatever is not false is force", "fieldManager=one&force=maybe", map("{k: z}"), 200, json!({"k": "z"})),
    ] {
        let response = server.send(&format!("PATCH {CONFIG_MAPS}/a?{query}"), &[APPLY], &body).await;
        assert_eq!(response.status, status, "{case}: {}", response.text());
        match &want {
            Json::String(message) => {
                let got = response.at("/message");
                assert!(got.as_str().unwrap().contains(message.as_str()), "{case}: {got}");
            }
            data => {
                let got = response.at("/data");
                assert!(got == *data || data.is_null() && got == json!({}), "{case}: {got}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn update_takes_ownership_of_changed_fields() {
    let server = Server::new();
    let applied = "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}, data: {k: v, l: v}}";
    server.send(&format!("PATCH {CONFIG_MAPS}/a?fieldManager=one"), &[APPLY], applied).await;
    let merge = "content-type: application/merge-patch+json";
    let patch = r#"{"data": {"l": "w", "m": "w"}}"#;
    let response = server.send(&format!("PATCH {CONFIG_MAPS}/a?fieldManager=two"), &[merge], patch).await;
    let want = [
        ("one".to_owned(), "Apply".to_owned(), json!({"f:data": {"f:k": {}}})),
        ("two".to_owned(), "Update".to_owned(), json!({"f:data": {"f:l": {}, "f:m": {}}})),
    ];
    assert_eq!(entries(&response), want);
    // A list with one empty entry removes all entries.
    let patch = r#"{"metadata": {"managedFields": [{}]}}"#;
    let response = server.send(&format!("PATCH {CONFIG_MAPS}/a?fieldManager=two"), &[merge], patch).await;
    assert_eq!((response.status, entries(&response)), (200, Vec::new()));
}
