//! Feature gates of the server itself that are disabled.

use binnacle_testkit::Server;
use binnacle_testkit::https::Client;
use http_body_util::BodyExt;
use serde_json::json;

const GATES: &str = "--feature-gates=StorageVersionHash=false,OpenAPIEnums=false,APIResponseCompression=false";

async fn text(client: &mut Client, path: &str) -> String {
    let answer = client.send("GET", path, &[], "").await.unwrap();
    assert_eq!(answer.status, 200, "{path}");
    answer.body
}

#[tokio::test(flavor = "multi_thread")]
async fn disabled_features_are_absent_from_documents_and_responses() {
    let server = tokio::task::block_in_place(|| Server::start(&["--ephemeral", GATES]));
    let mut client = server.connect(&server.admin()).await;
    for path in ["/api/v1", "/apis/apps/v1", "/apis/apiextensions.k8s.io/v1"] {
        assert!(!text(&mut client, path).await.contains("storageVersionHash"), "{path}");
    }
    for path in ["/openapi/v2", "/openapi/v3/api/v1", "/openapi/v3/apis/apps/v1"] {
        let document = text(&mut client, path).await;
        assert!(!document.contains("\"enum\":[") && !document.contains("Possible enum values"), "{path}");
        assert!(document.contains("restartPolicy"), "{path}");
    }
    let map = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"text": ("a".repeat(200 * 1024))},
    });
    let maps = "/api/v1/namespaces/default/configmaps";
    let answer = client.send("POST", maps, &[("content-type", "application/json")], map.to_string()).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
    let large = client.open("GET", &format!("{maps}/large"), &[("accept-encoding", "gzip")], "").await.unwrap();
    assert_eq!(large.headers().get("content-encoding"), None);
    assert!(large.into_body().collect().await.unwrap().to_bytes().len() > 200 * 1024);
}
