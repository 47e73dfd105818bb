//! Enabled APIs and features: `--runtime-config`, `--feature-gates`, `--emulated-version`.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use binnacle_testkit::Server;

/// Starts a server and returns the status of each path.
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
async fn runtime_config_switches_versions_and_resources() {
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
async fn discovery_metrics_and_version_show_enabled_apis() {
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

#[tokio::test]
async fn emulation_forward_compatible_serves_later_versions() {
    let [claims, next] = ["v1beta2", "v1"].map(|version| format!("/apis/resource.k8s.io/{version}/resourceclaims"));
    let base = ["--emulated-version=1.33", "--feature-gates=DynamicResourceAllocation=true"];
    for (more, want) in [
        (&["--runtime-config=resource.k8s.io/v1beta2=true"][..], [200, 404]),
        (&["--runtime-config=resource.k8s.io/v1beta2=true", "--emulation-forward-compatible"], [200, 200]),
        (&["--runtime-config=resource.k8s.io/v1=true", "--runtime-config-emulation-forward-compatible"], [404, 200]),
    ] {
        let arguments = [&base[..], more].concat();
        assert_eq!(statuses(&arguments, &[&claims, &next]).await, want, "{more:?}");
    }
}

#[tokio::test]
async fn min_compatibility_version_is_published() {
    let server = Server::start(&["--ephemeral", "--min-compatibility-version=1.33"]);
    let mut client = server.client().await;
    let version = client.get("/version").await.unwrap().body;
    assert!(version.contains("\"minCompatibilityMinor\": \"33\""), "{version}");
    let metrics = client.get("/metrics").await.unwrap().body;
    let line = "version_info{binary=\"1.36\",component=\"kube\",emulation=\"1.36\",min_compat=\"1.33\"} 1";
    assert!(metrics.lines().any(|metric| metric == line));
}
