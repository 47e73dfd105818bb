//! The configuration file: `EncryptionConfiguration` of `apiserver.config.k8s.io/v1`.

use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_config::{Format, Types, list, text};
use binnacle_meta::aggregate;
use binnacle_schema::{Field, Ty, Value};

use crate::config_error::ConfigError;
use crate::config_values::{kms_timeout, kms_version, present, texts};
use crate::validate::validate;

const FORMAT: Format = Format {
    group: "apiserver.config.k8s.io",
    versions: &["v1"],
    kind: "EncryptionConfiguration",
    scheme: "pkg/server/options/encryptionconfig/config.go:142",
    fields,
};

/// The contents of a configuration file.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub(crate) resources: Vec<ResourceConfiguration>,
}

/// A list of resources and their providers: the first provider encrypts, all of them decrypt.
#[derive(Clone, Debug)]
pub(crate) struct ResourceConfiguration {
    pub resources: Vec<String>,
    pub providers: Vec<Provider>,
}

#[derive(Clone, Debug)]
pub(crate) enum Provider {
    AesGcm(Vec<Key>),
    AesCbc(Vec<Key>),
    Secretbox(Vec<Key>),
    Identity,
    Kms(Kms),
}

#[derive(Clone)]
pub(crate) struct Key {
    pub name: String,
    pub secret: Vec<u8>,
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Name: {}, Secret: [REDACTED]", self.name)
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Kms {
    pub name: String,
    /// A path, or `@` and a name in the abstract namespace.
    pub socket: String,
    pub timeout: Duration,
}

impl Configuration {
    /// Parses the text of a file. `path` only appears in messages. With `reload`, the file is going to be read again,
    /// so KMS plugins must have different names.
    pub fn parse(path: &str, text: &[u8], reload: bool) -> Result<Self, ConfigError> {
        let failed =
            |why: String| ConfigError(format!("error decoding encryption provider configuration file {path:?}: {why}"));
        if text.is_empty() {
            return Err(ConfigError(format!("encryption provider configuration file {path:?} is empty")));
        }
        let file = FORMAT.read(text).map_err(|error| failed(error.0))?;
        let errors = validate(&file, reload);
        if !errors.is_empty() {
            return Err(ConfigError(aggregate(&errors)));
        }
        let resources = file.list_at(&["resources"]).iter().map(resource_configuration).collect::<Result<_, _>>()?;
        Ok(Self { resources })
    }
}

/// Converts one resource group of a validated file.
fn resource_configuration(value: &Value) -> Result<ResourceConfiguration, ConfigError> {
    Ok(ResourceConfiguration {
        resources: texts(value.list_at(&["resources"])),
        providers: value.list_at(&["providers"]).iter().map(provider).collect::<Result<_, _>>()?,
    })
}

fn provider(value: &Value) -> Result<Provider, ConfigError> {
    let keys = |name: &str| keys(value.list_at(&[name, "keys"]));
    if let Some(kms) = present(value, "kms") {
        if kms_version(kms) == "v1" {
            return Err(ConfigError(
                "KMSv1 is deprecated and will only receive security updates going forward. Use KMSv2 instead.  Set \
                 --feature-gates=KMSv1=true to use the deprecated KMSv1 feature."
                    .to_owned(),
            ));
        }
        return Ok(Provider::Kms(Kms {
            name: kms.str_at(&["name"]).to_owned(),
            socket: socket(kms.str_at(&["endpoint"])),
            timeout: kms_timeout(kms),
        }));
    }
    Ok(match () {
        () if present(value, "aesgcm").is_some() => Provider::AesGcm(keys("aesgcm")),
        () if present(value, "aescbc").is_some() => Provider::AesCbc(keys("aescbc")),
        () if present(value, "secretbox").is_some() => Provider::Secretbox(keys("secretbox")),
        () => Provider::Identity,
    })
}

/// Converts keys whose secrets have been validated.
fn keys(list: &[Value]) -> Vec<Key> {
    let key = |value: &Value| Key {
        name: value.str_at(&["name"]).to_owned(),
        secret: BASE64_STANDARD.decode(value.str_at(&["secret"])).unwrap_or_default(),
    };
    list.iter().map(key).collect()
}

/// Returns the target of a `unix` URL: `unix:///run/x.sock` is a path, `unix:///@x` an abstract name.
fn socket(endpoint: &str) -> String {
    let path = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    match path.strip_prefix("/@") {
        Some(name) => format!("@{name}"),
        None => path.to_owned(),
    }
}

fn fields(types: Types) -> Vec<Field> {
    let key = types.object("Key", vec![text("name"), text("secret")]);
    let keys = |of: &str| types.object(of, vec![list("keys", key.clone())]);
    let kms = types.object(
        "KMSConfiguration",
        vec![
            text("apiVersion"),
            text("name"),
            Field::new("cachesize", Ty::Int32),
            text("endpoint"),
            Field::new("timeout", Ty::Duration),
        ],
    );
    let provider = types.object(
        "ProviderConfiguration",
        vec![
            Field::new("aesgcm", keys("AESConfiguration")),
            Field::new("aescbc", keys("AESConfiguration")),
            Field::new("secretbox", keys("SecretboxConfiguration")),
            Field::new("identity", types.object("IdentityConfiguration", Vec::new())),
            Field::new("kms", kms),
        ],
    );
    let resources = vec![list("resources", Ty::String), list("providers", provider)];
    vec![list("resources", types.object("ResourceConfiguration", resources))]
}
