//! Authentication of tokens by a webhook, with TokenReviews. Results should be cached with a [`crate::TokenCache`].

use std::time::Duration;

use binnacle_meta::Text;
use binnacle_request::{BoxFuture, User};
use binnacle_webhook::{Backoff, Client};
use binnacle_work::{allocate, pace};
use bytes::Bytes;
use serde::Serialize;
use serde_json::Value;

use crate::authenticator::{exceeded, intersection, with_authenticated_group};
use crate::{AuthenticationResponse, AuthnError, TokenAuthenticator};

/// The delay before the first retry of a call.
const RETRY: Duration = Duration::from_millis(500);

/// The maximum size of a response. A user in a thousand groups takes 100 KB, and thousands of users are cached.
const MAX_REVIEW: usize = 1 << 20;
/// The number of copies of a token in memory during a call: the header in the received head, whose buffer was doubled
/// as it grew, its encoding, in which each byte may be escaped, and what the HTTP client buffers of it.
const COPIES: usize = 6;
/// The memory per byte of a response. Empty group names take the most, in the parsed tree and in the user.
const BYTES_PER_BYTE: usize = 16;
/// The bytes of a response that are parsed in ten nanoseconds.
const BYTES_PER_STEP: usize = 2;

/// The options of the webhook.
#[derive(Clone, Debug)]
pub struct WebhookOptions {
    /// `--authentication-token-webhook-version`.
    pub version: WebhookVersion,
    /// `--api-audiences`: the audiences of a token if the response has none.
    pub audiences: Vec<Text>,
}

/// The versions of TokenReview, which have the same fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookVersion {
    V1,
    V1beta1,
}

/// Authenticates tokens with TokenReviews.
pub struct WebhookTokens {
    client: Client,
    backoff: Backoff,
    options: WebhookOptions,
}

impl WebhookTokens {
    pub fn new(client: Client, options: WebhookOptions) -> Self {
        Self { client, backoff: Backoff::starting_at(RETRY), options }
    }

    /// Sets the backoff of retries.
    #[must_use]
    pub fn with_backoff(self, backoff: Backoff) -> Self {
        Self { backoff, ..self }
    }

    async fn review(&self, token: &str, requested: &[Text]) -> Result<Option<AuthenticationResponse>, AuthnError> {
        let version = match self.options.version {
            WebhookVersion::V1 => "authentication.k8s.io/v1",
            WebhookVersion::V1beta1 => "authentication.k8s.io/v1beta1",
        };
        // The header and the review are in memory until the webhook responds.
        allocate(COPIES * token.len()).map_err(exceeded)?;
        let body = encode_review(version, token, requested)?;
        let response = self.backoff.run(|| self.client.post(body.clone())).await.map_err(|error| {
            tracing::error!("Failed to make webhook authenticator request: {error}");
            AuthnError(error.to_string())
        })?;
        if response.body.len() > MAX_REVIEW {
            return Err(AuthnError(format!("the answer of the token webhook is longer than {MAX_REVIEW} bytes")));
        }
        allocate(response.body.len() * BYTES_PER_BYTE).map_err(exceeded)?;
        pace((response.body.len() / BYTES_PER_STEP) as u64);
        let review: Value = serde_json::from_slice(&response.body).map_err(|error| AuthnError(error.to_string()))?;
        if review["kind"] != "TokenReview" || review["apiVersion"] != version {
            let (kind, found) = (&review["kind"], &review["apiVersion"]);
            return Err(AuthnError(format!("unexpected answer of a token webhook: {kind} of {found}")));
        }
        self.read_status(&review["status"], requested)
    }

    fn read_status(&self, status: &Value, requested: &[Text]) -> Result<Option<AuthenticationResponse>, AuthnError> {
        if status["authenticated"] != true {
            return match status["error"].as_str() {
                Some(why) if !why.is_empty() => Err(AuthnError::new(why)),
                _ => Ok(None),
            };
        }
        let reported = texts(&status["audiences"]);
        let audiences = intersection(requested, if reported.is_empty() { &self.options.audiences } else { &reported });
        if audiences.is_empty() && !requested.is_empty() {
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
        Ok(Some(AuthenticationResponse { audiences, ..AuthenticationResponse::new(with_authenticated_group(user)) }))
    }
}

/// The request of a review. It borrows the token, which may have a megabyte.
#[derive(Serialize)]
struct TokenReview<'a> {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: Empty,
    spec: TokenReviewSpec<'a>,
    status: TokenReviewStatus,
}

#[derive(Serialize)]
struct TokenReviewSpec<'a> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    audiences: Vec<&'a str>,
    token: &'a str,
}

#[derive(Serialize)]
struct TokenReviewStatus {
    user: Empty,
}

#[derive(Serialize)]
struct Empty {}

/// Encodes a review into memory of about its size.
fn encode_review(version: &'static str, token: &str, requested: &[Text]) -> Result<Bytes, AuthnError> {
    /// The length of a review without its token and audiences, and some quotes.
    const ENVELOPE: usize = 256;
    let audiences: Vec<&str> = requested.iter().map(Text::as_str).collect();
    let length = audiences.iter().map(|audience| audience.len() + ENVELOPE).sum::<usize>();
    let review = TokenReview {
        kind: "TokenReview",
        api_version: version,
        metadata: Empty {},
        spec: TokenReviewSpec { audiences, token },
        status: TokenReviewStatus { user: Empty {} },
    };
    let mut body = Vec::with_capacity(ENVELOPE + token.len() + length);
    serde_json::to_writer(&mut body, &review).map_err(|error| AuthnError(error.to_string()))?;
    Ok(body.into())
}

impl TokenAuthenticator for WebhookTokens {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [Text],
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        Box::pin(self.review(token, audiences))
    }
}

fn texts(value: &Value) -> Vec<Text> {
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    // With capacity for `system:authenticated`, which is added later.
    let mut texts = Vec::with_capacity(items.len() + 1);
    texts.extend(items.iter().filter_map(Value::as_str).map(Text::from));
    texts
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn encodes_long_tokens_without_further_copies() {
        let token = "x".repeat(1 << 20);
        let body = encode_review("authentication.k8s.io/v1", &token, &["a".into(), "b\"".into()]).expect("valid JSON");
        let review: Value = serde_json::from_slice(&body).expect("valid JSON");
        let want = json!({
            "kind": "TokenReview", "apiVersion": "authentication.k8s.io/v1", "metadata": {},
            "spec": {"audiences": ["a", "b\""], "token": token}, "status": {"user": {}}
        });
        assert_eq!(review, want);
        let capacity = body.try_into_mut().expect("the only owner").capacity();
        assert!(capacity < token.len() + (2 << 10), "{capacity}");
        let body = encode_review("authentication.k8s.io/v1", "t", &[]).expect("valid JSON");
        let review: Value = serde_json::from_slice(&body).expect("valid JSON");
        assert_eq!(review["spec"], json!({"token": "t"}));
    }
}
