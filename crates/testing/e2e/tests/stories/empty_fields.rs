//! Empty lists, maps and structs from clients, which depend on Go's `omitempty` and on the stored form, in which empty
//! lists are absent. Dry runs and writes, JSON and YAML, give the same results.

use binnacle_testkit::Server;
use serde_json::Value;

/// A collection, an object, a path in it, and the server's value at that path.
const CASES: [(&str, &str, &str, &str); 13] = [
    (
        "/api/v1/namespaces/default/configmaps",
        r#"{"metadata":{"name":"X","labels":{},"annotations":{}}}"#,
        "/metadata/labels",
        "",
    ),
    (
        "/api/v1/namespaces/default/configmaps",
        r#"{"metadata":{"name":"X","finalizers":[]}}"#,
        "/metadata/finalizers",
        "",
    ),
    ("/api/v1/namespaces/default/configmaps", r#"{"metadata":{"name":"X"},"data":{},"binaryData":{}}"#, "/data", ""),
    (
        "/api/v1/namespaces/default/resourcequotas",
        r#"{"metadata":{"name":"X"},"spec":{"hard":{},"scopes":[]}}"#,
        "/spec",
        "{}",
    ),
    (
        "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles",
        r#"{"metadata":{"name":"X"},"rules":[]}"#,
        "/rules",
        "null",
    ),
    (
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        r#"{"metadata":{"name":"X"},"addressType":"IPv4","endpoints":[],"ports":[]}"#,
        "/endpoints",
        "null",
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        r#"{"metadata":{"name":"X"},"spec":{"podSelector":{},"ingress":[]}}"#,
        "/spec",
        r#"{"podSelector":{},"policyTypes":["Ingress"]}"#,
    ),
    (
        "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies",
        r#"{"metadata":{"name":"X"},"spec":{"podSelector":{"matchLabels":{}},"ingress":[{}]}}"#,
        "/spec",
        r#"{"ingress":[{}],"podSelector":{},"policyTypes":["Ingress"]}"#,
    ),
    (
        "/apis/storage.k8s.io/v1/storageclasses",
        r#"{"metadata":{"name":"X"},"provisioner":"a/b","parameters":{},"mountOptions":[]}"#,
        "/parameters",
        "",
    ),
    (
        "/api/v1/namespaces/default/podtemplates",
        r#"{"metadata":{"name":"X"},"template":{"spec":{"nodeSelector":{},"tolerations":[],"containers":[{"name":"c","image":"i"}]}}}"#,
        "/template/spec/nodeSelector",
        "",
    ),
    (
        "/api/v1/namespaces/default/podtemplates",
        r#"{"metadata":{"name":"X"},"template":{"spec":{"securityContext":{},"volumes":[{"name":"v","emptyDir":{}}],"containers":[{"name":"c","image":"i"}]}}}"#,
        "/template/spec/volumes",
        r#"[{"emptyDir":{},"name":"v"}]"#,
    ),
    (
        "/api/v1/namespaces/default/podtemplates",
        r#"{"metadata":{"name":"X"},"template":{"spec":{"containers":[{"name":"c","image":"i","env":[],"resources":{"limits":{},"requests":{}}}]}}}"#,
        "/template/spec/containers/0/resources",
        "{}",
    ),
    (
        "/api/v1/namespaces/default/services",
        r#"{"metadata":{"name":"X"},"spec":{"clusterIP":"None","selector":{},"externalIPs":[],"ports":[]}}"#,
        "/spec/selector",
        "",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn encodes_explicitly_empty_fields_like_go() {
    let server = Server::ephemeral();
    let mut client = server.client().await;
    let mut wrong = Vec::new();
    for (at, (collection, object, pointer, want)) in CASES.into_iter().enumerate() {
        for form in ["json", "yaml"] {
            // YAML contains JSON.
            let body = object.replace("\"X\"", &format!("\"x-{at}-{form}\""));
            let headers = [
                ("content-type", if form == "json" { "application/json" } else { "application/yaml" }),
                ("accept", "application/json"),
            ];
            for (method, path) in [
                ("POST", format!("{collection}?dryRun=All")),
                ("POST", collection.to_owned()),
                ("GET", format!("{collection}/x-{at}-{form}")),
            ] {
                let answer =
                    client.send(method, &path, &headers, if method == "GET" { "" } else { &body }).await.unwrap();
                let told = match answer.status {
                    200 | 201 => {
                        let object: Value = serde_json::from_str(&answer.body).unwrap();
                        object.pointer(pointer).map_or(String::new(), ToString::to_string)
                    }
                    status => format!("{status}: {}", answer.body),
                };
                if told != want {
                    wrong.push(format!("{method} {path} {form}: {pointer} is {told}, not {want}"));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A pod's empty overhead conflicts with its runtime class if that has none; an absent or null one does not.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_an_empty_overhead() {
    let server = Server::start(&["--ephemeral", "--disable-admission-plugins=ServiceAccount"]);
    for (overhead, status) in [(r#","overhead":{}"#, 403), (r#","overhead":null"#, 201), ("", 201)] {
        let pod = format!(
            r#"{{"metadata":{{"name":"p"}},"spec":{{"automountServiceAccountToken":false{overhead},
                "containers":[{{"name":"c","image":"i"}}]}}}}"#
        );
        let headers = [("content-type", "application/json")];
        let path = "/api/v1/namespaces/default/pods?dryRun=All";
        let answer = server.client().await.send("POST", path, &headers, pod).await.unwrap();
        let why = "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead";
        assert_eq!((answer.status, answer.body.contains(why)), (status, status == 403), "{overhead}: {}", answer.body);
    }
}
