//! The types of patches, and their effects on lists.

use serde_json::{Value as Json, json};

use crate::support::{CONFIG_MAPS, Server, TestResponse};

const PODS: &str = "/api/v1/namespaces/default/pods";

async fn check_patch(server: &Server, case: &str, path: &str, kind: &str, patch: &str, want: (u16, &str, Json)) {
    let (status, pointer, value) = want;
    let response: TestResponse =
        server.send(&format!("PATCH {path}"), &[&format!("content-type: {kind}")], patch).await;
    assert_eq!(response.status, status, "{case}: {}", response.text());
    assert_eq!(response.at(pointer), value, "{case}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn applies_each_patch_type_and_rejects_invalid_patches() {
    let (json_patch, merge) = ("application/json-patch+json", "application/merge-patch+json");
    let strategic = "application/strategic-merge-patch+json";
    let server = Server::new().with_config_maps(&["a"]).await;
    let path = format!("{CONFIG_MAPS}/a");
    for (case, kind, patch, want) in [
        ("a merge", merge, r#"{"data": {"x": "1", "k": null}}"#, (200, "/data", json!({"x": "1"}))),
        (
            "operations",
            json_patch,
            r#"[{"op": "add", "path": "/data/y", "value": "2"}]"#,
            (200, "/data", json!({"x": "1", "y": "2"})),
        ),
        (
            "a test that fails",
            json_patch,
            r#"[{"op": "test", "path": "/data/y", "value": "3"}, {"op": "remove", "path": "/data/y"}]"#,
            (422, "/reason", json!("Invalid")),
        ),
        (
            "a path that is not there",
            json_patch,
            r#"[{"op": "remove", "path": "/data/z"}]"#,
            (422, "/reason", json!("Invalid")),
        ),
        (
            "a strategic merge",
            strategic,
            r#"{"data": {"$patch": "replace", "z": "3"}}"#,
            (200, "/data", json!({"z": "3"})),
        ),
        ("a broken document", merge, "{", (400, "/reason", json!("BadRequest"))),
        (
            "a version that is gone",
            merge,
            r#"{"metadata": {"resourceVersion": "1"}}"#,
            (409, "/reason", json!("Conflict")),
        ),
        ("another name", merge, r#"{"metadata": {"name": "b"}}"#, (400, "/reason", json!("BadRequest"))),
        (
            "a space before the parameters",
            "application/merge-patch+json ;a=b",
            "{}",
            (415, "/reason", json!("UnsupportedMediaType")),
        ),
        ("another case", "application/Merge-Patch+json", "{}", (415, "/reason", json!("UnsupportedMediaType"))),
        ("no patch at all", "application/json", "{}", (415, "/reason", json!("UnsupportedMediaType"))),
    ] {
        check_patch(&server, case, &path, kind, patch, want).await;
    }
    check_patch(
        &server,
        "nothing there",
        &format!("{CONFIG_MAPS}/b"),
        merge,
        "{}",
        (404, "/reason", json!("NotFound")),
    )
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn only_strategic_patches_merge_lists_by_key() {
    let (merge, strategic) = ("application/merge-patch+json", "application/strategic-merge-patch+json");
    let (a, b, new) = (json!(["a", "a"]), json!(["b", "b"]), |name: &str| json!([name, "new"]));
    for (case, kind, containers, status, want) in [
        ("one of them by its name", strategic, json!([{"name": "b", "image": "new"}]), 200, json!([a, new("b")])),
        ("in another order", strategic, json!([{"name": "b"}, {"name": "a"}]), 422, json!([])),
        (
            "whole",
            merge,
            json!([{"name": "a", "image": "new"}, {"name": "b", "image": "b"}]),
            200,
            json!([new("a"), b]),
        ),
        ("one is missing", merge, json!([{"name": "b", "image": "b"}]), 422, json!([])),
    ] {
        let server = Server::new();
        let pod = json!({"metadata": {"name": "p"},
            "spec": {"containers": [{"name": "a", "image": "a"}, {"name": "b", "image": "b"}]}});
        let created = server.send(&format!("POST {PODS}"), &[], &pod.to_string()).await;
        assert_eq!(created.status, 201, "{}", created.text());
        let headers = [&*format!("content-type: {kind}")];
        let patch = json!({"spec": {"containers": containers}}).to_string();
        let response = server.send(&format!("PATCH {PODS}/p"), &headers, &patch).await;
        assert_eq!(response.status, status, "{case}: {}", response.text());
        let containers = response.at("/spec/containers");
        let image = |container: &Json| json!([container["name"], container["image"]]);
        let got: Vec<Json> = containers.as_array().into_iter().flatten().map(image).collect();
        assert_eq!(json!(got), want, "{case}");
    }
}
