//! The transformers of all resources in a configuration.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_meta::{GroupResource, aggregate};

use crate::ciphers::Cipher;
use crate::config::{Configuration, Key, Provider};
use crate::config_error::ConfigError;
use crate::config_values::parse_group_resource;
use crate::kms::{Envelope, Plugin};
use crate::metrics::Metrics;
use crate::transform::{PrefixTransformer, Transformer};
use crate::transform_result::TransformError;

fn display_name(resource: &GroupResource) -> String {
    match (&*resource.group, &*resource.resource) {
        ("", "*") => "*.".to_owned(),
        ("", name) => name.to_owned(),
        (group, name) => format!("{name}.{group}"),
    }
}

fn wildcard(group: &str) -> GroupResource {
    GroupResource { group: group.into(), resource: "*".into() }
}

/// The transformers for the values of all resources.
pub struct Transformers {
    overrides: HashMap<GroupResource, Transformer>,
    plugins: Vec<Arc<Plugin>>,
}

/// The health check `kms-providers`, which covers all KMS plugins.
#[derive(Clone)]
pub struct KmsCheck(Vec<Arc<Plugin>>);

impl KmsCheck {
    /// Returns an error with the failures of all plugins, if there are any.
    pub async fn check(&self) -> Result<(), String> {
        let mut failures = Vec::new();
        for (at, plugin) in self.0.iter().enumerate() {
            if let Err(error) = plugin.check().await {
                failures.push(format!("kms-provider-{at}: {error}"));
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(aggregate(&failures)) }
    }
}

impl Transformers {
    /// Creates the transformers. KMS plugins get a request for a first data key now, and further requests in the
    /// background as long as the transformers exist. If a plugin does not respond, writes fail, but startup does not.
    pub async fn new(configuration: &Configuration, metrics: &Metrics) -> Result<Self, ConfigError> {
        let mut transformers: HashMap<GroupResource, Vec<PrefixTransformer>> = HashMap::new();
        let mut plugins = Vec::new();
        for entry in &configuration.resources {
            let mut providers = Vec::new();
            for provider in &entry.providers {
                providers.push(transformer(provider, &mut plugins, metrics).await?);
            }
            for name in &entry.resources {
                let resource = parse_group_resource(name);
                for earlier in [wildcard(&resource.group), wildcard("*")] {
                    if transformers.contains_key(&earlier) {
                        let (name, by) = (display_name(&resource), display_name(&earlier));
                        let why = format!("resource {name:?} is masked by earlier rule {by:?}");
                        return Err(ConfigError(why));
                    }
                }
                transformers.entry(resource).or_default().extend(providers.iter().cloned());
            }
        }
        let no_match = "no matching prefix found";
        let overrides = transformers
            .into_iter()
            .map(|(resource, transformers)| (resource, Transformer::Prefixed { transformers, no_match }))
            .collect();
        Ok(Self { overrides, plugins })
    }

    /// Returns the transformer of a resource. The values of a resource that is not configured are not encrypted.
    pub(crate) fn of(&self, resource: Option<&GroupResource>) -> &Transformer {
        let Some(resource) = resource else { return &Transformer::Identity };
        [resource.clone(), wildcard(&resource.group), wildcard("*")]
            .iter()
            .find_map(|resource| self.overrides.get(resource))
            .unwrap_or(&Transformer::Identity)
    }

    /// Returns the health check of the KMS plugins.
    pub fn check(&self) -> KmsCheck {
        KmsCheck(self.plugins.clone())
    }

    /// Returns true if there are KMS plugins.
    pub fn uses_kms(&self) -> bool {
        !self.plugins.is_empty()
    }
}

/// Creates a provider's transformer, with the prefix of its values.
async fn transformer(
    provider: &Provider,
    plugins: &mut Vec<Arc<Plugin>>,
    metrics: &Metrics,
) -> Result<PrefixTransformer, ConfigError> {
    let aes = "no matching key was found for the provided AES transformer";
    match provider {
        Provider::AesGcm(keys) => keyed_transformer("k8s:enc:aesgcm:v1:", keys, aes, Cipher::gcm),
        Provider::AesCbc(keys) => {
            keyed_transformer("k8s:enc:aescbc:v1:", keys, aes, |key| Ok(Cipher::Cbc(key.to_vec())))
        }
        Provider::Secretbox(keys) => {
            let none = "no matching key was found for the provided Secretbox transformer";
            keyed_transformer("k8s:enc:secretbox:v1:", keys, none, Cipher::secretbox)
        }
        Provider::Identity => Ok((Vec::new(), Arc::new(Transformer::Identity))),
        Provider::Kms(configuration) => {
            let plugin = Plugin::start(configuration, metrics).await;
            plugins.push(Arc::clone(&plugin));
            let prefix = format!("k8s:enc:kms:v2:{}:", configuration.name).into_bytes();
            Ok((prefix, Arc::new(Transformer::Kms(Envelope::new(plugin)))))
        }
    }
}

fn keyed_transformer(
    prefix: &str,
    keys: &[Key],
    no_match: &'static str,
    cipher: fn(&[u8]) -> Result<Cipher, TransformError>,
) -> Result<PrefixTransformer, ConfigError> {
    let single_key = |key: &Key| {
        let cipher = cipher(&key.secret)
            .map_err(|error| ConfigError(format!("error while creating cipher for named key {}: {error}", key.name)))?;
        Ok((format!("{}:", key.name).into_bytes(), Arc::new(Transformer::Cipher(cipher))))
    };
    let transformers = keys.iter().map(single_key).collect::<Result<_, ConfigError>>()?;
    Ok((prefix.as_bytes().to_vec(), Arc::new(Transformer::Prefixed { transformers, no_match })))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::config::ResourceConfiguration;
    use crate::metrics::TransformMetrics;

    fn key(name: &str) -> Key {
        Key { name: name.to_owned(), secret: vec![name.as_bytes()[0]; 32] }
    }

    /// Builds the transformers of entries such as `secrets *.apps: gcm identity`, where each provider other than
    /// `identity` has a key of its own name.
    async fn transformers(entries: &[&str]) -> Result<Transformers, String> {
        let entry = |entry: &&str| {
            let (resources, providers) = entry.split_once(": ").unwrap();
            let provider = |name| match name {
                "identity" => Provider::Identity,
                "cbc" => Provider::AesCbc(vec![key(name)]),
                name => Provider::AesGcm(vec![key(name)]),
            };
            ResourceConfiguration {
                resources: resources.split(' ').map(str::to_owned).collect(),
                providers: providers.split(' ').map(provider).collect(),
            }
        };
        let configuration = Configuration { resources: entries.iter().map(entry).collect() };
        Transformers::new(&configuration, &metrics()).await.map_err(|error| error.to_string())
    }

    fn metrics() -> Metrics {
        Metrics::new(&binnacle_metrics::Registry::new(), "test").unwrap()
    }

    /// Checks the first bytes of the stored value of a resource.
    async fn check_written(entries: &[&str], resource: &str, want: &str) {
        let resource = parse_group_resource(resource);
        let (transformers, metrics) = (transformers(entries).await.unwrap(), metrics());
        let metrics = TransformMetrics { metrics: &metrics, resource: Some(&resource) };
        let stored = transformers.of(Some(&resource)).seal(b"plain", b"/key", metrics).unwrap();
        assert!(stored.starts_with(want.as_bytes()), "{resource:?}: {stored:?}");
    }

    /// Checks what a server with the configuration `entries` reads of a secret that another one stored.
    async fn check_read(stored_with: &str, entries: &[&str], want: Result<bool, &str>) {
        let secrets = parse_group_resource("secrets");
        let metrics = metrics();
        let metrics = TransformMetrics { metrics: &metrics, resource: Some(&secrets) };
        let writer = transformers(&[stored_with]).await.unwrap();
        let stored = Bytes::from(writer.of(Some(&secrets)).seal(b"plain", b"/key", metrics).unwrap());
        let reader = transformers(entries).await.unwrap();
        let read = reader.of(Some(&secrets)).open(&stored, b"/key", metrics).await;
        let read = read.map(|plain| {
            assert_eq!(plain.value, "plain");
            plain.stale
        });
        assert_eq!(read.map_err(|error| error.to_string()), want.map_err(str::to_owned), "{stored_with} {entries:?}");
    }

    #[tokio::test]
    async fn most_specific_entry_encrypts_a_resource() {
        let entries = ["secrets deployments.apps: gcm", "*.apps: cbc", "*.*: identity"];
        check_written(&entries, "secrets", "k8s:enc:aesgcm:v1:gcm:").await;
        check_written(&entries, "deployments.apps", "k8s:enc:aesgcm:v1:gcm:").await;
        check_written(&entries, "daemonsets.apps", "k8s:enc:aescbc:v1:cbc:").await;
        check_written(&entries, "configmaps", "plain").await;
        check_written(&["*.: gcm"], "configmaps", "k8s:enc:aesgcm:v1:gcm:").await;
        check_written(&["*.: gcm"], "deployments.apps", "plain").await;
    }

    #[tokio::test]
    async fn rejects_entries_that_an_earlier_wildcard_masks() {
        for (entries, want) in [
            (
                ["*.apps: gcm", "deployments.apps: cbc"],
                Some("resource \"deployments.apps\" is masked by earlier rule \"*.apps\""),
            ),
            (["*.: gcm", "secrets: cbc"], Some("resource \"secrets\" is masked by earlier rule \"*.\"")),
            (["*.*: gcm", "*.apps: cbc"], Some("resource \"*.apps\" is masked by earlier rule \"*.*\"")),
            (["secrets: gcm", "*.: cbc"], None),
            (["*.apps: gcm", "secrets: cbc"], None),
        ] {
            assert_eq!(transformers(&entries).await.err().as_deref(), want, "{entries:?}");
        }
    }

    #[tokio::test]
    async fn values_of_later_providers_are_readable_and_stale() {
        let no_key = "no matching key was found for the provided AES transformer";
        check_read("secrets: gcm", &["secrets: gcm identity"], Ok(false)).await;
        check_read("secrets: gcm", &["secrets: cbc gcm"], Ok(true)).await;
        check_read("secrets: identity", &["secrets: gcm identity"], Ok(true)).await;
        check_read("secrets: identity", &["secrets: identity gcm"], Ok(false)).await;
        check_read("secrets: identity", &["secrets: gcm"], Err("no matching prefix found")).await;
        check_read("secrets: gcm", &["configmaps: gcm"], Err("identity transformer tried to read encrypted data"))
            .await;
        check_read("secrets: gcm", &["secrets: identity"], Err("no matching prefix found")).await;
        check_read("secrets: gcm", &["secrets: other gcm"], Ok(true)).await;
        check_read("secrets: gcm", &["secrets: other more"], Err(no_key)).await;
    }
}
