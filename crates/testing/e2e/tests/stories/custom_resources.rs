//! Custom resources from the perspective of users who install an operator: a created definition is served immediately,
//! survives a kill, is visible on other servers of the same store, and is deleted with its definition.

use binnacle_testkit::{Etcd, Kubectl, Server, wait_until_blocking};
use serde_json::{Value, json};

/// Returns a definition that uses many features of schemas.
fn definition() -> Value {
    let schema = |field: &str| {
        json!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {
                "type": "object",
                "required": [field],
                "x-kubernetes-validations": [{"rule": format!("self.{field} <= self.limit"), "message": "too many"}],
                "properties": {
                    field: {"type": "integer", "minimum": 0},
                    "limit": {"type": "integer", "default": 5},
                    "ports": {
                        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                        "items": {"type": "object", "required": ["name"], "properties": {
                            "name": {"type": "string"}, "port": {"type": "integer"}
                        }}
                    }
                }
            },
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}, "selector": {"type": "string"}}}
        }}})
    };
    let version = |name: &str, storage: bool| {
        json!({
            "name": name, "served": true, "storage": storage, "schema": schema("size"),
            "selectableFields": [{"jsonPath": ".spec.size"}],
            "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.ready",
                "labelSelectorPath": ".status.selector"
            }}
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.shop.test"},
        "spec": {
            "group": "shop.test", "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [version("v1", true), version("v1beta1", false)]
        }
    })
}

fn widget(name: &str, size: i64) -> Value {
    json!({"apiVersion": "shop.test/v1", "kind": "Widget", "metadata": {"name": name}, "spec": {"size": size}})
}

fn install(kubectl: &Kubectl) {
    kubectl.ok_with(&["apply", "-f", "-"], &definition().to_string());
    kubectl.ok(&["wait", "--for=condition=Established", "crd/widgets.shop.test", "--timeout=30s"]);
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn installs_and_serves_a_definition() {
    let mut server = Server::durable();
    let kubectl = Kubectl::new(&server);
    install(&kubectl);
    kubectl.ok_with(&["create", "-f", "-"], &widget("one", 3).to_string());
    let one = kubectl.json(&["get", "wd", "one"]);
    assert_eq!((&one["spec"]["limit"], &one["metadata"]["generation"]), (&json!(5), &json!(1)), "{one}");
    let table = kubectl.ok(&["get", "all"]);
    assert!(table.contains("SIZE") && table.contains("widget.shop.test/one   3"), "{table}");

    // Invalid objects are rejected with a path.
    let large = kubectl.run_with(&["create", "-f", "-"], &widget("two", 6).to_string());
    assert!(large.err.contains("spec: Invalid value: too many"), "{}", large.err);
    let mut odd = widget("two", 1);
    odd["spec"]["colour"] = json!("red");
    let odd = kubectl.run_with(&["create", "-f", "-"], &odd.to_string());
    assert!(odd.err.contains("unknown field \"spec.colour\""), "{}", odd.err);

    // Lists with several appliers are merged by their keys.
    let mut applied = widget("one", 3);
    for (manager, port) in [("a", "http"), ("b", "https")] {
        applied["spec"] = json!({"size": 3, "ports": [{"name": port, "port": 1}]});
        let manager = format!("--field-manager={manager}");
        kubectl.ok_with(&["apply", "--server-side", "--force-conflicts", &manager, "-f", "-"], &applied.to_string());
    }
    let one = kubectl.json(&["get", "wd", "one"]);
    assert_eq!(one["spec"]["ports"].as_array().map(Vec::len), Some(2), "{one}");

    kubectl.ok(&["scale", "widget/one", "--replicas=4"]);
    kubectl.ok(&["patch", "widget", "one", "--subresource=status", "--type=merge", "-p", r#"{"status":{"ready":2}}"#]);
    let other = kubectl.json(&["get", "widgets.v1beta1.shop.test", "one"]);
    assert_eq!(other["apiVersion"], "shop.test/v1beta1");
    assert_eq!((&other["spec"]["size"], &other["status"]["ready"]), (&json!(4), &json!(2)), "{other}");
    assert_eq!(kubectl.ok(&["get", "wd", "--field-selector=spec.size=4", "-o", "name"]), "widget.shop.test/one\n");
    assert_eq!(kubectl.ok(&["get", "wd", "--field-selector=spec.size=3", "-o", "name"]), "");
    wait_until_blocking("the group has an APIService", || {
        let service = kubectl.run(&["get", "apiservice", "v1.shop.test", "-o", "json"]);
        service.out.contains("\"kube-aggregator.kubernetes.io/automanaged\": \"true\"").then_some(())
    });

    // A kill loses nothing: the resource is served when the server is ready.
    server.kill();
    server.restart();
    let after = kubectl.json(&["get", "wd", "one"]);
    assert_eq!((&after["metadata"]["uid"], &after["spec"]), (&one["metadata"]["uid"], &other["spec"]));

    // The definition is deleted after its last object, and not before.
    kubectl.ok(&["patch", "wd", "one", "--type=merge", "-p", r#"{"metadata":{"finalizers":["shop.test/hold"]}}"#]);
    kubectl.ok(&["delete", "crd", "widgets.shop.test", "--wait=false"]);
    let late = kubectl.run_with(&["create", "-f", "-"], &widget("late", 1).to_string());
    assert!(late.err.contains("create not allowed while custom resource definition is terminating"), "{}", late.err);
    wait_until_blocking("the object is told to go", || {
        let one = kubectl.json(&["get", "wd", "one"]);
        one["metadata"]["deletionTimestamp"].is_string().then_some(())
    });
    kubectl.ok(&["get", "crd", "widgets.shop.test"]);
    kubectl.ok(&["patch", "wd", "one", "--type=merge", "-p", r#"{"metadata":{"finalizers":null}}"#]);
    wait_until_blocking("the definition is gone", || {
        kubectl.run(&["get", "crd", "widgets.shop.test"]).err.contains("NotFound").then_some(())
    });
    let gone = kubectl.fails(&["get", "--raw", "/apis/shop.test/v1/widgets"]);
    assert!(gone.contains("could not find the requested resource") || gone.contains("404"), "{gone}");
}

/// A definition that one server accepts is effective on the other, and so are its changes.
#[test]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn shares_definitions_between_servers() {
    let etcd = Etcd::single();
    let servers = [(); 2].map(|()| Server::durable_with(&[&etcd.servers()]));
    let [first, second] = servers.each_ref().map(Kubectl::new);
    install(&first);
    first.ok_with(&["create", "-f", "-"], &widget("one", 3).to_string());
    wait_until_blocking("the other server serves it", || {
        let one = second.run(&["get", "widgets.shop.test", "one", "-o", "jsonpath={.spec.size}"]);
        (one.out == "3").then_some(())
    });
    // In etcd it is JSON with sorted members, in the stored version and without a resourceVersion, as kube-apiserver
    // writes it.
    let stored = String::from_utf8(etcd.value("/registry/shop.test/widgets/default/one")).unwrap();
    assert!(stored.starts_with(r#"{"apiVersion":"shop.test/v1","kind":"Widget","metadata":{"creationTimestamp":"#));
    assert!(!stored.contains("resourceVersion") && stored.ends_with("}\n"), "{stored}");

    let mut stricter = definition();
    for version in stricter["spec"]["versions"].as_array_mut().unwrap() {
        version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["minimum"] = json!(2);
    }
    second.ok_with(&["replace", "-f", "-"], &with_version(&second, stricter).to_string());
    wait_until_blocking("the first server has the new schema", || {
        let small = first.run_with(&["create", "--dry-run=server", "-f", "-"], &widget("small", 1).to_string());
        small.err.contains("should be greater than or equal to 2").then_some(())
    });
    second.ok(&["delete", "crd", "widgets.shop.test"]);
    wait_until_blocking("the first server serves it no more", || {
        first.run(&["get", "--raw", "/apis/shop.test"]).err.contains("NotFound").then_some(())
    });
    assert!(etcd.value("/registry/shop.test/widgets/default/one").is_empty());
}

/// Returns the definition with its current version.
fn with_version(kubectl: &Kubectl, mut definition: Value) -> Value {
    let now = kubectl.json(&["get", "crd", "widgets.shop.test"]);
    definition["metadata"]["resourceVersion"] = now["metadata"]["resourceVersion"].clone();
    definition
}

/// A definition with a name conflict does not get the name by a restart, only after its holder is deleted.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn keeps_names_with_their_definition() {
    let mut server = Server::durable();
    let kubectl = Kubectl::new(&server);
    let named = |plural: &str| {
        let mut definition = definition();
        definition["metadata"]["name"] = json!(format!("{plural}.shop.test"));
        definition["spec"]["names"] = json!({"plural": plural, "kind": "Widget"});
        definition.to_string()
    };
    kubectl.ok_with(&["create", "-f", "-"], &named("widgets"));
    kubectl.ok(&["wait", "--for=condition=Established", "crd/widgets.shop.test", "--timeout=30s"]);
    // It is processed before the other one.
    kubectl.ok_with(&["create", "-f", "-"], &named("gadgets"));
    let refused = || {
        let gadgets = kubectl.json(&["get", "crd", "gadgets.shop.test"]);
        let conditions = gadgets["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let found = conditions.into_iter().find(|condition| condition["type"] == "NamesAccepted")?;
        (found["status"] == "False").then(|| (found, gadgets["status"]["acceptedNames"].clone()))
    };
    let before = wait_until_blocking("its names to be refused", refused);
    assert_eq!(before.0["message"], "\"WidgetList\" is already in use");
    server.restart();
    // A later one is judged after all that were there.
    let mut later = serde_json::from_str::<Value>(&named("tools")).unwrap();
    later["spec"]["names"]["kind"] = json!("Tool");
    kubectl.ok_with(&["create", "-f", "-"], &later.to_string());
    kubectl.ok(&["wait", "--for=condition=Established", "crd/tools.shop.test", "--timeout=30s"]);
    assert_eq!(refused(), Some(before));

    // A holder that is recreated immediately gets its names back.
    for _ in 0..4 {
        kubectl.ok_with(&["replace", "--force", "-f", "-"], &named("tools").replace("Widget", "Tool"));
        kubectl.ok(&["wait", "--for=condition=NamesAccepted", "crd/tools.shop.test", "--timeout=30s"]);
    }
    kubectl.ok(&["delete", "crd", "widgets.shop.test"]);
    kubectl.ok(&["wait", "--for=condition=Established", "crd/gadgets.shop.test", "--timeout=30s"]);
}

/// Validation in kube-apiserver coerces the metadata of embedded resources in defaults, and the result is stored.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn stores_embedded_defaults_with_known_metadata_only() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    let resource = json!({
        "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "a", "unknownMember": "x", "creationTimestamp": null, "labels": {}, "generation": 1.0}
    });
    let embedded = json!({
        "type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true
    });
    let mut own = embedded.clone();
    own["default"] = resource.clone();
    let list = json!({"type": "array", "items": embedded, "default": [resource]});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {"own": own, "list": list}}
    }});
    let mut definition = definition();
    definition["spec"]["versions"] =
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]);
    kubectl.ok_with(&["create", "-f", "-"], &definition.to_string());
    let stored = kubectl.json(&["get", "crd", "widgets.shop.test"]);
    let properties = &stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
    let coerced = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "generation": 1}});
    assert_eq!((&properties["own"]["default"], &properties["list"]["default"][0]), (&coerced, &coerced), "{stored}");
    assert_eq!(stored["metadata"]["generation"], 1, "{stored}");
}
