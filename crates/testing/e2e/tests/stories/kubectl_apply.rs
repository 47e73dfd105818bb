//! Declarative changes: `apply` with client-side and server-side merge.

use binnacle_testkit::{Kubectl, Server};
use serde_json::json;

use crate::manifests::ALL;

/// Each kind is applied, applied again, and applied with a change.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_applies_every_kind() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    all_kinds(&kubectl, &["apply", "--namespace=shop", "-f", "-"], "configured", "unchanged");

    // Three-way merge: fields that were in the last manifest and are not in this one are removed; fields of others
    // stay.
    let text = ALL.iter().find(|manifest| manifest.resource == "deployment.apps").unwrap().text("shop");
    kubectl.ok(&["label", "--namespace=shop", "deployment/shop-web", "added=elsewhere"]);
    kubectl.ok(&["scale", "--namespace=shop", "deployment/shop-web", "--replicas=9"]);
    let changed = text
        .replace("    kubernetes.io/change-cause: release 4.12.0\n", "    kubernetes.io/change-cause: smaller\n")
        .replace("            - name: GREETING\n              value: \"hello $(POD_NAME)\"\n", "");
    kubectl.ok_with(&["apply", "--namespace=shop", "-f", "-"], &changed);
    let object = kubectl.json(&["get", "--namespace=shop", "deployment/shop-web"]);
    assert_eq!(object["metadata"]["labels"]["added"], "elsewhere");
    assert_eq!(object["spec"]["replicas"], 3);
    let containers = object["spec"]["template"]["spec"]["containers"].as_array().unwrap();
    assert_eq!(containers.len(), 2);
    assert!(containers[0]["env"].as_array().unwrap().iter().all(|variable| variable["name"] != "GREETING"));
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_applies_every_kind_server_side() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    all_kinds(
        &kubectl,
        &["apply", "--server-side", "--namespace=shop", "-f", "-"],
        "serverside-applied",
        "serverside-applied",
    );

    let deployment = |manager: &str, body: serde_json::Value| {
        let mut object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop-web"}});
        object.as_object_mut().unwrap().extend(body.as_object().unwrap().clone());
        let manager = format!("--field-manager={manager}");
        kubectl.run_with(&["apply", "--server-side", "--namespace=shop", &manager, "-f", "-"], &object.to_string())
    };
    let get = || kubectl.json(&["get", "--namespace=shop", "deployment/shop-web", "--show-managed-fields"]);
    // A field with another manager is a conflict, a field without one is not.
    let conflict = deployment("scaler", json!({"spec": {"replicas": 8}}));
    assert!(!conflict.success && conflict.err.contains("conflict with \"kubectl\": .spec.replicas"), "{conflict}");
    let labels = deployment("labels", json!({"metadata": {"name": "shop-web", "labels": {"mine": "yes"}}}));
    assert!(labels.success, "{labels}");
    assert_eq!(get()["metadata"]["labels"]["mine"], "yes");
    // An applier that no longer includes a field that only it owned removes the field.
    let nothing = deployment("labels", json!({}));
    assert!(nothing.success, "{nothing}");
    assert!(get()["metadata"]["labels"]["mine"].is_null());
    // Force takes ownership.
    let force = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "shop-web"}, "spec": {"replicas": 8}});
    let forced =
        ["apply", "--server-side", "--force-conflicts", "--field-manager=scaler", "--namespace=shop", "-f", "-"];
    kubectl.ok_with(&forced, &force.to_string());
    let object = get();
    assert_eq!(object["spec"]["replicas"], 8);
    let managers = object["metadata"]["managedFields"].as_array().unwrap();
    let scaler = managers.iter().find(|entry| entry["manager"] == "scaler").unwrap();
    assert_eq!(scaler["fieldsV1"], json!({"f:spec": {"f:replicas": {}}}));
}

fn all_kinds(kubectl: &Kubectl, apply: &[&str], changed: &str, unchanged: &str) {
    kubectl.ok(&["create", "namespace", "shop"]);
    let first = if changed == unchanged { changed } else { "created" };
    for manifest in ALL {
        let target = manifest.target();
        let text = manifest.text("shop");
        assert_eq!(kubectl.ok_with(apply, &text), format!("{target} {first}\n"));
        if manifest.completed_when_read() {
            kubectl.ok_with(apply, &text);
        }
        let object = kubectl.json(&["get", "--namespace=shop", &target]);
        // The client compares the manifest with the live object. It always finds a change in secrets with plain text,
        // and in atomic lists that the server completed with defaults. The server does not.
        let compared = match manifest.resource {
            "secret" | "statefulset.apps" => changed,
            _ => unchanged,
        };
        assert_eq!(kubectl.ok_with(apply, &text), format!("{target} {compared}\n"));
        if manifest.resource != "secret" || changed == unchanged {
            assert_eq!(kubectl.json(&["get", "--namespace=shop", &target]), object, "{target}");
        }
        let more = text.replacen("  labels:\n", "  labels:\n    release: \"2\"\n", 1);
        assert_eq!(kubectl.ok_with(apply, &more), format!("{target} {changed}\n"));
        assert_eq!(kubectl.json(&["get", "--namespace=shop", &target])["metadata"]["labels"]["release"], "2");
    }
}
