//! Strict decoding of `AuthorizationConfiguration` (`apiserver.config.k8s.io`).

use std::path::PathBuf;
use std::time::Duration;

use binnacle_config::{Format, Types, list, text};
use binnacle_meta::{FieldErrors, GoDuration, aggregate};
use binnacle_schema::{Field, Ty, Value};

use super::entry::{AuthorizerEntry, WebhookEntry};
use super::{AuthorizationConfig, AuthorizerConfig, AuthorizerMode, WebhookConfig, validate};
use crate::ReviewVersion;

/// The error of an invalid configuration file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("failed to load AuthorizationConfiguration from file: {0}")]
    Syntax(String),
    #[error("{}", aggregate(.0))]
    Invalid(FieldErrors),
    #[error("{0}")]
    Names(String),
}

const FORMAT: Format = Format {
    group: "apiserver.config.k8s.io",
    versions: &["v1", "v1beta1", "v1alpha1"],
    kind: "AuthorizationConfiguration",
    scheme: "pkg/apis/apiserver/load/load.go:32",
    fields,
};

/// The default TTLs of a webhook.
const AUTHORIZED_TTL: Duration = Duration::from_secs(300);
const UNAUTHORIZED_TTL: Duration = Duration::from_secs(30);

pub(super) fn parse(data: &[u8], required: &[&'static str]) -> Result<AuthorizationConfig, ConfigError> {
    let entries = read(data)?;
    let errors = validate::validate(&entries);
    if !errors.is_empty() {
        return Err(ConfigError::Invalid(errors));
    }
    let mut problems = Vec::new();
    for AuthorizerEntry { kind, name, .. } in entries.iter().filter(|entry| entry.kind != "Webhook") {
        let expected = kind.to_lowercase();
        if expected != *name {
            problems.push(format!("expected name {expected} for authorizer {kind} instead of {name}"));
        }
    }
    let mut missing: Vec<&str> =
        required.iter().copied().filter(|mode| !entries.iter().any(|entry| entry.kind == *mode)).collect();
    if !missing.is_empty() {
        missing.sort_unstable();
        problems.push(format!("missing required types: [{}]", missing.join(" ")));
    }
    if !problems.is_empty() {
        return Err(ConfigError::Names(aggregate(&problems)));
    }
    let authorizers = entries.into_iter().filter_map(authorizer).collect();
    Ok(AuthorizationConfig { authorizers })
}

/// Converts an entry that has been validated.
fn authorizer(entry: AuthorizerEntry) -> Option<AuthorizerConfig> {
    let AuthorizerEntry { kind, name, webhook } = entry;
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

fn webhook_config(webhook: WebhookEntry) -> Option<WebhookConfig> {
    let nanos = |nanos: i64| Duration::from_nanos(u64::try_from(nanos).unwrap_or_default());
    let ttl_if = |cache: bool, ttl: i64| if cache { nanos(ttl) } else { Duration::ZERO };
    Some(WebhookConfig {
        kubeconfig: PathBuf::from(webhook.kubeconfig?),
        version: ReviewVersion::parse(&webhook.version)?,
        timeout: nanos(webhook.timeout),
        authorized_ttl: ttl_if(webhook.cache_authorized, webhook.authorized_ttl),
        unauthorized_ttl: ttl_if(webhook.cache_unauthorized, webhook.unauthorized_ttl),
        deny_on_error: webhook.failure_policy == "Deny",
        match_conditions: webhook.conditions,
    })
}

fn read(data: &[u8]) -> Result<Vec<AuthorizerEntry>, ConfigError> {
    if data.is_empty() {
        return Ok(Vec::new());
    }
    let config = FORMAT.read(data).map_err(|error| ConfigError::Syntax(error.0))?;
    Ok(config.list_at(&["authorizers"]).iter().map(read_authorizer).collect())
}

fn read_authorizer(authorizer: &Value) -> AuthorizerEntry {
    AuthorizerEntry {
        kind: authorizer.str_at(&["type"]).to_owned(),
        name: authorizer.str_at(&["name"]).to_owned(),
        webhook: authorizer.get("webhook").filter(|webhook| !webhook.is_null()).map(read_webhook),
    }
}

fn read_webhook(webhook: &Value) -> WebhookEntry {
    let text = |name: &str| webhook.str_at(&[name]).to_owned();
    // Invalid durations have been rejected during decoding.
    let nanos = |name| GoDuration::parse(webhook.str_at(&[name])).map_or(0, |duration| duration.nanos());
    let or = |given: i64, default: Duration| match given {
        0 => i64::try_from(default.as_nanos()).unwrap_or(i64::MAX),
        given => given,
    };
    let true_by_default = |name| webhook.get(name).and_then(Value::as_bool).unwrap_or(true);
    let expressions = webhook.list_at(&["matchConditions"]).iter().map(|one| one.str_at(&["expression"]).to_owned());
    WebhookEntry {
        authorized_ttl: or(nanos("authorizedTTL"), AUTHORIZED_TTL),
        unauthorized_ttl: or(nanos("unauthorizedTTL"), UNAUTHORIZED_TTL),
        cache_authorized: true_by_default("cacheAuthorizedRequests"),
        cache_unauthorized: true_by_default("cacheUnauthorizedRequests"),
        timeout: nanos("timeout"),
        version: text("subjectAccessReviewVersion"),
        condition_version: text("matchConditionSubjectAccessReviewVersion"),
        failure_policy: text("failurePolicy"),
        connection: webhook.str_at(&["connectionInfo", "type"]).to_owned(),
        kubeconfig: webhook.at(&["connectionInfo", "kubeConfigFile"]).and_then(Value::as_str).map(str::to_owned),
        conditions: expressions.collect(),
    }
}

fn fields(types: Types) -> Vec<Field> {
    let duration = |name: &'static str| Field::new(name, Ty::Duration);
    let flag = |name: &'static str| Field::new(name, Ty::Bool);
    let connection = types.object("WebhookConnectionInfo", vec![text("type"), text("kubeConfigFile")]);
    let webhook = types.object(
        "WebhookConfiguration",
        vec![
            duration("authorizedTTL"),
            flag("cacheAuthorizedRequests"),
            duration("unauthorizedTTL"),
            flag("cacheUnauthorizedRequests"),
            duration("timeout"),
            text("subjectAccessReviewVersion"),
            text("matchConditionSubjectAccessReviewVersion"),
            text("failurePolicy"),
            Field::new("connectionInfo", connection),
            list("matchConditions", types.object("WebhookMatchCondition", vec![text("expression")])),
        ],
    );
    let authorizer = vec![text("type"), text("name"), Field::new("webhook", webhook)];
    vec![list("authorizers", types.object("AuthorizerConfiguration", authorizer))]
}
