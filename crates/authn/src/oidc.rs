//! OpenID Connect: ID tokens of a provider, whose keys are found by discovery and fetched again when one is not known.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use arc_swap::ArcSwapOption;
use binnacle_jwt::{Algorithm, PublicKey, Token, TokenError, parse_key_set};
use binnacle_meta::{Text, go_quote};
use binnacle_request::{BoxFuture, User};
use binnacle_webhook::{Client, Target, TargetError};
use parking_lot::Mutex;
use serde_json::{Map, Value};

use crate::authenticator::authenticated;
use crate::{Authenticated, AuthnError, TokenAuthenticator};

const CONFIGURATION: &str = "/.well-known/openid-configuration";
const TIMEOUT: Duration = Duration::from_secs(30);
/// How soon a provider that could not be reached is asked again.
const RETRY: Duration = Duration::from_secs(10);
/// Keys are not fetched more often than this, whatever tokens name.
const REFRESH: Duration = Duration::from_secs(1);
/// How far clocks may be apart for a token that is not valid yet.
const LEEWAY: f64 = 300.0;

/// What the `--oidc-...` flags say.
#[derive(Clone, Debug)]
pub struct OidcOptions {
    /// An https URL, exactly as tokens name it.
    pub issuer: String,
    /// Whom tokens must be made for.
    pub client_id: String,
    /// PEM text of the authorities for the provider; those of the system if `None`.
    pub authorities: Option<Vec<u8>>,
    pub username_claim: String,
    pub username_prefix: String,
    /// Empty for no groups.
    pub groups_claim: String,
    pub groups_prefix: String,
    pub required_claims: Vec<(String, String)>,
    pub algorithms: Vec<Algorithm>,
    /// `--api-audiences`.
    pub audiences: Vec<Text>,
}

/// Knows the tokens of one provider.
pub struct Oidc {
    options: OidcOptions,
    client: Client,
    provider: ArcSwapOption<Provider>,
    refreshed: Mutex<Option<Instant>>,
}

/// What discovery has found.
struct Provider {
    keys_url: http::Uri,
    keys: Vec<PublicKey>,
}

impl Oidc {
    /// One that knows no keys until [`Oidc::discover`] has found them.
    pub fn new(options: OidcOptions) -> Result<Self, TargetError> {
        let mut target = Target::new(&options.issuer)?;
        target.authorities.clone_from(&options.authorities);
        let client = Client::new(target, TIMEOUT)?;
        Ok(Self { options, client, provider: ArcSwapOption::empty(), refreshed: Mutex::new(None) })
    }

    /// Finds the provider's keys, however long it takes until it can be reached: it may run in this very cluster.
    pub async fn discover(&self) {
        loop {
            match self.find_provider().await {
                Ok(provider) => {
                    self.provider.store(Some(provider.into()));
                    return;
                }
                Err(error) => tracing::error!("oidc authenticator: initializing plugin: {error}"),
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn find_provider(&self) -> Result<Provider, String> {
        let url = format!("{}{CONFIGURATION}", self.options.issuer.trim_end_matches('/'));
        let document = self.fetch(&url).await?;
        let document: Value = serde_json::from_slice(&document)
            .map_err(|error| format!("oidc: failed to decode provider discovery object: {error}"))?;
        let issuer = document["issuer"].as_str().unwrap_or_default();
        if issuer != self.options.issuer {
            return Err(format!(
                "oidc: issuer did not match the issuer returned by provider, expected {} got {}",
                go_quote(&self.options.issuer),
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
        let keys = self.fetch_keys(&keys_url).await?;
        Ok(Provider { keys_url, keys })
    }

    async fn fetch_keys(&self, url: &http::Uri) -> Result<Vec<PublicKey>, String> {
        let set = self.fetch(&url.to_string()).await.map_err(|error| format!("fetching keys {error}"))?;
        parse_key_set(&set).map_err(|error| format!("oidc: failed to decode keys: {error}"))
    }

    async fn fetch(&self, url: &str) -> Result<bytes::Bytes, String> {
        let url = url.parse().map_err(|error| format!("{url}: {error}"))?;
        self.client.get(url).await.map(|answer| answer.body).map_err(|error| error.to_string())
    }

    async fn judge(&self, token: &str, wanted: &[Text]) -> Result<Option<Authenticated>, AuthnError> {
        let Some(token) = Token::parse(token) else { return Ok(None) };
        if token.unverified()["iss"].as_str() != Some(&self.options.issuer) {
            return Ok(None);
        }
        let Some(provider) = self.provider.load_full() else {
            return Err(AuthnError::new("oidc: authenticator not initialized"));
        };
        let unverified = |why: String| AuthnError(format!("oidc: verify token: {why}"));
        // What costs nothing is looked at before what does.
        self.check(token.unverified()).map_err(unverified)?;
        if !token.algorithm().is_some_and(|algorithm| self.options.algorithms.contains(&algorithm)) {
            let names: Vec<String> = self.options.algorithms.iter().map(|known| go_quote(known.name())).collect();
            let expected = names.join(" ");
            return Err(unverified(format!("oidc: id token signed with unsupported algorithm, expected [{expected}]")));
        }
        if let Err(error) = verify(&token, &provider.keys) {
            let keys = self.refresh(&provider).await.map_err(unverified)?;
            let Some(keys) = keys else {
                return Err(unverified(format!("failed to verify signature: {error}")));
            };
            verify(&token, &keys).map_err(|_| {
                unverified("failed to verify signature: failed to verify id token signature".to_owned())
            })?;
        }
        let user = self.user(token.unverified()).map_err(AuthnError)?;
        Ok(Authenticated::for_any_audience(authenticated(user), &self.options.audiences, wanted))
    }

    /// The keys that the provider has now; `None` when that was asked just before.
    async fn refresh(&self, provider: &Provider) -> Result<Option<Vec<PublicKey>>, String> {
        {
            let mut refreshed = self.refreshed.lock();
            if refreshed.is_some_and(|at| at.elapsed() < REFRESH) {
                return Ok(None);
            }
            *refreshed = Some(Instant::now());
        }
        let keys = self.fetch_keys(&provider.keys_url).await?;
        let found = Provider { keys_url: provider.keys_url.clone(), keys: keys.clone() };
        self.provider.store(Some(found.into()));
        Ok(Some(keys))
    }

    /// Whether claims are for us, and for now.
    fn check(&self, claims: &Value) -> Result<(), String> {
        let audiences: Vec<&str> = match &claims["aud"] {
            Value::String(one) => vec![one],
            Value::Array(many) => many.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        if !audiences.contains(&self.options.client_id.as_str()) {
            let got: Vec<String> = audiences.iter().map(|audience| go_quote(audience)).collect();
            return Err(format!(
                "oidc: expected audience {} got [{}]",
                go_quote(&self.options.client_id),
                got.join(" ")
            ));
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

    fn user(&self, claims: &Value) -> Result<User, String> {
        let empty = Map::new();
        let claims = claims.as_object().unwrap_or(&empty);
        let options = &self.options;
        let claim = &options.username_claim;
        let name = match claims.get(claim) {
            Some(Value::String(name)) => name,
            Some(_) => return Err(format!("oidc: parse username claims {}: it is no text", go_quote(claim))),
            None => return Err(format!("oidc: parse username claims {}: claim not present", go_quote(claim))),
        };
        if claim == "email"
            && let Some(verified) = claims.get("email_verified")
        {
            match verified {
                Value::Bool(true) => {}
                Value::Bool(false) => return Err("oidc: email not verified".to_owned()),
                _ => return Err("oidc: parse 'email_verified' claim: it is neither true nor false".to_owned()),
            }
        }
        let prefixed = |group: &str| Text::from(format!("{}{group}", options.groups_prefix));
        let groups = match claims.get(&options.groups_claim).filter(|_| !options.groups_claim.is_empty()) {
            None => Vec::new(),
            Some(Value::String(one)) => vec![prefixed(one)],
            Some(Value::Array(many)) if many.iter().all(Value::is_string) => {
                many.iter().filter_map(Value::as_str).map(prefixed).collect()
            }
            Some(_) => {
                let claim = go_quote(&options.groups_claim);
                return Err(format!("oidc: parse groups claim {claim}: it is neither a text nor a list of such"));
            }
        };
        for (claim, value) in &options.required_claims {
            match claims.get(claim) {
                None => return Err(format!("oidc: required claim {claim} not present in ID token")),
                Some(Value::String(got)) if got == value => {}
                Some(Value::String(got)) => {
                    return Err(format!(
                        "oidc: required claim {claim} value does not match. Got = {got}, want = {value}"
                    ));
                }
                Some(_) => return Err(format!("oidc: parse claim {claim}: it is no text")),
            }
        }
        let mut user = User { name: format!("{}{name}", options.username_prefix).into(), groups, ..User::default() };
        if let Some(id) = claims.get("jti").and_then(Value::as_str).filter(|id| !id.is_empty()) {
            let key = Text::new_static("authentication.kubernetes.io/credential-id");
            user.extra.insert(key, vec![format!("JTI={id}").into()]);
        }
        Ok(user)
    }
}

/// Whether one of the keys signed a token: the one that it names, or any if it names none.
fn verify(token: &Token<'_>, keys: &[PublicKey]) -> Result<(), TokenError> {
    let id = token.key_id();
    let mut outcome = Err(TokenError::Signature);
    for key in keys.iter().filter(|key| id.is_empty() || key.id() == id) {
        outcome = token.verify(key).map(drop);
        if outcome.is_ok() {
            break;
        }
    }
    outcome
}

impl TokenAuthenticator for Oidc {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [Text],
    ) -> BoxFuture<'a, Result<Option<Authenticated>, AuthnError>> {
        Box::pin(self.judge(token, audiences))
    }
}
