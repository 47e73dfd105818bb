//! Custom resources and webhooks.

use std::sync::Arc;

use binnacle_testkit::{Server, wait_until};
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::{CONFIG_MAPS, Kind, allowing, configure, patch, send, webhook};

const WIDGETS: &str = "/apis/hooks.test/v1/namespaces/default/widgets";

async fn define(server: &Server) {
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}});
    let version = |name: &str| json!({"name": name, "served": true, "storage": name == "v1", "schema": {"openAPIV3Schema": schema}});
    let definition = json!({
        "metadata": {"name": "widgets.hooks.test"},
        "spec": {
            "group": "hooks.test", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version("v1"), version("v2")],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(server, "POST", definitions, &definition).await.status, 201);
    wait_until("the kind to be served", async || {
        (send(server, "GET", WIDGETS, &Value::Null).await.status == 200).then_some(())
    })
    .await;
}

fn widget(size: u64) -> Value {
    json!({"apiVersion": "hooks.test/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": size}})
}

/// Fields that a webhook adds and the schema does not specify are visible to validating webhooks, never stored, and
/// count as a change. An `apiVersion` that it sets must be one of the kind's. Managers that it removes are gone. On
/// updates it gets the object's namespace.
#[tokio::test(flavor = "multi_thread")]
async fn prunes_unknown_fields_that_webhooks_add() {
    let operations = Arc::new(Mutex::new(json!([])));
    let seen: Arc<Mutex<Vec<Value>>> = Arc::default();
    let hook = {
        let (operations, seen) = (operations.clone(), seen.clone());
        allowing(move |request| {
            seen.lock().push(request["object"]["metadata"]["namespace"].clone());
            patch(&operations.lock())
        })
        .await
    };
    let server = Server::ephemeral();
    define(&server).await;
    let rules = json!({"rules": [{
        "apiGroups": ["hooks.test", ""], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"],
        "resources": ["widgets", "configmaps"],
    }]});
    configure(&server, Kind::Mutating, "m", vec![webhook("one", &hook, rules.clone())]).await;
    let judged: Arc<Mutex<Vec<Value>>> = Arc::default();
    let judge = {
        let judged = judged.clone();
        allowing(move |request| {
            judged.lock().push(request["object"].clone());
            json!({})
        })
        .await
    };
    configure(&server, Kind::Validating, "v", vec![webhook("two", &judge, rules)]).await;

    *operations.lock() = json!([{"op": "add", "path": "/metadata/managedFields", "value": []}]);
    let made = send(&server, "POST", WIDGETS, &widget(1)).await;
    assert_eq!((made.status, made.body["metadata"].get("managedFields")), (201, None), "{}", made.body);
    *operations.lock() = json!([{"op": "add", "path": "/spec/unknown", "value": 1}]);
    let place = format!("{WIDGETS}/w");
    let mut same = made.body.clone();
    let changed = send(&server, "PUT", &place, &same).await;
    assert_eq!((changed.status, &changed.body["metadata"]["generation"]), (200, &json!(2)), "{}", changed.body);
    assert_eq!(changed.body["spec"], json!({"size": 1}));
    // Validating webhooks see the field anyway.
    assert_eq!(judged.lock().last().unwrap()["spec"], json!({"size": 1, "unknown": 1}));
    *operations.lock() = json!([]);
    same["metadata"]["resourceVersion"] = changed.body["metadata"]["resourceVersion"].clone();
    let unchanged = send(&server, "PUT", &place, &same).await;
    assert_eq!((unchanged.status, &unchanged.body["metadata"]["generation"]), (200, &json!(2)));

    for (operation, why) in [
        (
            json!({"op": "remove", "path": "/apiVersion"}),
            "/, Kind=Widget is unstructured and is not suitable for converting to \"hooks.test/v1\"",
        ),
        (
            json!({"op": "replace", "path": "/apiVersion", "value": "other.test/v1"}),
            "other.test/v1, Kind=Widget is unstructured and is not suitable for converting to \"hooks.test/v1\"",
        ),
        (
            json!({"op": "replace", "path": "/apiVersion", "value": "hooks.test/v9"}),
            "request to convert CR from an invalid group/version: hooks.test/v9",
        ),
        (
            json!({"op": "replace", "path": "/apiVersion", "value": "a/b/c"}),
            "Internal error occurred: unexpected GroupVersion string: a/b/c",
        ),
    ] {
        *operations.lock() = json!([operation]);
        let mut new = widget(1);
        new["metadata"]["name"] = json!("other");
        let refused = send(&server, "POST", WIDGETS, &new).await;
        assert_eq!((refused.status, &refused.body["message"]), (500, &json!(why)), "{operation}");
    }

    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": 5});
    let uninitialized = "Internal error occurred: system metadata was not initialized";
    let no_uid =
        "Widget.hooks.test \"other\" is invalid: metadata.ownerReferences.uid: Invalid value: \"\": must not be empty";
    for (operation, status, why) in [
        (json!({"op": "replace", "path": "/metadata", "value": "text"}), 500, uninitialized),
        (json!({"op": "replace", "path": "/metadata", "value": null}), 500, uninitialized),
        (json!({"op": "add", "path": "/metadata/ownerReferences", "value": [owner]}), 422, no_uid),
    ] {
        *operations.lock() = json!([operation]);
        let mut new = widget(1);
        new["metadata"]["name"] = json!("other");
        let refused = send(&server, "POST", WIDGETS, &new).await;
        assert_eq!((refused.status, &refused.body["message"]), (status, &json!(why)), "{operation}");
    }

    // Metadata of a wrong type reaches validating webhooks unchanged, is absent for validation, and is not stored.
    let gone = "2020-01-01T00:00:00Z";
    for (member, value, want) in [
        ("labels", json!({"a b": 5}), Value::Null),
        ("annotations", json!("x"), Value::Null),
        ("finalizers", json!([5]), Value::Null),
        ("ownerReferences", json!([null]), json!([{"apiVersion": "", "kind": "", "name": "", "uid": ""}])),
        ("deletionTimestamp", json!("x"), Value::Null),
        ("deletionTimestamp", json!(gone), json!(gone)),
    ] {
        let path = format!("/metadata/{member}");
        *operations.lock() = json!([{"op": "add", "path": path, "value": value}]);
        let mut new = widget(1);
        new["metadata"]["name"] = json!("other");
        let made = send(&server, "POST", &format!("{WIDGETS}?dryRun=All"), &new).await;
        assert_eq!((made.status, &made.body["metadata"][member]), (201, &want), "{member}: {}", made.body);
        assert_eq!(judged.lock().last().unwrap()["metadata"][member], value, "{member}");
    }

    // Before a conversion, nothing is pruned: malformed metadata is an error.
    *operations.lock() = json!([{"op": "add", "path": "/metadata/managedFields", "value": ""}]);
    let mut new = widget(1);
    new["apiVersion"] = json!("hooks.test/v2");
    new["metadata"]["name"] = json!("other");
    let refused = send(&server, "POST", &WIDGETS.replace("/v1/", "/v2/"), &new).await;
    let why =
        "json: cannot unmarshal string into Go struct field ObjectMeta.managedFields of type []v1.ManagedFieldsEntry";
    assert_eq!((refused.status, &refused.body["message"]), (500, &json!(why)));

    *operations.lock() = json!([]);
    let object = json!({"metadata": {"name": "c"}});
    assert_eq!(send(&server, "POST", CONFIG_MAPS, &object).await.status, 201);
    assert_eq!(send(&server, "PUT", &format!("{CONFIG_MAPS}/c"), &object).await.status, 200);
    assert!(seen.lock().iter().all(|namespace| namespace == "default"), "{:?}", seen.lock());
}
