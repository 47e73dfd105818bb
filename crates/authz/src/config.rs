//! The configured authorizers, in order: from the flags, or from the file that `--authorization-config` names.

mod load;
#[cfg(test)]
mod tests;
mod validate;

use std::path::PathBuf;
use std::time::Duration;

use crate::ReviewVersion;

pub use load::ConfigError;

/// The authorizers of a server, the first asked first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationConfig {
    pub authorizers: Vec<AuthorizerConfig>,
}

/// The configuration of one authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizerConfig {
    /// Names it in metrics; that of the mode in small letters, but for webhooks.
    pub name: String,
    pub mode: AuthorizerMode,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AuthorizerMode {
    AlwaysAllow,
    AlwaysDeny,
    Abac,
    Node,
    Rbac,
    Webhook(WebhookConfig),
}

/// The configuration of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WebhookConfig {
    /// In kubeconfig format.
    pub kubeconfig: PathBuf,
    pub version: ReviewVersion,
    pub timeout: Duration,
    /// Zero where answers are not to be remembered.
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    pub deny_on_error: bool,
    /// CEL expressions; only requests that meet all of them are asked about.
    pub match_conditions: Vec<String>,
}

impl AuthorizerMode {
    /// The names of all modes, in the order of messages that list them.
    pub const NAMES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];

    /// The type in the configuration file, and the label of metrics.
    pub fn name(&self) -> &'static str {
        match self {
            Self::AlwaysAllow => "AlwaysAllow",
            Self::AlwaysDeny => "AlwaysDeny",
            Self::Abac => "ABAC",
            Self::Node => "Node",
            Self::Rbac => "RBAC",
            Self::Webhook(_) => "Webhook",
        }
    }
}

impl AuthorizerConfig {
    /// An authorizer with the name of its mode.
    pub fn of(mode: AuthorizerMode) -> Self {
        Self { name: mode.name().to_lowercase(), mode }
    }
}

impl AuthorizationConfig {
    /// Reads a file's contents. `required` are modes that the server began with and that must stay.
    pub fn parse(data: &[u8], required: &[&'static str]) -> Result<Self, ConfigError> {
        load::parse(data, required)
    }

    /// The modes beside webhooks, which a reload may not take away.
    pub fn fixed_modes(&self) -> Vec<&'static str> {
        let names = self.authorizers.iter().map(|authorizer| authorizer.mode.name());
        names.filter(|name| *name != "Webhook").collect()
    }
}
