//! ImagePolicyWebhook: a webhook decides which images pods may use.

mod review;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use binnacle_meta::Status;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use binnacle_validation::names::label_key;
use binnacle_webhook::{AnswerCache, Backoff, WebhookError};

use crate::lookup::Lookup;
use crate::plugin::{Plugin, Request, Stage, forbidden, is_any_of};
use review::{Review, ReviewResponse};
pub use settings::ImagePolicySettings;

/// The maximum number of cached responses, as in kube-apiserver.
const MAX_CACHED_RESPONSES: usize = 1024;
/// The prefix of this plugin's audit annotations.
const PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";
const EPHEMERAL: &str = "ephemeralcontainers";

pub(crate) struct ImagePolicyWebhook {
    settings: ImagePolicySettings,
    lookup: Arc<dyn Lookup>,
    responses: AnswerCache<ReviewResponse>,
}

impl ImagePolicyWebhook {
    pub(crate) fn new(settings: ImagePolicySettings, lookup: Arc<dyn Lookup>) -> Self {
        Self { settings, lookup, responses: AnswerCache::new(MAX_CACHED_RESPONSES) }
    }

    async fn review_images(&self, request: Request<'_>, pod: &Value) -> Result<(), Status> {
        let attributes = request.attributes;
        let refused = |why: String| Err(forbidden(attributes, pod, why));
        let review = Review::of(pod, &attributes.namespace, attributes.subresource == EPHEMERAL);
        let response = match self.response(&review).await {
            Ok(response) => response,
            Err(error) if self.settings.default_allow => {
                tracing::warn!(%error, "image policy webhook unavailable, allowing images");
                request.annotate(&format!("{PREFIX}failed-open"), "true");
                return Ok(());
            }
            // A 403 from the webhook's server is returned as if it were about the pod.
            Err(WebhookError::Status { forbidden: Some(status), .. }) => return Err(*status),
            Err(error) => return refused(error.to_string()),
        };
        for (name, value) in &response.annotations {
            let key = format!("{PREFIX}{name}");
            let problems = label_key(&key);
            if problems.is_empty() {
                request.annotate(&key, value);
            } else {
                tracing::warn!(key, value, problems = problems.join("; "), "failed to set admission audit annotation");
            }
        }
        match (response.allowed, response.reason.as_str()) {
            (true, _) => Ok(()),
            (false, "") => refused("one or more images rejected by webhook backend".to_owned()),
            (false, why) => refused(format!("image policy webhook backend denied one or more images: {why}")),
        }
    }

    async fn response(&self, review: &Review) -> Result<ReviewResponse, WebhookError> {
        let key = review.spec();
        if let Some(response) = self.responses.get(&key) {
            return Ok(response);
        }
        let settings = &self.settings;
        let document = review.to_json();
        let posted =
            Backoff::starting_at(settings.retry_backoff).run(|| settings.client.post(document.clone())).await?;
        let response = ReviewResponse::read(&posted, &*self.lookup)?;
        let ttl = if response.allowed { settings.allow_ttl } else { settings.deny_ttl };
        self.responses.put(key, response.clone(), ttl);
        Ok(response)
    }
}

impl Plugin for ImagePolicyWebhook {
    fn name(&self) -> &'static str {
        "ImagePolicyWebhook"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate
            && matches!(attributes.operation, Operation::Create | Operation::Update)
            && is_any_of(attributes, "", "pods")
            && matches!(attributes.subresource.as_str(), "" | EPHEMERAL)
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.review_images(request, object))
    }
}
