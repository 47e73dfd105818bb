//! Flags in a file: `--config`, and `/configz` when the file changes.

use binnacle_testkit::{Server, TempDir, wait_until};
use serde_json::{Value, json};

async fn shown(server: &Server) -> Value {
    let answer = server.client().await.get("/configz").await.unwrap();
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let shown: Value = serde_json::from_str(&answer.body).unwrap();
    shown["kube-apiserver"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn reloads_a_changed_file() {
    let temp = TempDir::new();
    let path = temp.join("flags.yaml");
    let write = |text: &str| {
        // Editors do the same: readers see either the old or the new file.
        let new = temp.join("new.yaml");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
    };
    write("ephemeral: true\nv: 2\nmax-requests-inflight: 300\nservice-cluster-ip-range: 10.3.0.0/24\n");
    let arguments = [format!("--config={path}"), "--max-requests-inflight=200".to_owned()];
    let server = tokio::task::block_in_place(|| Server::start(&[&arguments[0], &arguments[1]]));
    let mut client = server.client().await;
    let service = client.get("/api/v1/namespaces/default/services/kubernetes").await.unwrap();
    let service: Value = serde_json::from_str(&service.body).unwrap();
    assert_eq!(service["spec"]["clusterIP"], "10.3.0.1");
    let first = shown(&server).await;
    assert_eq!(first["flags"]["max-requests-inflight"], json!({"value": "200", "from": "command line"}));
    assert_eq!(first["flags"]["v"], json!({"value": "2", "from": "file"}));
    assert_eq!(first["pending"], json!({}));

    write("ephemeral: true\nv: 6\nservice-cluster-ip-range: 10.4.0.0/24\n");
    let second = wait_until("the file is read again", async || {
        let shown = shown(&server).await;
        (shown["flags"]["v"]["value"] == "6").then_some(shown)
    })
    .await;
    let range = json!({"running": "10.3.0.0/24", "file": "10.4.0.0/24"});
    assert_eq!(second["pending"], json!({"service-cluster-ip-range": range}));
    // Requests are logged from level 3 on.
    let marked = "/api/v1/namespaces/marked-by-the-story";
    wait_until("the log is more verbose", async || {
        client.get(marked).await.unwrap();
        server.log().contains(marked).then_some(())
    })
    .await;

    write("ephemeral: true\nsecure-prot: 1\n");
    let third = wait_until("the file is refused", async || {
        let shown = shown(&server).await;
        shown["error"].is_string().then_some(shown)
    })
    .await;
    assert!(third["error"].as_str().unwrap().contains("unknown flag \"secure-prot\" (did you mean \"secure-port\"?)"));
    assert_eq!(third["flags"]["v"]["value"], "6");
}

#[tokio::test(flavor = "multi_thread")]
async fn configz_requires_a_file() {
    let server = tokio::task::block_in_place(Server::ephemeral);
    assert_eq!(server.client().await.get("/configz").await.unwrap().status, 404);
}
