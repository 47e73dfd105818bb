//! A server whose clients' webhooks do not respond: it starts, reports that it is live, and can be repaired. The
//! webhooks may run in pods that wait for this server.

use std::net::TcpListener;

use binnacle_testkit::{Server, wait_until};
use serde_json::{Value, json};

use crate::conversion_webhooks::send;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WEBHOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";

/// Waits until a path, such as that of a health check, returns 200.
async fn wait_for(server: &Server, path: &str) {
    wait_until(path, async || (send(server, "GET", path, &Value::Null).await.0 == 200).then_some(())).await;
}

/// Creates a webhook for all requests that rejects everything, because nothing listens at its address.
async fn refuse_everything(server: &Server) {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let rule = json!({"apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"], "operations": ["*"]});
    let hook = json!({
        "name": "all.example.com", "rules": [rule], "failurePolicy": "Fail", "sideEffects": "None",
        "admissionReviewVersions": ["v1"], "clientConfig": {"url": format!("https://{unused}/x")},
    });
    let (code, made) = send(server, "POST", WEBHOOKS, &json!({"metadata": {"name": "all"}, "webhooks": [hook]})).await;
    assert_eq!(code, 201, "{made}");
    let map = json!({"metadata": {"generateName": "m-"}});
    wait_until("the webhook to count", async || {
        (send(server, "POST", "/api/v1/namespaces/default/configmaps", &map).await.0 == 500).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn starts_despite_a_silent_conversion_webhook() {
    let mut server = Server::durable();
    // The kernel accepts connections in its place, and nobody responds.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let version = |name: &str, storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object"}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    let webhook =
        json!({"conversionReviewVersions": ["v1"], "clientConfig": {"url": format!("https://{address}/convert")}});
    let definition = json!({
        "metadata": {"name": "things.silent.example.com"},
        "spec": {
            "group": "silent.example.com", "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [version("v1", true), version("v2", false)],
            "conversion": {"strategy": "Webhook", "webhook": webhook},
        },
    });
    let (code, made) = send(&server, "POST", DEFINITIONS, &definition).await;
    assert_eq!(code, 201, "{made}");
    let things = "/apis/silent.example.com/v1/namespaces/default/things";
    wait_for(&server, things).await;
    let thing = json!({"apiVersion": "silent.example.com/v1", "kind": "Thing", "metadata": {"name": "a"}});
    let (code, made) = send(&server, "POST", things, &thing).await;
    assert_eq!(code, 201, "{made}");

    server.restart();
    wait_for(&server, "/readyz").await;
    wait_for(&server, &format!("{things}/a")).await;
    drop(silent);
}

#[tokio::test(flavor = "multi_thread")]
async fn renews_its_lease_despite_a_failing_webhook() {
    let server = Server::durable();
    let path = wait_until("the server's lease", async || {
        let (_, leases) = send(&server, "GET", LEASES, &Value::Null).await;
        let name = leases["items"][0]["metadata"]["name"].as_str()?;
        name.starts_with("apiserver-").then(|| format!("{LEASES}/{name}"))
    })
    .await;
    let renewed = async || send(&server, "GET", &path, &Value::Null).await.1["spec"]["renewTime"].clone();
    refuse_everything(&server).await;
    let before = renewed().await;
    wait_until("the lease to be renewed", async || (renewed().await != before).then_some(())).await;
    // The lease of another holder is sent to the webhook, whoever writes it.
    let lease = json!({"metadata": {"name": "another"}, "spec": {"holderIdentity": "x"}});
    let (code, status) = send(&server, "POST", LEASES, &lease).await;
    assert_eq!(code, 500, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn continues_bootstrap_after_a_missing_namespace() {
    let mut server = Server::durable();
    let namespace = "/api/v1/namespaces/kube-node-lease";
    let finalize =
        json!({"kind": "Namespace", "apiVersion": "v1", "metadata": {"name": "kube-node-lease"}, "spec": {}});
    wait_until("the namespace to go", async || {
        send(&server, "DELETE", namespace, &Value::Null).await;
        send(&server, "PUT", &format!("{namespace}/finalize"), &finalize).await;
        (send(&server, "GET", namespace, &Value::Null).await.0 == 404).then_some(())
    })
    .await;
    refuse_everything(&server).await;
    server.restart();
    for step in ["bootstrap-controller", "rbac/bootstrap-roles", "priority-and-fairness-config-producer"] {
        wait_for(&server, &format!("/readyz/poststarthook/{step}")).await;
    }
}
