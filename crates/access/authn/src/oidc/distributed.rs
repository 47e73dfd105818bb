//! Distributed claims: the token only has their source (OpenID Connect Core, section 5.6.2). The response of a source
//! is also a JWT, possibly of another issuer, whose audience, expiry and signature are verified in the same way.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use binnacle_egress::Dialer;
use binnacle_jwt::Algorithm;
use binnacle_meta::go_quote;
use binnacle_webhook::{Client, Target, TargetError, WebhookError};
use http::{HeaderValue, StatusCode, Uri};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use super::verifier::{Verifier, untrusted_issuer};
use crate::authenticator::parse;
use crate::config::Issuer;

/// The timeout of all requests for a token.
const TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum size of a source's response: as large as a token in a header can be.
const MAX_TOKEN: usize = 1 << 20;
/// The maximum number of claim issuers. They are taken from the responses of sources, and usually there is only one.
const MAX_ISSUERS: usize = 32;

/// Resolves a distributed claim of an issuer's tokens.
pub(super) struct Resolver {
    claim: String,
    /// The issuer of the tokens. Claim issuers have the same authorities and audiences.
    issuer: Issuer,
    algorithms: Vec<Algorithm>,
    dialer: Option<Arc<Dialer>>,
    client: Client,
    verifiers: Mutex<HashMap<String, Arc<Verifier>>>,
}

impl Resolver {
    pub(super) fn new(
        claim: String,
        issuer: Issuer,
        algorithms: Vec<Algorithm>,
        dialer: Option<Arc<Dialer>>,
    ) -> Result<Self, TargetError> {
        let mut target = Target::new(&issuer.url)?;
        let pem = issuer.certificate_authority.as_bytes();
        target.authorities = (!pem.is_empty()).then(|| pem.to_vec());
        target.dialer = dialer.clone();
        let client = Client::new(target, TIMEOUT)?;
        Ok(Self { claim, issuer, algorithms, dialer, client, verifiers: Mutex::default() })
    }

    /// Adds the claim if the token has a source for it.
    pub(super) async fn expand(&self, claims: &mut Map<String, Value>) -> Result<(), String> {
        let Some(source) = self.source(claims)? else { return Ok(()) };
        let resolved = tokio::time::timeout(TIMEOUT, self.resolve(&source)).await;
        let value = resolved.unwrap_or_else(|_| {
            Err(format!("while getting distributed claim {}: context deadline exceeded", go_quote(&self.claim)))
        })?;
        claims.insert(self.claim.clone(), value);
        Ok(())
    }

    /// Returns the source of the claim; `None` if the token has the claim itself or no source for it.
    fn source(&self, claims: &Map<String, Value>) -> Result<Option<Source>, String> {
        if claims.contains_key(&self.claim) {
            return Ok(None);
        }
        let Some(names) = claims.get("_claim_names") else { return Ok(None) };
        let sources = claims.get("_claim_sources").ok_or("oidc: no claim sources")?;
        let Some(name) = names.get(&self.claim).and_then(Value::as_str) else { return Ok(None) };
        let source = sources
            .get(name)
            .ok_or_else(|| format!("id token _claim_names contained a source {name} missing in _claims_sources"))?;
        let text = |member: &str| match source.get(member) {
            None | Some(Value::Null) => Ok(String::new()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(_) => Err(format!("oidc: could not parse claim sources: {member} is no string")),
        };
        let (endpoint, access_token) = (text("endpoint")?, text("access_token")?);
        // A source without an endpoint is an aggregated claim, which is not supported.
        Ok((!endpoint.is_empty()).then_some(Source { endpoint, access_token }))
    }

    async fn resolve(&self, source: &Source) -> Result<Value, String> {
        let claim = &self.claim;
        let text = self.fetch(source).await;
        let text = text.map_err(|why| format!("while getting distributed claim {}: {why}", go_quote(claim)))?;
        let endpoint = &source.endpoint;
        let token = parse(&text).ok_or_else(|| {
            format!(
                "getting untrusted issuer from endpoint {endpoint} failed for claim {}: malformed token",
                go_quote(claim)
            )
        })?;
        let issuer = untrusted_issuer(&token);
        let verifier = self.verifier(issuer).filter(|_| !issuer.is_empty());
        let uninitialized = || {
            format!(
                "verifying untrusted issuer {issuer} failed: verifier not initialized for issuer: {}",
                go_quote(issuer)
            )
        };
        let verifier = verifier.ok_or_else(uninitialized)?;
        if !verifier.discover_once().await {
            return Err(uninitialized());
        }
        let verified = verifier.verify(&token).await.ok_or_else(uninitialized)?;
        verified.map_err(|why| format!("verify distributed claim token: {why}"))?;
        let value = token.unverified().get(claim).cloned();
        value.ok_or_else(|| {
            format!("jwt returned by distributed claim endpoint {} did not contain claim: {claim}", go_quote(endpoint))
        })
    }

    async fn fetch(&self, source: &Source) -> Result<String, String> {
        let url: Uri =
            source.endpoint.parse().map_err(|error| format!("while calling {}: {error}", source.endpoint))?;
        let authorization = match source.access_token.as_str() {
            "" => None,
            token => {
                let value = HeaderValue::try_from(format!("Bearer {token}"));
                Some(value.map_err(|_| "net/http: invalid header field value for \"Authorization\"".to_owned())?)
            }
        };
        let response = self.client.get_as(url, authorization).await.map_err(|error| match error {
            WebhookError::Status { code, .. } => {
                let reason = StatusCode::from_u16(code).ok().and_then(|code| code.canonical_reason());
                format!("error while getting distributed claim JWT: {code} {}", reason.unwrap_or_default())
            }
            other => other.to_string(),
        })?;
        if response.body.len() > MAX_TOKEN {
            return Err(format!("the answer is longer than {MAX_TOKEN} bytes"));
        }
        String::from_utf8(response.body.into()).map_err(|_| "could not decode distributed claim response".to_owned())
    }

    /// Returns the verifier for the tokens of an issuer; `None` if there are too many issuers.
    fn verifier(&self, issuer: &str) -> Option<Arc<Verifier>> {
        let mut verifiers = self.verifiers.lock();
        if let Some(cached) = verifiers.get(issuer) {
            return Some(cached.clone());
        }
        if verifiers.len() >= MAX_ISSUERS {
            // Evict verifiers whose provider was not found.
            verifiers.retain(|_, verifier| verifier.is_discovered());
        }
        if verifiers.len() >= MAX_ISSUERS {
            tracing::warn!("oidc: too many issuers of distributed claims, ignoring {issuer:?}");
            return None;
        }
        let target = if issuer == self.issuer.url {
            self.issuer.clone()
        } else {
            Issuer { url: issuer.to_owned(), discovery_url: String::new(), ..self.issuer.clone() }
        };
        let verifier = Verifier::new(&target, self.algorithms.clone(), None, self.dialer.clone());
        let verifier =
            verifier.inspect_err(|error| tracing::error!("oidc: issuer of claims {issuer:?}: {error}")).ok()?;
        let verifier = Arc::new(verifier);
        verifiers.insert(issuer.to_owned(), verifier.clone());
        Some(verifier)
    }
}

struct Source {
    endpoint: String,
    access_token: String,
}
