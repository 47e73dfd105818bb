//! OpenID Connect: ID tokens of one issuer, verified by its provider's keys, and the users that their claims make.

mod claims;
mod metrics;
mod provider;
mod rules;
mod user;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use binnacle_jwt::{Algorithm, Token};
use binnacle_meta::go_quote;
use binnacle_webhook::TargetError;
use serde_json::Value;

pub use metrics::JwtMetrics;
pub(crate) use rules::{Expression, Rules};

use crate::authenticator::authenticated;
use crate::config::JwtAuthenticator;
use crate::{Authenticated, AuthnError};
use metrics::IssuerMetrics;
use provider::Provider;

/// How soon a provider that could not be reached is asked again.
const RETRY: Duration = Duration::from_secs(10);
/// How far clocks may be apart for a token that is not valid yet.
const LEEWAY: f64 = 300.0;
/// The one issuer whose tokens may leave out the scheme.
const GOOGLE: &str = "https://accounts.google.com";

/// Knows the tokens of one issuer.
pub(crate) struct Oidc {
    config: JwtAuthenticator,
    rules: Rules,
    algorithms: Vec<Algorithm>,
    provider: Provider,
    metrics: Option<IssuerMetrics>,
}

impl Oidc {
    /// One that knows no keys until [`Oidc::discover`] has found them.
    pub(crate) fn new(
        config: JwtAuthenticator,
        rules: Rules,
        algorithms: Vec<Algorithm>,
        metrics: Option<&JwtMetrics>,
    ) -> Result<Self, TargetError> {
        let egress = &config.issuer.egress_selector_type;
        if !egress.is_empty() {
            let why = format!("oidc: egress lookup required with egress selector type {}", go_quote(egress));
            return Err(TargetError(why));
        }
        let of_issuer = || metrics.map(|metrics| metrics.of_issuer(&config.issuer.url));
        let (provider, metrics) = (Provider::new(&config.issuer, of_issuer())?, of_issuer());
        Ok(Self { config, rules, algorithms, provider, metrics })
    }

    pub(crate) fn issuer(&self) -> &str {
        &self.config.issuer.url
    }

    /// Finds the provider's keys, however long it takes until it can be reached: it may run in this very cluster.
    pub(crate) async fn discover(&self) {
        while !self.provider.is_found() {
            match self.provider.find().await {
                Ok(()) => return,
                Err(error) => tracing::error!("oidc authenticator: initializing plugin: {error}"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// `None` for the token of another issuer.
    pub(crate) async fn authenticate(&self, token: &str) -> Result<Option<Authenticated>, AuthnError> {
        let Some(token) = Token::parse(token).filter(|token| self.issued(token)) else { return Ok(None) };
        let began = Instant::now();
        let outcome = self.judge(&token).await;
        if let Some(metrics) = &self.metrics {
            metrics.judged(outcome.is_ok(), began.elapsed());
        }
        outcome.map(Some).map_err(AuthnError)
    }

    fn issued(&self, token: &Token<'_>) -> bool {
        let issuer = token.unverified()["iss"].as_str().unwrap_or_default();
        let issuer = if GOOGLE.strip_prefix("https://") == Some(issuer) { GOOGLE } else { issuer };
        issuer == self.config.issuer.url
    }

    async fn judge(&self, token: &Token<'_>) -> Result<Authenticated, String> {
        if !self.provider.is_found() {
            return Err("oidc: authenticator not initialized".to_owned());
        }
        let unverified = |why: String| format!("oidc: verify token: {why}");
        // What costs nothing is looked at before what does.
        self.check(token.unverified()).map_err(unverified)?;
        if !token.algorithm().is_some_and(|algorithm| self.algorithms.contains(&algorithm)) {
            let names: Vec<String> = self.algorithms.iter().map(|known| go_quote(known.name())).collect();
            let expected = names.join(" ");
            return Err(unverified(format!("oidc: id token signed with unsupported algorithm, expected [{expected}]")));
        }
        match self.provider.verify(token).await {
            Some(verified) => verified.map_err(unverified)?,
            None => return Err("oidc: authenticator not initialized".to_owned()),
        }
        let user = user::user(&self.config, &self.rules, token.unverified())?;
        Ok(Authenticated::new(authenticated(user)))
    }

    /// Whether claims are for us, and for now.
    fn check(&self, claims: &Value) -> Result<(), String> {
        let given: Vec<&str> = match &claims["aud"] {
            Value::String(one) => vec![one],
            Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        let ours = &self.config.issuer.audiences;
        if !ours.iter().any(|audience| given.contains(&audience.as_str())) {
            let quoted = |list: &mut dyn Iterator<Item = &str>| list.map(go_quote).collect::<Vec<_>>().join(" ");
            let got = quoted(&mut given.iter().copied());
            return Err(match ours.as_slice() {
                [one] => format!("oidc: expected audience {} got [{got}]", go_quote(one)),
                many => {
                    let mut sorted: Vec<&str> = many.iter().map(String::as_str).collect();
                    sorted.sort_unstable();
                    format!("oidc: expected audience in [{}] got [{got}]", quoted(&mut sorted.into_iter()))
                }
            });
        }
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64());
        // A token without an end has ended long ago.
        let expires = claims["exp"].as_f64().unwrap_or_default();
        if now > expires {
            return Err(format!("oidc: token is expired (Token Expiry: {expires})"));
        }
        match claims["nbf"].as_f64() {
            Some(from) if now + LEEWAY < from => Err(format!("current time before the nbf (not before) time: {from}")),
            _ => Ok(()),
        }
    }
}
