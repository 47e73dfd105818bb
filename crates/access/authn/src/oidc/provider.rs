//! An OpenID provider. Its discovery document has the URL of its keys, which are fetched when a token has an unknown
//! key, including the first token.

use std::sync::Arc;
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use binnacle_egress::Dialer;
use binnacle_jwt::{PublicKey, Token, TokenError, parse_key_set};
use binnacle_meta::go_quote;
use binnacle_webhook::{Client, Target, TargetError};
use binnacle_work::pace;
use serde_json::Value;
use tokio::sync::Mutex;

use super::metrics::IssuerMetrics;
use crate::config::Issuer;

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const TIMEOUT: Duration = Duration::from_secs(30);
/// The minimum interval between an unsuccessful refresh of the keys and the next one.
const REFRESH: Duration = Duration::from_secs(1);

/// The maximum size of a provider's documents. A key takes a few hundred bytes, and providers have a handful of keys.
const MAX_DOCUMENT: usize = 512 << 10;
/// The maximum size of the excerpt of an invalid document in errors, in bytes.
const MAX_EXCERPT: usize = 2048;
/// The bytes of a document that are parsed in ten nanoseconds.
const BYTES_PER_STEP: usize = 2;

pub(super) struct Provider {
    issuer: String,
    /// The URL of the discovery document.
    document: String,
    client: Client,
    metrics: Option<IssuerMetrics>,
    provider: ArcSwapOption<DiscoveredProvider>,
    /// The time of the last unsuccessful refresh; locked during a refresh.
    last_useless_refresh: Mutex<Option<Instant>>,
}

/// The result of discovery, and the keys that were last fetched.
struct DiscoveredProvider {
    keys_url: http::Uri,
    keys: Vec<PublicKey>,
}

impl Provider {
    pub(super) fn new(
        issuer: &Issuer,
        metrics: Option<IssuerMetrics>,
        dialer: Option<Arc<Dialer>>,
    ) -> Result<Self, TargetError> {
        let document = match issuer.discovery_url.as_str() {
            "" => format!("{}{CONFIGURATION}", issuer.url.trim_end_matches('/')),
            url => url.to_owned(),
        };
        let mut target = Target::new(&document)?;
        let pem = issuer.certificate_authority.as_bytes();
        target.authorities = (!pem.is_empty()).then(|| pem.to_vec());
        target.dialer = dialer;
        let client = Client::new(target, TIMEOUT)?;
        let (provider, last_useless_refresh) = (ArcSwapOption::empty(), Mutex::new(None));
        Ok(Self { issuer: issuer.url.clone(), document, client, metrics, provider, last_useless_refresh })
    }

    pub(super) fn issuer(&self) -> &str {
        &self.issuer
    }

    pub(super) fn is_discovered(&self) -> bool {
        self.provider.load().is_some()
    }

    pub(super) async fn discover(&self) -> Result<(), String> {
        let document = self.fetch(&self.document).await?;
        let document: Value = serde_json::from_slice(&document)
            .map_err(|error| format!("oidc: failed to decode provider discovery object: {error}"))?;
        let issuer = document["issuer"].as_str().unwrap_or_default();
        // A document at another URL must still have the same issuer.
        if issuer != self.issuer {
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {} got {}",
                go_quote(&self.issuer),
                go_quote(issuer)
            ));
        }
        let keys_url: http::Uri = match document["jwks_uri"].as_str().map(str::parse) {
            Some(Ok(url)) => url,
            _ => return Err("provider did not return JWKS URL".to_owned()),
        };
        if keys_url.scheme_str() != Some("https") {
            return Err(format!("the provider's keys are not at an https URL: {keys_url}"));
        }
        self.provider.store(Some(DiscoveredProvider { keys_url, keys: Vec::new() }.into()));
        Ok(())
    }

    /// Verifies the signature of a token. Returns `None` before the provider is discovered.
    pub(super) async fn verify(&self, token: &Token) -> Option<Result<(), String>> {
        let provider = self.provider.load_full()?;
        let Err(error) = verify(token, &provider.keys) else { return Some(Ok(())) };
        let keys = match self.refresh(&provider).await {
            Ok(keys) => keys,
            Err(why) => return Some(Err(format!("failed to verify signature: {why}"))),
        };
        let outcome = match keys {
            None => Err(error.to_string()),
            Some(keys) => verify(token, &keys).map_err(|_| "failed to verify id token signature".to_owned()),
        };
        if outcome.is_err() {
            // Tokens with made-up key IDs must not cause a fetch each.
            self.last_useless_refresh.lock().await.get_or_insert_with(Instant::now);
        }
        Some(outcome.map_err(|why| format!("failed to verify signature: {why}")))
    }

    /// Fetches the provider's keys, unless another request has done so since `used`. Returns `None` if the last
    /// unsuccessful refresh was less than [`REFRESH`] ago.
    async fn refresh(&self, used: &Arc<DiscoveredProvider>) -> Result<Option<Vec<PublicKey>>, String> {
        let mut last_useless_refresh = self.last_useless_refresh.lock().await;
        if let Some(newer) = self.provider.load_full().filter(|provider| !Arc::ptr_eq(provider, used)) {
            return Ok(Some(newer.keys.clone()));
        }
        if last_useless_refresh.is_some_and(|at| at.elapsed() < REFRESH) {
            return Ok(None);
        }
        let keys = self.fetch_keys(&used.keys_url).await;
        *last_useless_refresh = keys.is_err().then(Instant::now);
        let keys = keys?;
        self.provider.store(Some(DiscoveredProvider { keys_url: used.keys_url.clone(), keys: keys.clone() }.into()));
        Ok(Some(keys))
    }

    async fn fetch_keys(&self, url: &http::Uri) -> Result<Vec<PublicKey>, String> {
        let fetched = self.fetch(&url.to_string()).await.map_err(|error| format!("oidc: get keys failed {error}"));
        let keys = fetched.and_then(|set| {
            let keys = parse_key_set(&set).map_err(|error| decode_error(&error, &set))?;
            Ok((keys, set))
        });
        if let Some(metrics) = &self.metrics {
            metrics.fetched(keys.as_ref().ok().map(|(_, set)| &set[..]));
        }
        keys.map(|(keys, _)| keys).map_err(|why| format!("fetching keys {why}"))
    }

    async fn fetch(&self, url: &str) -> Result<bytes::Bytes, String> {
        let url = url.parse().map_err(|error| format!("{url}: {error}"))?;
        let document = self.client.get(url).await.map_err(|error| error.to_string())?.body;
        if document.len() > MAX_DOCUMENT {
            return Err(format!("the document is longer than {MAX_DOCUMENT} bytes"));
        }
        pace((document.len() / BYTES_PER_STEP) as u64);
        Ok(document)
    }
}

fn decode_error(error: &impl std::fmt::Display, set: &[u8]) -> String {
    let excerpt = String::from_utf8_lossy(&set[..set.len().min(MAX_EXCERPT)]);
    format!("oidc: failed to decode keys: {error} {excerpt}")
}

/// Verifies a token's signature with the key of its key ID, or with any key if it has none.
fn verify(token: &Token, keys: &[PublicKey]) -> Result<(), TokenError> {
    let id = token.key_id();
    let mut outcome = Err(TokenError);
    for key in keys.iter().filter(|key| id.is_empty() || key.id() == id) {
        pace(key.steps());
        outcome = token.verify(key).map(drop);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shortens_undecodable_documents_in_errors() {
        let set = vec![b'['; MAX_DOCUMENT];
        let error = parse_key_set(&set).expect_err("it has no keys");
        let excerpt = decode_error(&error, &set);
        assert!(excerpt.starts_with("oidc: failed to decode keys: ") && excerpt.len() < MAX_EXCERPT + 200, "{excerpt}");
    }
}
