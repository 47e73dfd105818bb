//! Type checks of policies for kinds that another server describes in its OpenAPI documents.

use binnacle_testkit::{Extension, Reply, TempDir};
use serde_json::{Value, json};

use crate::aggregation::{condition, register};
use crate::authorization::{Rig, until};

const GROUP: &str = "types.test";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";

/// Serves discovery, the index of OpenAPI documents, and the document of the group version.
fn behave(head: &str) -> Reply {
    let path = head.split(' ').nth(1).unwrap_or_default();
    match path.split('?').next().unwrap_or_default() {
        "/apis/types.test/v1" => Reply::json(&json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "types.test/v1",
            "resources": [{"name": "boats", "singularName": "boat", "namespaced": true, "kind": "Boat",
                "verbs": ["get", "list", "create"]}],
        })),
        "/openapi/v3" => Reply::json(&json!({
            "paths": {"apis/types.test/v1": {"serverRelativeURL": "/openapi/v3/apis/types.test/v1?hash=A"}},
        })),
        "/openapi/v3/apis/types.test/v1" => Reply::json(&json!({
            "openapi": "3.0.0", "info": {"title": "types", "version": "1"}, "paths": {},
            "components": {"schemas": {
                "test.Boat": {
                    "type": "object",
                    "properties": {"spec": {"allOf": [{"$ref": "#/components/schemas/test.Spec"}]}},
                    "x-kubernetes-group-version-kind": [{"group": "types.test", "version": "v1", "kind": "Boat"}],
                },
                "test.Spec": {"type": "object", "properties": {"length": {"type": "integer"}}},
            }},
        })),
        _ => Reply::of(404, "text/plain", "no"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn type_checks_expressions_with_schemas_of_extension_servers() {
    let extension = Extension::start(behave).await;
    let rig = Rig::start(TempDir::new(), &[]);
    register(&rig, GROUP, extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    condition(&rig, GROUP, "True").await;
    until("the document to be listed", async || {
        rig.send("root", "GET", "/openapi/v3", &Value::Null).await.body.contains("apis/types.test/v1")
    })
    .await;
    let policy = json!({
        "metadata": {"name": "boats"},
        "spec": {
            "matchConstraints": {"resourceRules": [{
                "apiGroups": ["types.test"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["boats"],
            }]},
            "validations": [
                {"expression": "object.spec.length > 3 && object.metadata.name != ''"},
                {"expression": "object.spec.length == 'long'"},
                {"expression": "object.spec.width > 3"},
            ],
        },
    });
    rig.make(POLICIES, policy).await;
    let checked = async || {
        let got = rig.send("root", "GET", &format!("{POLICIES}/boats"), &Value::Null).await;
        let policy: Value = serde_json::from_str(&got.body).unwrap();
        policy["status"]["observedGeneration"].is_i64().then(|| policy["status"]["typeChecking"].clone())
    };
    until("the policy to be checked", async || checked().await.is_some()).await;
    let warnings = checked().await.unwrap_or_default()["expressionWarnings"].clone();
    let warnings: Vec<(&str, &str)> =
        (0..).map_while(|at| Some((warnings[at]["fieldRef"].as_str()?, warnings[at]["warning"].as_str()?))).collect();
    let [(one, overload), (two, undefined)] = warnings[..] else { panic!("{warnings:?}") };
    assert_eq!([one, two], ["spec.validations[1].expression", "spec.validations[2].expression"]);
    assert!(overload.starts_with("types.test/v1, Kind=Boat: "), "{overload}");
    assert!(overload.contains("found no matching overload for '_==_' applied to '(int, string)'"), "{overload}");
    assert!(undefined.contains("undefined field 'width'"), "{undefined}");
}
