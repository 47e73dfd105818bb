//! Policy parameters that another server has: they are listed and watched.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binnacle_testkit::{Extension, Reply, TempDir};
use serde_json::{Value, json};

use crate::aggregation::{condition, register};
use crate::authorization::{Rig, until};

const GROUP: &str = "params.test";
const POLICIES: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies";
const BINDINGS: &str = "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";

fn limit(most: i64, version: &str) -> Value {
    let metadata =
        json!({"namespace": "default", "name": "sizes", "labels": {"for": "maps"}, "resourceVersion": version});
    json!({"kind": "Limit", "apiVersion": "params.test/v1", "metadata": metadata, "most": most})
}

/// Serves discovery, lists one object, and sends a watch event for its change once `raised` is set.
fn behave(head: &str, raised: &AtomicBool) -> Reply {
    let path = head.split(' ').nth(1).unwrap_or_default();
    match path.split_once('?') {
        None if path.ends_with("/v1") => Reply::json(&json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "params.test/v1",
            "resources": [{"name": "limits", "singularName": "limit", "namespaced": true, "kind": "Limit",
                "verbs": ["get", "list", "watch"]}],
        })),
        Some((path, query)) if path == "/apis/params.test/v1/limits" && query.contains("watch=true") => {
            let is_news = raised.load(Ordering::Relaxed) && query.contains("resourceVersion=5");
            let event = json!({"type": "MODIFIED", "object": limit(10, "6")});
            let event = if is_news { format!("{event}\n") } else { String::new() };
            Reply::Last(format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{event}").into_bytes())
        }
        Some(("/apis/params.test/v1/limits", _)) => {
            let mut item = limit(3, "4");
            // Items of lists may omit their type.
            item.as_object_mut().unwrap().retain(|name, _| name != "kind" && name != "apiVersion");
            Reply::json(&json!({
                "kind": "LimitList", "apiVersion": "params.test/v1", "metadata": {"resourceVersion": "5"},
                "items": [item],
            }))
        }
        _ => Reply::of(404, "text/plain", "no"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn policies_read_parameters_of_extension_servers() {
    let raised = Arc::new(AtomicBool::new(false));
    let extension = {
        let raised = raised.clone();
        Extension::start(move |head| behave(head, &raised)).await
    };
    let rig = Rig::start(TempDir::new(), &[]);
    let policy = |name: &str| {
        json!({
            "metadata": {"name": name},
            "spec": {
                "paramKind": {"apiVersion": "params.test/v1", "kind": "Limit"},
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"],
                }]},
                "validations": [{
                    "expression": "size(object.data) <= params.most",
                    "messageExpression": "params.kind + ' ' + string(params.most)",
                }],
            },
        })
    };
    rig.make(POLICIES, policy("sizes")).await;
    let bound = |reference: Value| {
        json!({
            "metadata": {"name": "sizes"},
            "spec": {"policyName": "sizes", "paramRef": reference, "validationActions": ["Deny"]},
        })
    };
    let named = json!({"name": "sizes", "parameterNotFoundAction": "Deny"});
    rig.make(BINDINGS, bound(named)).await;
    let attempt = async |entries: usize| {
        let data: serde_json::Map<String, Value> = (0..entries).map(|i| (format!("k{i}"), json!("v"))).collect();
        let tried = rig.send("root", "POST", CONFIG_MAPS, &json!({"metadata": {"name": "m"}, "data": data})).await;
        let body: Value = serde_json::from_str(&tried.body).unwrap();
        (tried.status, body["message"].as_str().unwrap_or_default().to_owned())
    };
    // Before the kind exists, the policy cannot be evaluated.
    let why = "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'sizes' denied request: failed to configure policy: \
               failed to find resource referenced by paramKind: 'params.test/v1, Kind=Limit'";
    until("the policy to be known", async || attempt(1).await == (422, why.to_owned())).await;

    register(&rig, GROUP, extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    condition(&rig, GROUP, "True").await;
    until("the parameters to be read", async || attempt(1).await.0 == 201).await;
    let denied = |most: usize| {
        format!(
            "configmaps \"m\" is forbidden: ValidatingAdmissionPolicy 'sizes' with binding 'sizes' denied request: Limit {most}"
        )
    };
    assert_eq!(attempt(4).await, (422, denied(3)));
    raised.store(true, Ordering::Relaxed);
    until("the change to be seen", async || attempt(4).await.0 == 201).await;
    assert_eq!(attempt(11).await, (422, denied(10)));

    // Requests to the other server have this server's own identity.
    let lists = extension.seen().into_iter().filter(|head| head.starts_with("GET /apis/params.test/v1/limits?limit="));
    let first = lists.into_iter().next().expect("a list").to_ascii_lowercase();
    assert!(first.contains("x-remote-user: system:apiserver\r\n"), "{first}");
    assert!(first.contains("x-remote-group: system:masters\r\n"), "{first}");
}
