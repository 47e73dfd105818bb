//! Past vulnerabilities of kube-apiserver, each as an attack that must fail here. The Kubernetes CVE feed describes
//! them.

mod connections;
mod leaks;
mod network;

use std::time::{Duration, Instant};

use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Kubelet, Misbehavior, Server, TempDir};
use rcgen::{BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use serde_json::{Value, json};

use crate::authorization::{RBAC, Rig, binding, role, until};

const PODS: &str = "/api/v1/namespaces/team/pods";
const ACCOUNTS: &str = "/api/v1/namespaces/team/serviceaccounts";

const RESOURCES: [&str; 7] =
    ["pods", "pods/ephemeralcontainers", "pods/exec", "pods/proxy", "pods/status", "nodes", "nodes/status"];

/// Starts a server with a namespace in which alice has all permissions for pods, and for nodes, if there were any in
/// it.
async fn rig(more: &[String]) -> Rig {
    let rig = Rig::start(TempDir::new(), more);
    rig.make_namespace("team").await;
    rig.make(ACCOUNTS, json!({"metadata": {"name": "default"}})).await;
    rig.make(&format!("{RBAC}/namespaces/team/roles"), role("pods", &["*"], &RESOURCES)).await;
    rig.make(&format!("{RBAC}/namespaces/team/rolebindings"), binding("pods", "pods", "User", "alice")).await;
    until("the binding counts", async || rig.code("alice", "GET", PODS).await == 200).await;
    rig
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    for (member, value) in spec.as_object().unwrap() {
        pod["spec"][member] = value.clone();
    }
    pod
}

async fn patch(rig: &Rig, token: &str, path: &str, kind: &str, body: String) -> (u16, String) {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", kind)];
    let answer = rig.client().await.send("PATCH", path, &headers, body).await.unwrap();
    (answer.status, answer.body)
}

const MERGE: &str = "application/merge-patch+json";

/// Starts a kubelet, and a server with a pod on its node.
async fn with_kubelet() -> (Kubelet, Rig) {
    let kubelet = Kubelet::start();
    let rig = rig(&kubelet.flags()).await;
    rig.make("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await;
    let status = json!({"status": {
        "addresses": [{"type": "InternalIP", "address": "127.0.0.1"}],
        "daemonEndpoints": {"kubeletEndpoint": {"Port": kubelet.port()}}
    }});
    let (code, body) = patch(&rig, "root", "/api/v1/nodes/n1/status", MERGE, status.to_string()).await;
    assert_eq!(code, 200, "{body}");
    rig.make(PODS, pod("p", json!({"nodeName": "n1"}))).await;
    (kubelet, rig)
}

/// CVE-2018-1002105: after an upgrade that the kubelet rejected, the connection led to the kubelet with the server's
/// permissions.
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_upgrade_leaves_no_tunnel() {
    let (kubelet, rig) = with_kubelet().await;
    kubelet.trouble("p", Misbehavior::Refuses(400, "no"));
    let handshake = Handshake::new(rig.server.admin().authority).alpn(&["http/1.1"]);
    let mut client = Client::connect(rig.server.address, &handshake).await.unwrap();
    let bearer = ("authorization", "Bearer alice");
    let spdy = [
        bearer,
        ("connection", "Upgrade"),
        ("upgrade", "SPDY/3.1"),
        ("x-stream-protocol-version", "v4.channel.k8s.io"),
    ];
    let exec = format!("{PODS}/p/exec?command=id&container=c&stdout=true");
    let refused = client.send("POST", &exec, &spdy, "").await.unwrap();
    assert_eq!(refused.status, 400, "{}", refused.body);
    for path in ["/runningpods/", "/exec/team/p/c?command=id", "/run/team/p/c?cmd=id"] {
        // The server may also close the connection.
        if let Ok(answer) = client.send("GET", path, &[bearer], "").await {
            assert!(matches!(answer.status, 403 | 404) && !answer.header("audit-id").is_empty(), "{path}: {answer:?}");
        }
    }
    let seen = kubelet.seen();
    assert!(!seen.iter().any(|line| line.contains("runningpods") || line.contains("/run/")), "{seen:?}");
    assert_eq!(seen.iter().filter(|line| line.contains("/exec/")).count(), 1, "{seen:?}");
}

/// CVE-2020-8559: a compromised kubelet redirected the server, and with it the user's command, to another host.
#[tokio::test(flavor = "multi_thread")]
async fn does_not_follow_redirects_of_kubelets() {
    let (kubelet, rig) = with_kubelet().await;
    let elsewhere = Kubelet::start();
    let place: &'static str = format!("https://127.0.0.1:{}/exec/team/victim/c?command=id", elsewhere.port()).leak();
    kubelet.trouble("p", Misbehavior::Redirects(place));
    let handshake = Handshake::new(rig.server.admin().authority).alpn(&["http/1.1"]);
    for protocol in ["SPDY/3.1", "websocket"] {
        let mut client = Client::connect(rig.server.address, &handshake).await.unwrap();
        let headers = [
            ("authorization", "Bearer alice"),
            ("connection", "Upgrade"),
            ("upgrade", protocol),
            ("x-stream-protocol-version", "v4.channel.k8s.io"),
            ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
            ("sec-websocket-version", "13"),
            ("sec-websocket-protocol", "v5.channel.k8s.io"),
        ];
        let exec = format!("{PODS}/p/exec?command=id&container=c&stdout=true");
        let method = if protocol == "websocket" { "GET" } else { "POST" };
        // A WebSocket is accepted before the kubelet is called, and gets the error as a message.
        let answer = tokio::time::timeout(Duration::from_secs(5), client.open(method, &exec, &headers, "")).await;
        if let Ok(Ok(answer)) = answer {
            assert_ne!((answer.status().as_u16(), protocol), (101, "SPDY/3.1"), "{answer:?}");
        }
    }
    assert!(kubelet.seen().iter().any(|line| line.contains("/exec/")));
    assert_eq!(elsewhere.seen(), [""; 0]);
}

/// CVE-2019-11247: permissions in a namespace were enough for cluster-scoped objects, requested through a namespaced
/// path.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_cluster_objects_in_namespaced_paths() {
    let rig = rig(&[]).await;
    rig.make("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await;
    for (method, path) in [
        ("GET", "/api/v1/namespaces/team/nodes/n1"),
        ("DELETE", "/api/v1/namespaces/team/nodes/n1"),
        ("GET", "/api/v1/namespaces/team/nodes"),
        ("GET", "/api/v1/namespaces/team/nodes/n1/status"),
        ("GET", "/apis/rbac.authorization.k8s.io/v1/namespaces/team/clusterroles/cluster-admin"),
    ] {
        let code = rig.code("alice", method, path).await;
        assert!(matches!(code, 403 | 404), "{method} {path}: {code}");
        assert_eq!(rig.code("root", method, path).await, 404, "{method} {path}");
    }
    assert_eq!(rig.code("root", "GET", "/api/v1/nodes/n1").await, 200);
}

/// CVE-2019-11253 and CVE-2019-11254: small bodies that expand or take long to decode, from users with hardly any
/// permissions.
#[tokio::test(flavor = "multi_thread")]
async fn limits_bodies_that_expand() {
    let rig = rig(&[]).await;
    let mut bomb =
        String::from("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\na0: &a0 [x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let before = format!("*a{}", level - 1);
        bomb.push_str(&format!("a{level}: &a{level} [{}]\n", vec![before; 9].join(", ")));
    }
    let merges =
        (1..2000).fold("m0: &m0 {k: v}\n".to_owned(), |text, n| format!("{text}m{n}: &m{n} {{<<: *m{}}}\n", n - 1));
    let deep = "[".repeat(100_000);
    let indented = (0..3000).fold(String::new(), |text, n| format!("{text}{}a:\n", " ".repeat(n)));
    let json_deep = format!("{{\"metadata\":{{\"a\":{}", "{\"a\":".repeat(50_000));
    for (kind, body) in [
        ("application/yaml", &bomb),
        ("application/yaml", &merges),
        ("application/yaml", &deep),
        ("application/yaml", &indented),
        ("application/json", &json_deep),
        ("application/json", &deep),
    ] {
        let began = Instant::now();
        let headers = [("authorization", "Bearer alice"), ("content-type", kind)];
        let answer = rig.client().await.send("POST", PODS, &headers, body.as_bytes()).await.unwrap();
        assert!(matches!(answer.status, 400 | 413 | 422), "{kind} {}: {}", body.len(), answer.status);
        // Far more than it takes now, far less than it took before the fix.
        assert!(began.elapsed() < Duration::from_secs(20), "{kind} {}", body.len());
    }
    assert_eq!(rig.code("alice", "GET", PODS).await, 200);
}

/// CVE-2019-1002100: JSON patches that double what they copy.
#[tokio::test(flavor = "multi_thread")]
async fn limits_patches_that_expand() {
    let rig = rig(&[]).await;
    rig.make(PODS, pod("p", json!({}))).await;
    let seed = "x".repeat(1000);
    let mut doubling = vec![json!({"op": "add", "path": "/metadata/annotations", "value": {"a": {"b": seed}}})];
    for n in 0..40 {
        doubling.push(
            json!({"op": "copy", "from": "/metadata/annotations/a", "path": format!("/metadata/annotations/a/{n}")}),
        );
    }
    let many: Vec<Value> = (0..20_000).map(|_| json!({"op": "test", "path": "/kind", "value": "Pod"})).collect();
    for operations in [json!(doubling), json!(many)] {
        let (code, body) =
            patch(&rig, "alice", &format!("{PODS}/p"), "application/json-patch+json", operations.to_string()).await;
        assert!(matches!(code, 400 | 413 | 422), "{code}: {}", &body[..body.len().min(300)]);
    }
    assert_eq!(rig.code("alice", "GET", &format!("{PODS}/p")).await, 200);
}

/// CVE-2015-5305 and CVE-2022-3162: names that lead to the keys of other objects.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_names_that_are_paths() {
    let rig = rig(&[]).await;
    rig.make("/api/v1/namespaces/team/secrets", json!({"metadata": {"name": "s"}, "stringData": {"k": "hidden"}}))
        .await;
    for name in ["..", ".", "../../secrets/team/s", "a/b", "%2e%2e", "a%2fb", "s\0", ""] {
        let made = rig.send("alice", "POST", PODS, &pod(name, json!({}))).await;
        assert!(matches!(made.status, 400 | 404 | 422), "{name:?}: {} {}", made.status, made.body);
    }
    for path in [
        "/api/v1/namespaces/../pods",
        "/api/v1/namespaces/%2e%2e/pods",
        "/api/v1/namespaces/team%2f..%2fteam/pods/s",
        "/api/v1/namespaces/team/pods/..%2f..%2fsecrets%2fteam%2fs",
        "/api/v1/namespaces/team/pods/%2e%2e%2f%2e%2e%2fsecrets%2fteam%2fs",
        "/api/v1/namespaces/team/pods/.",
        "/api/v1/namespaces/team/pods/..",
    ] {
        for token in ["alice", "root"] {
            let answer = rig.send(token, "GET", path, &Value::Null).await;
            assert!(!answer.body.contains("aGlkZGVu"), "{token} {path}: {}", answer.body);
            assert!(token == "root" || answer.status != 200, "{token} {path}: {}", answer.body);
        }
    }
}

/// CVE-2023-2727, CVE-2023-2728 and CVE-2024-3177: ephemeral containers and `envFrom`, which admission plugins did not
/// check.
#[tokio::test(flavor = "multi_thread")]
async fn admission_checks_ephemeral_containers() {
    let rig = rig(&[]).await;
    for name in ["mine", "theirs"] {
        rig.make("/api/v1/namespaces/team/secrets", json!({"metadata": {"name": name}})).await;
    }
    rig.make(
        ACCOUNTS,
        json!({
            "metadata": {"name": "held", "annotations": {"kubernetes.io/enforce-mountable-secrets": "true"}},
            "secrets": [{"name": "mine"}], "automountServiceAccountToken": false
        }),
    )
    .await;
    let env_from = |secret: &str| {
        let container = json!({"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": secret}}]});
        json!({"serviceAccountName": "held", "containers": [container]})
    };
    let refused = rig.send("alice", "POST", PODS, &pod("p", env_from("theirs"))).await;
    assert_eq!(refused.status, 403, "{}", refused.body);
    rig.make(PODS, pod("p", env_from("mine"))).await;
    let debug = |rest: Value| {
        let mut container = json!({"name": "debug", "image": "i"});
        for (member, value) in rest.as_object().unwrap() {
            container[member] = value.clone();
        }
        json!({"spec": {"ephemeralContainers": [container]}}).to_string()
    };
    let path = format!("{PODS}/p/ephemeralcontainers");
    let strategic = "application/strategic-merge-patch+json";
    for secret in [
        json!({"envFrom": [{"secretRef": {"name": "theirs"}}]}),
        json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "theirs", "key": "k"}}}]}),
    ] {
        let (code, body) = patch(&rig, "alice", &path, strategic, debug(secret)).await;
        assert!(code != 200 && body.contains("theirs"), "{code} {body}");
    }
    // Pod security checks them as well.
    let labels = json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "baseline"}}});
    let (code, body) = patch(&rig, "root", "/api/v1/namespaces/team", MERGE, labels.to_string()).await;
    assert_eq!(code, 200, "{body}");
    let privileged = || debug(json!({"securityContext": {"privileged": true}}));
    until("the label counts", async || patch(&rig, "alice", &path, strategic, privileged()).await.0 == 403).await;
    let (code, body) = patch(&rig, "alice", &path, strategic, debug(json!({}))).await;
    assert_eq!(code, 200, "{body}");
}

/// CVE-2021-25735: nodes were validated against the old state that the request contained.
#[tokio::test(flavor = "multi_thread")]
async fn admission_compares_nodes_with_the_stored_object() {
    let rig = rig(&[]).await;
    let taint = json!([{"key": "dedicated", "effect": "NoSchedule"}]);
    rig.make("/api/v1/nodes", json!({"metadata": {"name": "n1"}, "spec": {"taints": taint}})).await;
    // A whole object without the taint.
    for path in ["/api/v1/nodes/n1", "/api/v1/nodes/n1/status"] {
        let untainted = json!({"metadata": {"name": "n1"}, "spec": {}, "status": {"phase": "Running"}});
        rig.send("node", "PUT", path, &untainted).await;
        let node = rig.send("root", "GET", "/api/v1/nodes/n1", &Value::Null).await;
        let node: Value = serde_json::from_str(&node.body).unwrap();
        assert_eq!(node["spec"]["taints"][0]["key"], "dedicated", "{path}");
    }
}

/// CVE-2025-4563: a node added other pods' claims to its own pod, and could then read them. CVE-2025-5187: it set a
/// nonexistent owner on itself, was garbage-collected, and registered again without its taints and labels.
#[tokio::test(flavor = "multi_thread")]
async fn nodes_gain_no_access_by_their_writes() {
    let rig = rig(&[]).await;
    rig.make("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await;
    rig.make(
        PODS,
        pod("p", json!({"nodeName": "n1", "resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}]})),
    )
    .await;
    let claims = json!({"status": {"resourceClaimStatuses": [{"name": "a", "resourceClaimName": "theirs"}]}});
    let (code, body) = patch(&rig, "node", &format!("{PODS}/p/status"), MERGE, claims.to_string()).await;
    assert!(code == 403 && body.contains("cannot update resource claim statues"), "{code} {body}");
    let mirror = json!({
        "metadata": {
            "name": "made-up", "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "x", "controller": true}]
        },
        "spec": {
            "nodeName": "n1", "containers": [{"name": "c", "image": "i"}],
            "resourceClaims": [{"name": "a", "resourceClaimName": "theirs"}]
        }
    });
    assert_eq!(rig.send("node", "POST", PODS, &mirror).await.status, 403);
    let claim = "/apis/resource.k8s.io/v1/namespaces/team/resourceclaims/theirs";
    assert_eq!(rig.code("node", "GET", claim).await, 403);
    let owner =
        json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "gone", "uid": "1"}]}});
    for path in ["/api/v1/nodes/n1", "/api/v1/nodes/n1/status"] {
        let (code, body) = patch(&rig, "node", path, MERGE, owner.to_string()).await;
        let node = rig.send("root", "GET", "/api/v1/nodes/n1", &Value::Null).await.body;
        assert!(!node.contains("ownerReferences"), "{path}: {code} {body}");
    }
}

/// CVE-2021-25740: editors of a namespace could send traffic of ingresses and load balancers to any address through
/// endpoints.
#[tokio::test(flavor = "multi_thread")]
async fn editors_cannot_write_endpoints() {
    let rig = rig(&[]).await;
    let editor = json!({
        "metadata": {"name": "edit"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:aggregate-to-edit"},
        "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": "bob"}]
    });
    rig.make(&format!("{RBAC}/namespaces/team/rolebindings"), editor).await;
    until("the binding counts", async || rig.code("bob", "GET", "/api/v1/namespaces/team/secrets").await == 200).await;
    let endpoints = json!({"metadata": {"name": "e"}, "subsets": []});
    for path in ["/api/v1/namespaces/team/endpoints", "/apis/discovery.k8s.io/v1/namespaces/team/endpointslices"] {
        assert_eq!(rig.send("bob", "POST", path, &endpoints).await.status, 403, "{path}");
    }
}

/// CVE-2016-7075: any certificate of the right CA was accepted from clients, also a server's own.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_server_certificates_of_clients() {
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
    for (usage, known) in [(ExtendedKeyUsagePurpose::ClientAuth, true), (ExtendedKeyUsagePurpose::ServerAuth, false)] {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "admin");
        params.distinguished_name.push(DnType::OrganizationName, "system:masters");
        params.extended_key_usages = vec![usage];
        let certificate = params.signed_by(&key, &issuer).unwrap().pem();
        let handshake = Handshake::new(&*trusted).identity(&certificate, &key.serialize_pem()).alpn(&["http/1.1"]);
        let code = match Client::connect(server.address, &handshake).await {
            Ok(mut client) => client.get("/api/v1/nodes").await.map_or(0, |answer| answer.status),
            Err(_) => 0,
        };
        assert_eq!(code == 200, known, "{code}");
    }
}

/// CVE-2020-8562 and CVE-2022-3294: pods and nodes whose addresses lead into the server's own machine or network.
#[tokio::test(flavor = "multi_thread")]
async fn proxies_do_not_reach_the_server_itself() {
    let rig = rig(&[]).await;
    for (name, address) in [("home", "127.0.0.1"), ("cloud", "169.254.169.254")] {
        rig.make(PODS, pod(name, json!({"nodeName": "n1"}))).await;
        let status = json!({"status": {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}});
        patch(&rig, "root", &format!("{PODS}/{name}/status"), MERGE, status.to_string()).await;
        for port in ["", ":6443", ":10250"] {
            let answer = rig.send("alice", "GET", &format!("{PODS}/{name}{port}/proxy/"), &Value::Null).await;
            assert_eq!((answer.status, answer.body.contains("address not allowed")), (400, true), "{}", answer.body);
        }
    }
}
