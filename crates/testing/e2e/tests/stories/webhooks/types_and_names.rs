//! Patches that change what an object is: its kind, or its name in an update that creates it.

use super::*;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

fn for_leases() -> Value {
    json!({"rules": [{
        "apiGroups": ["coordination.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["leases"],
    }], "objectSelector": {"matchLabels": {"change": "yes"}}})
}

/// The next mutating webhook sees an object without the members that a patch removed; a validating one, and the result,
/// have them.
#[tokio::test(flavor = "multi_thread")]
async fn restores_a_type_that_a_patch_removed() {
    let remover = allowing(|_| {
        patch(&json!([{"op": "remove", "path": "/kind"}, {"op": "replace", "path": "/apiVersion", "value": ""}]))
    })
    .await;
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let reader = || {
        let seen = seen.clone();
        allowing(move |request| {
            seen.lock().push(json!([request["object"]["kind"], request["object"]["apiVersion"]]));
            json!({})
        })
    };
    let (next, judge) = (reader().await, reader().await);
    let server = Server::ephemeral();
    let hooks = vec![webhook("a", &remover, json!({})), webhook("b", &next, json!({}))];
    configure(&server, Kind::Mutating, "m", hooks).await;
    configure(&server, Kind::Validating, "v", vec![webhook("c", &judge, json!({}))]).await;
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"name": "a"}});
    let made = send(&server, "POST", CONFIG_MAPS, &object).await;
    assert_eq!((made.status, &made.body["kind"], &made.body["apiVersion"]), (201, &json!("ConfigMap"), &json!("v1")));
    assert_eq!(*seen.lock(), [json!([null, null]), json!(["ConfigMap", "v1"])]);
}

/// An update that creates does so under the name in its path, whatever name or version a webhook gives to the object.
#[tokio::test(flavor = "multi_thread")]
async fn creates_under_the_name_in_the_path() {
    let renamer = allowing(|request| {
        let operations = match request["object"]["metadata"]["labels"]["to"].as_str() {
            Some("generated") => json!([
                {"op": "remove", "path": "/metadata/name"},
                {"op": "add", "path": "/metadata/generateName", "value": "x-"},
            ]),
            _ => json!([
                {"op": "replace", "path": "/metadata/name", "value": "other"},
                {"op": "add", "path": "/metadata/resourceVersion", "value": "7"},
            ]),
        };
        patch(&operations)
    })
    .await;
    let server = Server::ephemeral();
    configure(&server, Kind::Mutating, "m", vec![webhook("one", &renamer, for_leases())]).await;
    let lease = |name: &str, to: &str| {
        json!({
            "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
            "metadata": {"name": name, "labels": {"change": "yes", "to": to}}, "spec": {"holderIdentity": "h"},
        })
    };
    for (method, name, query) in [("PUT", "put", ""), ("PATCH", "applied", "?fieldManager=m")] {
        let media = if method == "PUT" { "application/json" } else { "application/apply-patch+yaml" };
        let write = async |name: &str, to: &str| {
            let (path, body) = (format!("{LEASES}/{name}{query}"), lease(name, to).to_string());
            let answer = server.client().await.send(method, &path, &[("content-type", media)], body).await.unwrap();
            (answer.status, serde_json::from_str::<Value>(&answer.body).unwrap())
        };
        let (status, made) = write(name, "other").await;
        assert_eq!((status, &made["metadata"]["name"]), (201, &json!("other")), "{made}");
        let got = send(&server, "GET", &format!("{LEASES}/{name}"), &Value::Null).await;
        assert_eq!((got.status, &got.body["metadata"]["name"]), (200, &json!("other")));
        assert_eq!(send(&server, "GET", &format!("{LEASES}/other"), &Value::Null).await.status, 404);

        let (status, refused) = write(&format!("{name}-2"), "generated").await;
        assert_eq!(
            (status, &refused["message"]),
            (500, &json!("Internal error occurred: metadata.name was not generated"))
        );
        assert_eq!(send(&server, "DELETE", &format!("{LEASES}/{name}"), &Value::Null).await.status, 200);
    }
}
