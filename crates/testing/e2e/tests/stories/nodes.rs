//! A kubelet with a certificate: it updates its node and lease, creates mirror pods, and cannot extend its permissions
//! by writes.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::https::{Answer, Client, Handshake};
use binnacle_testkit::{Server, TempDir, wait_until};
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

/// A server that trusts an authority of client certificates.
struct ServerWithClientAuthority {
    server: Server,
    /// The authority of the server's own certificate, as PEM.
    trusted: String,
    issuer: Issuer<'static, KeyPair>,
    _temp: TempDir,
}

impl ServerWithClientAuthority {
    fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = params.self_signed(&key).unwrap().pem();
        let issuer = Issuer::new(params, key);
        let temp = TempDir::new();
        let server = Server::start(&["--ephemeral", "--client-ca-file", &temp.file("clients.crt", &authority)]);
        let trusted =
            server.lines[2].split_whitespace().skip_while(|word| *word != "--certificate-authority").nth(1).unwrap();
        let trusted = std::fs::read_to_string(trusted).unwrap();
        Self { server, trusted, issuer, _temp: temp }
    }

    /// Returns a certificate and key for a common name and an organization.
    fn sign(&self, name: &str, organization: &str) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::OrganizationName, organization);
        params.distinguished_name.push(DnType::CommonName, name);
        params.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ClientAuth];
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    async fn connect(&self, name: &str, organization: &str) -> Client {
        let (certificate, key) = self.sign(name, organization);
        self.server.connect(&Handshake::new(&*self.trusted).identity(&certificate, &key)).await
    }
}

fn node(name: &str, label: &str) -> Value {
    json!({"metadata": {"name": name, "labels": {label: "x"}}})
}

/// Returns a mirror pod on the node n1, which has this uid.
fn mirror_pod(name: &str, uid: &Value, volumes: Value) -> Value {
    json!({
        "metadata": {
            "name": name, "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": uid, "controller": true}]
        },
        "spec": {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}], "volumes": volumes}
    })
}

async fn uid_of(client: &mut Client, path: &str) -> Value {
    let object = send(client, "GET", path, &Value::Null).await;
    serde_json::from_str::<Value>(&object.body).unwrap()["metadata"]["uid"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn kubelets_write_only_their_own_objects() {
    let server = ServerWithClientAuthority::start();
    let mut admin = server.connect("admin", "system:masters").await;
    let mut kubelet = server.connect("system:node:n1", "system:nodes").await;

    registers_only_its_own_node(&mut kubelet).await;
    let uid = uid_of(&mut admin, &format!("{NODES}/n1")).await;
    send(&mut admin, "POST", NODES, &node("n2", "kubernetes.io/os")).await;
    changes_only_its_own_node(&mut kubelet).await;

    send(&mut admin, "POST", "/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "default"}}))
        .await;
    send(&mut admin, "POST", "/api/v1/namespaces/default/secrets", &json!({"metadata": {"name": "s"}})).await;
    creates_only_mirror_pods(&mut kubelet, &uid).await;
    changes_only_the_status_of_its_pods(&mut kubelet).await;
    create_pods_on_both_nodes(&mut admin).await;
    does_not_remove_pods_of_other_nodes(&mut kubelet).await;

    gets_tokens_only_for_its_pods(&mut admin, &mut kubelet).await;
    creates_only_its_own_lease(&mut kubelet).await;
    requests_certificates_only_for_itself(&mut kubelet).await;
}

/// A kubelet registers its node, with labels that kubelets may set and no others.
async fn registers_only_its_own_node(kubelet: &mut Client) {
    for (object, want) in [
        (node("n2", "kubernetes.io/os"), "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\""),
        (
            node("n1", "node-restriction.kubernetes.io/trusted"),
            "nodes \"n1\" is forbidden: node \"n1\" is not allowed to set the following labels: \
             node-restriction.kubernetes.io/trusted",
        ),
        (node("n1", "kubernetes.io/os"), ""),
    ] {
        let answer = send(kubelet, "POST", NODES, &object).await;
        assert_eq!(message(&answer), want);
        assert_eq!(answer.status, if want.is_empty() { 201 } else { 403 });
    }
}

async fn changes_only_its_own_node(kubelet: &mut Client) {
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
        let answer = send(kubelet, "PATCH", &path, &change).await;
        assert_eq!(message(&answer), want, "{change}");
    }
    // Another node is forbidden: the authorizer comes first.
    let answer = send(kubelet, "PATCH", &format!("{NODES}/n2/status"), &json!({"status": {"phase": "x"}})).await;
    assert_eq!(answer.status, 403);
}

async fn creates_only_mirror_pods(kubelet: &mut Client, uid: &Value) {
    let made = send(kubelet, "POST", PODS, &mirror_pod("mirror", uid, json!([]))).await;
    assert_eq!(made.status, 201, "{}", made.body);
    let stolen = mirror_pod("thief", uid, json!([{"name": "v", "secret": {"secretName": "s"}}]));
    let refused = send(kubelet, "POST", PODS, &stolen).await;
    assert_eq!((refused.status, refused.body.contains("reference secrets")), (403, true), "{}", refused.body);
    let mut own = mirror_pod("plain", uid, json!([]));
    own["metadata"].as_object_mut().unwrap().remove("annotations");
    assert_eq!(
        message(&send(kubelet, "POST", PODS, &own).await),
        "pods \"plain\" is forbidden: pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create \
         mirror pods"
    );
}

/// A kubelet can write the status of its own pods, but not their labels.
async fn changes_only_the_status_of_its_pods(kubelet: &mut Client) {
    let status = format!("{PODS}/mirror/status");
    assert_eq!(send(kubelet, "PATCH", &status, &json!({"status": {"phase": "Running"}})).await.status, 200);
    let labels = send(kubelet, "PATCH", &status, &json!({"metadata": {"labels": {"app": "x"}}})).await;
    assert_eq!(labels.status, 403, "{}", labels.body);
}

async fn create_pods_on_both_nodes(admin: &mut Client) {
    for (name, node) in [("mine", "n1"), ("theirs", "n2")] {
        let object = json!({
            "metadata": {"name": name},
            "spec": {"nodeName": node, "serviceAccountName": "default", "containers": [{"name": "c", "image": "i"}]}
        });
        let made = send(admin, "POST", PODS, &object).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }
}

async fn does_not_remove_pods_of_other_nodes(kubelet: &mut Client) {
    assert_eq!(
        message(&send(kubelet, "DELETE", &format!("{PODS}/theirs"), &Value::Null).await),
        "pods \"theirs\" is forbidden: node \"n1\" can only delete pods with spec.nodeName set to itself"
    );
    let evicted =
        send(kubelet, "POST", &format!("{PODS}/theirs/eviction"), &json!({"metadata": {"name": "theirs"}})).await;
    assert_eq!(evicted.status, 403, "{}", evicted.body);
}

/// Tokens are bound to the pods of a kubelet, for the audiences that the pods name.
async fn gets_tokens_only_for_its_pods(admin: &mut Client, kubelet: &mut Client) {
    let token = "/api/v1/namespaces/default/serviceaccounts/default/token";
    let mine = uid_of(admin, &format!("{PODS}/mine")).await;
    let theirs = uid_of(admin, &format!("{PODS}/theirs")).await;
    let request = |pod: &str, uid: &Value, audiences: Value| {
        let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": uid});
        json!({"spec": {"boundObjectRef": bound, "audiences": audiences, "expirationSeconds": 3600}})
    };
    wait_until("the node to be related to its pod", async || {
        let answer = send(kubelet, "POST", token, &request("mine", &mine, json!([]))).await;
        (answer.status == 201).then_some(())
    })
    .await;
    let other = send(kubelet, "POST", token, &request("mine", &mine, json!(["vault"]))).await;
    assert_eq!(
        message(&other),
        "serviceaccounts \"default\" is forbidden: audience \"vault\" not found in pod spec volume, system:node:n1 is not \
         authorized to request tokens for this audience"
    );
    let other = send(kubelet, "POST", token, &request("theirs", &theirs, json!([]))).await;
    assert!(other.body.contains("node requested token bound to a pod scheduled on a different node"), "{}", other.body);
    let unbound = send(kubelet, "POST", token, &json!({"spec": {"expirationSeconds": 3600}})).await;
    assert!(unbound.body.contains("node requested token not bound to a pod"), "{}", unbound.body);
}

async fn creates_only_its_own_lease(kubelet: &mut Client) {
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    for (name, code) in [("n2", 403), ("n1", 201)] {
        let answer = send(kubelet, "POST", leases, &json!({"metadata": {"name": name}})).await;
        assert_eq!(answer.status, code, "{}", answer.body);
    }
}

async fn requests_certificates_only_for_itself(kubelet: &mut Client) {
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
    let answer = send(kubelet, "POST", requests, &csr("system:node:n2")).await;
    assert!(message(&answer).ends_with("can only create a node CSR with CN=system:node:n1"), "{}", answer.body);
    let answer = send(kubelet, "POST", requests, &csr("system:node:n1")).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
}
