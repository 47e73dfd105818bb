//! A kubelet with a certificate: it updates its node and lease, creates mirror pods, and cannot extend its permissions
//! by writes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::https::{Answer, Client, Handshake};
use binnacle_testkit::{Server, wait_until};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

const NODES: &str = "/api/v1/nodes";
const PODS: &str = "/api/v1/namespaces/default/pods";

async fn send(client: &mut Client, method: &str, path: &str, body: &Value) -> Answer {
    let kind = match method {
        "PATCH" => "application/merge-patch+json",
        _ => "application/json",
    };
    let body = if body.is_null() { String::new() } else { body.to_string() };
    client.send(method, path, &[("content-type", kind)], body).await.unwrap()
}

fn message(answer: &Answer) -> String {
    let body: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    body["message"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelets_write_only_their_own_objects() {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let sign = |name: &str, organization: &str| {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        (params.signed_by(&key, &issuer).unwrap().pem(), key.serialize_pem())
    };
    let temp = binnacle_testkit::TempDir::new();
    let server = Server::start(&["--ephemeral", "--client-ca-file", &temp.file("clients.crt", &authority)]);
    let trusted =
        server.lines[2].split_whitespace().skip_while(|word| *word != "--certificate-authority").nth(1).unwrap();
    let trusted = std::fs::read_to_string(trusted).unwrap();
    let connect = async |name: &str, organization: &str| {
        let (certificate, key) = sign(name, organization);
        server.connect(&Handshake::new(&*trusted).identity(&certificate, &key)).await
    };
    let mut admin = connect("admin", "system:masters").await;
    let mut kubelet = connect("system:node:n1", "system:nodes").await;

    // It registers its node, with labels that kubelets may set and no others.
    let node = |name: &str, label: &str| json!({"metadata": {"name": name, "labels": {label: "x"}}});
    for (object, want) in [
        (node("n2", "kubernetes.io/os"), "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\""),
        (
            node("n1", "node-restriction.kubernetes.io/trusted"),
            "nodes \"n1\" is forbidden: node \"n1\" is not allowed to set the following labels: \
             node-restriction.kubernetes.io/trusted",
        ),
        (node("n1", "kubernetes.io/os"), ""),
    ] {
        let answer = send(&mut kubelet, "POST", NODES, &object).await;
        assert_eq!(message(&answer), want);
        assert_eq!(answer.status, if want.is_empty() { 201 } else { 403 });
    }
    let uid = {
        let node = send(&mut admin, "GET", &format!("{NODES}/n1"), &Value::Null).await;
        serde_json::from_str::<Value>(&node.body).unwrap()["metadata"]["uid"].clone()
    };
    send(&mut admin, "POST", NODES, &node("n2", "kubernetes.io/os")).await;
    let own = format!("{NODES}/n1");
    let mine = "nodes \"n1\" is forbidden: ";
    for (path, change, want) in [
        (own.clone(), json!({"metadata": {"annotations": {"a": "b"}}}), String::new()),
        (
            own.clone(),
            json!({"spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}}),
            format!("{mine}node \"n1\" is not allowed to modify taints"),
        ),
        (
            own.clone(),
            json!({"metadata": {"labels": {"node-role.kubernetes.io/control-plane": ""}}}),
            format!("{mine}is not allowed to modify labels: node-role.kubernetes.io/control-plane"),
        ),
        (
            own,
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "gone", "uid": "1"}]}}),
            format!("{mine}node \"n1\" is not allowed to modify ownerReferences"),
        ),
    ] {
        let answer = send(&mut kubelet, "PATCH", &path, &change).await;
        assert_eq!(message(&answer), want, "{change}");
    }
    // Another node is forbidden: the authorizer comes first.
    let answer = send(&mut kubelet, "PATCH", &format!("{NODES}/n2/status"), &json!({"status": {"phase": "x"}})).await;
    assert_eq!(answer.status, 403);

    // Mirror pods.
    send(&mut admin, "POST", "/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}}))
        .await;
    send(&mut admin, "POST", "/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "s"}})).await;
    let pod = |name: &str, volumes: Value| {
        json!({
            "metadata": {
                "name": name, "annotations": {"kubernetes.io/config.mirror": "x"},
                "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": true}]
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
        })
    };
    let made = send(&mut kubelet, "POST", PODS, &pod("mirror", json!([]))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let stolen = pod("thief", json!([{"name": "v", "secret": {"secretName": "s"}}]));
    let refused = send(&mut kubelet, "POST", PODS, &stolen).await;
    assert_eq!((refused.status, refused.body.contains("reference secrets")), (403, true), "{}", refused.body);
    let mut own = pod("plain", json!([]));
    own["metadata"].as_object_mut().unwrap().remove("annotations");
    assert_eq!(
        message(&send(&mut kubelet, "POST", PODS, &own).await),
        "pods \"plain\" is forbidden: pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create \
         mirror pods"
    );
    // It can write the status of its own pods, but not their labels.
    let status = format!("{PODS}/mirror/status");
    assert_eq!(send(&mut kubelet, "PATCH", &status, &json!({"status": {"phase": "Running"}})).await.status, 200);
    let labels = send(&mut kubelet, "PATCH", &status, &json!({"metadata": {"labels": {"app": "x"}}})).await;
    assert_eq!(labels.status, 403, "{}", labels.body);
    for (name, node) in [("mine", "n1"), ("theirs", "n2")] {
        let object = json!({
            "metadata": {"name": name},
            "spec": {"nodeName": node, "serviceAccountName": "default", "containers": [{"name": "c", "image": "i"}]}
        });
        let made = send(&mut admin, "POST", PODS, &object).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
    assert_eq!(
        message(&send(&mut kubelet, "DELETE", &format!("{PODS}/theirs"), &Value::Null).await),
        "pods \"theirs\" is forbidden: node \"n1\" can only delete pods with spec.nodeName set to itself"
    );
    let evicted =
        send(&mut kubelet, "POST", &format!("{PODS}/theirs/eviction"), &json!({"metadata": {"name": "theirs"}})).await;
    assert_eq!(evicted.status, 403, "{}", evicted.body);

    // Tokens are bound to its pods, for the audiences that the pods name.
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let uid_of = async |client: &mut Client, name: &str| -> Value {
        let pod = send(client, "GET", &format!("{PODS}/{name}"), &Value::Null).await;
        serde_json::from_str::<Value>(&pod.body).unwrap()["metadata"]["uid"].clone()
    };
    let (mine, theirs) = (uid_of(&mut admin, "mine").await, uid_of(&mut admin, "theirs").await);
    let request = |pod: &str, uid: &Value, audiences: Value| {
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
        json!({"spec": {"boundObjectRef": bound, "audiences": audiences, "expirationSeconds": 3600}})
    };
    wait_until("the node to be related to its pod", async || {
        let answer = send(&mut kubelet, "POST", token, &request("mine", &mine, json!([]))).await;
        (answer.status == 201).then_some(())
    })
    .await;
    let other = send(&mut kubelet, "POST", token, &request("mine", &mine, json!(["vault"]))).await;
    assert_eq!(
        message(&other),
        "serviceaccounts \"default\" is forbidden: audience \"vault\" not found in pod spec volume, system:node:n1 is not \
         authorized to request tokens for this audience"
    );
    let other = send(&mut kubelet, "POST", token, &request("theirs", &theirs, json!([]))).await;
    assert!(other.body.contains("node requested token bound to a pod scheduled on a different node"), "{}", other.body);
    let unbound = send(&mut kubelet, "POST", token, &json!({"spec": {"expirationSeconds": 3600}})).await;
    assert!(unbound.body.contains("node requested token not bound to a pod"), "{}", unbound.body);

    // Its lease, and certificates for itself.
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    for (name, code) in [("n2", 403), ("n1", 201)] {
        let answer = send(&mut kubelet, "POST", leases, &json!({"metadata": {"name": name}})).await;
        assert_eq!(answer.status, code, "{}", answer.body);
    }
    let csr = |name: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        json!({
            "metadata": {"generateName": "csr-"},
            "spec": {
                "request": BASE64_STANDARD.encode(pem), "signerName": "kubernetes.io/kube-apiserver-client-kubelet",
                "usages": ["digital signature", "client auth"]
            }
        })
    };
    let requests = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    let answer = send(&mut kubelet, "POST", requests, &csr("system:node:n2")).await;
    assert!(message(&answer).ends_with("can only create a node CSR with CN=system:node:n1"), "{}", answer.body);
    let answer = send(&mut kubelet, "POST", requests, &csr("system:node:n1")).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
}
