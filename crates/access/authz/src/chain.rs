//! Builds the authorizer chain of a configuration.

use std::sync::Arc;
use std::time::Duration;

use binnacle_egress::Dialer;
use binnacle_webhook::{Client, load};

use crate::config::{AuthorizationConfig, AuthorizerConfig, AuthorizerMode, WebhookConfig};
use crate::webhook::MatchConditions;
use crate::webhook::{Webhook, WebhookOptions};
use crate::{
    Abac, AlwaysAllow, AlwaysAllowPaths, AlwaysDeny, Authorizer, CountingAuthorizer, Metrics, Node, PrivilegedGroups,
    Rbac, Union,
};

/// The delay before a webhook call is retried, as in kube-apiserver.
const RETRY_AFTER: Duration = Duration::from_millis(500);

/// The dependencies of authorizers apart from their configuration. They live as long as the server.
pub struct AuthorizerDependencies {
    pub abac: Option<Arc<Abac>>,
    pub node: Option<Arc<Node>>,
    pub rbac: Option<Arc<Rbac>>,
    /// `--authorization-always-allow-paths`.
    pub paths: Option<Arc<AlwaysAllowPaths>>,
    pub metrics: Arc<Metrics>,
    /// The dialer for webhooks; connections are direct if absent.
    pub dialer: Option<Arc<Dialer>>,
}

impl AuthorizerDependencies {
    /// Builds the chain of a configuration: `system:masters` first, then the configured authorizers in order. Webhooks
    /// are never reused.
    pub fn assemble(&self, config: &AuthorizationConfig) -> Result<Union, String> {
        if config.authorizers.is_empty() {
            return Err("at least one authorization mode must be passed".to_owned());
        }
        let mut members: Vec<Box<dyn Authorizer>> = vec![Box::new(PrivilegedGroups::masters())];
        if let Some(paths) = &self.paths {
            members.push(Box::new(paths.clone()));
        }
        for authorizer in &config.authorizers {
            members.push(self.member(authorizer)?);
        }
        Ok(Union::new(members))
    }

    fn member(&self, authorizer: &AuthorizerConfig) -> Result<Box<dyn Authorizer>, String> {
        let missing = |mode: &str| {
            format!("authorizer type {mode} is not allowed if it was not enabled at initial server startup")
        };
        let made: Arc<dyn Authorizer> = match &authorizer.mode {
            AuthorizerMode::AlwaysAllow => Arc::new(AlwaysAllow),
            AuthorizerMode::AlwaysDeny => Arc::new(AlwaysDeny),
            AuthorizerMode::Abac => self.abac.clone().ok_or_else(|| missing("ABAC"))?,
            AuthorizerMode::Node => self.node.clone().ok_or_else(|| missing("Node"))?,
            AuthorizerMode::Rbac => self.rbac.clone().ok_or_else(|| missing("RBAC"))?,
            AuthorizerMode::Webhook(webhook) => Arc::new(self.webhook(&authorizer.name, webhook)?),
        };
        Ok(Box::new(CountingAuthorizer::new(made, authorizer.mode.name(), &authorizer.name, &self.metrics)))
    }

    fn webhook(&self, name: &str, config: &WebhookConfig) -> Result<Webhook, String> {
        let mut target = load(&config.kubeconfig).map_err(|error| error.to_string())?;
        target.dialer = self.dialer.clone();
        let client = Client::new(target, config.timeout).map_err(|error| error.to_string())?;
        let options = WebhookOptions {
            name: name.to_owned(),
            version: config.version,
            authorized_ttl: config.authorized_ttl,
            unauthorized_ttl: config.unauthorized_ttl,
            deny_on_error: config.deny_on_error,
            retry_after: RETRY_AFTER,
        };
        Ok(Webhook::new(client, options, MatchConditions::compile(&config.match_conditions)?, self.metrics.clone()))
    }
}
