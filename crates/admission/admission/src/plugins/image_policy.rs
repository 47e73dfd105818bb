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
use binnacle_webhook::{Answers, Backoff, WebhookError};

use crate::lookup::Lookup;
use crate::plugin::{Plugin, Request, Stage, forbidden, is_any_of};
use review::{Answer, Review};
pub use settings::ImagePolicySettings;

/// The maximum number of cached answers, as in kube-apiserver.
const MOST_REMEMBERED: usize = 1024;
/// The prefix of this plugin's audit annotations.
const PREFIX: &str = "imagepolicywebhook.image-policy.k8s.io/";
const EPHEMERAL: &str = "ephemeralcontainers";

pub(crate) struct ImagePolicyWebhook {
    settings: ImagePolicySettings,
    lookup: Arc<dyn Lookup>,
    answers: Answers<Answer>,
}

impl ImagePolicyWebhook {
    pub(crate) fn new(settings: ImagePolicySettings, lookup: Arc<dyn Lookup>) -> Self {
        Self { settings, lookup, answers: Answers::new(MOST_REMEMBERED) }
    }

    async fn judge(&self, request: Request<'_>, pod: &Value) -> Result<(), Status> {
        let attributes = request.attributes;
        let refused = |why: String| Err(forbidden(attributes, pod, why));
        let review = Review::of(pod, &attributes.namespace, attributes.subresource == EPHEMERAL);
        let answer = match self.answer(&review).await {
            Ok(answer) => answer,
            Err(error) if self.settings.default_allow => {
                tracing::warn!(%error, "images are allowed although nobody could be asked about them");
                request.annotate(&format!("{PREFIX}failed-open"), "true");
                return Ok(());
            }
            // A 403 from the webhook's server is returned as if it were about the pod.
            Err(WebhookError::Status { forbidden: Some(status), .. }) => return Err(*status),
            Err(error) => return refused(error.to_string()),
        };
        for (name, value) in &answer.annotations {
            let key = format!("{PREFIX}{name}");
            let problems = label_key(&key);
            if problems.is_empty() {
                request.annotate(&key, value);
            } else {
                tracing::warn!(key, value, problems = problems.join("; "), "failed to set admission audit annotation");
            }
        }
        match (answer.allowed, answer.reason.as_str()) {
            (true, _) => Ok(()),
            (false, "") => refused("one or more images rejected by webhook backend".to_owned()),
            (false, why) => refused(format!("image policy webhook backend denied one or more images: {why}")),
        }
    }

    async fn answer(&self, review: &Review) -> Result<Answer, WebhookError> {
        let question = review.spec();
        if let Some(answer) = self.answers.get(&question) {
            return Ok(answer);
        }
        let settings = &self.settings;
        let document = review.document();
        let posted =
            Backoff::starting_at(settings.retry_backoff).run(|| settings.client.post(document.clone())).await?;
        let answer = Answer::read(&posted, &*self.lookup)?;
        let ttl = if answer.allowed { settings.allow_ttl } else { settings.deny_ttl };
        self.answers.put(question, answer.clone(), ttl);
        Ok(answer)
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
        Box::pin(self.judge(request, object))
    }
}
