//! Aggregated APIs: requests are forwarded to other servers with the caller's identity, even if those servers
//! misbehave.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Authority, Extension, Reply, Server, TempDir};
use serde_json::{Value, json};

use crate::authorization::{Rig, until};

const GROUP: &str = "ext.test";
pub(crate) const API_SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";
const THINGS: &str = "/apis/ext.test/v1/namespaces/team/things";

/// Registers a group version of a server on this machine.
pub(crate) async fn register(rig: &Rig, group: &str, port: u16, trust: Value) {
    rig.make_namespace(&group.replace('.', "-")).await;
    let (namespace, service) = (group.replace('.', "-"), json!({"type": "ExternalName", "externalName": "localhost"}));
    let service = json!({"metadata": {"name": "ext"}, "spec": service});
    rig.make(&format!("/api/v1/namespaces/{namespace}/services"), service).await;
    let mut spec = json!({
        "group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10,
        "service": {"namespace": namespace, "name": "ext", "port": port}
    });
    for (member, value) in trust.as_object().unwrap() {
        spec[member] = value.clone();
    }
    rig.make(API_SERVICES, json!({"metadata": {"name": format!("v1.{group}")}, "spec": spec})).await;
}

/// Waits for the condition of an APIService.
pub(crate) async fn condition(rig: &Rig, group: &str, status: &str) -> Value {
    let path = format!("{API_SERVICES}/v1.{group}");
    let mut found = Value::Null;
    until("the condition", async || {
        let object: Value = serde_json::from_str(&rig.send("root", "GET", &path, &Value::Null).await.body).unwrap();
        found = object["status"]["conditions"][0].clone();
        found["status"] == status
    })
    .await;
    found
}

/// Changes an annotation of an APIService, whose server is checked at once then instead of half a minute later.
async fn recheck(rig: &Rig, group: &str) {
    let merge = [("authorization", "Bearer root"), ("content-type", "application/merge-patch+json")];
    let path = format!("{API_SERVICES}/v1.{group}");
    let patch = json!({"metadata": {"annotations": {"checked": "again"}}}).to_string();
    assert_eq!(rig.client().await.send("PATCH", &path, &merge, patch).await.unwrap().status, 200);
}

fn resources() -> Reply {
    Reply::json(&json!({
        "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "ext.test/v1",
        "resources": [{"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get", "list"]}]
    }))
}

/// Returns the last segment of the path in the head of a request.
fn last(head: &str) -> &str {
    let path = head.split(' ').nth(1).unwrap_or_default();
    path.split('?').next().unwrap_or_default().rsplit('/').next().unwrap_or_default()
}

fn behave(head: &str) -> Reply {
    match last(head) {
        "v1" => resources(),
        "apis" | "v2" | "v3" => Reply::of(404, "text/plain", "no"),
        "hangup" => Reply::Last(Vec::new()),
        "garbage" => Reply::Last(b"garbage\r\n\r\n".to_vec()),
        "short" => Reply::Last(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc".to_vec()),
        "away" => Reply::Answer(
            b"HTTP/1.1 302 Found\r\nLocation: https://elsewhere.test/\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ),
        "heads" => Reply::Endless(b"HTTP/1.1 200 OK\r\nX-Filler: abcdefghijklmnop\r\n".to_vec()),
        "cors" => Reply::Answer(
            b"HTTP/1.1 200 OK\r\nAccess-Control-Allow-Origin: *\r\nConnection: X-Hop\r\nX-Hop: 1\r\nX-Kept: 1\r\n\
              Content-Length: 0\r\n\r\n"
                .to_vec(),
        ),
        "plain" => Reply::of(418, "text/plain", "tea"),
        "switch" => Reply::Last(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: foo\r\nConnection: Upgrade\r\n\r\nhello".to_vec(),
        ),
        "untyped" => Reply::Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>".to_vec()),
        "made" => Reply::Answer(
            b"HTTP/1.1 201 Created\r\nLocation: /apis/ext.test/v1/made\r\nContent-Length: 0\r\n\r\n".to_vec(),
        ),
        "page" => Reply::of(200, "text/html", "<a href=\"/x\">l</a>"),
        "both" => Reply::Answer(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
                .to_vec(),
        ),
        "folded" => Reply::Answer(
            b"HTTP/1.1 200 Odd\r\nContent-Type: text/plain\r\nX-Kept: a\r\n b\r\nNo Name: c\r\nContent-Length: 2\r\n\r\nab"
                .to_vec(),
        ),
        "zipped" => Reply::Last(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nabc".to_vec()),
        "trailed" => Reply::Answer(
            b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n3\r\nabc\r\n0\r\nX-T: 1\r\n\r\n"
                .to_vec(),
        ),
        "hinted" => Reply::Answer(
            b"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\nab"
                .to_vec(),
        ),
        "old" => Reply::Last(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\nabc".to_vec()),
        _ => Reply::json(&json!({"kind": "Thing"})),
    }
}

/// The other server gets the caller in headers that clients cannot set, and none of the caller's credentials.
#[tokio::test(flavor = "multi_thread")]
async fn forwards_the_caller_in_trusted_headers() {
    let extension = Extension::start(behave).await;
    let rig = Rig::start(TempDir::new(), &[]);
    register(&rig, GROUP, extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    let passed = condition(&rig, GROUP, "True").await;
    assert_eq!((&passed["reason"], &passed["message"]), (&json!("Passed"), &json!("all checks passed")));
    until("requests are handed on", async || rig.code("root", "GET", &format!("{THINGS}/x")).await == 200).await;

    // This server rejects users without permission.
    assert_eq!(rig.code("alice", "GET", &format!("{THINGS}/secret")).await, 403);
    let headers = [
        ("authorization", "Bearer root"),
        ("x-remote-user", "somebody-else"),
        ("x-remote-group", "others"),
        ("x-remote-extra-scopes", "all"),
        ("impersonate-user", "bob"),
        ("impersonate-group", "system:masters"),
        ("cookie", "a=b"),
        ("x-forwarded-for", "192.0.2.9"),
    ];
    // The path is forwarded as it was authorized: escapes cannot lead to another path.
    let path = format!("{THINGS}/a%2fb%2e%2e?b=2&a=%2F&c;d=1");
    rig.client().await.send("GET", &path, &headers, "").await.unwrap();
    // Bytes that are not UTF-8 arrive unchanged.
    rig.client().await.send("GET", &format!("{THINGS}/%ff%fe?a=%ff"), &headers[..1], "").await.unwrap();
    let seen = extension.seen();
    assert!(seen.iter().any(|head| last(head) == "%FF%FE" && head.contains("?a=%FF ")), "{seen:?}");
    assert!(!seen.iter().any(|head| last(head) == "secret"));
    let head = seen.iter().find(|head| head.contains("/a/b..")).unwrap();
    let lines: Vec<String> = head.lines().map(str::to_lowercase).collect();
    assert_eq!(lines[0], format!("get {THINGS}/a/b..?a=%2f&b=2 http/1.1"));
    for want in
        ["x-remote-user: bob", "x-remote-group: system:masters", "cookie: a=b", "x-forwarded-for: 192.0.2.9, 127.0.0.1"]
    {
        assert!(lines.iter().any(|line| line == want), "{want} in {head}");
    }
    let port = extension.address.port();
    assert!(lines.contains(&format!("host: localhost:{port}")), "{head}");
    for hidden in ["authorization", "impersonate-", "x-remote-extra-", "somebody-else", "others"] {
        assert!(!lines.iter().any(|line| line.contains(hidden)), "{hidden} in {head}");
    }
}

/// The client gets a response to any response of the other server, without hop-by-hop headers.
#[tokio::test(flavor = "multi_thread")]
async fn handles_every_response_of_a_misbehaving_server() {
    let extension = Extension::start(behave).await;
    let rig = Rig::start(TempDir::new(), &[]);
    register(&rig, GROUP, extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    condition(&rig, GROUP, "True").await;
    until("requests are handed on", async || rig.code("root", "GET", &format!("{THINGS}/x")).await == 200).await;
    let get = async |name: &str| rig.send("root", "GET", &format!("{THINGS}/{name}"), &Value::Null).await;
    for (name, code, want) in [
        ("hangup", 503, "error trying to reach service: EOF\n"),
        ("garbage", 503, "error trying to reach service: net/http: HTTP/1.x transport connection broken:"),
        ("heads", 503, "error trying to reach service: "),
        // CVE-2022-3172: clients would follow it with their credentials.
        ("away", 502, "the backend attempted to redirect this request, which is not permitted"),
        ("plain", 418, "tea"),
        // An unrequested switch of protocols: the bytes after it are not for the client.
        ("switch", 503, "backend tried to switch protocol \"foo\" when \"\" was requested\n"),
        ("old", 200, "abc"),
        // The transfer encoding decides where the body ends.
        ("both", 200, "abc"),
        ("untyped", 200, "<html>"),
        ("folded", 200, "ab"),
        ("hinted", 200, "ab"),
        ("trailed", 200, "abc"),
        // The length of such a body is ambiguous.
        (
            "zipped",
            503,
            "error trying to reach service: net/http: HTTP/1.x transport connection broken: unsupported transfer encoding: \"gzip\"\n",
        ),
    ] {
        let answer = get(name).await;
        assert_eq!(answer.status, code, "{name}: {}", answer.body);
        assert!(answer.body.starts_with(want), "{name}: {}", answer.body);
        assert_eq!(answer.header("location"), "", "{name}");
    }
    // Browsers must not guess the type.
    assert_eq!(get("untyped").await.header("content-type"), "text/html; charset=utf-8");
    let answer = get("cors").await;
    assert_eq!(
        (answer.header("x-kept"), answer.header("x-hop"), answer.header("access-control-allow-origin")),
        ("1", "", "")
    );
    assert_eq!(get("folded").await.header("x-kept"), "a b");
    assert_eq!(get("trailed").await.header("trailer"), "X-T");
    // Relative links get the address of the other server, as in kube-apiserver.
    let address = format!("localhost:{}", extension.address.port());
    assert_eq!(get("made").await.header("location"), format!("https://{address}/apis/ext.test/v1/made"));
    assert_eq!(get("page").await.body, format!("<a href=\"https://{address}/x\">l</a>"));
    // A response that breaks off does so for the client as well.
    let bearer = [("authorization", "Bearer root")];
    let short = rig.client().await.send("GET", &format!("{THINGS}/short"), &bearer, "").await;
    assert!(short.is_err(), "{:?}", short.map(|answer| answer.body));
    // An upgrade that results in a redirect or in no response fails; the client's connection does not reach the other
    // server.
    let upgrade = [("authorization", "Bearer root"), ("connection", "Upgrade"), ("upgrade", "websocket")];
    for (name, want) in [("away", "invalid upgrade response: status code 302\n"), ("hangup", "unexpected EOF\n")] {
        // HTTP/2 has no upgrades.
        let handshake = Handshake::new(rig.server.admin().authority).alpn(&["http/1.1"]);
        let mut client = rig.server.connect(&handshake).await;
        let answer = client.send("GET", &format!("{THINGS}/{name}"), &upgrade, "").await.unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (503, want), "{name}");
    }
    // The next requests are not affected.
    assert_eq!(get("x").await.status, 200);

    drop(extension);
    // Otherwise the change would be noticed after half a minute; a change to the APIService starts a check immediately.
    let merge = [("authorization", "Bearer root"), ("content-type", "application/merge-patch+json")];
    let (path, mut priority) = (format!("{API_SERVICES}/v1.{GROUP}"), 11);
    let mut gone = Value::Null;
    until("the server is missed", async || {
        priority += 1;
        let change = json!({"spec": {"versionPriority": priority % 900}}).to_string();
        let changed = rig.client().await.send("PATCH", &path, &merge, change).await.unwrap();
        let changed: Value = serde_json::from_str(&changed.body).unwrap();
        gone = changed["status"]["conditions"][0].clone();
        gone["status"] == "False"
    })
    .await;
    assert_eq!(gone["reason"], "FailedDiscoveryCheck");
    let refused = get("x").await;
    assert_eq!((refused.status, refused.body.as_str()), (503, "service unavailable\n"));
    assert_eq!(refused.header("content-type"), "text/plain; charset=utf-8");
}

/// Discovery lists the groups of other servers together with our own, as far as they could be fetched.
#[tokio::test(flavor = "multi_thread")]
async fn merges_discovery_of_all_servers() {
    let huge = Extension::start(|head| match last(head) {
        "apis" => Reply::Endless(
            [b"HTTP/1.1 200 OK\r\nContent-Type: application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\r\n\r\n".to_vec(), vec![b' '; 1 << 20]].concat(),
        ),
        _ => behave(head),
    })
    .await;
    let extension = Extension::start(behave).await;
    let rig = Rig::start(TempDir::new(), &[]);
    register(&rig, GROUP, extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    register(&rig, "huge.test", huge.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let headers = [("authorization", "Bearer root"), ("accept", accept)];
    let document = async || -> Value {
        let answer = rig.client().await.send("GET", "/apis", &headers, "").await.unwrap();
        serde_json::from_str(&answer.body).unwrap()
    };
    let version = |document: &Value, group: &str| {
        let groups = document["items"].as_array().unwrap().iter();
        groups.clone().find(|item| item["metadata"]["name"] == group).map(|item| item["versions"][0].clone())
    };
    until("both groups are there", async || {
        let document = document().await;
        version(&document, GROUP).is_some_and(|version| version["freshness"] == "Current")
            && version(&document, "huge.test").is_some()
    })
    .await;
    let both = document().await;
    assert_eq!(version(&both, GROUP).unwrap()["resources"][0]["resource"], "things");
    let unread = version(&both, "huge.test").unwrap();
    assert_eq!((&unread["freshness"], &unread["resources"]), (&json!("Stale"), &Value::Null));
    let plain = rig.send("root", "GET", "/apis/ext.test", &Value::Null).await;
    let plain: Value = serde_json::from_str(&plain.body).unwrap();
    assert_eq!(
        (&plain["kind"], &plain["preferredVersion"]["groupVersion"]),
        (&json!("APIGroup"), &json!("ext.test/v1"))
    );
    // After an APIService is deleted, its paths are not served.
    let deleted = rig.send("root", "DELETE", &format!("{API_SERVICES}/v1.{GROUP}"), &Value::Null).await;
    assert_eq!(deleted.status, 200);
    until("it is gone", async || version(&document().await, GROUP).is_none()).await;
    until("its path is gone", async || rig.code("root", "GET", &format!("{THINGS}/x")).await == 404).await;
}

/// A server is verified by its CA bundle and the name of its service only.
#[tokio::test(flavor = "multi_thread")]
async fn verifies_certificates_by_bundle_and_service_name() {
    let extension = Extension::start(behave).await;
    let rig = Rig::start(TempDir::new(), &[]);
    let bundle = BASE64_STANDARD.encode(&extension.authority);
    register(&rig, GROUP, extension.address.port(), json!({"caBundle": bundle})).await;
    let misnamed = condition(&rig, GROUP, "False").await;
    let message = misnamed["message"].as_str().unwrap();
    assert!(
        message.contains("tls: failed to verify certificate: x509: certificate is valid for localhost"),
        "{message}"
    );
    assert!(message.ends_with(", not ext.ext-test.svc"), "{message}");
    register(&rig, "stranger.test", extension.address.port(), json!({})).await;
    let unknown = condition(&rig, "stranger.test", "False").await;
    assert!(
        // The name is checked before the signature.
        unknown["message"].as_str().unwrap().ends_with(", not ext.stranger-test.svc"),
        "{unknown}"
    );
    assert!(extension.seen().is_empty());
}

/// An invalid CA bundle is not reported, because the server cannot fix it, and requests fail.
#[tokio::test(flavor = "multi_thread")]
async fn refuses_requests_with_an_invalid_bundle() {
    let extension = Extension::start(behave).await;
    let rig = Rig::start(TempDir::new(), &[]);
    let bundle = BASE64_STANDARD.encode("no certificate");
    register(&rig, GROUP, extension.address.port(), json!({"caBundle": bundle})).await;
    register(&rig, "other.test", extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    condition(&rig, "other.test", "True").await;
    let path = format!("{API_SERVICES}/v1.{GROUP}");
    let object: Value = serde_json::from_str(&rig.send("root", "GET", &path, &Value::Null).await.body).unwrap();
    assert_eq!(object["status"], json!({}), "{object}");
    assert_eq!(rig.code("root", "GET", &format!("{THINGS}/x")).await, 503);
}

/// Metrics of extension servers exist from the start, under kube-apiserver's names.
#[tokio::test(flavor = "multi_thread")]
async fn exposes_metrics_of_extension_servers() {
    let extension = Extension::start(behave).await;
    let rig = Rig::start(TempDir::new(), &[]);
    register(&rig, GROUP, extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    condition(&rig, GROUP, "True").await;
    let metrics = rig.send("root", "GET", "/metrics", &Value::Null).await.body;
    for of in ["kube_aggregator", "webhooks"] {
        for name in ["missing_san", "insecure_sha1"] {
            let want = format!("\napiserver_{of}_x509_{name}_total 0\n");
            assert!(metrics.contains(&want), "{want}");
        }
    }
    for family in
        ["aggregator_discovery_aggregation_count_total", "aggregator_unavailable_apiservice{name=\"v1.ext.test\"} 0"]
    {
        assert!(metrics.contains(family), "{family}");
    }
}

/// A server behind another one: a built-in group is delegated, with the caller's name and permissions.
#[tokio::test(flavor = "multi_thread")]
async fn delegates_a_built_in_group_to_another_server() {
    let authority = Authority::make();
    let (certificate, key) = authority.issue("front");
    let shown = |path: &std::path::Path| path.display().to_string();
    let inner = Server::start(&[
        "--ephemeral",
        &format!("--requestheader-client-ca-file={}", shown(&authority.ca())),
        "--requestheader-allowed-names=front",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ]);
    let identity = [
        format!("--proxy-client-cert-file={}", shown(&certificate)),
        format!("--proxy-client-key-file={}", shown(&key)),
    ];
    let rig = Rig::start(TempDir::new(), &identity);
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let deleted = rig.send("root", "DELETE", &format!("{API_SERVICES}/v1.batch"), &Value::Null).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    register(&rig, "batch", inner.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    condition(&rig, "batch", "True").await;
    let job = json!({"metadata": {"name": "there"}, "spec": {"template": {"spec": {
        "restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}});
    until("jobs are made there", async || {
        let made = rig.send("root", "POST", jobs, &job).await;
        made.status == 201 || made.status == 409
    })
    .await;
    let there = inner.connect(&inner.admin()).await.get(&format!("{jobs}/there")).await.unwrap();
    assert_eq!(there.status, 200, "{}", there.body);
    // A watch stays open: the event arrives meanwhile.
    let watch = format!("{jobs}?watch=true&resourceVersion=0&timeoutSeconds=2");
    let watched = rig.send("root", "GET", &watch, &Value::Null).await;
    assert!(watched.body.contains("\"ADDED\"") && watched.body.contains("\"there\""), "{}", watched.body);
}

/// Two servers whose APIServices point to each other: a request that returns to the first server is rejected, and both
/// continue to serve everything else.
#[tokio::test(flavor = "multi_thread")]
async fn refuses_requests_in_a_proxy_loop() {
    let authority = Authority::make();
    let (certificate, key) = authority.issue("front");
    let flags = [
        format!("--requestheader-client-ca-file={}", authority.ca().display()),
        "--requestheader-allowed-names=front".to_owned(),
        "--requestheader-username-headers=X-Remote-User".to_owned(),
        "--requestheader-group-headers=X-Remote-Group".to_owned(),
        "--requestheader-extra-headers-prefix=X-Remote-Extra-".to_owned(),
        format!("--proxy-client-cert-file={}", certificate.display()),
        format!("--proxy-client-key-file={}", key.display()),
    ];
    let (one, other) = (Rig::start(TempDir::new(), &flags), Rig::start(TempDir::new(), &flags));
    let extension = Extension::start(behave).await;
    let trust = || json!({"insecureSkipTLSVerify": true});
    register(&other, "circle.test", extension.address.port(), trust()).await;
    condition(&other, "circle.test", "True").await;
    register(&one, "circle.test", other.server.address.port(), trust()).await;
    condition(&one, "circle.test", "True").await;
    let things = "/apis/circle.test/v1/things";
    until("requests go through both", async || one.code("root", "GET", things).await == 200).await;

    let merge = [("authorization", "Bearer root"), ("content-type", "application/merge-patch+json")];
    let back = json!({"spec": {"service": {"port": one.server.address.port()}}}).to_string();
    let path = format!("{API_SERVICES}/v1.circle.test");
    assert_eq!(other.client().await.send("PATCH", &path, &merge, back).await.unwrap().status, 200);
    // At first, each one considers the other available.
    until("requests go no further", async || {
        let code = one.code("root", "GET", things).await;
        assert!([200, 503, 508].contains(&code), "{code}");
        code != 200
    })
    .await;
    for rig in [&one, &other] {
        recheck(rig, "circle.test").await;
        let refused = condition(rig, "circle.test", "False").await;
        assert_eq!(refused["reason"], "FailedDiscoveryCheck", "{refused}");
        let answer = rig.send("root", "GET", things, &Value::Null).await;
        assert_eq!((answer.status, answer.body.as_str()), (503, "service unavailable\n"));
        for path in ["/api/v1/namespaces", "/openapi/v2", "/openapi/v3", "/apis"] {
            assert_eq!(rig.code("root", "GET", path).await, 200, "{path}");
        }
    }
}
