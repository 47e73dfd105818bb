//! The addresses of logical clusters besides their path: a host name and a port of their own.

use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Port, wait_until_blocking};
use serde_json::json;

use crate::logical_cluster_host::{Host, make_map, maps};

/// The name in the handshake decides, whatever the path is.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn clusters_have_names_in_the_domain() {
    let (host, files) = tokio::task::block_in_place(|| {
        let host = Host::start(&["--logical-cluster-domain=Clusters.Test"]);
        let [a, _] = ["a", "b"].map(|name| host.create(name, &json!({})));
        let by_name = ["--tls-server-name=a.clusters.test", &format!("--server=https://{}", host.server.address)];
        let listed = a.ok(&[&["get", "--raw", "/api/v1/namespaces/kube-system"][..], &by_name].concat());
        assert!(listed.contains("\"kube-system\""), "{listed}");
        let urls = host.kubectl.ok(&["get", "logicalcluster", "a", "--output=jsonpath={.status.url} {.status.urls}"]);
        let port = host.server.address.port();
        let want = format!(
            "https://a.clusters.test:{port} [\"https://a.clusters.test:{port}\",\"https://127.0.0.1:{port}/clusters/a\"]"
        );
        assert_eq!(urls, want);
        let files = ["a", "b"].map(|name| std::fs::read_to_string(host.kubeconfig(name)).unwrap());
        (host, files)
    });
    assert!(files[0].contains("server: https://a.clusters.test:"), "{}", files[0]);
    let of_a = Handshake::of_kubeconfig(&files[0]).alpn(&["http/1.1"]);
    for (name, path, want) in [
        ("a.clusters.test", "/api/v1/namespaces", 200),
        ("A.clusters.test", "/api/v1/namespaces", 200),
        // A path in the cluster, which has none of this kind.
        ("a.clusters.test", "/clusters/a/api/v1/namespaces", 404),
        ("a.clusters.test", "/clusters/b/api/v1/namespaces", 404),
        ("b.clusters.test", "/api/v1/namespaces", 401),
        ("b.clusters.test", "/clusters/a/api/v1/namespaces", 401),
        ("unknown.clusters.test", "/api/v1/namespaces", 404),
        ("unknown.clusters.test", "/clusters/a/api/v1/namespaces", 404),
        ("localhost", "/clusters/a/api/v1/namespaces", 200),
        ("localhost", "/api/v1/namespaces", 401),
    ] {
        let mut client = host.server.connect(&Handshake { name, ..of_a.clone() }).await;
        let answer = client.get(path).await.unwrap();
        assert_eq!(answer.status, want, "{name} {path}: {}", answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn own_port_serves_only_its_cluster() {
    let ports = [Port::claim(), Port::claim()];
    let [first, second] = ports.each_ref().map(Port::number);
    let (host, a, file) = tokio::task::block_in_place(|| {
        let host = Host::start(&[]);
        let a = host.create("a", &json!({"port": first, "idleAfter": "1s"}));
        let b = host.create("b", &json!({}));
        make_map(&a, "of-a");
        make_map(&b, "of-b");
        let file = std::fs::read_to_string(host.kubeconfig("a")).unwrap();
        (host, a, file)
    });
    let handshake = Handshake::of_kubeconfig(&file);
    let at = |port: u16| Client::connect(([127, 0, 0, 1], port).into(), &handshake);
    let mut client = at(first).await.unwrap();
    let listed = client.get("/api/v1/namespaces/default/configmaps").await.unwrap();
    assert!(listed.body.contains("of-a") && !listed.body.contains("of-b"), "{}", listed.body);
    assert_eq!(client.get("/clusters/a/api").await.unwrap().status, 404);
    assert_eq!(client.get("/clusters/b/api").await.unwrap().status, 404);
    tokio::task::block_in_place(|| {
        // A connection does not keep the cluster awake, and the next request starts it.
        wait_until_blocking("the service has the port", || {
            let slice = a.ok(&["get", "endpointslice", "kubernetes", "--output=jsonpath={.ports[0].port}"]);
            (slice == first.to_string()).then_some(())
        });
        host.wait_for_awake(1);
    });
    // It serves before all of its background tasks have read what they follow.
    let again = client.get("/api/v1/namespaces/default/configmaps").await.unwrap();
    assert_eq!(again.status, 200, "{}", again.body);
    tokio::task::block_in_place(|| {
        let patch = json!({"spec": {"port": second}}).to_string();
        host.kubectl.ok(&["patch", "logicalcluster", "a", "--type=merge", "--patch", &patch]);
    });
    binnacle_testkit::wait_until("the other port is open", async || at(second).await.ok().map(drop)).await;
    assert!(at(first).await.is_err());
    tokio::task::block_in_place(|| {
        // A port that is taken is reported, and the cluster is served at its path nevertheless.
        let c = json!({"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster", "metadata": {"name": "c"},
            "spec": {"port": second}});
        host.kubectl.ok_with(&["create", "-f", "-"], &c.to_string());
        host.wait_for("c", "Failed");
        let why = host.kubectl.ok(&["get", "logicalcluster", "c", "--output=jsonpath={.status.conditions[0].message}"]);
        assert!(why.contains("Address already in use"), "{why}");
        assert_eq!(maps(&host.kubectl.with_kubeconfig(host.kubeconfig("c"))), "");
        // It gets the port when the other cluster is gone.
        host.kubectl.ok(&["delete", "logicalcluster", "a", "--timeout=30s"]);
        host.wait_for("c", "Ready");
    });
    let mut client = at(second).await.unwrap();
    assert_eq!(client.get("/api/v1/namespaces").await.unwrap().status, 401);
}
