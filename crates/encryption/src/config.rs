//! The configuration file: `EncryptionConfiguration` of `apiserver.config.k8s.io/v1`.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_meta::{FieldErrors, GoDuration, aggregate};
use binnacle_schema::{Field, Limits, Message, MessageRef, Ty, Value, decode};

use crate::validate::validate;

const API_VERSION: &str = "apiserver.config.k8s.io/v1";
const KIND: &str = "EncryptionConfiguration";
/// How long a call of a KMS plugin may take unless the file says otherwise.
const KMS_TIMEOUT: Duration = Duration::from_secs(3);

/// Why a file cannot be used, in the reference's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub(crate) String);

/// What a file says.
#[derive(Clone, Debug)]
pub struct Configuration {
    pub(crate) resources: Vec<ResourceConfiguration>,
}

/// Some resources and the providers for them: the first writes, all read.
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
    /// A path, or a name in the abstract namespace with `@` in front.
    pub socket: String,
    pub timeout: Duration,
}

impl Configuration {
    /// Reads a file's text. `path` is for messages. `reload` says whether the file will be read again, which forbids
    /// KMS plugins of the same name.
    pub fn parse(path: &str, text: &[u8], reload: bool) -> Result<Self, ConfigError> {
        let failed =
            |why: String| ConfigError(format!("error decoding encryption provider configuration file {path:?}: {why}"));
        if text.is_empty() {
            return Err(ConfigError(format!("encryption provider configuration file {path:?} is empty")));
        }
        let decoded = decode::yaml(text, &MESSAGE, &Limits::default()).map_err(|error| failed(error.to_string()))?;
        let file = decoded.value;
        let (api_version, kind) = (file.str_at(&["apiVersion"]), file.str_at(&["kind"]));
        if kind.is_empty() {
            return Err(failed(format!("Object 'Kind' is missing in '{}'", String::from_utf8_lossy(text))));
        }
        if (api_version, kind) != (API_VERSION, KIND) {
            return Err(failed(format!("no kind \"{kind}\" is registered for version \"{api_version}\"")));
        }
        if let Some(strict) = decoded.findings.strict_error() {
            return Err(failed(strict));
        }
        let errors = validate(&file, reload);
        if !errors.is_empty() {
            return Err(ConfigError(aggregate(&errors)));
        }
        let resources = file.list_at(&["resources"]).iter().map(resource_configuration).collect::<Result<_, _>>()?;
        Ok(Self { resources })
    }
}

/// One group of resources of a file that was found valid.
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

/// A member that is there and not `null`.
pub(crate) fn present<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    value.get(name).filter(|member| !member.is_null())
}

pub(crate) fn kms_version(kms: &Value) -> &str {
    // A file without it means the version that came first.
    if kms.str_at(&["apiVersion"]).is_empty() { "v1" } else { kms.str_at(&["apiVersion"]) }
}

pub(crate) fn kms_timeout(kms: &Value) -> Duration {
    match present(kms, "timeout").and_then(Value::as_str).map(GoDuration::parse) {
        Some(Ok(duration)) => Duration::from_nanos(u64::try_from(duration.nanos()).unwrap_or(0)),
        _ => KMS_TIMEOUT,
    }
}

/// Keys of which validation has seen the secrets.
fn keys(list: &[Value]) -> Vec<Key> {
    let key = |value: &Value| Key {
        name: value.str_at(&["name"]).to_owned(),
        secret: BASE64_STANDARD.decode(value.str_at(&["secret"])).unwrap_or_default(),
    };
    list.iter().map(key).collect()
}

pub(crate) fn texts(list: &[Value]) -> Vec<String> {
    list.iter().filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Where a `unix` URL points: `unix:///run/x.sock` is a path, `unix:///@x` an abstract name.
fn socket(endpoint: &str) -> String {
    let path = endpoint.split_once("://").map_or(endpoint, |(_, rest)| rest);
    match path.strip_prefix("/@") {
        Some(name) => format!("@{name}"),
        None => path.to_owned(),
    }
}

static MESSAGE: LazyLock<Message> = LazyLock::new(|| {
    let object = |name: &'static str, fields: Vec<Field>| {
        Ty::Message(MessageRef::Shared(Arc::new(Message::new(format!("apiserver.v1.{name}"), fields))))
    };
    let list = |of: Ty| Ty::List(Box::new(of));
    let text = |name: &'static str| Field::new(name, Ty::String);
    let key = || object("Key", vec![text("name"), text("secret")]);
    let aes = || object("AESConfiguration", vec![Field::new("keys", list(key()))]);
    let kms = object(
        "KMSConfiguration",
        vec![
            text("apiVersion"),
            text("name"),
            Field::new("cachesize", Ty::Int32),
            text("endpoint"),
            Field::new("timeout", Ty::Duration),
        ],
    );
    let provider = object(
        "ProviderConfiguration",
        vec![
            Field::new("aesgcm", aes()),
            Field::new("aescbc", aes()),
            Field::new("secretbox", object("SecretboxConfiguration", vec![Field::new("keys", list(key()))])),
            Field::new("identity", object("IdentityConfiguration", Vec::new())),
            Field::new("kms", kms),
        ],
    );
    let resources = object(
        "ResourceConfiguration",
        vec![Field::new("resources", list(Ty::String)), Field::new("providers", list(provider))],
    );
    Message::new(
        "apiserver.v1.EncryptionConfiguration",
        vec![text("kind"), text("apiVersion"), Field::new("resources", list(resources))],
    )
});
