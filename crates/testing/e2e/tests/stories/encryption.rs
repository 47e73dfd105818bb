//! Encryption at rest: keys are added, changed and removed while the same data is served.

use std::path::Path;

use binnacle_testkit::{Cryptography, KmsPlugin, Server, Signal, TempDir};
use serde_json::{Value, json};

use crate::namespace;

const SECRETS: &str = "/api/v1/namespaces/vault/secrets";
const KEY_ONE: &str = "{name: one, secret: MTExMTExMTExMTExMTExMTExMTExMTExMTExMTExMTE=}";
const KEY_TWO: &str = "{name: two, secret: MjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjIyMjI=}";

/// Returns a provider with the second key: another than AES-GCM, which FIPS mode has too.
fn second_provider() -> String {
    let provider = if Cryptography::under_test() == Cryptography::Fips { "aescbc" } else { "secretbox" };
    format!("{{{provider}: {{keys: [{KEY_TWO}]}}}}")
}

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

/// Writes the object unchanged, as a storage migration does, and returns its version.
async fn rewrite(server: &Server, object: &Value) -> String {
    let path = format!("{SECRETS}/{}", object["metadata"]["name"].as_str().unwrap());
    let headers = [("content-type", "application/json")];
    let answer = server.client().await.send("PUT", &path, &headers, object.to_string()).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    let object: Value = serde_json::from_str(&answer.body).unwrap();
    object["metadata"]["resourceVersion"].as_str().unwrap().to_owned()
}

/// Returns true if any file of the store contains the text.
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
async fn rotates_encryption_keys() {
    let files = TempDir::new();
    let file = files.join("encryption.yaml");
    configure(&file, &format!("{{aesgcm: {{keys: [{KEY_ONE}]}}}}, {{identity: {{}}}}"));
    let mut server = Server::durable_with(&["--encryption-provider-config", &file]);
    namespace(&server.kube().await, "vault").await;
    create(&server, "first", "squeamish ossifrage").await;
    let data = server.temp().join("data");
    assert!(on_disk(Path::new(&data), b"k8s:enc:aesgcm:v1:one:"));
    assert!(!on_disk(Path::new(&data), b"squeamish ossifrage"));

    // A second key becomes the write key: an unchanged object is written once with it, and not again.
    configure(&file, &format!("{}, {{aesgcm: {{keys: [{KEY_ONE}]}}}}", second_provider()));
    server.restart();
    let object = secret(&server, "first").await;
    assert_eq!(object["data"]["password"], "c3F1ZWFtaXNoIG9zc2lmcmFnZQ==");
    let mut version = object["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    for (what, moves) in [("under the old key", true), ("under the new key", false)] {
        let now = rewrite(&server, &secret(&server, "first").await).await;
        assert_eq!(now != version, moves, "{what}");
        version = now;
    }
    // So the first key can be removed.
    configure(&file, &second_provider());
    server.restart();
    assert_eq!(secret(&server, "first").await, object_at(&object, &version));

    // A value without its key results in an error, not in an empty secret. The cache of secrets cannot be filled; other
    // secrets and other resources are served.
    configure(&file, &format!("{{aesgcm: {{keys: [{KEY_ONE}]}}}}"));
    server.restart();
    let why = "no matching prefix found";
    let which = format!("unable to transform key \"/registry/secrets/vault/first\": {why}");
    let again = format!("storage is (re)initializing: failed to list *core.Secret: {which}");
    let mut client = server.client().await;
    create(&server, "second", "squeamish ossifrage").await;
    for (query, status, message) in [
        ("/first", 500, format!("Internal error occurred: {why}")),
        ("/first?resourceVersion=0", 500, format!("Internal error occurred: {why}")),
        ("/second", 200, String::new()),
        ("?limit=10", 500, format!("Internal error occurred: {which}")),
        ("", 429, again.clone()),
        ("?limit=10&labelSelector=a", 429, again.clone()),
        ("?watch=true", 429, again),
    ] {
        let answer = client.get(&format!("{SECRETS}{query}")).await.unwrap();
        let body: Value = serde_json::from_str(&answer.body).unwrap();
        assert_eq!(answer.status, status, "{query}: {body}");
        assert_eq!(body["message"].as_str().unwrap_or_default(), message, "{query}");
    }
    assert_eq!(client.get("/api/v1/namespaces/vault").await.unwrap().status, 200);
    let metrics = client.get("/metrics").await.unwrap().body;
    let failed = "apiserver_storage_transformation_operations_total{resource=\"secrets\",status=\"unknown-non-grpc\"";
    assert!(metrics.contains(failed), "{metrics}");

    // With the key restored, everything is readable.
    let both = format!("{{aesgcm: {{keys: [{KEY_ONE}]}}}}, {}", second_provider());
    configure(&file, &both);
    server.restart();
    let answer = server.client().await.get(SECRETS).await.unwrap();
    let list: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), 2, "{list}");
}

/// The server is killed repeatedly while all objects are rewritten with another key.
#[tokio::test(flavor = "multi_thread")]
async fn survives_kills_during_key_rotation() {
    const SECRETS_THERE: usize = 60;
    let files = TempDir::new();
    let file = files.join("encryption.yaml");
    configure(&file, &format!("{{aesgcm: {{keys: [{KEY_ONE}]}}}}"));
    let mut server = Server::durable_with(&["--encryption-provider-config", &file]);
    namespace(&server.kube().await, "vault").await;
    for n in 0..SECRETS_THERE {
        create(&server, &format!("s{n}"), &format!("text {n}")).await;
    }
    configure(&file, &format!("{}, {{aesgcm: {{keys: [{KEY_ONE}]}}}}", second_provider()));
    // A client that rewrites them starts over after each kill; rewritten objects stay rewritten.
    let (mut kills, mut written) = (0, 0);
    'rotation: loop {
        tokio::task::block_in_place(|| server.restart());
        let mut client = server.client().await;
        for n in 0..SECRETS_THERE {
            let path = format!("{SECRETS}/s{n}");
            let object = client.get(&path).await.unwrap().body;
            // Later each time.
            if kills < 5 && n == 8 * (kills + 1) {
                let headers = [("content-type", "application/json")];
                // It may or may not take effect.
                let _ = tokio::join!(client.send("PUT", &path, &headers, object), async {
                    server.signal(Signal::KILL);
                });
                kills += 1;
                continue 'rotation;
            }
            let before: Value = serde_json::from_str(&object).unwrap();
            let after = rewrite(&server, &before).await;
            written += usize::from(before["metadata"]["resourceVersion"] != *after);
        }
        break;
    }
    assert_eq!(kills, 5);
    assert!((SECRETS_THERE - kills..=SECRETS_THERE).contains(&written), "{written} were written anew");
    // The first key can be removed: no value needs it, and nothing is lost.
    configure(&file, &second_provider());
    tokio::task::block_in_place(|| server.restart());
    let answer = server.client().await.get(SECRETS).await.unwrap();
    assert_eq!(answer.status, 200, "{}", answer.body);
    let list: Value = serde_json::from_str(&answer.body).unwrap();
    assert_eq!(list["items"].as_array().unwrap().len(), SECRETS_THERE);
    for n in 0..SECRETS_THERE {
        let encoded = &secret(&server, &format!("s{n}")).await["data"]["password"];
        let text = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, encoded.as_str().unwrap()).unwrap();
        assert_eq!(text, format!("text {n}").into_bytes());
    }
}

fn object_at(object: &Value, version: &str) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = version.into();
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn encrypts_with_keys_of_a_kms_plugin() {
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
    // There is one key to unwrap. Resources that are read concurrently may each request it, objects do not.
    let (wrapped, unwrapped) = plugin.asked();
    assert_eq!(wrapped, 2);
    assert!((1..20).contains(&unwrapped), "{unwrapped}");
}
