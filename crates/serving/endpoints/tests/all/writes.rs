//! Parameters of writes: dry runs, validation of fields, preconditions, generated names.

use serde_json::{Value as Json, json};

use crate::support::{CONFIG_MAPS, Server};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dry_runs_do_not_persist() {
    let server = Server::new().with_config_maps(&["a"]).await;
    let (post, one) = (format!("POST {CONFIG_MAPS}"), format!("{CONFIG_MAPS}/a"));
    let new = r#"{"metadata": {"name": "new"}}"#;
    let changed = r#"{"metadata": {"name": "a"}, "data": {"k": "changed"}}"#;
    for (request_line, body, status) in [
        (format!("{post}?dryRun=All"), new, 201),
        (format!("{post}?dryRun=All&dryRun=All"), new, 201),
        (format!("{post}?dryRun=Some"), new, 422),
        (format!("PUT {one}?dryRun=All"), changed, 200),
        (format!("DELETE {one}?dryRun=All"), "", 200),
        (format!("DELETE {one}"), r#"{"kind": "DeleteOptions", "apiVersion": "v1", "dryRun": ["All"]}"#, 200),
        (format!("DELETE {CONFIG_MAPS}?dryRun=All"), "", 200),
    ] {
        let response = server.send(&request_line, &[], body).await;
        assert_eq!(response.status, status, "{request_line}: {}", response.text());
        let list = server.send(&format!("GET {CONFIG_MAPS}"), &[], "").await;
        assert_eq!(list.at("/items/0/data"), json!({"k": "v"}), "{request_line}");
        assert_eq!(list.at("/items").as_array().map(Vec::len), Some(1), "{request_line}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn handles_unknown_and_duplicate_fields_by_field_validation() {
    let server = Server::new();
    let unknown = r#"{"metadata": {"generateName": "a-"}, "dta": {"k": "v"}}"#;
    let twice = r#"{"metadata": {"generateName": "a-"}, "data": {"k": "v"}, "data": {"k": "w"}}"#;
    for (validation, body, status, message) in [
        ("", unknown, 201, r#"unknown field "dta""#),
        ("?fieldValidation=Warn", unknown, 201, r#"unknown field "dta""#),
        ("?fieldValidation=Warn", twice, 201, r#"duplicate field "data""#),
        ("?fieldValidation=Ignore", unknown, 201, ""),
        ("?fieldValidation=Ignore", twice, 201, ""),
        ("?fieldValidation=Strict", unknown, 400, r#"strict decoding error: unknown field "dta""#),
        ("?fieldValidation=Strict", twice, 400, r#"strict decoding error: duplicate field "data""#),
        ("?fieldValidation=Some", unknown, 422, r#"fieldValidation: Unsupported value: "Some""#),
    ] {
        let response = server.send(&format!("POST {CONFIG_MAPS}{validation}"), &[], body).await;
        assert_eq!(response.status, status, "{validation} {body}: {}", response.text());
        if status == 201 {
            let warned = response.warnings.iter().any(|warning| warning.replace('\\', "").contains(message));
            assert!(warned || response.warnings.is_empty(), "{:?}", response.warnings);
            assert_eq!(
                response.warnings.is_empty(),
                message.is_empty(),
                "{validation} {body}: {:?}",
                response.warnings
            );
        } else {
            assert!(response.at("/message").as_str().unwrap().contains(message), "{}", response.text());
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejects_conflicts_and_failed_preconditions() {
    let server = Server::new().with_config_maps(&["a"]).await;
    let one = format!("{CONFIG_MAPS}/a");
    let put = |metadata: Json| json!({"metadata": metadata, "data": {"k": "w"}}).to_string();
    let delete = |preconditions: Json| {
        json!({"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": preconditions}).to_string()
    };
    for (case, method, body, status, reason) in [
        ("another name", "PUT", put(json!({"name": "b"})), 400, json!("BadRequest")),
        ("another namespace", "PUT", put(json!({"name": "a", "namespace": "x"})), 400, json!("BadRequest")),
        ("an older version", "PUT", put(json!({"name": "a", "resourceVersion": "1"})), 409, json!("Conflict")),
        ("another uid", "PUT", put(json!({"name": "a", "uid": "x"})), 409, json!("Conflict")),
        ("no version", "PUT", put(json!({"name": "a"})), 200, json!(null)),
        ("a delete of another uid", "DELETE", delete(json!({"uid": "x"})), 409, json!("Conflict")),
        ("a delete of another version", "DELETE", delete(json!({"resourceVersion": "1"})), 409, json!("Conflict")),
        ("a delete", "DELETE", delete(json!({})), 200, json!(null)),
        ("a deleted object", "DELETE", delete(json!({})), 404, json!("NotFound")),
        ("a deleted object", "PUT", put(json!({"name": "a"})), 404, json!("NotFound")),
    ] {
        let response = server.send(&format!("{method} {one}"), &[], &body).await;
        assert_eq!(response.status, status, "{case}: {}", response.text());
        assert_eq!(response.at("/reason"), reason, "{case}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn generates_names() {
    let server = Server::new();
    for (metadata, status, prefix, length) in [
        (json!({"generateName": "a-"}), 201, "a-", 7),
        (json!({"generateName": "b".repeat(70)}), 201, "bbbb", 63),
        (json!({"generateName": "a-", "name": "c"}), 201, "c", 1),
        (json!({}), 422, "", 0),
    ] {
        let response =
            server.send(&format!("POST {CONFIG_MAPS}"), &[], &json!({"metadata": metadata}).to_string()).await;
        assert_eq!(response.status, status, "{metadata}: {}", response.text());
        let name = response.at("/metadata/name");
        let name = name.as_str().unwrap_or_default();
        assert!(name.starts_with(prefix) && name.len() == length, "{metadata}: {name}");
    }
}
