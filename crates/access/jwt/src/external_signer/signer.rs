//! The client of a signer. Its keys are fetched at startup, after the refresh hint, and when a token has an unknown key
//! ID. Each token is signed by a call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use binnacle_egress::plugin::{CallError, Code, Plugin};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};
use parking_lot::{Mutex, RwLock};
use prost::Message;
use serde_json::Value;

use crate::external_signer::header;
use crate::external_signer::keys::{KeySet, VerificationKey};
use crate::external_signer::messages::{
    FETCH_KEYS, FetchKeysRequest, FetchKeysResponse, METADATA, MetadataRequest, MetadataResponse, SIGN, SignRequest,
    SignResponse,
};
use crate::external_signer::metrics::SignerMetrics;

/// The timeouts of the calls to the signer.
const FETCH_TIMEOUT: Duration = Duration::from_secs(60);
const SIGN_TIMEOUT: Duration = Duration::from_secs(60);
const METADATA_TIMEOUT: Duration = Duration::from_secs(10);
/// The delay before keys are fetched again after a failure.
const RETRY_INTERVAL: Duration = Duration::from_secs(10);

/// The error of a call to a signer.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{why}")]
pub struct SignerError {
    why: String,
    /// The gRPC code, if a call failed.
    code: Option<Code>,
}

/// A process that signs tokens. Clones share the connection and the keys.
#[derive(Clone)]
pub struct ExternalSigner(Arc<Signer>);

struct Signer {
    plugin: Plugin,
    keys: RwLock<Arc<KeySet>>,
    /// The current fetch, which concurrent callers share.
    fetch: Mutex<Option<Fetch>>,
    metrics: SignerMetrics,
}

/// A fetch of keys.
type Fetch = Shared<BoxFuture<'static, Result<(), SignerError>>>;

impl ExternalSigner {
    /// Connects to the signer at a socket and fetches its keys. Also returns the maximum lifetime of its tokens in
    /// seconds.
    pub async fn connect(socket: &str, metrics: SignerMetrics) -> Result<(Self, i64), SignerError> {
        let plugin = Plugin::new(socket);
        let keys = fetch(&plugin, &metrics, None)
            .await
            .map_err(|error| error.within("while initially filling key cache: while performing initial cache fill"))?;
        let signer = Signer { plugin, keys: RwLock::new(Arc::new(keys)), fetch: Mutex::new(None), metrics };
        let metadata: MetadataResponse =
            call(&signer.plugin, METADATA, MetadataRequest {}, METADATA_TIMEOUT, &signer.metrics).await?;
        Ok((Self(Arc::new(signer)), metadata.max_token_expiration_seconds))
    }

    /// Returns the keys as last fetched.
    pub fn keys(&self) -> Arc<KeySet> {
        self.0.keys.read().clone()
    }

    /// Returns the generation of the key set, and the keys with this ID, or all keys for an empty ID. For an unknown ID
    /// the keys are fetched again; the list is empty if it is still unknown.
    pub async fn find(&self, id: &str) -> (u64, Vec<VerificationKey>) {
        let keys = self.keys();
        let found = keys.find(id);
        if !found.is_empty() {
            return (keys.generation, found);
        }
        if let Err(error) = self.refresh().await {
            tracing::error!(err = %error, "Error while syncing keys");
            return (keys.generation, Vec::new());
        }
        let keys = self.keys();
        let found = keys.find(id);
        if found.is_empty() {
            tracing::error!("Key id {id:?} not found after refresh");
        }
        (keys.generation, found)
    }

    /// Returns the seconds for which the keys are valid.
    pub fn max_age(&self) -> u64 {
        self.keys().refresh_at.saturating_duration_since(Instant::now()).as_secs()
    }

    /// Signs a token with these claims.
    pub async fn sign(&self, claims: &Value) -> Result<String, SignerError> {
        let token = self.sign_claims(claims).await;
        self.0.metrics.record_signature(token.as_ref().err().map(|error| error.code));
        token
    }

    async fn sign_claims(&self, claims: &Value) -> Result<String, SignerError> {
        let payload = BASE64_URL_SAFE_NO_PAD.encode(claims.to_string());
        let request = SignRequest { claims: payload.clone() };
        let response: Result<SignResponse, SignerError> =
            call(&self.0.plugin, SIGN, request, SIGN_TIMEOUT, &self.0.metrics).await;
        let SignResponse { header, signature } = response.map_err(|error| error.within("while signing jwt"))?;
        self.check_header(&header).await.map_err(|error| error.within("while validating header"))?;
        if signature.is_empty() {
            return Err(SignerError::new("empty signature returned"));
        }
        Ok(format!("{header}.{payload}.{signature}"))
    }

    async fn check_header(&self, header: &str) -> Result<(), SignerError> {
        let id = header::key_id(header).map_err(SignerError::new)?;
        match self.find(&id).await.1.iter().any(|key| key.hidden) {
            false => Ok(()),
            true => Err(SignerError::new(format!(
                "key used for signing JWT (kid: {id}) is excluded from OIDC discovery docs"
            ))),
        }
    }

    /// Refreshes the keys whenever the signer's refresh hint has passed.
    pub async fn refresh_repeatedly(self) {
        let mut wait = self.keys().refresh_at.saturating_duration_since(Instant::now());
        loop {
            tokio::time::sleep(wait).await;
            wait = match self.refresh().await {
                Ok(()) => self.keys().refresh_at.saturating_duration_since(Instant::now()),
                Err(error) => {
                    tracing::error!("when syncing supported public keys(Stale set of keys will be supported): {error}");
                    RETRY_INTERVAL
                }
            };
        }
    }

    async fn refresh(&self) -> Result<(), SignerError> {
        let fetch = {
            let mut current = self.0.fetch.lock();
            match &*current {
                Some(fetch) if fetch.peek().is_none() => fetch.clone(),
                _ => current.insert(self.clone().fetch_and_store().boxed().shared()).clone(),
            }
        };
        fetch.await
    }

    async fn fetch_and_store(self) -> Result<(), SignerError> {
        let former = self.keys();
        let keys = fetch(&self.0.plugin, &self.0.metrics, Some(&former)).await?;
        *self.0.keys.write() = Arc::new(keys);
        Ok(())
    }
}

async fn fetch(plugin: &Plugin, metrics: &SignerMetrics, former: Option<&KeySet>) -> Result<KeySet, SignerError> {
    let response: Result<FetchKeysResponse, SignerError> =
        call(plugin, FETCH_KEYS, FetchKeysRequest {}, FETCH_TIMEOUT, metrics).await;
    let keys = response
        .map_err(|error| error.within("while getting externally supported jwt signing keys"))
        .and_then(|response| KeySet::read(&response, former).map_err(SignerError::new));
    metrics.record_fetch(keys.as_ref().map(|keys| keys.data_at).map_err(|error| error.code));
    keys.map_err(|error| error.within("while fetching token verification keys"))
}

/// Calls the signer and records metrics.
async fn call<Q, A>(
    plugin: &Plugin,
    path: &'static str,
    request: Q,
    timeout: Duration,
    metrics: &SignerMetrics,
) -> Result<A, SignerError>
where
    Q: Message + Clone + Send + Sync + 'static,
    A: Message + Default + Send + Sync + 'static,
{
    let started = Instant::now();
    let response = plugin.call(path, request, timeout).await;
    metrics.record_call(path, started, response.as_ref().err().map(|error: &CallError| error.code));
    Ok(response?)
}

// === impl SignerError ===

impl SignerError {
    fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), code: None }
    }

    fn within(self, during: &str) -> Self {
        Self { why: format!("{during}: {}", self.why), ..self }
    }
}

impl From<CallError> for SignerError {
    fn from(error: CallError) -> Self {
        Self { why: error.to_string(), code: Some(error.code) }
    }
}
