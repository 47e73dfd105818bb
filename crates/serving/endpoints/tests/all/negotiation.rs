//! The outputs of responses: objects, tables and partial metadata, in each encoding.

use serde_json::json;

use crate::support::{CONFIG_MAPS, Server};

const TABLE: &str = "as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

/// Returns the kind in a body of any encoding.
fn kind_of(body: &[u8]) -> String {
    if let Some(envelope) = body.strip_prefix(b"k8s\0") {
        // TypeMeta is the first field: its length, apiVersion and kind, each with a tag and a length.
        let meta = &envelope[2..2 + usize::from(envelope[1])];
        let kind = &meta[2 + usize::from(meta[1])..];
        return String::from_utf8(kind[2..].to_vec()).unwrap();
    }
    let text = String::from_utf8_lossy(body);
    if let Ok(json) = serde_json::from_str::<serde_json::Value>(&text) {
        return json["kind"].as_str().unwrap_or_default().to_owned();
    }
    text.lines().find_map(|line| line.strip_prefix("kind: ")).unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn returns_each_transform_in_each_encoding() {
    let server = Server::new().with_config_maps(&["a", "b"]).await;
    let (one, list) = (format!("{CONFIG_MAPS}/a"), CONFIG_MAPS.to_owned());
    let protobuf = "application/vnd.kubernetes.protobuf";
    for (path, transform, kind) in [
        (&one, "", "ConfigMap"),
        (&list, "", "ConfigMapList"),
        (&one, TABLE, "Table"),
        (&list, TABLE, "Table"),
        (&one, PARTIAL, "PartialObjectMetadata"),
        (&list, PARTIAL_LIST, "PartialObjectMetadataList"),
    ] {
        for encoding in ["application/json", "application/yaml", protobuf] {
            let accept = if transform.is_empty() { encoding.to_owned() } else { format!("{encoding};{transform}") };
            let response = server.send(&format!("GET {path}"), &[&format!("accept: {accept}")], "").await;
            // Tables have no protobuf encoding.
            let (status, media_type, kind) = if (encoding, kind) == (protobuf, "Table") {
                (406, "application/json", "Status")
            } else {
                (200, encoding, kind)
            };
            assert_eq!((response.status, response.kind.as_str()), (status, media_type), "{path} {accept}");
            assert_eq!(kind_of(&response.body), kind, "{path} {accept}");
            assert_eq!(response.body.starts_with(b"k8s\0"), media_type == protobuf, "{path} {accept}");
        }
    }
}

/// Covers kinds that are returned as stored, that are completed by a read, and that are stored in another version.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn protobuf_write_response_equals_get_response() {
    let server = Server::new();
    let accept = "accept: application/vnd.kubernetes.protobuf";
    let hpa = json!({"metadata": {"name": "a"}, "spec": {
        "scaleTargetRef": {"kind": "Deployment", "name": "d", "apiVersion": "apps/v1"}, "maxReplicas": 3
    }});
    for (path, object) in [
        (CONFIG_MAPS, json!({"metadata": {"name": "a", "labels": {}}, "data": {"k": "v"}, "binaryData": {}})),
        ("/api/v1/namespaces/default/secrets", json!({"metadata": {"name": "a"}, "data": {"k": "dg=="}})),
        (
            "/api/v1/namespaces/default/services",
            json!({"metadata": {"name": "a"}, "spec": {"type": "ExternalName", "externalName": "a.test"}}),
        ),
        (
            "/apis/batch/v1/namespaces/default/jobs",
            json!({"metadata": {"name": "a"}, "spec": {"template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]
            }}}}),
        ),
        ("/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers", hpa.clone()),
        ("/apis/autoscaling/v2/namespaces/other/horizontalpodautoscalers", hpa),
    ] {
        let (one, body) = (format!("{path}/a"), object.to_string());
        let json_body = "content-type: application/json";
        let created = server.send(&format!("POST {path}"), &[accept, json_body], &body).await;
        assert_eq!(created.status, 201, "{path}: {}", created.text());
        let get = || server.get(&one, accept);
        assert_eq!(created.body, get().await.body, "{path}");
        let patch = json!({"metadata": {"annotations": {"a": "b"}}}).to_string();
        let merge = "content-type: application/merge-patch+json";
        // The second write changes nothing.
        for _ in 0..2 {
            let patched = server.send(&format!("PATCH {one}"), &[accept, merge], &patch).await;
            assert_eq!(patched.status, 200, "{path}: {}", patched.text());
            assert_eq!(patched.body, get().await.body, "{path}");
        }
        let mut changed = server.send(&format!("GET {one}"), &[], "").await.json();
        changed["metadata"]["labels"] = json!({"l": "v"});
        let updated = server.send(&format!("PUT {one}"), &[accept, json_body], &changed.to_string()).await;
        assert_eq!(updated.status, 200, "{path}: {}", updated.text());
        assert_eq!(updated.body, get().await.body, "{path}");
        assert!(updated.body.starts_with(b"k8s\0"), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn negotiates_by_accept_header() {
    let server = Server::new().with_config_maps(&["a"]).await;
    let one = format!("GET {CONFIG_MAPS}/a");
    for (accept, status, kind, body_kind) in [
        ("", 200, "application/json", "ConfigMap"),
        ("*/*", 200, "application/json", "ConfigMap"),
        ("application/*", 406, "application/json", "Status"),
        ("text/html, application/yaml", 200, "application/yaml", "ConfigMap"),
        ("application/json;q=0.1, application/yaml;q=0.9", 200, "application/yaml", "ConfigMap"),
        ("text/html", 406, "application/json", "Status"),
        ("application/json;as=Table;v=v2;g=meta.k8s.io, application/json", 200, "application/json", "ConfigMap"),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", 200, "application/json", "Table"),
        ("application/json;as=Nothing;v=v1;g=meta.k8s.io", 406, "application/json", "Status"),
    ] {
        let header = format!("accept: {accept}");
        let headers: &[&str] = if accept.is_empty() { &[] } else { &[&header] };
        let response = server.send(&one, headers, "").await;
        assert_eq!((response.status, response.kind.as_str()), (status, kind), "{accept}: {}", response.text());
        assert_eq!(kind_of(&response.body), body_kind, "{accept}");
    }
    let pretty = server.send(&format!("{one}?pretty=true"), &[], "").await;
    assert!(pretty.text().starts_with("{\n  \"kind\": \"ConfigMap\""), "{}", pretty.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tables_have_columns_and_rows() {
    let server = Server::new().with_config_maps(&["a", "b"]).await;
    let accept = format!("accept: application/json;{TABLE}");
    for (query, cells, object) in [
        ("", json!([["a", 1], ["b", 1]]), json!("PartialObjectMetadata")),
        ("?includeObject=None", json!([["a", 1], ["b", 1]]), json!(null)),
        ("?includeObject=Object", json!([["a", 1], ["b", 1]]), json!("ConfigMap")),
        ("?limit=1", json!([["a", 1]]), json!("PartialObjectMetadata")),
        ("?fieldSelector=metadata.name=b", json!([["b", 1]]), json!("PartialObjectMetadata")),
        ("?labelSelector=l=w", json!([]), json!(null)),
    ] {
        let response = server.send(&format!("GET {CONFIG_MAPS}{query}"), &[&accept], "").await;
        let columns: Vec<_> =
            response.at("/columnDefinitions").as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
        assert_eq!(columns, ["Name", "Data", "Age"], "{query}");
        let rows = response.at("/rows");
        let rows = rows.as_array().unwrap();
        let found: Vec<_> = rows.iter().map(|row| row["cells"].as_array().unwrap()[..2].to_vec()).collect();
        assert_eq!(json!(found), cells, "{query}");
        assert_eq!(response.at("/rows/0/object/kind"), object, "{query}");
        assert_eq!(
            response.at("/metadata/remainingItemCount"),
            if query == "?limit=1" { json!(1) } else { json!(null) }
        );
    }
    let wrong = server.send(&format!("GET {CONFIG_MAPS}?includeObject=All"), &[&accept], "").await;
    assert_eq!(wrong.status, 400, "{}", wrong.text());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn decodes_bodies_by_content_type() {
    let server = Server::new();
    let json = r#"{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "NAME"}}"#;
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: NAME\n";
    for (index, (kind, body, status)) in [
        ("application/json", json, 201),
        ("application/json; charset=utf-8", json, 201),
        ("application/yaml", yaml, 201),
        ("application/yaml", json, 201),
        ("", json, 201),
        ("application/json", yaml, 400),
        ("application/vnd.kubernetes.protobuf", json, 400),
        ("text/plain", json, 415),
        ("application/xml", json, 415),
        ("application/json", "", 400),
        ("application/json", "{\"apiVersion\": \"v1\", \"kind\": \"Secret\", \"metadata\": {\"name\": \"a\"}}", 400),
    ]
    .into_iter()
    .enumerate()
    {
        let header = format!("content-type: {kind}");
        let headers: &[&str] = if kind.is_empty() { &[] } else { &[&header] };
        let body = body.replace("NAME", &format!("a{index}"));
        let response = server.send(&format!("POST {CONFIG_MAPS}"), headers, &body).await;
        assert_eq!(response.status, status, "{kind} {body}: {}", response.text());
    }
}
