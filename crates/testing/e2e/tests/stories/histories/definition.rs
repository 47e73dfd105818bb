//! The definition of a custom resource, which changes while its objects are read and written.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

pub(super) const GROUP: &str = "histories.test";
pub(super) const KIND: &str = "Widget";
/// The first is the one that clients use.
pub(super) const VERSIONS: [&str; 2] = ["v1", "v2"];

/// Writes the n-th form of the definition: the versions alternate as storage version, and the schema has another field
/// each time. Clients of the first version always see the same objects.
pub(super) async fn define(client: &Client, n: usize) -> kube::Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("histories").force();
    definitions.patch(&format!("widgets.{GROUP}"), &params, &Patch::Apply(&definition(n))).await.map(drop)
}

fn definition(n: usize) -> Value {
    let more = format!("more{n}");
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {
        "type": "object",
        "required": ["value"],
        "x-kubernetes-validations": [{"rule": format!("size(self.parts) < {}", 5 + n % 7)}],
        "properties": {
            "value": {"type": "string"},
            "parts": {"type": "array", "maxItems": 10, "items": {"type": "integer"}},
            more: {"type": "string"}
        }
    }}}});
    let version = |(at, name): (usize, &&str)| {
        json!({
            "name": name, "served": true, "storage": at == n % VERSIONS.len(), "schema": schema,
            "additionalPrinterColumns": [{"name": "Value", "type": "string", "jsonPath": ".spec.value"}]
        })
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("widgets.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": KIND, "singular": "widget", "listKind": "WidgetList"},
            "versions": VERSIONS.iter().enumerate().map(version).collect::<Vec<_>>()
        }
    })
}
