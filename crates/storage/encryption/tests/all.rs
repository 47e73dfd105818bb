//! Tests of the encrypted store: the storage contract, key changes, and KMS plugins.

#![allow(clippy::unwrap_used, reason = "tests panic on errors")]

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use binnacle_encryption::{EncryptedStore, Encryption, Metrics, StorageKeys, load, reload_on_change};
use binnacle_meta::GroupResource;
use binnacle_metrics::Registry;
use binnacle_store::{Event, Expect, Op, Revision, Store, StoreError, Txn, TxnResponse, WatchMessage, prefix_range};
use binnacle_store_embedded::EmbeddedStore;
use binnacle_testkit::{KmsPlugin, TempDir};
use bytes::Bytes;
use futures::StreamExt;
use prometheus::TextEncoder;

mod contract {
    use super::*;

    async fn store() -> (TempDir, Arc<dyn Store>) {
        let temp = TempDir::new();
        let file = config(&temp, "'*.*'", &format!("{{aesgcm: {{keys: [{}]}}}}", key("1", 32)));
        // The keys of the contract's tests: each first segment is a resource.
        let names = ["a", "h", "l", "pods", "r", "s", "t", "w", "x"];
        let keys = StorageKeys::new("/", names.map(|name| (name, resource(name))));
        let transformers = load(Path::new(&file), false, &metrics()).await.unwrap().transformers;
        let encryption = Arc::new(Encryption::new(keys, transformers, metrics()));
        (temp, Arc::new(EncryptedStore::new(Arc::new(EmbeddedStore::ephemeral()), encryption)))
    }

    binnacle_store::contract_tests!(store);
}

fn resource(name: &str) -> GroupResource {
    GroupResource { group: "".into(), resource: name.into() }
}

fn key(name: &str, size: usize) -> String {
    let secret = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, vec![name.as_bytes()[0]; size]);
    format!("{{name: '{name}', secret: '{secret}'}}")
}

/// Writes a configuration file and returns its path.
fn config(temp: &TempDir, resources: &str, providers: &str) -> String {
    let path = temp.join("encryption.yaml");
    let error_text = format!(
        "kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\nresources:\n- resources: [{resources}]\n  \
         providers: [{providers}]\n"
    );
    std::fs::write(&path, error_text).unwrap();
    path
}

struct Setup {
    temp: TempDir,
    raw: Arc<EmbeddedStore>,
    registry: Registry,
    metrics: Metrics,
    store: EncryptedStore<EmbeddedStore>,
    encryption: Arc<Encryption>,
}

impl Setup {
    async fn new(providers: &str) -> Self {
        let temp = TempDir::new();
        let raw = Arc::new(EmbeddedStore::ephemeral());
        let names = ["secrets", "configmaps"];
        let keys = StorageKeys::new("/registry/", names.map(|name| (name, resource(name))));
        let file = config(&temp, "secrets", providers);
        let registry = Registry::new();
        let metrics = Metrics::new(&registry, "apiserver-test").unwrap();
        let transformers = load(Path::new(&file), false, &metrics).await.unwrap().transformers;
        let encryption = Arc::new(Encryption::new(keys, transformers, metrics.clone()));
        let store = EncryptedStore::new(Arc::clone(&raw), Arc::clone(&encryption));
        Self { temp, raw, registry, metrics, store, encryption }
    }

    async fn reload(&self, providers: &str) {
        let file = config(&self.temp, "secrets", providers);
        self.encryption.replace(load(Path::new(&file), true, &self.metrics).await.unwrap().transformers);
    }

    async fn put(&self, key: &'static str, value: &str) -> Result<Revision, StoreError> {
        let op = Op::Put { value: Bytes::copy_from_slice(value.as_bytes()), lease: None };
        match self.store.txn(Txn { key: Bytes::from_static(key.as_bytes()), expect: Expect::Anything, op }).await? {
            TxnResponse::Done { revision, .. } => Ok(revision),
            TxnResponse::Unmet { .. } => panic!("anything was expected"),
        }
    }

    /// Returns the value that a reader sees, and whether it is stale.
    async fn get(&self, key: &'static str) -> Result<(String, bool), StoreError> {
        let key = Bytes::from_static(key.as_bytes());
        let kv = self.store.get(key.clone(), None).await?.0.unwrap();
        let stale = self.store.is_stale(key, kv.mod_revision).await?;
        Ok((String::from_utf8(kv.value.to_vec()).unwrap(), stale))
    }

    /// Returns the rest of the metrics line with this prefix.
    fn metric_value(&self, prefix: &str) -> Option<String> {
        let error_text = TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap();
        error_text.lines().find_map(|line| Some(line.strip_prefix(prefix)?.trim().to_owned()))
    }

    /// Returns the first bytes of a stored value.
    async fn stored_prefix(&self, key: &'static str, length: usize) -> String {
        let kv = self.raw.get(Bytes::from_static(key.as_bytes()), None).await.unwrap().0.unwrap();
        String::from_utf8_lossy(&kv.value[..length.min(kv.value.len())]).into_owned()
    }
}

const SECRET: &str = "/registry/secrets/default/token";

fn error_text<T>(result: Result<T, StoreError>) -> String {
    result.err().unwrap().to_string()
}

/// Returns a provider of AES-GCM with these keys.
fn gcm(keys: &[&str]) -> String {
    let keys: Vec<String> = keys.iter().map(|name| key(name, 32)).collect();
    format!("{{aesgcm: {{keys: [{}]}}}}", keys.join(", "))
}

fn unreadable(why: &str) -> String {
    format!("unable to transform key \"{SECRET}\": {why}")
}

const NO_PROVIDER: &str = "no matching prefix found";
const NO_KEY: &str = "no matching key was found for the provided AES transformer";

#[tokio::test]
async fn reads_old_values_and_rewrites_them_after_key_rotation() {
    let setup = Setup::new("{identity: {}}").await;
    setup.put(SECRET, "plain").await.unwrap();
    setup.put("/registry/configmaps/a/b", "open").await.unwrap();
    assert_eq!(setup.stored_prefix(SECRET, 99).await, "plain");

    // A key is added: the old value can be read, and is stale.
    setup.reload(&format!("{}, {{identity: {{}}}}", gcm(&["one"]))).await;
    assert_eq!(setup.get(SECRET).await.unwrap(), ("plain".to_owned(), true));
    setup.put(SECRET, "plain").await.unwrap();
    assert_eq!(setup.get(SECRET).await.unwrap(), ("plain".to_owned(), false));
    assert_eq!(setup.stored_prefix(SECRET, 22).await, "k8s:enc:aesgcm:v1:one:");
    // Other resources are unchanged.
    setup.put("/registry/configmaps/a/b", "open").await.unwrap();
    assert_eq!(setup.stored_prefix("/registry/configmaps/a/b", 99).await, "open");

    // The second key is the first in the list, for writes; the first key still reads.
    setup.reload(&gcm(&["two", "one"])).await;
    assert_eq!(setup.get(SECRET).await.unwrap(), ("plain".to_owned(), true));
    setup.put(SECRET, "again").await.unwrap();
    assert_eq!(setup.stored_prefix(SECRET, 22).await, "k8s:enc:aesgcm:v1:two:");

    // Without the key, reads fail, and the error contains no encrypted data.
    setup.reload(&gcm(&["one"])).await;
    assert_eq!(error_text(setup.get(SECRET).await), unreadable(NO_KEY));
    setup.reload("{identity: {}}").await;
    assert_eq!(error_text(setup.get(SECRET).await), unreadable(NO_PROVIDER));

    let operations = "apiserver_storage_transformation_operations_total";
    for (labels, count) in [
        // A cipher has two prefixes: the provider's, and the key name's. Writes read the previous value.
        (
            r#"resource="secrets",status="OK",transformation_type="to_storage",transformer_prefix="k8s:enc:aesgcm:v1:""#,
            "2",
        ),
        (r#"resource="secrets",status="OK",transformation_type="to_storage",transformer_prefix="one:""#, "1"),
        (r#"resource="secrets",status="OK",transformation_type="from_storage",transformer_prefix="identity""#, "3"),
        (
            r#"resource="secrets",status="unknown-non-grpc",transformation_type="from_storage",transformer_prefix="unknown""#,
            "2",
        ),
    ] {
        assert_eq!(setup.metric_value(&format!("{operations}{{{labels}}}")).as_deref(), Some(count), "{labels}");
    }
}

#[tokio::test]
#[cfg_attr(feature = "fips", ignore = "secretbox is not available in FIPS mode")]
async fn reads_old_values_after_a_change_of_the_cipher() {
    let setup = Setup::new(&gcm(&["two"])).await;
    setup.put(SECRET, "again").await.unwrap();
    // Other ciphers first, the old one last.
    let box_and_cbc = format!(
        "{{secretbox: {{keys: [{}]}}}}, {{aescbc: {{keys: [{}]}}}}, {}",
        key("b", 32),
        key("c", 16),
        gcm(&["two"])
    );
    setup.reload(&box_and_cbc).await;
    assert_eq!(setup.get(SECRET).await.unwrap(), ("again".to_owned(), true));
    setup.put(SECRET, "third").await.unwrap();
    assert_eq!(setup.stored_prefix(SECRET, 23).await, "k8s:enc:secretbox:v1:b:");
    assert_eq!(setup.get(SECRET).await.unwrap(), ("third".to_owned(), false));

    // Without the key, reads fail.
    setup.reload(&gcm(&["two"])).await;
    assert_eq!(error_text(setup.get(SECRET).await), unreadable(NO_PROVIDER));
    // A key with the same name and another secret: the value is not authentic.
    setup.reload(&box_and_cbc.replace(&key("b", 32), &key("b", 32).replace("Ym", "Zm"))).await;
    let failed = "output array was not large enough for encryption";
    assert_eq!(error_text(setup.get(SECRET).await), unreadable(failed));
    // The value can still be replaced, and a watch that was started before reports the change.
    let before = setup.raw.current_revision().await.unwrap();
    setup.put(SECRET, "fourth").await.unwrap();
    assert_eq!(setup.get(SECRET).await.unwrap(), ("fourth".to_owned(), false));
    let mut watch = setup.store.watch(prefix_range(b"/registry/secrets/"), before).await.unwrap().messages;
    let Some(Ok(WatchMessage::Events(events))) = watch.next().await else { panic!("an event was expected") };
    let [Event::Put { kv, previous: Some(previous) }] = events.as_slice() else { panic!("{events:?}") };
    assert_eq!(kv.value, "fourth");
    // The previous value is reported as it was stored.
    assert!(previous.value.starts_with(b"k8s:enc:secretbox:v1:b:"), "{previous:?}");
}

#[tokio::test]
async fn encrypts_with_seeds_from_kms_plugin() {
    let sockets = TempDir::new();
    let socket = sockets.join("kms.sock");
    let plugin = KmsPlugin::start(Path::new(&socket));
    let provider = |name: &str| {
        format!("{{kms: {{apiVersion: v2, name: {name}, endpoint: '{}', timeout: 1s}}}}", plugin.endpoint())
    };
    let setup = Setup::new(&provider("vault")).await;
    for n in 0..20 {
        setup.put(SECRET, &format!("value {n}")).await.unwrap();
        assert_eq!(setup.get(SECRET).await.unwrap(), (format!("value {n}"), false));
    }
    assert_eq!(setup.stored_prefix(SECRET, 21).await, "k8s:enc:kms:v2:vault:");
    // All writes use one seed.
    assert_eq!(plugin.asked(), (1, 0));
    setup.encryption.transformers().check().check().await.unwrap();
    // The test read each value twice, and the last write read it once.
    let key = "sha256:";
    let used = "apiserver_envelope_encryption_key_id_hash_total{apiserver_id_hash=\"sha256:";
    assert!(setup.metric_value(used).is_some_and(|rest| rest.contains(key) && rest.ends_with(" 59")), "{used}");
    let record_call = "apiserver_envelope_encryption_kms_operations_latency_seconds_count{grpc_status_code=\"OK\",\
                  method_name=\"/v2.KeyManagementService/Encrypt\",provider_name=\"vault\"}";
    assert_eq!(setup.metric_value(record_call).as_deref(), Some("1"));
    assert_eq!(
        setup.metric_value("apiserver_storage_data_key_generation_duration_seconds_count").as_deref(),
        Some("1")
    );

    let stored_prefix = "apiserver_envelope_encryption_dek_source_cache_size{provider_name=\"vault\"}";
    assert_eq!(setup.metric_value(stored_prefix).as_deref(), Some("1"));

    // Another server, or a restart, has another seed, and requests the first one once.
    setup.reload(&provider("vault")).await;
    for _ in 0..3 {
        assert_eq!(setup.get(SECRET).await.unwrap(), ("value 19".to_owned(), false));
    }
    assert_eq!(plugin.asked(), (2, 1));
    assert_eq!(
        setup.metric_value("apiserver_storage_envelope_transformation_cache_misses_total").as_deref(),
        Some("1")
    );

    // The plugin has a new key: old values are stale.
    plugin.rotate("key-2");
    setup.reload(&provider("vault")).await;
    assert_eq!(setup.get(SECRET).await.unwrap(), ("value 19".to_owned(), true));
    setup.put(SECRET, "value 20").await.unwrap();
    assert_eq!(setup.get(SECRET).await.unwrap(), ("value 20".to_owned(), false));

    // An unhealthy plugin is reported; values with cached seeds can still be read.
    plugin.health("sealed");
    setup.reload(&provider("vault")).await;
    let unhealthy = setup.encryption.transformers().check().check().await.unwrap_err();
    assert_eq!(
        unhealthy,
        "kms-provider-0: kmsv2 Provider vault is not healthy, error: got unexpected healthz status: sealed"
    );
    drop(plugin);
    std::fs::remove_file(&socket).unwrap();
    let gone = format!("{{kms: {{apiVersion: v2, name: vault, endpoint: 'unix://{socket}', timeout: 1s}}}}");
    setup.reload(&gone).await;
    // A cached error has no prefix; later the plugin is called again.
    for expected in ["", "failed to perform status section of the healthz check for KMS Provider vault, error: "] {
        if !expected.is_empty() {
            tokio::time::sleep(Duration::from_millis(3100)).await;
        }
        let unhealthy = setup.encryption.transformers().check().check().await.unwrap_err();
        assert_eq!(
            unhealthy,
            format!(
                "kms-provider-0: {expected}rpc error: code = DeadlineExceeded desc = latest balancer error: connection \
                 error: desc = \"transport: Error while dialing: dial unix {socket}: connect: no such file or directory\""
            )
        );
    }
    let why = format!("unable to transform key \"{SECRET}\": got unexpected nil transformer");
    assert_eq!(error_text(setup.put(SECRET, "lost").await), why);
    assert_eq!(error_text(setup.get(SECRET).await), why);
}

#[tokio::test(start_paused = true)]
async fn retries_unusable_file_with_backoff() {
    let setup = Setup::new("{identity: {}}").await;
    let file = PathBuf::from(setup.temp.join("encryption.yaml"));
    let first = load(&file, true, &setup.metrics).await.unwrap().hash;
    let watcher = tokio::spawn({
        let (file, encryption) = (file.clone(), Arc::clone(&setup.encryption));
        async move { reload_on_change(&file, first, encryption).await }
    });
    let reloads = |status: &str| {
        let prefix = "apiserver_encryption_config_controller_automatic_reloads_total{";
        let error_text = TextEncoder::new().encode_to_string(&setup.registry.gather()).unwrap();
        let of_status = format!("status=\"{status}\"}} ");
        let line = error_text.lines().find(|line| line.starts_with(prefix) && line.contains(&of_status));
        line.map_or(0, |line| line.rsplit(' ').next().unwrap().parse::<u32>().unwrap())
    };
    std::fs::write(&file, "x: [").unwrap();
    tokio::time::sleep(Duration::from_secs(59)).await;
    assert_eq!(reloads("failure"), 0, "the file is looked at once a minute");
    tokio::time::sleep(Duration::from_secs(2)).await;
    let soon = reloads("failure");
    assert!((5..=9).contains(&soon), "5 ms later, 10, 20 and so on: {soon}");
    tokio::time::sleep(Duration::from_secs(30)).await;
    let later = reloads("failure");
    assert!((soon + 3..=soon + 5).contains(&later), "{later} after {soon}");
    config(&setup.temp, "secrets", &format!("{{aesgcm: {{keys: [{}]}}}}", key("1", 32)));
    tokio::time::sleep(Duration::from_secs(62)).await;
    assert_eq!((reloads("success"), reloads("failure")), (1, later), "it is in use");
    setup.put(SECRET, "value").await.unwrap();
    assert_eq!(setup.stored_prefix(SECRET, 20).await, "k8s:enc:aesgcm:v1:1:");
    watcher.abort();
}

fn metrics() -> Metrics {
    Metrics::new(&Registry::new(), "apiserver-test").unwrap()
}
