//! Custom resources and webhooks.

use std::sync::Arc;

use binnacle_testkit::{Hook, Server, wait_until};
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

/// Another widget than that of [`widget`].
fn other_widget() -> Value {
    let mut new = widget(1);
    new["metadata"]["name"] = json!("other");
    new
}

/// A server with a mutating webhook, whose patch the test determines, and a validating one.
struct Rig {
    server: Server,
    /// The operations of the mutating webhook's patch.
    operations: Arc<Mutex<Value>>,
    /// The namespaces of the objects that the mutating webhook got.
    seen: Arc<Mutex<Vec<Value>>>,
    /// The objects that the validating webhook got.
    judged: Arc<Mutex<Vec<Value>>>,
    _hooks: [Hook; 2],
}

impl Rig {
    async fn start() -> Self {
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
        Self { server, operations, seen, judged, _hooks: [hook, judge] }
    }

    fn patch_with(&self, operations: Value) {
        *self.operations.lock() = operations;
    }
}

/// Fields that a webhook adds and the schema does not specify are visible to validating webhooks, never stored, and
/// count as a change. An `apiVersion` that it sets must be one of the kind's. Managers that it removes are gone. On
/// updates it gets the object's namespace.
#[tokio::test(flavor = "multi_thread")]
async fn prunes_unknown_fields_that_webhooks_add() {
    let rig = Rig::start().await;
    let made = removed_managers_are_gone(&rig).await;
    unknown_fields_are_not_stored(&rig, made).await;
    versions_of_other_kinds_are_refused(&rig).await;
    unusable_metadata_is_refused(&rig).await;
    metadata_of_a_wrong_type_is_not_stored(&rig).await;
    nothing_is_pruned_before_a_conversion(&rig).await;
    updates_have_the_namespace(&rig).await;
}

/// Returns the object that the server created.
async fn removed_managers_are_gone(rig: &Rig) -> Value {
    rig.patch_with(json!([{"op": "add", "path": "/metadata/managedFields", "value": []}]));
    let made = send(&rig.server, "POST", WIDGETS, &widget(1)).await;
    assert_eq!((made.status, made.body["metadata"].get("managedFields")), (201, None), "{}", made.body);
    made.body
}

async fn unknown_fields_are_not_stored(rig: &Rig, mut same: Value) {
    rig.patch_with(json!([{"op": "add", "path": "/spec/unknown", "value": 1}]));
    let place = format!("{WIDGETS}/w");
    let changed = send(&rig.server, "PUT", &place, &same).await;
    assert_eq!((changed.status, &changed.body["metadata"]["generation"]), (200, &json!(2)), "{}", changed.body);
    assert_eq!(changed.body["spec"], json!({"size": 1}));
    // Validating webhooks see the field anyway.
    assert_eq!(rig.judged.lock().last().unwrap()["spec"], json!({"size": 1, "unknown": 1}));
    rig.patch_with(json!([]));
    same["metadata"]["resourceVersion"] = changed.body["metadata"]["resourceVersion"].clone();
    let unchanged = send(&rig.server, "PUT", &place, &same).await;
    assert_eq!((unchanged.status, &unchanged.body["metadata"]["generation"]), (200, &json!(2)));
}

async fn versions_of_other_kinds_are_refused(rig: &Rig) {
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
        rig.patch_with(json!([operation]));
        let refused = send(&rig.server, "POST", WIDGETS, &other_widget()).await;
        assert_eq!((refused.status, &refused.body["message"]), (500, &json!(why)), "{operation}");
    }
}

async fn unusable_metadata_is_refused(rig: &Rig) {
    let owner = json!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": 5});
    let uninitialized = "Internal error occurred: system metadata was not initialized";
    let no_uid =
        "Widget.hooks.test \"other\" is invalid: metadata.ownerReferences.uid: Invalid value: \"\": must not be empty";
    for (operation, status, why) in [
        (json!({"op": "replace", "path": "/metadata", "value": "text"}), 500, uninitialized),
        (json!({"op": "replace", "path": "/metadata", "value": null}), 500, uninitialized),
        (json!({"op": "add", "path": "/metadata/ownerReferences", "value": [owner]}), 422, no_uid),
    ] {
        rig.patch_with(json!([operation]));
        let refused = send(&rig.server, "POST", WIDGETS, &other_widget()).await;
        assert_eq!((refused.status, &refused.body["message"]), (status, &json!(why)), "{operation}");
    }
}

/// Metadata of a wrong type reaches validating webhooks unchanged, is absent for validation, and is not stored.
async fn metadata_of_a_wrong_type_is_not_stored(rig: &Rig) {
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
        rig.patch_with(json!([{"op": "add", "path": path, "value": value}]));
        let made = send(&rig.server, "POST", &format!("{WIDGETS}?dryRun=All"), &other_widget()).await;
        assert_eq!((made.status, &made.body["metadata"][member]), (201, &want), "{member}: {}", made.body);
        assert_eq!(rig.judged.lock().last().unwrap()["metadata"][member], value, "{member}");
    }
}

/// Before a conversion, malformed metadata is an error.
async fn nothing_is_pruned_before_a_conversion(rig: &Rig) {
    rig.patch_with(json!([{"op": "add", "path": "/metadata/managedFields", "value": ""}]));
    let mut new = other_widget();
    new["apiVersion"] = json!("hooks.test/v2");
    let refused = send(&rig.server, "POST", &WIDGETS.replace("/v1/", "/v2/"), &new).await;
    let why =
        "json: cannot unmarshal string into Go struct field ObjectMeta.managedFields of type []v1.ManagedFieldsEntry";
    assert_eq!((refused.status, &refused.body["message"]), (500, &json!(why)));
}

async fn updates_have_the_namespace(rig: &Rig) {
    rig.patch_with(json!([]));
    let object = json!({"metadata": {"name": "c"}});
    assert_eq!(send(&rig.server, "POST", CONFIG_MAPS, &object).await.status, 201);
    assert_eq!(send(&rig.server, "PUT", &format!("{CONFIG_MAPS}/c"), &object).await.status, 200);
    assert!(rig.seen.lock().iter().all(|namespace| namespace == "default"), "{:?}", rig.seen.lock());
}
