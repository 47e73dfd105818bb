//! The signer of service account tokens, and the keys that verify them: a key in a file, the server's own, or an
//! external signer's.

use std::sync::Arc;
use std::time::Duration;

use binnacle_authn::service_account::{FixedKeys, TokenKeys};
use binnacle_jwt::external_signer::{ExternalSigner, SignerError, SignerMetrics};
use binnacle_jwt::{PrivateKey, PublicKey};
use binnacle_meta::{GoDuration, Text};
use binnacle_request::{BoxFuture, Shutdown};
use binnacle_subresources::{EXTENDED_SECONDS, INJECTED_SECONDS, TokenIssuer, TokenSigner};
use binnacle_supervise::supervise;

use crate::settings;

/// The minimum lifetime that can be requested for a token.
const MIN_SECONDS: i64 = 600;
/// The maximum age in seconds of a discovered key set whose keys never change.
const MAX_AGE: u64 = 3600;

/// An error of a signer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SigningError {
    #[error("while setting up external-jwt-signer: {0}")]
    Signer(#[from] SignerError),
    #[error("max token life supported by external-jwt-signer ({0}s) is less than acceptable (min {MIN_SECONDS}s)")]
    TooShort(i64),
    #[error(
        "service-account-max-token-expiration cannot be set longer than the token expiration supported by \
         service-account-signing-endpoint: {requested} > {supported}"
    )]
    TooLong { requested: GoDuration, supported: GoDuration },
    #[error("cannot register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The keys that clients may read.
pub(crate) trait PublishedKeys: TokenKeys {
    /// Returns the keys with their generation.
    fn published(&self) -> (u64, Vec<PublicKey>);

    /// Returns the seconds for which clients may cache the keys.
    fn max_age(&self) -> u64;
}

impl PublishedKeys for FixedKeys {
    fn published(&self) -> (u64, Vec<PublicKey>) {
        (0, self.0.clone())
    }

    fn max_age(&self) -> u64 {
        MAX_AGE
    }
}

/// A connection to an external signer.
#[derive(Clone)]
pub(crate) struct ExternalKeys {
    signer: ExternalSigner,
    /// The maximum lifetime of its tokens in seconds.
    max_lifetime: i64,
}

impl ExternalKeys {
    /// Connects to the external signer in the flags, if there is one.
    pub(crate) async fn connect(
        flags: &settings::ServiceAccounts,
        registry: &binnacle_metrics::Registry,
    ) -> Result<Option<Self>, SigningError> {
        let metrics = SignerMetrics::register(registry)?;
        let Some(socket) = &flags.signing_endpoint else { return Ok(None) };
        let (signer, max_lifetime) = ExternalSigner::connect(socket, metrics).await?;
        if max_lifetime < MIN_SECONDS {
            return Err(SigningError::TooShort(max_lifetime));
        }
        let [requested, supported] = [seconds(flags.max_expiration), max_lifetime];
        if requested > supported {
            return Err(SigningError::TooLong { requested: shown(requested), supported: shown(supported) });
        }
        Ok(Some(Self { signer, max_lifetime }))
    }

    /// Fetches the keys repeatedly until the shutdown signal.
    pub(crate) fn refresh_keys(self, shutdown: Shutdown) -> impl Future<Output = ()> + Send {
        supervise("external signer", move || {
            let (signer, shutdown) = (self.signer.clone(), shutdown.clone());
            async move {
                tokio::select! {
                    () = signer.refresh_repeatedly() => {}
                    () = shutdown.fired() => {}
                }
            }
        })
    }
}

impl TokenSigner for ExternalKeys {
    fn sign<'a>(&'a self, claims: &'a serde_json::Value) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async { self.signer.sign(claims).await.map_err(|error| error.to_string()) })
    }
}

impl TokenKeys for ExternalKeys {
    fn find<'a>(&'a self, id: &'a str) -> BoxFuture<'a, (u64, Vec<PublicKey>)> {
        Box::pin(async move {
            let (generation, keys) = self.signer.find(id).await;
            (generation, keys.into_iter().map(|key| key.key).collect())
        })
    }

    fn generation(&self) -> u64 {
        self.signer.keys().generation
    }
}

impl PublishedKeys for ExternalKeys {
    fn published(&self) -> (u64, Vec<PublicKey>) {
        let keys = self.signer.keys();
        (keys.generation, keys.keys.iter().filter(|key| !key.hidden).map(|key| key.key.clone()).collect())
    }

    fn max_age(&self) -> u64 {
        self.signer.max_age()
    }
}

/// The signer of service account tokens, and the keys that verify them.
pub(crate) struct Signing {
    signer: Arc<dyn TokenSigner>,
    pub(crate) keys: Arc<dyn PublishedKeys>,
    /// The maximum lifetime in seconds of an external signer's tokens.
    max_lifetime: Option<i64>,
}

impl From<ExternalKeys> for Signing {
    fn from(external: ExternalKeys) -> Self {
        let max_lifetime = Some(external.max_lifetime);
        Self { signer: Arc::new(external.clone()), keys: Arc::new(external), max_lifetime }
    }
}

impl Signing {
    /// Signs with a key of this process.
    pub(crate) fn by_key(key: PrivateKey, verifying: Vec<PublicKey>) -> Self {
        Self { signer: Arc::new(key), keys: Arc::new(FixedKeys(verifying)), max_lifetime: None }
    }

    /// Returns the signer of tokens in Secrets, which an external signer does not sign: they never expire.
    pub(crate) fn of_secrets(&self) -> Option<Arc<dyn TokenSigner>> {
        self.max_lifetime.is_none().then(|| self.signer.clone())
    }

    /// Returns the issuer of tokens, configured by the flags.
    pub(crate) fn issuer(&self, flags: &settings::Authentication) -> TokenIssuer {
        let of = &flags.service_accounts;
        let max_seconds = match (seconds(of.max_expiration), self.max_lifetime) {
            (0, Some(max_lifetime)) => max_lifetime,
            (requested, _) => requested,
        };
        if of.extends {
            self.warn_of_short_tokens(max_seconds);
        }
        TokenIssuer {
            signer: self.signer.clone(),
            issuer: of.issuers.first().map(Text::from).unwrap_or_default(),
            audiences: flags.audiences(),
            max_seconds,
            extended: of.extends.then(|| self.max_lifetime.unwrap_or(i64::MAX).min(EXTENDED_SECONDS)),
        }
    }

    fn warn_of_short_tokens(&self, max_seconds: i64) {
        let is_external = self.max_lifetime.is_some();
        let max = shown(max_seconds);
        if (1..INJECTED_SECONDS).contains(&max_seconds) {
            let what = match is_external {
                true => "token lifetime supported by external-jwt-signer must be",
                false => "service-account-max-token-expiration must be set",
            };
            tracing::warn!(
                "service-account-extend-token-expiration is true, in order to correctly trigger safe transition logic, \
                 {what} longer than {INJECTED_SECONDS} seconds (currently {max})"
            );
        }
        if (1..EXTENDED_SECONDS).contains(&max_seconds) {
            match is_external {
                true => tracing::warn!(
                    "service-account-extend-token-expiration is true, tokens validity will be caped at the smaller of \
                     {EXTENDED_SECONDS} seconds and maximum token lifetime supported by external-jwt-signer ({max})"
                ),
                false => tracing::warn!(
                    "service-account-extend-token-expiration is true, enabling tokens valid up to {EXTENDED_SECONDS} \
                     seconds, which is longer than service-account-max-token-expiration set to {max}"
                ),
            }
        }
    }
}

fn seconds(duration: Duration) -> i64 {
    i64::try_from(duration.as_secs()).unwrap_or(i64::MAX)
}

fn shown(seconds: i64) -> GoDuration {
    GoDuration(seconds.saturating_mul(1_000_000_000))
}
