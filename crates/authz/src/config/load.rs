//! `AuthorizationConfiguration` of the group `apiserver.config.k8s.io`, read strictly.

use std::path::PathBuf;
use std::time::Duration;

use binnacle_meta::{FieldErrors, GoDuration, aggregate};
use binnacle_schema::{Limits, Value, yaml};

use super::{AuthorizationConfig, AuthorizerConfig, AuthorizerMode, WebhookConfig, validate};
use crate::ReviewVersion;

/// What is wrong with a file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("failed to load AuthorizationConfiguration from file: {0}")]
    Syntax(String),
    #[error("{}", shown(.0))]
    Invalid(FieldErrors),
    #[error("{0}")]
    Names(String),
}

fn shown(errors: &FieldErrors) -> String {
    aggregate(errors)
}

const GROUP: &str = "apiserver.config.k8s.io";
const KIND: &str = "AuthorizationConfiguration";
const VERSIONS: [&str; 3] = ["v1", "v1beta1", "v1alpha1"];

/// The members of each object, so that a misspelt one is found.
const TOP: &[&str] = &["apiVersion", "kind", "authorizers"];
const AUTHORIZER: &[&str] = &["type", "name", "webhook"];
const WEBHOOK: &[&str] = &[
    "authorizedTTL",
    "cacheAuthorizedRequests",
    "unauthorizedTTL",
    "cacheUnauthorizedRequests",
    "timeout",
    "subjectAccessReviewVersion",
    "matchConditionSubjectAccessReviewVersion",
    "failurePolicy",
    "connectionInfo",
    "matchConditions",
];
const CONNECTION: &[&str] = &["type", "kubeConfigFile"];
const CONDITION: &[&str] = &["expression"];

/// The defaults of a webhook.
const AUTHORIZED_TTL: Duration = Duration::from_secs(300);
const UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);

/// An authorizer as it stands in the file, with defaults; times in nanoseconds.
pub(super) struct Written {
    pub(super) kind: String,
    pub(super) name: String,
    pub(super) webhook: Option<WrittenWebhook>,
}

pub(super) struct WrittenWebhook {
    pub(super) authorized_ttl: i64,
    pub(super) unauthorized_ttl: i64,
    pub(super) cache_authorized: bool,
    pub(super) cache_unauthorized: bool,
    pub(super) timeout: i64,
    pub(super) version: String,
    pub(super) condition_version: String,
    pub(super) failure_policy: String,
    pub(super) connection: String,
    pub(super) kubeconfig: Option<String>,
    pub(super) conditions: Vec<String>,
}

pub(super) fn parse(data: &[u8], required: &[&'static str]) -> Result<AuthorizationConfig, ConfigError> {
    let written = read(data)?;
    let errors = validate::validate(&written);
    if !errors.is_empty() {
        return Err(ConfigError::Invalid(errors));
    }
    let mut wrong = Vec::new();
    for Written { kind, name, .. } in written.iter().filter(|written| written.kind != "Webhook") {
        let expected = kind.to_lowercase();
        if expected != *name {
            wrong.push(format!("expected name {expected} for authorizer {kind} instead of {name}"));
        }
    }
    let mut missing: Vec<&str> =
        required.iter().copied().filter(|mode| !written.iter().any(|written| written.kind == *mode)).collect();
    if !missing.is_empty() {
        missing.sort_unstable();
        wrong.push(format!("missing required types: [{}]", missing.join(" ")));
    }
    if !wrong.is_empty() {
        return Err(ConfigError::Names(aggregate(&wrong)));
    }
    let authorizers = written.into_iter().filter_map(authorizer).collect();
    Ok(AuthorizationConfig { authorizers })
}

/// One that has been validated.
fn authorizer(written: Written) -> Option<AuthorizerConfig> {
    let Written { kind, name, webhook } = written;
    let mode = match (kind.as_str(), webhook) {
        ("AlwaysAllow", _) => AuthorizerMode::AlwaysAllow,
        ("AlwaysDeny", _) => AuthorizerMode::AlwaysDeny,
        ("ABAC", _) => AuthorizerMode::Abac,
        ("Node", _) => AuthorizerMode::Node,
        ("RBAC", _) => AuthorizerMode::Rbac,
        (_, Some(webhook)) => AuthorizerMode::Webhook(webhook_config(webhook)?),
        (_, None) => return None,
    };
    Some(AuthorizerConfig { name, mode })
}

fn webhook_config(webhook: WrittenWebhook) -> Option<WebhookConfig> {
    let nanos = |nanos: i64| Duration::from_nanos(u64::try_from(nanos).unwrap_or_default());
    let kept = |cache: bool, ttl: i64| if cache { nanos(ttl) } else { Duration::ZERO };
    Some(WebhookConfig {
        kubeconfig: PathBuf::from(webhook.kubeconfig?),
        version: ReviewVersion::parse(&webhook.version)?,
        timeout: nanos(webhook.timeout),
        authorized_ttl: kept(webhook.cache_authorized, webhook.authorized_ttl),
        unauthorized_ttl: kept(webhook.cache_unauthorized, webhook.unauthorized_ttl),
        deny_on_error: webhook.failure_policy == "Deny",
        match_conditions: webhook.conditions,
    })
}

fn read(data: &[u8]) -> Result<Vec<Written>, ConfigError> {
    let syntax = |why: String| ConfigError::Syntax(why);
    if data.is_empty() {
        return Ok(Vec::new());
    }
    let (config, duplicate) = yaml::parse(data, &Limits::default()).map_err(|error| syntax(error.to_string()))?;
    let (api_version, kind) = (config.str_at(&["apiVersion"]), config.str_at(&["kind"]));
    if kind.is_empty() {
        return Err(syntax("Object 'Kind' is missing in the configuration".to_owned()));
    }
    let version = api_version.strip_prefix(GROUP).and_then(|rest| rest.strip_prefix('/'));
    if kind != KIND || !version.is_some_and(|version| VERSIONS.contains(&version)) {
        return Err(syntax(format!("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme")));
    }
    let mut reader = Reader::default();
    if let Some(duplicate) = duplicate {
        reader.wrong.push(duplicate.to_string());
    }
    reader.members(&config, TOP, "");
    let written = match config.get("authorizers") {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::List(items)) => {
            let of = |(at, item)| reader.authorizer(item, &format!("authorizers[{at}]"));
            items.iter().enumerate().map(of).collect()
        }
        Some(_) => return Err(syntax("authorizers: expected a list".to_owned())),
    };
    match reader.wrong[..] {
        [] => Ok(written),
        _ => Err(syntax(format!("strict decoding error: {}", reader.wrong.join(", ")))),
    }
}

/// Takes objects apart and notes what should not be there.
#[derive(Default)]
struct Reader {
    wrong: Vec<String>,
}

impl Reader {
    fn members(&mut self, object: &Value, known: &[&str], path: &str) {
        let Some(members) = object.as_object() else {
            if !object.is_null() {
                self.wrong.push(format!("{path}: expected an object"));
            }
            return;
        };
        for name in members.keys().filter(|name| !known.contains(&name.as_str())) {
            self.wrong.push(format!("unknown field \"{}\"", join(path, name)));
        }
    }

    fn authorizer(&mut self, authorizer: &Value, path: &str) -> Written {
        self.members(authorizer, AUTHORIZER, path);
        let webhook = authorizer.get("webhook").filter(|webhook| !webhook.is_null());
        Written {
            kind: self.text(authorizer, "type", path).unwrap_or_default(),
            name: self.text(authorizer, "name", path).unwrap_or_default(),
            webhook: webhook.map(|webhook| self.webhook(webhook, &join(path, "webhook"))),
        }
    }

    fn webhook(&mut self, webhook: &Value, path: &str) -> WrittenWebhook {
        self.members(webhook, WEBHOOK, path);
        let at = join(path, "connectionInfo");
        let null = Value::Null;
        let connection = webhook.get("connectionInfo").unwrap_or(&null);
        self.members(connection, CONNECTION, &at);
        let mut conditions = Vec::new();
        for (number, condition) in webhook.list_at(&["matchConditions"]).iter().enumerate() {
            let at = format!("{}[{number}]", join(path, "matchConditions"));
            self.members(condition, CONDITION, &at);
            conditions.push(self.text(condition, "expression", &at).unwrap_or_default());
        }
        let or = |given: i64, default: Duration| {
            if given == 0 { i64::try_from(default.as_nanos()).unwrap_or(i64::MAX) } else { given }
        };
        WrittenWebhook {
            authorized_ttl: or(self.duration(webhook, "authorizedTTL", path), AUTHORIZED_TTL),
            unauthorized_ttl: or(self.duration(webhook, "unauthorizedTTL", path), UNAUTHORIZED_TTL),
            cache_authorized: self.flag(webhook, "cacheAuthorizedRequests", path),
            cache_unauthorized: self.flag(webhook, "cacheUnauthorizedRequests", path),
            timeout: self.duration(webhook, "timeout", path),
            version: self.text(webhook, "subjectAccessReviewVersion", path).unwrap_or_default(),
            condition_version: self.text(webhook, "matchConditionSubjectAccessReviewVersion", path).unwrap_or_default(),
            failure_policy: self.text(webhook, "failurePolicy", path).unwrap_or_default(),
            connection: self.text(connection, "type", &at).unwrap_or_default(),
            kubeconfig: self.text(connection, "kubeConfigFile", &at),
            conditions,
        }
    }

    fn text(&mut self, object: &Value, member: &str, path: &str) -> Option<String> {
        match object.get(member) {
            None | Some(Value::Null) => None,
            Some(Value::Str(text)) => Some(text.to_string()),
            Some(_) => {
                self.wrong.push(format!("{}: expected a string", join(path, member)));
                None
            }
        }
    }

    /// True where nothing is said.
    fn flag(&mut self, object: &Value, member: &str, path: &str) -> bool {
        match object.get(member) {
            None | Some(Value::Null) => true,
            Some(Value::Bool(flag)) => *flag,
            Some(_) => {
                self.wrong.push(format!("{}: expected a boolean", join(path, member)));
                true
            }
        }
    }

    /// Nanoseconds.
    fn duration(&mut self, object: &Value, member: &str, path: &str) -> i64 {
        let Some(text) = self.text(object, member, path) else { return 0 };
        match GoDuration::parse(&text) {
            Ok(duration) => duration.nanos(),
            Err(error) => {
                self.wrong.push(format!("{}: {error}", join(path, member)));
                0
            }
        }
    }
}

fn join(path: &str, member: &str) -> String {
    if path.is_empty() { member.to_owned() } else { format!("{path}.{member}") }
}
