//! The transformers of all resources in a configuration.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_meta::{GroupResource, aggregate};

use crate::ciphers::Cipher;
use crate::config::{ConfigError, Configuration, Key, Provider};
use crate::kms::{Envelope, Plugin};
use crate::metrics::Metrics;
use crate::transform::{PrefixTransformer, TransformError, Transformer};

/// Parses a resource such as `secrets`, `deployments.apps`, `*.apps`, `*.` (the core group) or `*.*`.
pub(crate) fn parse_group_resource(text: &str) -> GroupResource {
    let (resource, group) = text.split_once('.').unwrap_or((text, ""));
    GroupResource { group: group.into(), resource: resource.into() }
}

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
