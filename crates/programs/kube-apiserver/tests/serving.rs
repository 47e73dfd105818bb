//! Responses of the running program: health, version, index, metrics, errors.

use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Server, TempDir, admin, somebody, wait_until};

const TOKENS: &str = "root-token,root,1,system:masters\nuser-token,user,2\n";

#[tokio::test]
async fn serves_health_version_and_metrics() {
    let data = TempDir::new();
    let server = Server::start(&["--data-dir", &data.join("d")]);
    let mut client = server.connect(&admin(&data.path().join("d"))).await;
    for (path, want) in [
        ("/healthz", "ok"),
        ("/livez", "ok"),
        ("/readyz", "ok"),
        ("/readyz/ping", "ok"),
        ("/readyz/informer-sync", "ok"),
        ("/livez/poststarthook/rbac/bootstrap-roles", "ok"),
        ("/livez/poststarthook/apiservice-status-remote-available-controller", "ok"),
        ("/livez/etcd", "ok"),
        ("/livez?verbose", "[+]ping ok\n[+]log ok\n[+]loopback-serving-certificate ok\n[+]etcd ok\n[+]poststarthook/"),
        ("/healthz?verbose&exclude=etcd", "[+]etcd excluded: ok\n"),
        ("/readyz?verbose", "[+]shutdown ok\nreadyz check passed\n"),
        ("/version", "\"minor\": \"36\""),
        ("/", "\"/readyz/etcd-readiness\""),
        ("/metrics", "version_info{binary=\"1.36\",component=\"kube\",emulation=\"1.36\",min_compat=\"1.35\"} 1"),
        ("/metrics", "process_max_fds "),
        ("/metrics/slis", "kubernetes_healthcheck{name=\"ping\",type=\"livez\"} 1"),
        (
            "/metrics",
            "apiserver_request_total{code=\"200\",component=\"\",dry_run=\"\",group=\"\",resource=\"\",scope=\"\",subresource=\"/livez\"",
        ),
    ] {
        let answer = client.get(path).await.unwrap();
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.body.contains(want), "{path}: {}", answer.body);
        if path.contains('z') {
            assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8", "{path}");
        }
    }
    for (method, path, status, kind) in [
        ("GET", "/healthz/nothing", 404, "text/plain; charset=utf-8"),
        ("GET", "/nothing", 404, "text/plain; charset=utf-8"),
        ("GET", "/version/nothing", 404, "application/json"),
        ("POST", "/version", 405, "application/json"),
        ("PUT", "/api/v1/pods", 405, "application/json"),
        ("GET", "/api/v1/bindings", 404, "application/json"),
        ("POST", "/apis/authorization.k8s.io/v1/localsubjectaccessreviews", 404, "application/json"),
    ] {
        let answer = client.send(method, path, &[], "").await.unwrap();
        assert_eq!((answer.status, answer.header("content-type")), (status, kind), "{method} {path}");
    }
}

#[tokio::test]
async fn rejects_unauthorized_requests() {
    let data = TempDir::new();
    let tokens = data.file("tokens", TOKENS);
    let server = Server::start(&["--data-dir", &data.join("d"), "--token-auth-file", &tokens]);
    let handshake = somebody(&data.path().join("d"));
    // Anonymous users may access it once the bootstrap roles exist.
    wait_until("the bootstrap roles", async || {
        let answer = server.connect(&handshake).await.get("/readyz").await.unwrap();
        (answer.status == 200).then_some(())
    })
    .await;
    for (path, token, status, message) in [
        ("/readyz", "", 200, ""),
        ("/version", "", 200, ""),
        ("/api", "", 403, r#"forbidden: User "system:anonymous" cannot get path "/api""#),
        ("/metrics", "user-token", 403, r#"forbidden: User "user" cannot get path "/metrics""#),
        ("/metrics", "root-token", 200, ""),
        ("/metrics/slis", "user-token", 403, r#"forbidden: User "user" cannot get path "/metrics/slis""#),
        ("/metrics", "wrong", 401, "Unauthorized"),
        (
            "/api/v1/namespaces/ns/pods",
            "user-token",
            403,
            r#"pods is forbidden: User "user" cannot list resource "pods" in API group "" in the namespace "ns""#,
        ),
        (
            "/apis/apps/v1/deployments",
            "",
            403,
            r#"deployments.apps is forbidden: User "system:anonymous" cannot list resource "deployments" in API group "apps" at the cluster scope"#,
        ),
    ] {
        let mut client = server.connect(&handshake).await;
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("audit-id", "mine")];
        let headers = if token.is_empty() { &headers[1..] } else { &headers[..] };
        let answer = client.send("GET", path, headers, "").await.unwrap();
        assert_eq!(answer.status, status, "{path} {token}: {}", answer.body);
        assert_eq!((answer.header("audit-id"), answer.header("cache-control")), ("mine", "no-cache, private"));
        if !message.is_empty() {
            let body: serde_json::Value = serde_json::from_str(&answer.body).unwrap();
            assert_eq!(body["message"], message);
            assert_eq!((&body["kind"], &body["code"]), (&"Status".into(), &status.into()));
        }
    }
}

#[tokio::test]
async fn applies_each_authorization_mode() {
    let data = TempDir::new();
    let tokens = data.file("tokens", TOKENS);
    for (mode, want) in
        [("AlwaysAllow", [401, 200, 200]), ("AlwaysDeny", [403, 403, 200]), ("RBAC,Node", [403, 403, 200])]
    {
        let directory = data.join(mode);
        let server =
            Server::start(&["--data-dir", &directory, "--token-auth-file", &tokens, "--authorization-mode", mode]);
        let mut client = server.connect(&somebody(directory.as_ref())).await;
        let mut got = Vec::new();
        for headers in [&[][..], &[("authorization", "Bearer user-token")], &[("authorization", "Bearer root-token")]] {
            got.push(client.send("GET", "/metrics", headers, "").await.unwrap().status);
        }
        assert_eq!(got, want, "{mode}");
    }
}

/// Paths in the index are served, discovery included, and only to users with permission.
#[tokio::test(flavor = "multi_thread")]
async fn index_lists_served_paths() {
    let server = Server::start(&["--ephemeral"]);
    let mut client = server.client().await;
    let index: serde_json::Value = serde_json::from_str(&client.get("/").await.unwrap().body).unwrap();
    let paths: Vec<&str> = index["paths"].as_array().unwrap().iter().map(|path| path.as_str().unwrap()).collect();
    assert!(paths.is_sorted(), "{paths:?}");
    for path in
        ["/api", "/api/v1", "/apis", "/apis/", "/apis/apps", "/apis/apps/v1", "/apis/autoscaling/v2", "/version"]
    {
        assert!(paths.contains(&path), "{path}");
    }
    // Except for one that kube-apiserver lists but does not serve either.
    for path in paths.iter().filter(|path| **path != "/openapi/v3/") {
        assert_eq!(client.get(path).await.unwrap().status, 200, "{path}");
    }
    let nobody = Handshake::new(&server.admin().authority);
    assert_eq!(server.connect(&nobody).await.get("/").await.unwrap().status, 403);
}
