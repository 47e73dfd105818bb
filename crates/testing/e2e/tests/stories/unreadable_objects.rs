//! Unreadable objects: clients get an error for them, and can delete them if they have the permission (KEP-3926).

use binnacle_testkit::{Etcd, Server, TempDir, wait_until};
use serde_json::{Value, json};

use crate::namespace;

const GATE: &str = "--feature-gates=AllowUnsafeMalformedObjectDeletion=true";
const MAPS: &str = "/api/v1/namespaces/attic/configmaps";
const OPTION: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";
const ONLY: &str = "is exclusively used to delete corrupt object(s), try again by removing this option";

async fn send(server: &Server, method: &str, path: &str, body: &Value) -> (u16, Value) {
    let headers = [("content-type", "application/json")];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    let answer = server.client().await.send(method, path, &headers, body).await.unwrap();
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

async fn create(server: &Server, name: &str) {
    let map = json!({"metadata": {"name": name, "finalizers": ["example.com/held"]}, "data": {"a": "b"}});
    let (status, body) = send(server, "POST", MAPS, &map).await;
    assert_eq!(status, 201, "{body}");
}

fn options(more: &Value) -> Value {
    let mut options = json!({"kind": "DeleteOptions", "apiVersion": "v1", OPTION: true});
    options.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
    options
}

/// Returns the field and reason for each object that a list could not read.
fn named(list: &Value) -> Vec<(&str, &str)> {
    let causes = list["details"]["causes"].as_array().unwrap();
    causes
        .iter()
        .map(|cause| (cause["field"].as_str().unwrap_or_default(), cause["reason"].as_str().unwrap()))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn lists_and_deletes_undecodable_objects() {
    let etcd = Etcd::single();
    let server = tokio::task::block_in_place(|| Server::durable_with(&[&etcd.servers(), GATE]));
    namespace(&server.kube().await, "attic").await;
    for name in ["good", "torn", "foreign"] {
        create(&server, name).await;
    }
    etcd.put("/registry/configmaps/attic/torn", b"k8s\0\x0a\x10garbage");
    etcd.put("/registry/configmaps/attic/foreign", b"k8s:enc:aescbc:v1:key1:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx");
    let corrupt = "StorageError: corrupt object, Code: 7, Key: /configmaps/attic/";
    let foreign =
        "data from the storage is not transformable revision=0: identity transformer tried to read encrypted data";
    for (name, why) in [("torn", "object not decodable revision="), ("foreign", foreign)] {
        for method in ["GET", "DELETE"] {
            let (status, body) = send(&server, method, &format!("{MAPS}/{name}"), &Value::Null).await;
            let want =
                format!("Internal error occurred: {corrupt}{name}, ResourceVersion: 0, AdditionalErrorMsg: {why}");
            assert!(status == 500 && body["message"].as_str().unwrap().starts_with(&want), "{method}: {body}");
        }
        let map = json!({"metadata": {"name": name}});
        let (status, body) = send(&server, "PUT", &format!("{MAPS}/{name}"), &map).await;
        assert!(status == 500 && body["message"].as_str().unwrap().contains(why), "{body}");
        let (status, body) = send(&server, "POST", MAPS, &map).await;
        assert_eq!((status, &body["reason"]), (409, &json!("AlreadyExists")), "{body}");
    }
    assert_eq!(send(&server, "GET", &format!("{MAPS}/good"), &Value::Null).await.0, 200);
    for query in ["", "?limit=500", "?limit=1"] {
        let (status, list) = send(&server, "GET", &format!("{MAPS}{query}"), &Value::Null).await;
        assert_eq!((status, &list["reason"]), (500, &json!("StorageReadError")), "{query}: {list}");
        assert_eq!(list["message"], "failed to read one or more configmaps from the storage");
        let all = ["foreign", "torn"].map(|name| format!("/registry/configmaps/attic/{name}"));
        let want: Vec<_> = all.iter().map(|key| (key.as_str(), "UnexpectedServerResponse")).collect();
        // A page ends when it is full, and then lists the unreadable objects in it.
        let want = if query.ends_with("=1") { &want[..1] } else { &want };
        assert_eq!(named(&list), want, "{query}");
    }
    for (more, other) in [
        (json!({"dryRun": ["All"]}), "dryRun"),
        (json!({"propagationPolicy": "Orphan"}), "propagationPolicy"),
        (json!({"orphanDependents": true}), "orphanDependents"),
        (json!({"gracePeriodSeconds": 0}), "gracePeriodSeconds"),
        (json!({"preconditions": {}}), "preconditions"),
    ] {
        let (status, body) = send(&server, "DELETE", &format!("{MAPS}/torn"), &options(&more)).await;
        let want = format!("Invalid value: true: cannot be set together with .{other}");
        assert_eq!((status, &body["details"]["causes"][0]["message"]), (422, &json!(want)), "{body}");
    }
    let delete = options(&json!({}));
    for (path, status, message) in [
        (format!("{MAPS}/good"), 422, ONLY),
        (format!("{MAPS}/nothing"), 422, ONLY),
        (MAPS.to_owned(), 422, "is not allowed with DELETECOLLECTION, try again after removing the option"),
        ("/api/v1/namespaces/attic".to_owned(), 500, "no unsafe deleter provided, can not honor"),
    ] {
        let (got, body) = send(&server, "DELETE", &path, &delete).await;
        assert!(got == status && body["message"].as_str().unwrap().contains(message), "{path}: {body}");
    }
    // Finalizers and preconditions are ignored.
    for name in ["torn", "foreign"] {
        let (status, body) = send(&server, "DELETE", &format!("{MAPS}/{name}?{OPTION}=true"), &Value::Null).await;
        assert_eq!(status, 200, "{body}");
        assert_eq!(body["details"], json!({"name": name, "kind": "ConfigMap"}));
        assert_eq!(body["code"], 200);
    }
    let left = wait_until("the cache is filled again", async || {
        let (status, list) = send(&server, "GET", MAPS, &Value::Null).await;
        (status == 200).then_some(list)
    })
    .await;
    assert_eq!(left["items"].as_array().unwrap().len(), 1, "{left}");
}

#[tokio::test(flavor = "multi_thread")]
async fn deletes_objects_whose_key_is_lost() {
    let files = TempDir::new();
    let file = files.join("encryption.yaml");
    let configure = |key: &str| {
        let text = format!(
            "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [configmaps]\n  \
             providers: [{{aesgcm: {{keys: [{{name: {key}, secret: MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=}}]}}}}]\n"
        );
        std::fs::write(&file, text).unwrap();
    };
    configure("one");
    let arguments = ["--encryption-provider-config", &file, GATE];
    let mut server = tokio::task::block_in_place(|| Server::durable_with(&arguments));
    namespace(&server.kube().await, "attic").await;
    for n in 0..102 {
        create(&server, &format!("m{n:03}")).await;
    }
    configure("two");
    tokio::task::block_in_place(|| server.restart());
    let (_, list) = send(&server, "GET", &format!("{MAPS}?limit=500"), &Value::Null).await;
    let named = named(&list);
    assert_eq!((named.len(), named[0].0), (101, "/registry/configmaps/attic/m000"));
    assert_eq!(named[100], ("", "FieldValueTooMany"));
    let (status, body) = send(&server, "DELETE", &format!("{MAPS}/m000"), &options(&json!({}))).await;
    assert_eq!(status, 200, "{body}");
    let (_, list) = send(&server, "GET", &format!("{MAPS}?limit=500"), &Value::Null).await;
    assert_eq!(self::named(&list)[0].0, "/registry/configmaps/attic/m001");
}
