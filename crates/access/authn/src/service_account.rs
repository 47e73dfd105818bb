//! Service account tokens: those bound to a time, an audience and an object (KEP-1205), and legacy tokens in secrets.
//! The signature of a token is verified once; that the account and the bound object exist is checked for each request.

mod bound;
mod claims;
mod keys;
mod legacy;
mod metrics;
mod objects;

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_meta::Text;
use binnacle_request::{BoxFuture, User};
use binnacle_validation::names::{dns1123_label, dns1123_subdomain};
use binnacle_work::pace;
use parking_lot::Mutex;

pub use keys::{FixedKeys, TokenKeys};
pub use metrics::ServiceAccountMetrics;
pub use objects::{BoundKind, BoundObjects, LegacySecret, ObjectState};

use crate::authenticator::{Notes, allocate_parsed, intersection, parse};
use crate::recent::RecentCache;
use crate::{AuthenticationResponse, AuthnError, TokenAuthenticator};
use claims::VerifiedToken;

/// The issuer of legacy tokens.
pub const LEGACY_ISSUER: &str = "kubernetes/serviceaccount";
const PREFIX: &str = "system:serviceaccount:";
/// The number of tokens whose verified claims are cached.
const CACHED_TOKENS: usize = 8192;
/// The bytes of a token that are hashed in ten nanoseconds.
const BYTES_PER_STEP: usize = 10;

/// Authenticates service account tokens.
pub struct ServiceAccountTokens {
    options: ServiceAccountOptions,
    objects: Arc<dyn BoundObjects>,
    metrics: ServiceAccountMetrics,
    /// By digest of the token.
    verified: Mutex<RecentCache<[u8; 32], CachedToken>>,
}

/// The generation of the keys that verified the signature, and the claims.
type CachedToken = (u64, Arc<VerifiedToken>);

/// The values of the flags for service account tokens.
#[derive(Clone)]
pub struct ServiceAccountOptions {
    /// `--service-account-issuer`: all accepted issuers.
    pub issuers: Vec<Text>,
    /// `--service-account-key-file`, or the keys of the external signer.
    pub keys: Arc<dyn TokenKeys>,
    /// `--api-audiences`.
    pub audiences: Vec<Text>,
    /// `--service-account-lookup`: true if the secrets of legacy tokens must still exist.
    pub lookup: bool,
}

impl ServiceAccountTokens {
    pub fn new(options: ServiceAccountOptions, objects: Arc<dyn BoundObjects>, metrics: ServiceAccountMetrics) -> Self {
        Self { options, objects, metrics, verified: Mutex::new(RecentCache::new(CACHED_TOKENS)) }
    }

    async fn authenticate(
        &self,
        token: &str,
        requested: &[Text],
    ) -> Result<Option<AuthenticationResponse>, AuthnError> {
        let Some(verified) = self.verify_signature(token).await? else { return Ok(None) };
        let claims = &verified.public;
        let mut notes = Notes::default();
        let own = &self.options.audiences;
        let token_audiences = if claims.audiences.is_empty() {
            // Only legacy tokens have no audience.
            notes.annotations.push(("authentication.k8s.io/legacy-token".into(), claims.subject.clone()));
            self.metrics.legacy.inc();
            own
        } else {
            &claims.audiences
        };
        let requested = if requested.is_empty() { own } else { requested };
        let audiences = intersection(token_audiences, requested);
        if audiences.is_empty() && !own.is_empty() {
            return Err(AuthnError(format!(
                "token audiences {} is invalid for the target audiences {}",
                quoted(token_audiences),
                quoted(requested)
            )));
        }
        let user = match &verified.private {
            claims::PrivateClaims::Bound(private) => self.check_bound(&verified, private, &mut notes).await?,
            claims::PrivateClaims::Legacy(private) => self.check_legacy(token, &verified, private, &mut notes).await?,
        };
        Ok(Some(AuthenticationResponse { user, audiences, notes, live: true }))
    }

    /// Verifies the signature of a token and returns its claims; `None` if the token is of another issuer.
    async fn verify_signature(&self, token: &str) -> Result<Option<Arc<VerifiedToken>>, AuthnError> {
        pace((token.len() / BYTES_PER_STEP) as u64);
        let digest = binnacle_crypto::sha256(token);
        if let Some((generation, known)) = self.verified.lock().get(&digest)
            && *generation == self.options.keys.generation()
        {
            return Ok(Some(known.clone()));
        }
        let Some(parsed) = parse(token) else { return Ok(None) };
        let issuer = parsed.unverified_issuer();
        let is_legacy = issuer == LEGACY_ISSUER;
        if !is_legacy && !self.options.issuers.iter().any(|own| own == issuer) {
            return Ok(None);
        }
        allocate_parsed(token)?;
        let (generation, keys) = self.options.keys.find(parsed.key_id()).await;
        if keys.is_empty() {
            return Err(AuthnError::new("invalid signature, no keys found"));
        }
        let mut errors = Vec::new();
        for key in &keys {
            pace(key.steps());
            match parsed.verify(key) {
                Ok(claims) => {
                    let verified = Arc::new(VerifiedToken::read(claims, is_legacy)?);
                    self.verified.lock().insert_sized(digest, (generation, verified.clone()), token.len());
                    return Ok(Some(verified));
                }
                Err(error) => errors.push(error.to_string()),
            }
        }
        AuthnError::all(&errors).map_or(Ok(None), Err)
    }
}

impl TokenAuthenticator for ServiceAccountTokens {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [Text],
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        Box::pin(self.authenticate(token, audiences))
    }
}

/// Returns the user name of a service account.
pub fn username(namespace: &str, name: &str) -> Text {
    format!("{PREFIX}{namespace}:{name}").into()
}

/// Returns the namespace and name of the service account with this user name; `None` for other users.
pub fn split_username(username: &str) -> Option<(&str, &str)> {
    let (namespace, name) = username.strip_prefix(PREFIX)?.split_once(':')?;
    let valid = dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty();
    valid.then_some((namespace, name))
}

/// Returns the groups of all service accounts, and of those in one namespace.
pub fn groups(namespace: &str) -> Vec<Text> {
    vec!["system:serviceaccounts".into(), format!("system:serviceaccounts:{namespace}").into()]
}

fn user_of(namespace: &str, name: &str, uid: &str) -> User {
    User { name: username(namespace, name), uid: uid.into(), groups: groups(namespace), ..User::default() }
}

/// Returns the Unix time in seconds.
pub(crate) fn seconds_now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

fn quoted(texts: &[Text]) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| binnacle_meta::go_quote(text)).collect();
    format!("[{}]", quoted.join(" "))
}
