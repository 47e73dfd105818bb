//! Requests that this server's authorizers refuse. The other server gets a SubjectAccessReview, which shows whether it refuses
//! them too, since a write must not be repeated: it might be allowed there.

use std::sync::Arc;
use std::time::Duration;

use binnacle_request::{BoxFuture, Pieces, RequestInfo};
use bytes::Bytes;
use serde_json::{Value, json};

use super::capture::{Capture, End};
use super::worker::Comparer;
use super::{AGENT, MAX_BYTES, Shadow, Work};
use crate::answer::Answer;
use crate::difference::differences;
use crate::endpoint::Outgoing;
use crate::explained::Rules;
use crate::subject::{Kind, Subject};
use crate::verdict::{Verdict, verdict};

/// The target of a review.
const REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
/// The resource of reviews. If one is refused, no review is sent for it: two servers could do that forever.
const REVIEW: (&str, &str) = ("authorization.k8s.io", "subjectaccessreviews");
/// The time after which both servers have seen a change of permissions.
const SETTLED: Duration = Duration::from_secs(2);
/// The status that refusals are counted with. A resource that is never served must not get series of its own.
const UNKNOWN: u16 = 404;

/// A request that the authorizers of this server refuse.
pub struct Refusal {
    pub info: Arc<RequestInfo>,
    /// The SubjectAccessReview with the attributes of the request, as JSON.
    pub review: Bytes,
    /// Returns true if the authorizers refuse the request now.
    pub is_refused: Box<dyn Fn() -> BoxFuture<'static, bool> + Send + Sync>,
}

/// A refusal that waits for a worker.
pub(crate) struct RefusedSample {
    refusal: Refusal,
    /// Counts the memory of the review.
    held: Capture,
}

impl Shadow {
    /// Compares a refusal that [`Shadow::is_chosen`] selected, unless too many samples are waiting.
    pub fn refused(&self, refusal: Refusal) {
        if (&*refusal.info.api_group, &*refusal.info.resource) == REVIEW {
            return;
        }
        let held = Capture::whole(&Pieces::from(refusal.review.clone()), self.budget.clone());
        let sample = RefusedSample { refusal, held };
        if sample.held.end() == End::Complete {
            self.queue_or_drop(Work::Refused(sample));
        } else {
            sample.drop_counted(self);
        }
    }
}

impl RefusedSample {
    pub(super) fn subject(&self) -> Subject {
        let headers = json!({"Accept": "application/json", "Content-Type": "application/json", "User-Agent": AGENT});
        let outgoing = Outgoing {
            method: "POST".to_owned(),
            target: REVIEWS.to_owned(),
            headers: headers.as_object().cloned().unwrap_or_default(),
            data: Some(self.refusal.review.to_vec()),
            token: None,
        };
        Subject::new(Kind::Review, &self.refusal.info, outgoing)
    }

    /// Counts a refusal for which the queue or the memory has no place.
    pub(super) fn drop_counted(&self, shadow: &Shadow) {
        shadow.metrics.count(&self.subject(), UNKNOWN, "dropped");
    }
}

impl Comparer {
    /// Compares the decision of the other server. If it allows the request, both decide again when changes of permissions have
    /// reached both.
    pub(super) async fn confirm(&self, sample: RefusedSample) {
        let subject = sample.subject();
        let verdict = match self.is_allowed(&subject).await {
            Ok(true) => self.confirm_settled(&sample, &subject).await,
            Ok(false) => Verdict::Equal,
            Err(error) => Verdict::Failed(error),
        };
        self.settle(&subject, UNKNOWN, verdict);
    }

    async fn confirm_settled(&self, sample: &RefusedSample, subject: &Subject) -> Verdict<'static> {
        tokio::time::sleep(SETTLED).await;
        if !(sample.refusal.is_refused)().await {
            return Verdict::Skew;
        }
        match self.is_allowed(subject).await {
            Ok(true) => different(subject),
            Ok(false) => Verdict::Skew,
            Err(error) => Verdict::Failed(error),
        }
    }

    /// Returns true if the other server would allow the request.
    async fn is_allowed(&self, review: &Subject) -> Result<bool, String> {
        let answer = self.endpoint.request_within(&review.outgoing, super::worker::TIMEOUT, MAX_BYTES).await?;
        allowed(&answer)
    }
}

fn allowed(answer: &Answer) -> Result<bool, String> {
    match answer.status {
        200 | 201 => {}
        401 | 403 => return Err(super::worker::refused_credentials(answer)),
        status => return Err(format!("{status}: {}", answer.text().chars().take(200).collect::<String>())),
    }
    let allowed = answer.tree().pointer("/status/allowed").and_then(Value::as_bool);
    allowed.ok_or_else(|| "the response to a SubjectAccessReview has no decision".to_owned())
}

/// Returns the verdict for a request that only the other server allows.
fn different(subject: &Subject) -> Verdict<'static> {
    let form = |allowed: bool| json!({"status": 201, "body": {"status": {"allowed": allowed}}});
    let (expected, got) = (form(true), form(false));
    let found = differences(&expected, &got);
    verdict(subject, Rules::reviewed(), expected, got, found)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;

    use super::allowed;
    use crate::answer::Answer;

    #[test]
    fn reads_decisions() {
        for (status, text, want) in [
            (201, r#"{"status": {"allowed": true}}"#, Some(true)),
            (201, r#"{"status": {"allowed": false, "reason": "no"}}"#, Some(false)),
            (201, "{}", None),
            (403, r#"{"status": {"allowed": false}}"#, None),
            (503, "", None),
        ] {
            let answer = Answer { status, headers: HeaderMap::new(), data: text.into() };
            assert_eq!(allowed(&answer).ok(), want, "{status} {text}");
        }
    }
}
