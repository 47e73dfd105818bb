//! Verification of a token's issuer, audience, times and signature.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use binnacle_egress::Dialer;
use binnacle_jwt::{Algorithm, Token};
use binnacle_meta::go_quote;
use binnacle_webhook::TargetError;
use serde_json::{Map, Value};

use super::RETRY;
use super::metrics::IssuerMetrics;
use super::provider::Provider;
use crate::config::Issuer;

/// The tolerated clock skew for tokens that are not valid yet, in seconds.
const LEEWAY: f64 = 300.0;
/// The only issuer whose tokens may omit the scheme.
const GOOGLE: &str = "https://accounts.google.com";

/// Verifies the tokens of an issuer.
pub(super) struct Verifier {
    algorithms: Vec<Algorithm>,
    audiences: Vec<String>,
    provider: Provider,
    /// The time of the last failed discovery.
    last_failure: tokio::sync::Mutex<Option<Instant>>,
}

impl Verifier {
    /// Creates a verifier whose provider is not discovered yet.
    pub(super) fn new(
        issuer: &Issuer,
        algorithms: Vec<Algorithm>,
        metrics: Option<IssuerMetrics>,
        dialer: Option<Arc<Dialer>>,
    ) -> Result<Self, TargetError> {
        let provider = Provider::new(issuer, metrics, dialer)?;
        Ok(Self {
            algorithms,
            audiences: issuer.audiences.clone(),
            provider,
            last_failure: tokio::sync::Mutex::default(),
        })
    }

    pub(super) fn is_discovered(&self) -> bool {
        self.provider.is_discovered()
    }

    /// Discovers the provider. Retries until it can be reached, since it may run in this cluster.
    pub(super) async fn discover(&self) {
        while !self.provider.is_discovered() {
            match self.provider.discover().await {
                Ok(()) => return,
                Err(error) => tracing::error!("oidc authenticator: initializing plugin: {error}"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    /// Tries once to discover the provider, for a token that needs it now. Concurrent requests share an attempt, and
    /// there is none within [`RETRY`] of a failure.
    pub(super) async fn discover_once(&self) -> bool {
        let mut last_failure = self.last_failure.lock().await;
        if self.is_discovered() {
            return true;
        }
        if last_failure.is_some_and(|at| at.elapsed() < RETRY) {
            return false;
        }
        let found = self.provider.discover().await;
        if let Err(error) = &found {
            let issuer = go_quote(self.provider.issuer());
            tracing::error!("oidc authenticator: async token verifier for issuer: {issuer}: {error}");
            *last_failure = Some(Instant::now());
        }
        found.is_ok()
    }

    /// Verifies a token in go-oidc's order, the signature last. Returns `None` before the provider is discovered.
    pub(super) async fn verify(&self, token: &Token) -> Option<Result<(), String>> {
        if let Err(why) = self.check(token) {
            return Some(Err(why));
        }
        self.provider.verify(token).await
    }

    fn check(&self, token: &Token) -> Result<(), String> {
        let claims = token.unverified();
        check_sources(claims)?;
        self.check_audience(claims)?;
        check_time(claims)?;
        if token.algorithm().is_some_and(|algorithm| self.algorithms.contains(&algorithm)) {
            return Ok(());
        }
        let names: Vec<String> = self.algorithms.iter().map(|known| go_quote(known.name())).collect();
        Err(format!("oidc: id token signed with unsupported algorithm, expected [{}]", names.join(" ")))
    }

    fn check_audience(&self, claims: &Value) -> Result<(), String> {
        let given: Vec<&str> = match &claims["aud"] {
            Value::String(one) => vec![one],
            Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if self.audiences.iter().any(|audience| given.contains(&audience.as_str())) {
            return Ok(());
        }
        let quoted = |list: &mut dyn Iterator<Item = &str>| list.map(go_quote).collect::<Vec<_>>().join(" ");
        let got = quoted(&mut given.iter().copied());
        Err(match self.audiences.as_slice() {
            [one] => format!("oidc: expected audience {} got [{got}]", go_quote(one)),
            many => {
                let mut sorted: Vec<&str> = many.iter().map(String::as_str).collect();
                sorted.sort_unstable();
                format!("oidc: expected audience in [{}] got [{got}]", quoted(&mut sorted.into_iter()))
            }
        })
    }
}

/// Returns the `iss` claim of a token that has not been verified.
pub(crate) fn untrusted_issuer(token: &Token) -> &str {
    let issuer = token.unverified_issuer();
    if GOOGLE.strip_prefix("https://") == Some(issuer) { GOOGLE } else { issuer }
}

fn check_time(claims: &Value) -> Result<(), String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs_f64();
    // A token without an expiry counts as expired.
    let expires = claims["exp"].as_f64().unwrap_or_default();
    if now > expires {
        return Err(format!("oidc: token is expired (Token Expiry: {expires})"));
    }
    match claims["nbf"].as_f64() {
        Some(from) if now + LEEWAY < from => Err(format!("current time before the nbf (not before) time: {from}")),
        _ => Ok(()),
    }
}

/// Checks that every distributed claim has a source, not only the configured one.
fn check_sources(claims: &Value) -> Result<(), String> {
    let none = Map::new();
    let object = |claim: &str| match &claims[claim] {
        Value::Null => Ok(&none),
        Value::Object(members) => Ok(members),
        _ => Err(format!("oidc: failed to unmarshal claims: {claim} is no object")),
    };
    let sources = object("_claim_sources")?;
    for source in object("_claim_names")?.values() {
        match source.as_str() {
            None => return Err("oidc: failed to unmarshal claims: _claim_names holds what is no string".to_owned()),
            Some("") => return Err("oidc: failed to obtain source from claim name".to_owned()),
            Some(source) if !sources.contains_key(source) => return Err("oidc: source does not exist".to_owned()),
            Some(_) => {}
        }
    }
    Ok(())
}
