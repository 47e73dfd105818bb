//! Tokens that another server knows: it is sent a TokenReview, and its answer is remembered for a while.

use std::time::{Duration, Instant};

use binnacle_meta::Text;
use binnacle_request::{BoxFuture, User};
use binnacle_webhook::{Backoff, Client};
use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::authenticator::{authenticated, intersection};
use crate::recent::Recent;
use crate::{Authenticated, AuthnError, TokenAuthenticator};

const REMEMBERED: usize = 16384;
/// The first pause before a call is tried again.
const RETRY: Duration = Duration::from_millis(500);

/// How the server is asked.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// `--authentication-token-webhook-version`.
    pub version: WebhookVersion,
    /// `--authentication-token-webhook-cache-ttl`; zero for no memory.
    pub cache_ttl: Duration,
    /// `--api-audiences`: for whom a token counts about which the server says nothing.
    pub audiences: Vec<Text>,
}

/// The versions of TokenReview. Their fields are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookVersion {
    V1,
    V1beta1,
}

/// Asks another server.
pub struct WebhookTokens {
    client: Client,
    backoff: Backoff,
    options: WebhookOptions,
    answers: Mutex<Recent<[u8; 32], Remembered>>,
}

#[derive(Clone)]
struct Remembered {
    until: Instant,
    answer: Option<Authenticated>,
}

impl WebhookTokens {
    pub fn new(client: Client, options: WebhookOptions) -> Self {
        Self { client, backoff: Backoff::starting_at(RETRY), options, answers: Mutex::new(Recent::new(REMEMBERED)) }
    }

    /// With another way of trying again.
    #[must_use]
    pub fn with_backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    async fn holder(&self, token: &str, wanted: &[Text]) -> Result<Option<Authenticated>, AuthnError> {
        let key = digest(token, wanted);
        let now = Instant::now();
        if let Some(known) = self.answers.lock().get(&key)
            && now < known.until
        {
            return Ok(known.answer.clone());
        }
        // Errors are not remembered: the server may be back at once.
        let answer = self.ask(token, wanted).await?;
        if !self.options.cache_ttl.is_zero() {
            let until = now + self.options.cache_ttl;
            self.answers.lock().insert(key, Remembered { until, answer: answer.clone() });
        }
        Ok(answer)
    }

    async fn ask(&self, token: &str, wanted: &[Text]) -> Result<Option<Authenticated>, AuthnError> {
        let version = match self.options.version {
            WebhookVersion::V1 => "authentication.k8s.io/v1",
            WebhookVersion::V1beta1 => "authentication.k8s.io/v1beta1",
        };
        let mut spec = json!({"token": token});
        if !wanted.is_empty() {
            spec["audiences"] = wanted.iter().map(Text::as_str).collect();
        }
        let review = json!({
            "kind": "TokenReview", "apiVersion": version, "metadata": {}, "spec": spec, "status": {"user": {}}
        });
        let body = review.to_string();
        let answer = self.backoff.run(|| self.client.post(body.clone())).await.map_err(|error| {
            tracing::error!("Failed to make webhook authenticator request: {error}");
            AuthnError(error.to_string())
        })?;
        let review: Value = serde_json::from_slice(&answer.body).map_err(|error| AuthnError(error.to_string()))?;
        if review["kind"] != "TokenReview" || review["apiVersion"] != version {
            let (kind, found) = (&review["kind"], &review["apiVersion"]);
            return Err(AuthnError(format!("unexpected answer of a token webhook: {kind} of {found}")));
        }
        self.read(&review["status"], wanted)
    }

    fn read(&self, status: &Value, wanted: &[Text]) -> Result<Option<Authenticated>, AuthnError> {
        if status["authenticated"] != true {
            return match status["error"].as_str() {
                Some(why) if !why.is_empty() => Err(AuthnError::new(why)),
                _ => Ok(None),
            };
        }
        let said = texts(&status["audiences"]);
        let audiences = intersection(wanted, if said.is_empty() { &self.options.audiences } else { &said });
        if audiences.is_empty() && !wanted.is_empty() {
            return Ok(None);
        }
        let user = &status["user"];
        let text = |member: &str| Text::from(user[member].as_str().unwrap_or_default());
        let extra = user["extra"].as_object().into_iter().flatten();
        let user = User {
            name: text("username"),
            uid: text("uid"),
            groups: texts(&user["groups"]),
            extra: extra.map(|(key, values)| (key.into(), texts(values))).collect(),
        };
        Ok(Some(Authenticated { audiences, ..Authenticated::new(authenticated(user)) }))
    }
}

impl TokenAuthenticator for WebhookTokens {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [Text],
    ) -> BoxFuture<'a, Result<Option<Authenticated>, AuthnError>> {
        Box::pin(self.holder(token, audiences))
    }
}

fn texts(value: &Value) -> Vec<Text> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(Text::from).collect()
}

/// Tokens themselves are not kept; lengths keep one token and its audiences apart from another.
fn digest(token: &str, audiences: &[Text]) -> [u8; 32] {
    let mut digest = Sha256::new();
    for text in std::iter::once(token).chain(audiences.iter().map(Text::as_str)) {
        digest.update(text.len().to_be_bytes());
        digest.update(text);
    }
    digest.finalize().into()
}
