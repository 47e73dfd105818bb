//! Which APIs and features a server has: `--runtime-config`, `--feature-gates`, `--emulated-version`.

#![allow(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use binnacle_testkit::Server;

/// Starts a server and tells the status of each path.
async fn statuses(arguments: &[&str], paths: &[&str]) -> Vec<u16> {
    let arguments = [&["--ephemeral"], arguments].concat();
    let server = Server::start(&arguments);
    let mut client = server.client().await;
    let mut statuses = Vec::new();
    for path in paths {
        statuses.push(client.get(path).await.unwrap().status);
    }
    statuses
}

#[tokio::test]
async fn versions_and_resources_are_switched() {
    let slices = "/apis/resource.k8s.io/v1beta1/resourceslices";
    let workloads = "/apis/scheduling.k8s.io/v1alpha2/workloads";
    let deployments = "/apis/apps/v1/deployments";
    let paths = [slices, workloads, deployments, "/apis/apps/v1/replicasets"];
    for (arguments, want) in [
        (&[][..], [404, 404, 200, 200]),
        (&["--runtime-config=api/all=true"], [200, 404, 200, 200]),
        (&["--runtime-config=api/alpha=true", "--feature-gates=GenericWorkload=true"], [404, 200, 200, 200]),
        (&["--runtime-config=apps/v1/deployments=false,resource.k8s.io/v1beta1"], [200, 404, 404, 200]),
        (
            &["--runtime-config=resource.k8s.io/v1beta1/resourceslices=true", "--emulated-version=1.34"],
            [200, 404, 200, 200],
        ),
    ] {
        assert_eq!(statuses(arguments, &paths).await, want, "{arguments:?}");
    }
}

#[tokio::test]
async fn discovery_metrics_and_version_tell_of_it() {
    let server = Server::start(&[
        "--ephemeral",
        "--runtime-config=apps/v1/deployments=false",
        "--feature-gates=GenericWorkload=true",
        "--emulated-version=1.36",
    ]);
    let mut client = server.client().await;
    let apps = client.get("/apis/apps/v1").await.unwrap().body;
    assert!(!apps.contains("\"deployments\"") && apps.contains("\"replicasets\""), "{apps}");
    let openapi = client.get("/openapi/v3/apis/apps/v1").await.unwrap().body;
    assert!(!openapi.contains("/apis/apps/v1/deployments"));
    let metrics = client.get("/metrics").await.unwrap().body;
    for line in [
        "kubernetes_feature_enabled{name=\"GenericWorkload\",stage=\"ALPHA\"} 1",
        "kubernetes_feature_enabled{name=\"ClusterTrustBundle\",stage=\"BETA\"} 0",
        "kubernetes_feature_enabled{name=\"DeclarativeValidation\",stage=\"\"} 1",
    ] {
        assert!(metrics.lines().any(|metric| metric == line), "no {line}");
    }
    let version = client.get("/version").await.unwrap().body;
    assert!(version.contains("\"emulationMinor\": \"36\""), "{version}");
}
