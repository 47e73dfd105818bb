//! Authorization by webhooks: a SubjectAccessReview is posted to an HTTPS server for each decision, and responses are
//! cached.

mod match_conditions;
mod review;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_meta::Text;
use binnacle_request::{BoxFuture, Decision, User};
use binnacle_webhook::{AnswerCache, Backoff, Client, WebhookError};

use crate::{Attributes, Authorizer, AuthzError, Metrics, Rules};
pub(crate) use match_conditions::MatchConditions;
use review::{Review, Status};
pub use review::{ReviewVersion, access_review};

/// The number of cached responses, as in kube-apiserver.
const MAX_CACHED_RESPONSES: usize = 8192;
/// The maximum length of the attributes and of the reason of cached responses: longer ones may be an attempt to exhaust
/// memory.
const MAX_CACHED_LENGTH: usize = 10_000;

/// The maximum size of a response in bytes.
const MAX_RESPONSE: usize = 1 << 20;
/// The length to which reasons are truncated, since errors and audit events repeat them.
const MAX_REASON: usize = 16 << 10;

/// The options of a webhook.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct WebhookOptions {
    /// The label in metrics.
    pub(crate) name: String,
    pub(crate) version: ReviewVersion,
    /// The TTL of responses that allow; zero disables caching.
    pub(crate) authorized_ttl: Duration,
    pub(crate) unauthorized_ttl: Duration,
    /// True if a failing webhook denies the request instead of having no opinion (`failurePolicy`).
    pub(crate) deny_on_error: bool,
    /// The delay before the first retry.
    pub(crate) retry_after: Duration,
}

/// An authorizer that calls a webhook.
pub(crate) struct Webhook {
    client: Client,
    options: WebhookOptions,
    conditions: MatchConditions,
    responses: AnswerCache<Status>,
    metrics: Arc<Metrics>,
}

impl Webhook {
    /// Creates the authorizer. The webhook is called only for requests that match all `conditions`.
    pub(crate) fn new(
        client: Client,
        options: WebhookOptions,
        conditions: MatchConditions,
        metrics: Arc<Metrics>,
    ) -> Self {
        Self { client, options, conditions, responses: AnswerCache::new(MAX_CACHED_RESPONSES), metrics }
    }

    async fn decide(&self, attributes: &Attributes<'_>) -> Result<Decision, AuthzError> {
        let review = Review::of(attributes);
        match self.conditions.are_met(&review, &self.options.name, &self.metrics) {
            Ok(true) => {}
            Ok(false) => return Ok(Decision::NoOpinion(Text::default())),
            Err(why) => return Err(self.failed(why)),
        }
        let key = review.key(self.options.version);
        let status = match self.responses.get(&key) {
            Some(status) => status,
            None => {
                let status = self.review(&review).await?;
                let ttl = if status.allowed { self.options.authorized_ttl } else { self.options.unauthorized_ttl };
                let size = client_chosen_length(attributes).max(status.reason.len());
                if !ttl.is_zero() && size < MAX_CACHED_LENGTH {
                    self.responses.put(key, status.clone(), ttl);
                }
                status
            }
        };
        match (status.denied, status.allowed) {
            (true, true) => {
                let why = "webhook subject access review returned both allow and deny response";
                Err(AuthzError::denying(why, status.reason))
            }
            (true, false) => Ok(Decision::Deny(status.reason)),
            (false, true) => Ok(Decision::Allow(status.reason)),
            (false, false) => Ok(Decision::NoOpinion(status.reason)),
        }
    }

    async fn review(&self, review: &Review) -> Result<Status, AuthzError> {
        let body = review.to_json(self.options.version);
        let mut result = "error";
        let outcome = Backoff::starting_at(self.options.retry_after)
            .run(|| {
                let (call, body) = (Call::begin(&self.options.name, &self.metrics), body.clone());
                async move {
                    let response = self.client.post(body).await;
                    let status = response.and_then(|response| Status::read(&response.body, self.options.version));
                    call.end(&status);
                    status
                }
            })
            .await;
        outcome.map_err(|error| {
            tracing::error!(webhook = self.options.name, %error, "Failed to make webhook authorizer request");
            if is_timeout(&error) {
                result = "timeout";
            }
            if !self.options.deny_on_error {
                self.metrics.webhook_failed_open(&self.options.name, result);
            }
            self.failed(error.to_string())
        })
    }

    fn failed(&self, why: String) -> AuthzError {
        if self.options.deny_on_error { AuthzError::denying(why, "") } else { AuthzError::new(why) }
    }
}

impl Authorizer for Webhook {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(self.decide(attributes))
    }

    fn rules_for<'a>(&'a self, _: &'a User, _: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async { Rules::unknown("webhook authorizer does not support user rule resolution") })
    }
}

/// Returns the length of the attributes that the client chose.
fn client_chosen_length(attributes: &Attributes<'_>) -> usize {
    let Attributes { namespace, verb, api_group, api_version, resource, subresource, name, path, .. } = attributes;
    [namespace, verb, api_group, api_version, resource, subresource, name, path].into_iter().map(|s| s.len()).sum()
}

fn is_timeout(error: &WebhookError) -> bool {
    matches!(error, WebhookError::TimedOut { .. }) || error.code() == Some(504)
}

/// Records the metrics of a call, which counts as canceled if it is dropped before it finishes.
struct Call<'a> {
    name: &'a str,
    metrics: &'a Metrics,
    began: Instant,
    result: &'static str,
}

impl<'a> Call<'a> {
    fn begin(name: &'a str, metrics: &'a Metrics) -> Self {
        Self { name, metrics, began: Instant::now(), result: "canceled" }
    }

    fn end(mut self, outcome: &Result<Status, WebhookError>) {
        self.result = match outcome {
            Ok(_) => "success",
            Err(error) if is_timeout(error) => "timeout",
            Err(_) => "error",
        };
    }
}

impl Drop for Call<'_> {
    fn drop(&mut self) {
        self.metrics.webhook_called(self.name, self.result, self.began.elapsed());
    }
}
