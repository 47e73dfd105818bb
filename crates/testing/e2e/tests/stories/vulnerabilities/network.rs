//! Vulnerabilities that redirected traffic: of services, of the server itself, and of pods that lost their network
//! policies.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Hook, Server, TempDir};
use http::Response;
use serde_json::{Value, json};

use super::{MERGE, PODS, patch, pod, rig};
use crate::authorization::{RBAC, Rig, binding, until};

const SERVICES: &str = "/api/v1/namespaces/team/services";
const POLICIES: &str = "/apis/networking.k8s.io/v1/namespaces/team/networkpolicies";

/// Gives alice all permissions for a resource in her namespace.
async fn may(rig: &Rig, group: &str, resources: &[&str], tried: &str) {
    let name = resources[0];
    let role = json!({
        "metadata": {"name": name}, "rules": [{"verbs": ["*"], "apiGroups": [group], "resources": resources}]
    });
    rig.make(&format!("{RBAC}/namespaces/team/roles"), role).await;
    rig.make(&format!("{RBAC}/namespaces/team/rolebindings"), binding(name, name, "User", "alice")).await;
    until("the binding counts", async || rig.code("alice", "GET", tried).await == 200).await;
}

/// CVE-2020-8554: a user with permission to create services could take over the traffic to any address as an external
/// IP. kube-apiserver's mitigation is an admission plugin that administrators enable, and that does not check existing
/// addresses.
#[tokio::test(flavor = "multi_thread")]
async fn services_do_not_take_over_addresses() {
    let service = |name: &str, ips: Value| {
        let spec = json!({"ports": [{"port": 80}], "externalIPs": ips});
        json!({"metadata": {"name": name}, "spec": spec})
    };
    let denied = |answer: &str| answer.contains("Use of external IPs is denied by admission control");
    let rig = rig(&["--enable-admission-plugins=DenyServiceExternalIPs".to_owned()]).await;
    may(&rig, "", &["services"], SERVICES).await;
    for token in ["alice", "root"] {
        let refused = rig.send(token, "POST", SERVICES, &service("s", json!(["8.8.8.8"]))).await;
        assert!(refused.status == 403 && denied(&refused.body), "{token}: {}", refused.body);
    }
    rig.make(SERVICES, service("s", json!([]))).await;
    let path = format!("{SERVICES}/s");
    for (kind, body) in [
        (MERGE, json!({"spec": {"externalIPs": ["8.8.8.8"]}})),
        ("application/json-patch+json", json!([{"op": "add", "path": "/spec/externalIPs", "value": ["8.8.8.8"]}])),
    ] {
        let (code, body) = patch(&rig, "alice", &path, kind, body.to_string()).await;
        assert!(code == 403 && denied(&body), "{kind}: {code} {body}");
    }
    let (code, body) =
        patch(&rig, "alice", &path, MERGE, json!({"metadata": {"labels": {"a": "b"}}}).to_string()).await;
    assert_eq!(code, 200, "{body}");
}

/// CVE-2021-25737: endpoints and slices with the node's own loopback and link-local addresses.
#[tokio::test(flavor = "multi_thread")]
async fn endpoints_do_not_lead_into_nodes() {
    let rig = rig(&[]).await;
    let slices = "/apis/discovery.k8s.io/v1/namespaces/team/endpointslices";
    for (address, family, may_be) in [
        ("127.0.0.1", "IPv4", false),
        ("169.254.169.254", "IPv4", false),
        ("224.0.0.1", "IPv4", false),
        ("0.0.0.0", "IPv4", false),
        ("::1", "IPv6", false),
        ("fe80::1", "IPv6", false),
        ("::127.0.0.1", "IPv6", false),
        ("::ffff:127.0.0.1", "IPv6", false),
        ("64:ff9b::127.0.0.1", "IPv6", false),
        ("64:ff9b::a9fe:a9fe", "IPv6", false),
        ("10.1.2.3", "IPv4", true),
    ] {
        let slice = json!({
            "metadata": {"name": "s"}, "addressType": family, "endpoints": [{"addresses": [address]}], "ports": []
        });
        let answer = rig.send("root", "POST", slices, &slice).await;
        assert_eq!(answer.status, if may_be { 201 } else { 422 }, "{address}: {}", answer.body);
        let endpoints = json!({
            "metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": address}], "ports": [{"port": 80}]}]
        });
        let answer = rig.send("root", "POST", "/api/v1/namespaces/team/endpoints", &endpoints).await;
        assert_eq!(answer.status, if may_be { 201 } else { 422 }, "{address}: {}", answer.body);
    }
}

/// CVE-2020-8561: a webhook redirected the server into networks that only the server reaches.
#[tokio::test(flavor = "multi_thread")]
async fn does_not_follow_redirects_of_webhooks() {
    let reached = Arc::<AtomicU32>::default();
    let count = reached.clone();
    let elsewhere = Hook::start(move |_| {
        count.fetch_add(1, Ordering::SeqCst);
        async {
            let known = json!({
                "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1",
                "status": {"authenticated": true, "user": {"username": "admin", "groups": ["system:masters"]}}
            });
            Response::new(known.to_string().into_bytes())
        }
    })
    .await;
    let (asked, place) = (Arc::<AtomicU32>::default(), elsewhere.url());
    let count = asked.clone();
    let hook = Hook::start(move |_| {
        // Each kind of redirect.
        let code = [301, 302, 303, 307, 308][count.fetch_add(1, Ordering::SeqCst) as usize % 5];
        let place = place.clone();
        async move { Response::builder().status(code).header("location", place).body(Vec::new()).unwrap() }
    })
    .await;
    let temp = TempDir::new();
    let server = Server::start(&[
        "--ephemeral",
        "--authentication-token-webhook-version=v1",
        "--authentication-token-webhook-config-file",
        &temp.file("hook", &hook.kubeconfig("/review", "t")),
    ]);
    for n in 0..5 {
        let mut client = server.connect(&Handshake::new(server.admin().authority)).await;
        let token = format!("Bearer token-{n}");
        let answer = client.send("GET", "/api/v1/nodes", &[("authorization", token.as_str())], "").await.unwrap();
        assert_eq!(answer.status, 401, "{}", answer.body);
    }
    assert!(asked.load(Ordering::SeqCst) >= 5);
    assert_eq!(reached.load(Ordering::SeqCst), 0);
}

/// CVE-2024-7598: while a namespace was terminating, its policies could be deleted before its pods. The controller
/// decides the order, which it can only guarantee if nothing else deletes or creates objects.
#[tokio::test(flavor = "multi_thread")]
async fn policies_outlast_the_pods_of_a_namespace() {
    let rig = rig(&[]).await;
    may(&rig, "networking.k8s.io", &["networkpolicies"], POLICIES).await;
    let policy =
        json!({"metadata": {"name": "all"}, "spec": {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}});
    rig.make(POLICIES, policy).await;
    rig.make(PODS, pod("p", json!({}))).await;
    let ending = rig.send("root", "DELETE", "/api/v1/namespaces/team", &Value::Null).await;
    assert_eq!(ending.status, 200, "{}", ending.body);
    // Nothing can be created that the deleted policies would not restrict.
    until("the namespace ends for others", async || {
        let late = rig.send("alice", "POST", PODS, &pod("late", json!({}))).await;
        late.status == 403 && late.body.contains("because it is being terminated")
    })
    .await;
    for path in [format!("{POLICIES}/all"), format!("{PODS}/p")] {
        assert_eq!(rig.code("root", "GET", &path).await, 200, "{path}");
    }
    // The namespace stays until the controller reports that it is empty.
    let namespace = rig.send("root", "GET", "/api/v1/namespaces/team", &Value::Null).await.body;
    let namespace: Value = serde_json::from_str(&namespace).unwrap();
    assert_eq!(
        (&namespace["status"]["phase"], &namespace["spec"]["finalizers"][0]),
        (&json!("Terminating"), &json!("kubernetes"))
    );
    // Like the controller: pods first, and the rest once they are deleted.
    let now = rig.send("root", "DELETE", &format!("{PODS}/p?gracePeriodSeconds=0"), &Value::Null).await;
    assert_eq!(now.status, 200, "{}", now.body);
    assert_eq!(rig.code("root", "GET", &format!("{POLICIES}/all")).await, 200);
}
