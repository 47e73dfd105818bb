//! OpenID Connect: verifies ID tokens of an issuer with its provider's keys, and maps their claims to users.

mod distributed;
mod metrics;
mod provider;
mod user;
mod verifier;

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_egress::{Dialer, Egress, Network};
use binnacle_jwt::{Algorithm, Token};
use binnacle_meta::go_quote;
use binnacle_webhook::TargetError;

use crate::claim_rules::Rules;
pub use metrics::JwtMetrics;

use crate::authenticator::with_authenticated_group;
use crate::config::JwtAuthenticator;
use crate::{AuthenticationResponse, AuthnError};
use distributed::Resolver;
use metrics::IssuerMetrics;
use verifier::Verifier;
pub(crate) use verifier::untrusted_issuer;

/// The delay before discovery of a provider is retried.
const RETRY: Duration = Duration::from_secs(10);

/// Authenticates the tokens of an issuer.
pub(crate) struct Oidc {
    config: JwtAuthenticator,
    rules: Rules,
    verifier: Verifier,
    /// Resolves the groups claim, which may be distributed.
    resolver: Option<Resolver>,
    metrics: Option<IssuerMetrics>,
}

impl Oidc {
    /// Creates an authenticator, which accepts no tokens before [`Oidc::discover`] has found the provider.
    pub(crate) fn new(
        config: JwtAuthenticator,
        rules: Rules,
        algorithms: Vec<Algorithm>,
        metrics: Option<&JwtMetrics>,
        egress: Option<&Egress>,
    ) -> Result<Self, TargetError> {
        let issuer = &config.issuer;
        let dialer = dialer(&issuer.egress_selector_type, egress)?;
        let of_issuer = || metrics.map(|metrics| metrics.of_issuer(&issuer.url));
        let groups = &config.claim_mappings.groups.claim;
        let resolver = match groups.as_str() {
            "" => None,
            claim => Some(Resolver::new(claim.to_owned(), issuer.clone(), algorithms.clone(), dialer.clone())?),
        };
        let (verifier, metrics) = (Verifier::new(issuer, algorithms, of_issuer(), dialer)?, of_issuer());
        Ok(Self { rules, verifier, resolver, metrics, config })
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.config.issuer.url
    }

    /// Discovers the provider. Retries until it succeeds.
    pub(crate) async fn discover(&self) {
        self.verifier.discover().await;
    }

    /// Authenticates a token of this issuer.
    pub(crate) async fn authenticate(&self, token: &Token) -> Result<AuthenticationResponse, AuthnError> {
        let began = Instant::now();
        let outcome = self.verify_and_map(token).await;
        if let Some(metrics) = &self.metrics {
            metrics.record(outcome.is_ok(), began.elapsed());
        }
        outcome.map_err(AuthnError)
    }

    async fn verify_and_map(&self, token: &Token) -> Result<AuthenticationResponse, String> {
        let uninitialized = || "oidc: authenticator not initialized".to_owned();
        if !self.verifier.is_discovered() {
            return Err(uninitialized());
        }
        let verified = self.verifier.verify(token).await.ok_or_else(uninitialized)?;
        verified.map_err(|why| format!("oidc: verify token: {why}"))?;
        let mut claims = Cow::Borrowed(token.unverified());
        if let Some(resolver) = &self.resolver
            && claims.get("_claim_names").is_some()
            && let Some(members) = claims.to_mut().as_object_mut()
        {
            let expanded = resolver.expand(members).await;
            expanded.map_err(|why| format!("oidc: could not expand distributed claims: {why}"))?;
        }
        let user = user::user(&self.config, &self.rules, &claims)?;
        Ok(AuthenticationResponse::new(with_authenticated_group(user)))
    }
}

/// Returns the dialer for an egress selector; `None` for direct connections.
fn dialer(network: &str, egress: Option<&Egress>) -> Result<Option<Arc<Dialer>>, TargetError> {
    let selected = match network {
        "" => return Ok(None),
        "controlplane" => Network::ControlPlane,
        "cluster" => Network::Cluster,
        // The configuration has been validated already.
        other => return Err(TargetError(format!("oidc: unknown egress selector type {}", go_quote(other)))),
    };
    let Some(egress) = egress else {
        let why = format!("oidc: egress lookup required with egress selector type {}", go_quote(network));
        return Err(TargetError(why));
    };
    Ok(egress.dialer(selected))
}
