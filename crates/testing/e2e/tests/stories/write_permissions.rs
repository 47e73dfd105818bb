//! The permissions that each write needs, above all if one verb turns into another. `docs/authorization.md` names these
//! tests.

use binnacle_testkit::https::{Answer, Client, Handshake};
use binnacle_testkit::{Kubelet, TempDir};
use serde_json::{Value, json};

use crate::authorization::{RBAC, Rig, binding, until};

const JSON: &str = "application/json";
const JSON_PATCH: &str = "application/json-patch+json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/team/leases";
const MAPS: &str = "/api/v1/namespaces/team/configmaps";
const PODS: &str = "/api/v1/namespaces/team/pods";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

async fn send(rig: &Rig, token: &str, method: &str, path: &str, content_type: &str, body: &Value) -> Answer {
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", content_type)];
    let body = if body.is_null() { String::new() } else { body.to_string() };
    rig.client().await.send(method, path, &headers, body).await.unwrap()
}

fn message(answer: &Answer) -> String {
    let status: Value = serde_json::from_str(&answer.body).unwrap_or_default();
    status["message"].as_str().unwrap_or(&answer.body).to_owned()
}

/// Starts a server with a namespace, in which alice has the permissions in `rules`.
async fn rig(rules: Value, more: &[String]) -> Rig {
    let rig = Rig::start(TempDir::new(), more);
    rig.make_namespace("team").await;
    let mut rules = rules;
    rules.as_array_mut().unwrap().push(json!({"verbs": ["list"], "apiGroups": [""], "resources": ["services"]}));
    let role = json!({"metadata": {"name": "given"}, "rules": rules});
    rig.make(&format!("{RBAC}/clusterroles"), role).await;
    let mut bound = binding("given", "given", "User", "alice");
    bound["roleRef"]["kind"] = json!("ClusterRole");
    rig.make(&format!("{RBAC}/clusterrolebindings"), bound).await;
    // The binding is effective once alice can list services, which no other user reads.
    until("the binding counts", async || rig.code("alice", "GET", "/api/v1/services").await == 200).await;
    rig
}

fn lease(metadata: Value) -> Value {
    json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata})
}

/// An update or an apply of a missing object is a create, and also needs the permission to create.
#[tokio::test(flavor = "multi_thread")]
async fn update_does_not_create() {
    let rig = rig(
        json!([
            {"verbs": ["update", "patch"], "apiGroups": ["*"], "resources": ["*"]},
            {"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["only"]},
            {"verbs": ["create"], "apiGroups": [""], "resources": ["configmaps/status"]}
        ]),
        &[],
    )
    .await;
    let forbidden = "leases.coordination.k8s.io \"l\" is forbidden: User \"alice\" cannot create resource \"leases\" in API \
                     group \"coordination.k8s.io\" in the namespace \"team\"";
    let named = lease(json!({"name": "l"}));
    for (method, query, content_type) in
        [("PUT", "", JSON), ("PUT", "?dryRun=All", JSON), ("PATCH", "?fieldManager=f", APPLY)]
    {
        let path = format!("{LEASES}/l{query}");
        let refused = send(&rig, "alice", method, &path, content_type, &named).await;
        assert_eq!((refused.status, message(&refused).as_str()), (403, forbidden), "{method} {query}");
    }
    assert_eq!(rig.code("root", "GET", &format!("{LEASES}/l")).await, 404);
    // As in kube-apiserver, validation of the kind comes first.
    let mut invalid = named.clone();
    invalid["spec"] = json!({"leaseDurationSeconds": -1});
    assert_eq!(send(&rig, "alice", "PUT", &format!("{LEASES}/l"), JSON, &invalid).await.status, 422);

    let map = |name: &str| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    for (name, code) in [("only", 201), ("other", 403), ("only", 200)] {
        let path = format!("{MAPS}/{name}?fieldManager=f");
        assert_eq!(send(&rig, "alice", "PATCH", &path, APPLY, &map(name)).await.status, code, "{name}");
    }
    let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "mine"}});
    let refused = send(&rig, "alice", "PATCH", "/api/v1/namespaces/mine?fieldManager=f", APPLY, &space).await;
    assert_eq!(
        (refused.status, message(&refused).as_str()),
        (
            403,
            "namespaces \"mine\" is forbidden: User \"alice\" cannot create resource \"namespaces\" in API group \"\" in \
             the namespace \"mine\""
        )
    );

    // The other kinds of patches never create, nor does any write of a subresource.
    for content_type in [JSON_PATCH, MERGE, STRATEGIC] {
        let body = if content_type == JSON_PATCH { json!([]) } else { json!({}) };
        assert_eq!(send(&rig, "root", "PATCH", &format!("{MAPS}/absent"), content_type, &body).await.status, 404);
    }
    let deployment = "/apis/apps/v1/namespaces/team/deployments/absent";
    let configuration = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "absent"}});
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "absent"}});
    for (subresource, body) in [("status", &configuration), ("scale", &scale)] {
        let path = format!("{deployment}/{subresource}?fieldManager=f");
        assert_eq!(send(&rig, "root", "PATCH", &path, APPLY, body).await.status, 404, "{subresource}");
        let put = send(&rig, "root", "PUT", &format!("{deployment}/{subresource}"), JSON, body).await;
        assert_eq!(put.status, 404, "{subresource}");
    }
    let service = json!({"metadata": {"name": "absent"}, "spec": {"ports": [{"port": 1}]}});
    let put = send(&rig, "root", "PUT", "/api/v1/namespaces/team/services/absent/status", JSON, &service).await;
    assert_eq!(put.status, 404);

    // A write for an object with a uid does not create another one.
    let other = lease(json!({"name": "l", "uid": "x"}));
    assert_eq!(send(&rig, "root", "PUT", &format!("{LEASES}/l"), JSON, &other).await.status, 409);
    assert_eq!(send(&rig, "root", "PUT", &format!("{LEASES}/l"), JSON, &named).await.status, 201);
    assert_eq!(send(&rig, "alice", "PATCH", &format!("{LEASES}/l?fieldManager=f"), APPLY, &named).await.status, 200);
}

/// An apply that loses the race to create updates the winner's object.
#[tokio::test(flavor = "multi_thread")]
async fn applies_that_race_create_once() {
    let rig = rig(json!([]), &[]).await;
    for round in 0..5 {
        let path = format!("{MAPS}/race-{round}");
        let applies = (0..8).map(|n| {
            let body = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": format!("race-{round}")},
                "data": {format!("k{n}"): "v"}
            });
            let path = format!("{path}?fieldManager=m{n}");
            let rig = &rig;
            async move { send(rig, "root", "PATCH", &path, APPLY, &body).await.status }
        });
        let mut codes = futures::future::join_all(applies).await;
        codes.sort_unstable();
        assert_eq!(codes, [200, 200, 200, 200, 200, 200, 200, 201]);
        let map: Value = serde_json::from_str(&rig.send("root", "GET", &path, &Value::Null).await.body).unwrap();
        assert_eq!(map["data"].as_object().unwrap().len(), 8);
    }
}

/// With `/watch/` in the path, every method is a watch for the authorizers: no such request writes.
#[tokio::test(flavor = "multi_thread")]
async fn watch_paths_do_not_write() {
    let rig = rig(json!([{"verbs": ["get", "list", "watch"], "apiGroups": ["*"], "resources": ["*"]}]), &[]).await;
    rig.make(MAPS, json!({"metadata": {"name": "kept"}})).await;
    rig.make("/api/v1/namespaces/team/serviceaccounts", json!({"metadata": {"name": "robot"}})).await;
    let watched = "/api/v1/watch/namespaces/team";
    let made = json!({"metadata": {"name": "made"}});
    for (method, path, content_type, body) in [
        ("POST", "/configmaps", JSON, &made),
        ("POST", "/configmaps?watch=1", JSON, &made),
        ("DELETE", "/configmaps", JSON, &Value::Null),
        ("DELETE", "/configmaps/kept", JSON, &Value::Null),
        ("PUT", "/configmaps/made", JSON, &made),
        ("PATCH", "/configmaps/kept", MERGE, &json!({"data": {"a": "b"}})),
        ("POST", "/serviceaccounts/robot/token", JSON, &json!({})),
        ("POST", "/bindings", JSON, &json!({"metadata": {"name": "p"}, "target": {"name": "n"}})),
        ("POST", "/pods/p/eviction", JSON, &json!({"metadata": {"name": "p"}})),
        ("GET", "/pods/p/exec?command=id", JSON, &Value::Null),
        ("GET", "/services/s/proxy", JSON, &Value::Null),
        ("GET", "/pods/p/log", JSON, &Value::Null),
    ] {
        for token in ["alice", "root"] {
            let answer = send(&rig, token, method, &format!("{watched}{path}"), content_type, body).await;
            assert!(matches!(answer.status, 404 | 405), "{token} {method} {path}: {} {}", answer.status, answer.body);
            let known = ["not allow this method", "could not find the requested resource"];
            assert!(known.iter().any(|text| answer.body.contains(text)), "{method} {path}: {}", answer.body);
        }
    }
    let review = "/apis/authorization.k8s.io/v1/watch/selfsubjectaccessreviews";
    assert_eq!(send(&rig, "alice", "POST", review, JSON, &json!({})).await.status, 404);
    let list: Value = serde_json::from_str(&rig.send("root", "GET", MAPS, &Value::Null).await.body).unwrap();
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().map(|i| i["metadata"]["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"kept") && !names.contains(&"made"), "{names:?}");
    let kept = list["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "kept").unwrap();
    assert!(kept["data"].is_null());
}

/// Permissions in a namespace do not extend to namespaces, neither others nor that one, through paths that nest them.
#[tokio::test(flavor = "multi_thread")]
async fn namespaces_are_in_no_namespace() {
    let rig = rig(json!([]), &[]).await;
    rig.make_namespace("other").await;
    let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    rig.make(&format!("{RBAC}/namespaces/team/roles"), json!({"metadata": {"name": "all"}, "rules": all})).await;
    rig.make(&format!("{RBAC}/namespaces/team/rolebindings"), binding("all", "all", "User", "bob")).await;
    until("the binding counts", async || rig.code("bob", "GET", MAPS).await == 200).await;
    let inside = "/api/v1/namespaces/team/namespaces";
    let labels = json!({"metadata": {"labels": {"mine": "true"}}});
    for (method, path, content_type, body) in [
        ("GET", "", JSON, &Value::Null),
        ("GET", "/other", JSON, &Value::Null),
        ("GET", "/team", JSON, &Value::Null),
        ("POST", "", JSON, &json!({"metadata": {"name": "made"}})),
        ("PUT", "/other", JSON, &json!({"metadata": {"name": "other"}})),
        ("PATCH", "/other", MERGE, &labels),
        ("PATCH", "/other/status", MERGE, &labels),
        ("PATCH", "/made?fieldManager=f", APPLY, &json!({"apiVersion": "v1", "kind": "Namespace"})),
        ("PUT", "/other/finalize", JSON, &json!({"metadata": {"name": "other"}})),
        ("DELETE", "/other", JSON, &Value::Null),
    ] {
        for token in ["bob", "root"] {
            let answer = send(&rig, token, method, &format!("{inside}{path}"), content_type, body).await;
            assert_eq!(answer.status, 404, "{token} {method} {path}: {}", answer.body);
            assert!(answer.body.contains("could not find the requested resource"), "{}", answer.body);
        }
    }
    let watched = "/api/v1/watch/namespaces/team/namespaces/other";
    assert_eq!(rig.code("bob", "GET", watched).await, 404);
    let other = rig.send("root", "GET", "/api/v1/namespaces/other", &Value::Null).await;
    assert!(other.status == 200 && !other.body.contains("mine") && other.body.contains("Active"), "{}", other.body);
    assert_eq!(rig.code("root", "GET", "/api/v1/namespaces/made").await, 404);
}

/// The verb and the resource with which each request is authorized.
#[tokio::test(flavor = "multi_thread")]
async fn authorizes_each_request_with_its_verb_and_resource() {
    let rig = rig(json!([]), &[]).await;
    let apps = "/apis/apps/v1/namespaces/team/deployments";
    let core = "/api/v1/namespaces/team";
    for (method, path, verb, resource) in [
        ("POST", MAPS.to_owned(), "create", "configmaps"),
        ("PUT", format!("{MAPS}/a"), "update", "configmaps"),
        ("PATCH", format!("{MAPS}/a"), "patch", "configmaps"),
        ("DELETE", format!("{MAPS}/a"), "delete", "configmaps"),
        ("DELETE", MAPS.to_owned(), "deletecollection", "configmaps"),
        ("PUT", format!("{apps}/a/status"), "update", "deployments/status"),
        ("PATCH", format!("{apps}/a/scale"), "patch", "deployments/scale"),
        ("POST", format!("{PODS}/a/eviction"), "create", "pods/eviction"),
        ("POST", format!("{PODS}/a/binding"), "create", "pods/binding"),
        ("POST", format!("{core}/bindings"), "create", "bindings"),
        ("PATCH", format!("{PODS}/a/ephemeralcontainers"), "patch", "pods/ephemeralcontainers"),
        ("PATCH", format!("{PODS}/a/resize"), "patch", "pods/resize"),
        ("POST", format!("{core}/serviceaccounts/a/token"), "create", "serviceaccounts/token"),
        ("PUT", format!("{REQUESTS}/a/approval"), "update", "certificatesigningrequests/approval"),
        ("PATCH", format!("{REQUESTS}/a/status"), "patch", "certificatesigningrequests/status"),
        ("PUT", "/api/v1/namespaces/team/finalize".to_owned(), "update", "namespaces/finalize"),
        ("POST", format!("{PODS}/a/exec?command=id"), "create", "pods/exec"),
        ("GET", format!("{PODS}/a/exec?command=id"), "get", "pods/exec"),
        ("POST", format!("{PODS}/a/attach"), "create", "pods/attach"),
        ("POST", format!("{PODS}/a/portforward"), "create", "pods/portforward"),
        ("GET", format!("{PODS}/a/log"), "get", "pods/log"),
        ("GET", format!("{PODS}/a/proxy/x"), "get", "pods/proxy"),
        ("POST", format!("{core}/services/a/proxy/x"), "create", "services/proxy"),
        ("PUT", "/api/v1/nodes/a/proxy/x".to_owned(), "update", "nodes/proxy"),
        ("DELETE", "/api/v1/nodes/a/proxy/x".to_owned(), "delete", "nodes/proxy"),
        ("GET", "/api/v1/watch/namespaces/team/configmaps".to_owned(), "watch", "configmaps"),
    ] {
        let refused = send(&rig, "bob", method, &path, JSON, &json!({})).await;
        let want = format!("User \"bob\" cannot {verb} resource \"{resource}\"");
        assert!(refused.status == 403 && refused.body.contains(&want.replace('"', "\\\"")), "{path}: {}", refused.body);
    }
}

/// An update that removes the last finalizer of a terminating object deletes it without permission to delete; no other
/// update does.
#[tokio::test(flavor = "multi_thread")]
async fn an_update_completes_a_delete() {
    let rig = rig(json!([{"verbs": ["update", "patch"], "apiGroups": [""], "resources": ["configmaps"]}]), &[]).await;
    let map = json!({"metadata": {"name": "held", "finalizers": ["example.com/a", "example.com/b"]}});
    rig.make(MAPS, map).await;
    let held = format!("{MAPS}/held");
    assert_eq!(rig.code("alice", "DELETE", &held).await, 403);
    let marked = json!({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 0}});
    send(&rig, "alice", "PATCH", &held, MERGE, &marked).await;
    let live: Value = serde_json::from_str(&rig.send("root", "GET", &held, &Value::Null).await.body).unwrap();
    assert!(live["metadata"]["deletionTimestamp"].is_null(), "{live}");
    assert_eq!(rig.code("root", "DELETE", &held).await, 200);
    for (finalizers, left) in [(json!(["example.com/b"]), 200), (json!([]), 404)] {
        let body = json!({"metadata": {"finalizers": finalizers}});
        let changed = send(&rig, "alice", "PATCH", &held, MERGE, &body).await;
        assert_eq!(changed.status, 200, "{}", changed.body);
        assert_eq!(rig.code("root", "GET", &held).await, left);
    }
}

/// Users cannot grant permissions that they do not have, with any way of writing roles or bindings.
#[tokio::test(flavor = "multi_thread")]
async fn no_write_path_escalates_privileges() {
    let rig = rig(
        json!([{"verbs": ["*"], "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings"]}]),
        &[],
    )
    .await;
    let group = "rbac.authorization.k8s.io";
    // The star on roles includes `escalate` and `bind`; bob gets the plain verbs.
    let plain = json!({"metadata": {"name": "plain"}, "rules": [{
        "verbs": ["get", "create", "update", "patch"], "apiGroups": [group],
        "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"]
    }]});
    rig.make(&format!("{RBAC}/clusterroles"), plain).await;
    let mut bound = binding("plain", "plain", "User", "bob");
    bound["roleRef"]["kind"] = json!("ClusterRole");
    rig.make(&format!("{RBAC}/clusterrolebindings"), bound).await;
    let roles = format!("{RBAC}/namespaces/team/roles");
    let bindings = format!("{RBAC}/namespaces/team/rolebindings");
    until("the binding counts", async || rig.code("bob", "GET", &format!("{roles}/x")).await == 404).await;
    let all = json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]);
    let typed = |kind: &str, name: &str, more: Value| {
        let mut object = json!({"apiVersion": format!("{group}/v1"), "kind": kind, "metadata": {"name": name}});
        object.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        object
    };
    let admin = json!({
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}]
    });
    rig.make(&roles, json!({"metadata": {"name": "there"}, "rules": []})).await;
    let strong = typed("Role", "new", json!({"rules": all}));
    let there = typed("Role", "there", json!({"rules": all}));
    let grant = typed("RoleBinding", "new", admin.clone());
    let cluster = typed("ClusterRole", "new", json!({"rules": all}));
    let everywhere = typed("ClusterRoleBinding", "new", admin);
    let aggregated = typed(
        "ClusterRole",
        "new",
        json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}}),
    );
    let rules = json!({"rules": all});
    let operations = json!([{"op": "add", "path": "/rules", "value": all}]);
    for (method, path, content_type, body) in [
        ("POST", roles.clone(), JSON, &strong),
        ("PUT", format!("{roles}/new"), JSON, &strong),
        ("PATCH", format!("{roles}/new?fieldManager=f"), APPLY, &strong),
        ("PUT", format!("{roles}/there"), JSON, &there),
        ("PATCH", format!("{roles}/there?fieldManager=f&force=true"), APPLY, &there),
        ("PATCH", format!("{roles}/there"), MERGE, &rules),
        ("PATCH", format!("{roles}/there"), STRATEGIC, &rules),
        ("PATCH", format!("{roles}/there"), JSON_PATCH, &operations),
        ("POST", bindings.clone(), JSON, &grant),
        ("PUT", format!("{bindings}/new"), JSON, &grant),
        ("PATCH", format!("{bindings}/new?fieldManager=f"), APPLY, &grant),
        ("POST", format!("{RBAC}/clusterroles"), JSON, &cluster),
        ("PUT", format!("{RBAC}/clusterroles/new"), JSON, &cluster),
        ("PATCH", format!("{RBAC}/clusterroles/new?fieldManager=f"), APPLY, &cluster),
        ("PATCH", format!("{RBAC}/clusterroles/new?fieldManager=f"), APPLY, &aggregated),
        ("PUT", format!("{RBAC}/clusterrolebindings/new"), JSON, &everywhere),
        ("PATCH", format!("{RBAC}/clusterrolebindings/new?fieldManager=f"), APPLY, &everywhere),
    ] {
        let refused = send(&rig, "bob", method, &path, content_type, body).await;
        assert_eq!(refused.status, 403, "{method} {path} {content_type}: {}", refused.body);
        let known = ["attempting to grant RBAC permissions not currently held", "cluster-admin privileges"];
        assert!(known.iter().any(|text| refused.body.contains(text)), "{method} {path}: {}", refused.body);
    }
    // A user whose verbs include `escalate` and `bind` may.
    assert_eq!(send(&rig, "alice", "PATCH", &format!("{roles}/there"), MERGE, &rules).await.status, 200);
}

/// Approving and signing require permission for the signer, with every way of writing the status.
#[tokio::test(flavor = "multi_thread")]
async fn no_write_path_approves_or_signs() {
    let rig = rig(
        json!([{"verbs": ["update", "patch", "get"], "apiGroups": ["certificates.k8s.io"],
                "resources": ["certificatesigningrequests", "certificatesigningrequests/approval", "certificatesigningrequests/status"]}]),
        &[],
    )
    .await;
    let key = rcgen::KeyPair::generate().unwrap();
    let request = rcgen::CertificateParams::new(Vec::new()).unwrap().serialize_request(&key).unwrap().pem().unwrap();
    let request = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, request);
    let spec = json!({"request": request, "signerName": "example.com/s", "usages": ["client auth"]});
    rig.make(REQUESTS, json!({"metadata": {"name": "r"}, "spec": spec})).await;
    let approval = json!({"conditions": [{"type": "Approved", "status": "True", "reason": "r", "message": "m"}]});
    let own = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap().pem();
    let own = base64::Engine::encode(&base64::engine::general_purpose::STANDARD, own);
    let certificate = json!({"certificate": own});
    for (subresource, status) in [("approval", &approval), ("status", &certificate)] {
        let mut whole = json!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest", "metadata": {"name": "r"},
            "spec": spec, "status": status
        });
        let path = format!("{REQUESTS}/r/{subresource}");
        let put = send(&rig, "alice", "PUT", &path, JSON, &whole).await;
        assert_eq!(put.status, 403, "{}", put.body);
        whole.as_object_mut().unwrap().remove("spec");
        for (content_type, body) in [
            (MERGE, json!({"status": status})),
            (STRATEGIC, json!({"status": status})),
            (JSON_PATCH, json!([{"op": "add", "path": "/status", "value": status}])),
            (APPLY, whole),
        ] {
            let path = if content_type == APPLY { format!("{path}?fieldManager=f") } else { path.clone() };
            let refused = send(&rig, "alice", "PATCH", &path, content_type, &body).await;
            assert_eq!(refused.status, 403, "{content_type} {subresource}: {}", refused.body);
            assert!(refused.body.contains("example.com/s"), "{}", refused.body);
        }
        // A write of the object itself does not change its status.
        let body = json!({"status": status});
        let ignored = send(&rig, "alice", "PATCH", &format!("{REQUESTS}/r"), MERGE, &body).await;
        assert_eq!(ignored.status, 200, "{}", ignored.body);
    }
    let live: Value =
        serde_json::from_str(&rig.send("root", "GET", &format!("{REQUESTS}/r"), &Value::Null).await.body).unwrap();
    assert!(live["status"]["conditions"].is_null() && live["status"]["certificate"].is_null(), "{live}");
}

/// k/k 83465: a kubelet runs commands after an upgraded GET of its proxy, so that needs the permission for running
/// commands.
#[tokio::test(flavor = "multi_thread")]
async fn get_through_the_node_proxy_runs_no_commands() {
    let kubelet = Kubelet::start();
    let rig = rig(json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["nodes/proxy", "pods/exec", "pods/attach", "pods/portforward"]}]), &kubelet.flags()).await;
    rig.make("/api/v1/nodes", json!({"metadata": {"name": "n1"}})).await;
    let handshake = Handshake::new(rig.server.admin().authority).alpn(&["http/1.1"]);
    let upgrade = |token: &'static str, path: String| {
        let (address, handshake) = (rig.server.address, &handshake);
        async move {
            let mut client = Client::connect(address, handshake).await.unwrap();
            let bearer = format!("Bearer {token}");
            let headers = [
                ("authorization", bearer.as_str()),
                ("connection", "Upgrade"),
                ("upgrade", "websocket"),
                ("sec-websocket-version", "13"),
                ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
                ("sec-websocket-protocol", "v5.channel.k8s.io"),
            ];
            client.send("GET", &path, &headers, "").await.unwrap()
        }
    };
    for path in [
        "/api/v1/nodes/n1/proxy/exec/team/p/c?command=id".to_owned(),
        "/api/v1/nodes/n1:10250/proxy/attach/team/p/c".to_owned(),
        "/api/v1/nodes/n1/proxy/portForward/team/p".to_owned(),
        format!("{PODS}/p/exec?command=id"),
        format!("{PODS}/p/attach"),
        format!("{PODS}/p/portforward"),
    ] {
        let refused = upgrade("alice", path.clone()).await;
        assert_eq!(refused.status, 403, "{path}: {}", refused.body);
        // The pod does not exist and the node has no address: an administrator gets that far.
        let further = upgrade("root", path.clone()).await;
        assert!(!matches!(further.status, 101 | 401 | 403), "{path}: {} {}", further.status, further.body);
    }
    // Requests that only read still need no more than `get`.
    let read = rig.send("alice", "GET", "/api/v1/nodes/n1/proxy/metrics", &Value::Null).await;
    assert!(!matches!(read.status, 401 | 403), "{} {}", read.status, read.body);
    assert!(kubelet.seen().is_empty(), "{:?}", kubelet.seen());
}
