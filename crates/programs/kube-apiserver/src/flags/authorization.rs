//! Flags for authorization.

use std::path::PathBuf;
use std::time::Duration;

use binnacle_apiserver::settings::{Authorization, Source};
use binnacle_authz::{AuthorizationConfig, AuthorizerConfig, AuthorizerMode, ReviewVersion, WebhookConfig};
use binnacle_meta::{GoDuration, go_quote};

use super::FromFlags;
use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};

pub(super) const GROUP: Group = Group {
    title: "Authorization",
    flags: &[
        Flag::new(
            "authorization-always-allow-paths",
            ValueKind::Value("strings"),
            "",
            "Non-resource paths that every user may access, comma-separated. A * at the end matches any suffix.",
        ),
        Flag::new(
            "authorization-config",
            ValueKind::Value("string"),
            "",
            "File with an AuthorizationConfiguration: the chain of authorizers. Excludes --authorization-mode and \
             --authorization-webhook-*. It is reloaded when it changes.",
        ),
        Flag::new(
            "authorization-mode",
            ValueKind::Value("strings"),
            "Node,RBAC",
            "Authorization modes in their order, comma-separated: AlwaysAllow, AlwaysDeny, ABAC, Webhook, RBAC, Node.",
        ),
        Flag::new(
            "authorization-policy-file",
            ValueKind::Value("string"),
            "",
            "File with ABAC policies, one JSON object per line. Requires the mode ABAC.",
        ),
        Flag::new(
            AUTHORIZED_TTL,
            ValueKind::Value("duration"),
            "5m0s",
            "Time for which authorized responses of the webhook authorizer are cached.",
        ),
        Flag::new(
            UNAUTHORIZED_TTL,
            ValueKind::Value("duration"),
            "30s",
            "Time for which unauthorized responses of the webhook authorizer are cached.",
        ),
        Flag::new(
            WEBHOOK_FILE,
            ValueKind::Value("string"),
            "",
            "File in kubeconfig format for the webhook authorizer. Requires the mode Webhook.",
        ),
        Flag::new(
            WEBHOOK_VERSION,
            ValueKind::Value("string"),
            "v1beta1",
            "API version of the SubjectAccessReview (authorization.k8s.io) that is exchanged with the webhook: v1 or \
             v1beta1.",
        ),
    ],
};

const AUTHORIZED_TTL: &str = "authorization-webhook-cache-authorized-ttl";
const UNAUTHORIZED_TTL: &str = "authorization-webhook-cache-unauthorized-ttl";
const WEBHOOK_FILE: &str = "authorization-webhook-config-file";
const WEBHOOK_VERSION: &str = "authorization-webhook-version";
/// Flags that a configuration file replaces.
const LEGACY: [&str; 5] = ["authorization-mode", AUTHORIZED_TTL, UNAUTHORIZED_TTL, WEBHOOK_FILE, WEBHOOK_VERSION];
/// The timeout of the webhook that is configured by flags.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);

impl FromFlags for Authorization {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let policy_file = flags.text("authorization-policy-file").map(PathBuf::from);
        let always_allow_paths = flags.list("authorization-always-allow-paths");
        let source = match flags.text("authorization-config") {
            Some(_) if LEGACY.iter().any(|name| flags.is_given(name)) => {
                return Err(FlagError::new(
                    "--authorization-config can not be specified when --authorization-mode or --authorization-webhook-* \
                     flags are defined",
                ));
            }
            Some(path) => Source::File(path.into()),
            None => Source::Flags(modes(flags, policy_file.is_some())?),
        };
        Ok(Self { source, policy_file, always_allow_paths })
    }
}

fn modes(flags: &FlagSet, policies: bool) -> Result<AuthorizationConfig, FlagError> {
    let names: Vec<&str> = flags.all("authorization-mode").into_iter().flat_map(|text| text.split(',')).collect();
    // An empty list means Go's default.
    let names: Vec<&str> = if names == [""] { vec!["AlwaysAllow"] } else { names };
    let webhook = flags.text(WEBHOOK_FILE);
    let mut authorizers = Vec::new();
    for name in &names {
        let mode = match *name {
            "AlwaysAllow" => AuthorizerMode::AlwaysAllow,
            "AlwaysDeny" => AuthorizerMode::AlwaysDeny,
            "Node" => AuthorizerMode::Node,
            "RBAC" => AuthorizerMode::Rbac,
            "ABAC" if !policies => {
                return Err(FlagError::new("authorization-mode ABAC's authorization policy file not passed"));
            }
            "ABAC" => AuthorizerMode::Abac,
            "Webhook" => match webhook {
                None => {
                    return Err(FlagError::new("authorization-mode Webhook's authorization config file not passed"));
                }
                Some(file) => {
                    // kube-apiserver's name for it.
                    let mode = AuthorizerMode::Webhook(webhook_of(flags, file)?);
                    authorizers.push(AuthorizerConfig { name: "default".to_owned(), mode });
                    continue;
                }
            },
            _ => return Err(FlagError::new(format!("authorization-mode {} is not a valid mode", go_quote(name)))),
        };
        authorizers.push(AuthorizerConfig::of(mode));
    }
    if policies && !names.contains(&"ABAC") {
        return Err(FlagError::new("cannot specify --authorization-policy-file without mode ABAC"));
    }
    if webhook.is_some() && !names.contains(&"Webhook") {
        return Err(FlagError::new("cannot specify --authorization-webhook-config-file without mode Webhook"));
    }
    if names.iter().enumerate().any(|(at, name)| names[..at].contains(name)) {
        let shown = names.iter().map(|name| go_quote(name)).collect::<Vec<_>>().join(" ");
        return Err(FlagError::new(format!("authorization-mode [{shown}] has mode specified more than once")));
    }
    Ok(AuthorizationConfig { authorizers })
}

fn webhook_of(flags: &FlagSet, file: &str) -> Result<WebhookConfig, FlagError> {
    let version = flags.text(WEBHOOK_VERSION).unwrap_or_default();
    let version = ReviewVersion::parse(version).ok_or_else(|| {
        let version = go_quote(version);
        FlagError::new(format!(
            "unsupported webhook authorizer version {version}, supported versions are \"v1\", \"v1beta1\""
        ))
    })?;
    Ok(WebhookConfig {
        kubeconfig: file.into(),
        version,
        timeout: WEBHOOK_TIMEOUT,
        authorized_ttl: duration(flags, AUTHORIZED_TTL)?,
        unauthorized_ttl: duration(flags, UNAUTHORIZED_TTL)?,
        deny_on_error: false,
        match_conditions: Vec::new(),
    })
}

/// Reads a duration; a negative one counts as zero.
fn duration(flags: &FlagSet, name: &str) -> Result<Duration, FlagError> {
    let text = flags.text(name).unwrap_or_default();
    let parsed = GoDuration::parse(text).map_err(|error| flags.invalid(name, text, &error.to_string()))?;
    Ok(Duration::from_nanos(u64::try_from(parsed.nanos()).unwrap_or_default()))
}
