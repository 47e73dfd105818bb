//! The authorizer configuration, from the flags or the file of `--authorization-config`.

mod entry;
mod load;
#[cfg(test)]
mod tests;
mod validate;

use std::path::PathBuf;
use std::time::Duration;

use crate::ReviewVersion;

pub use load::ConfigError;

/// The configured authorizers in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizationConfig {
    pub authorizers: Vec<AuthorizerConfig>,
}

/// The configuration of an authorizer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuthorizerConfig {
    /// The name in metrics: that of a webhook, or else the mode in lower case.
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
    /// Zero if decisions are not cached.
    pub authorized_ttl: Duration,
    pub unauthorized_ttl: Duration,
    pub deny_on_error: bool,
    /// CEL expressions. The webhook is called only for requests that match all of them.
    pub match_conditions: Vec<String>,
}

impl AuthorizerMode {
    /// The names of all modes, in the order of error messages.
    pub const NAMES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];

    /// Returns the type in the configuration file, which is also a metric label.
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
    /// Returns the configuration of an authorizer that is named after its mode.
    pub fn of(mode: AuthorizerMode) -> Self {
        Self { name: mode.name().to_lowercase(), mode }
    }
}

impl AuthorizationConfig {
    /// Parses and validates the contents of a file. `required` are the fixed modes since startup, which must not
    /// change.
    pub fn parse(data: &[u8], required: &[&'static str]) -> Result<Self, ConfigError> {
        load::parse(data, required)
    }

    /// Returns the modes other than `Webhook`, which a reload cannot change.
    pub fn fixed_modes(&self) -> Vec<&'static str> {
        let names = self.authorizers.iter().map(|authorizer| authorizer.mode.name());
        names.filter(|name| *name != "Webhook").collect()
    }
}
