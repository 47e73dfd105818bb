//! Encryption at rest: keys come, change and go while the same data is served.

use std::path::Path;

use binnacle_testkit::{KmsPlugin, Server, TempDir};
use serde_json::{Value, json};

use crate::namespace;

const SECRETS: &str = "/api/v1/namespaces/vault/secrets";
const KEY_ONE: &str = "{name: one, secret: MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=}";
const KEY_TWO: &str = "{name: two, secret: MjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjI=}";

fn configure(path: &str, providers: &str) {
    let text = format!(
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [secrets, configmaps]\n  \
         providers: [{providers}]\n"
    );
    std::fs::write(path, text).unwrap();
}

async fn secret(server: &Server, name: &str) -> Value {
    let answer = server.client().await.get(&format!("{SECRETS}/{name}")).await.unwrap();
    serde_json::from_str(&answer.body).unwrap()
}

/// Writes the object as it is, as a storage migration does, and tells its version afterwards.
async fn rewrite(server: &Server, object: &Value) -> String {
    let path = format!("{SECRETS}/{}", object["metadata"]["name"].as_str().unwrap());
    let headers = [("content-type", "application/json")];
    let answer = server.client().await.send("PUT", &path, &headers, object.to_string()).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    let object: Value = serde_json::from_str(&answer.body).unwrap();
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Whether any file of the store holds the text.
fn on_disk(directory: &Path, text: &[u8]) -> bool {
    std::fs::read_dir(directory).unwrap().any(|entry| {
        let path = entry.unwrap().path();
        if path.is_dir() {
            return on_disk(&path, text);
        }
        std::fs::read(path).is_ok_and(|bytes| bytes.windows(text.len()).any(|window| window == text))
    })
}

async fn create(server: &Server, name: &str, text: &str) {
    let body = json!({"metadata": {"name": name}, "stringData": {"password": text}}).to_string();
    let headers = [("content-type", "application/json")];
    let answer = server.client().await.send("POST", SECRETS, &headers, body).await.unwrap();
    assert_eq!(answer.status, 201, "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_change() {
    let files = TempDir::new();
    let file = files.join("encryption.yaml");
    configure(&file, &format!("{{aesgcm: {{keys: [{KEY_ONE}]}}}}, {{identity: {{}}}}"));
    let mut server = Server::durable_with(&["--encryption-provider-config", &file]);
    namespace(&server.kube().await, "vault").await;
    create(&server, "first", "squeamish ossifrage").await;
    let data = server.temp().join("data");
    assert!(on_disk(Path::new(&data), b"k8s:enc:aesgcm:v1:one:"));
    assert!(!on_disk(Path::new(&data), b"squeamish ossifrage"));

    // A second key writes: what does not change is written once under it, and then no more.
    configure(&file, &format!("{{secretbox: {{keys: [{KEY_TWO}]}}}}, {{aesgcm: {{keys: [{KEY_ONE}]}}}}"));
    server.restart();
    let object = secret(&server, "first").await;
    assert_eq!(object["data"]["password"], "c3F1ZWFtaXNoIG9zc2lmcmFnZQ==");
    let mut version = object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for (what, moves) in [("under the old key", true), ("under the new key", false)] {
        let now = rewrite(&server, &secret(&server, "first").await).await;
        assert_eq!(now != version, moves, "{what}");
        version = now;
    }
    // So the first key can go.
    configure(&file, &format!("{{secretbox: {{keys: [{KEY_TWO}]}}}}"));
    server.restart();
    assert_eq!(secret(&server, "first").await, object_at(&object, &version));

    // Without its key a value is an error, not a secret without contents: the cache of the secrets cannot be filled and
    // goes on trying. Other resources are served.
    configure(&file, &format!("{{aesgcm: {{keys: [{KEY_ONE}]}}}}"));
    server.restart();
    let mut client = server.client().await;
    let answer = client.get("/api/v1/namespaces/vault").await.unwrap();
    assert_eq!(answer.status, 200);
    let answer = client.get(SECRETS).await.unwrap();
    assert_eq!(answer.status, 429, "{}", answer.body);
    assert!(!answer.body.contains("password"));
}

fn object_at(object: &Value, version: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = version.into();
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_guards_the_keys() {
    let files = TempDir::new();
    let (file, socket) = (files.join("encryption.yaml"), files.join("kms.sock"));
    let plugin = KmsPlugin::start(Path::new(&socket));
    configure(&file, &format!("{{kms: {{apiVersion: v2, name: vault, endpoint: '{}'}}}}", plugin.endpoint()));
    let mut server = Server::durable_with(&["--encryption-provider-config", &file]);
    namespace(&server.kube().await, "vault").await;
    for n in 0..20 {
        create(&server, &format!("secret-{n}"), "squeamish ossifrage").await;
    }
    let data = server.temp().join("data");
    assert!(on_disk(Path::new(&data), b"k8s:enc:kms:v2:vault:"));
    assert!(!on_disk(Path::new(&data), b"squeamish ossifrage"));
    assert_eq!(plugin.asked(), (1, 0));
    let answer = server.client().await.get("/readyz/kms-providers").await.unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "ok"));

    server.restart();
    assert_eq!(secret(&server, "secret-7").await["data"]["password"], "c3F1ZWFtaXNoIG9zc2lmcmFnZQ==");
    assert_eq!(plugin.asked(), (2, 1));
}
