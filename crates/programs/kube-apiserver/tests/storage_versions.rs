//! StorageVersion objects show the versions in which a server stores, if the gate is on.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use binnacle_testkit::{Server, wait_until};
use serde_json::{Value, json};

#[tokio::test]
async fn publishes_storage_versions() {
    let server = Server::start(&[
        "--ephemeral",
        "--feature-gates=StorageVersionAPI=true",
        "--runtime-config=internal.apiserver.k8s.io/v1alpha1=true",
    ]);
    wait_until("it is ready", async || {
        (server.client().await.get("/readyz").await.unwrap().status == 200).then_some(())
    })
    .await;
    let mut client = server.client().await;
    let health = client.get("/readyz?verbose").await.unwrap().body;
    assert!(health.contains("[+]poststarthook/built-in-resources-storage-version-updater ok\n"), "{health}");
    let list = client.get("/apis/internal.apiserver.k8s.io/v1alpha1/storageversions").await.unwrap();
    let list: Value = serde_json::from_str(&list.body).unwrap();
    let found = |name: &str| {
        let mut items = list["items"].as_array().unwrap().iter();
        items.find(|item| item["metadata"]["name"] == name).unwrap_or_else(|| panic!("{name}: {list}")).clone()
    };
    for (name, encoding, decodable, served) in [
        ("core.pods", "v1", json!(["v1"]), json!(["v1"])),
        ("core.events", "v1", json!(["v1", "events.k8s.io/v1"]), json!(["v1"])),
        ("apps.deployments", "apps/v1", json!(["apps/v1", "apps/v1beta2", "apps/v1beta1"]), json!(["apps/v1"])),
        (
            "autoscaling.horizontalpodautoscalers",
            "autoscaling/v2",
            json!(["autoscaling/v2", "autoscaling/v1"]),
            json!(["autoscaling/v2", "autoscaling/v1"]),
        ),
        (
            "apiextensions.k8s.io.customresourcedefinitions",
            "apiextensions.k8s.io/v1beta1",
            json!(["apiextensions.k8s.io/v1", "apiextensions.k8s.io/v1beta1"]),
            json!(["apiextensions.k8s.io/v1"]),
        ),
    ] {
        let status = &found(name)["status"];
        let version = &status["storageVersions"][0];
        assert_eq!(version["encodingVersion"], encoding, "{name}");
        assert_eq!((&version["decodableVersions"], &version["servedVersions"]), (&decodable, &served), "{name}");
        assert_eq!(status["commonEncodingVersion"], encoding, "{name}");
        assert_eq!(status["conditions"][0]["reason"], "CommonEncodingVersionSet", "{name}");
    }
    let made = json!({"metadata": {"name": "now"}}).to_string();
    let made = client.send("POST", "/api/v1/namespaces", &[("content-type", "application/json")], made).await.unwrap();
    assert_eq!(made.status, 201, "{}", made.body);
}

/// Without the API for StorageVersions, nothing can be published, and writes are rejected.
#[tokio::test]
async fn writes_fail_until_storage_versions_are_published() {
    let server = Server::start(&["--ephemeral", "--feature-gates=StorageVersionAPI=true"]);
    let mut client = server.client().await;
    assert_eq!(client.get("/api/v1/namespaces").await.unwrap().status, 200);
    let object = json!({"metadata": {"name": "now"}}).to_string();
    let json_body = [("content-type", "application/json")];
    let answer = client.send("POST", "/api/v1/namespaces", &json_body, object).await.unwrap();
    assert_eq!(answer.status, 503, "{}", answer.body);
    let want = "wait for storage version registration to complete for resource: namespaces, last seen error: ";
    assert!(answer.body.contains(want), "{}", answer.body);
    // Requests for objects that are not stored do not wait.
    let review = json!({"spec": {"nonResourceAttributes": {"path": "/", "verb": "get"}}}).to_string();
    let reviews = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    assert_eq!(client.send("POST", reviews, &json_body, review).await.unwrap().status, 201);
    assert_eq!(client.get("/readyz").await.unwrap().status, 500);
}
