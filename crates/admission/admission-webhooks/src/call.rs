//! Calls of webhooks: their requests, timeouts and results.

use std::time::{Duration, Instant};

use binnacle_admission::Request;
use binnacle_admission_matching::MatchedResource;
use binnacle_meta::{Status, go_quote};
use binnacle_registry::admission::Attributes;
use binnacle_request::latency::{Part, measured};
use binnacle_scheme::Kinds;
use binnacle_webhook::WebhookError;
use bytes::Bytes;
use uuid::Uuid;

use crate::backends::{Backend, MAX_TIMEOUT};
use crate::hook::Hook;
use crate::metrics::{Metrics, Rejection, SkipReason, Type};
use crate::refusal::refusal;
use crate::response::{ResponseError, WebhookResponse};
use crate::review::ReviewRequest;

/// The time that webhooks with `failurePolicy: Ignore` leave for the rest of the request; half of the remaining time if
/// less than twice as much is left.
const RESERVE: Duration = Duration::from_secs(1);
/// The duration from which a failure is slow.
const SLOW: Duration = Duration::from_secs(1);
/// The maximum number of attempts if the server requests retries.
const ATTEMPTS: u32 = 11;
const UNAVAILABLE: u16 = 503;

/// A call of a webhook.
pub(crate) struct Call<'a> {
    pub(crate) of: Type,
    pub(crate) hook: &'a Hook,
    pub(crate) matched: &'a MatchedResource,
    pub(crate) attributes: &'a Attributes,
    /// The kinds for decoding reviews.
    pub(crate) kinds: &'a dyn Kinds,
    /// Objects and options as JSON, in the version that the webhook matched.
    pub(crate) object: &'a [u8],
    pub(crate) old_object: &'a [u8],
    pub(crate) options: &'a [u8],
    pub(crate) time: Deadlines,
}

/// The deadlines for a request's webhooks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Deadlines {
    deadline: Option<Instant>,
    /// The deadline for webhooks with `failurePolicy: Ignore`.
    ignorable: Option<Instant>,
}

/// The reason why a webhook did not allow a request.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The call failed; `failurePolicy` applies.
    Call { why: String, code: u16, passed_over: Option<SkipReason> },
    /// The webhook denied the request.
    Refused(Status),
    /// The webhook must not be called for the request, or its patch is invalid; `failurePolicy` does not apply.
    Unusable(Status),
}

impl Deadlines {
    pub(crate) fn of(attributes: &Attributes, now: Instant) -> Self {
        let reserve = |deadline: Instant| RESERVE.min(deadline.saturating_duration_since(now) / 2);
        let ignorable = attributes.deadline.map(|deadline| deadline.checked_sub(reserve(deadline)).unwrap_or(now));
        Self { deadline: attributes.deadline, ignorable }
    }

    /// Returns true if the request's deadline has passed.
    pub(crate) fn are_expired(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| deadline <= now)
    }

    /// Returns the timeout of a call, and true if it is shorter than the webhook's own timeout.
    fn timeout(&self, may_be_ignored: bool, own: Option<Duration>, now: Instant) -> (Option<Duration>, bool) {
        let until = if may_be_ignored { self.ignorable } else { self.deadline };
        let left = until.map(|until| until.saturating_duration_since(now));
        let own = own.map(|own| own.min(MAX_TIMEOUT));
        match (own, left) {
            (Some(own), Some(left)) => (Some(own.min(left)), left < own),
            (own, left) => (own.or(left), own.is_none()),
        }
    }
}

/// Returns the status for a request that timed out.
pub(crate) fn timed_out() -> Status {
    Status::timeout("request did not complete within requested timeout", 0)
}

/// Returns the status for a request whose deadline passed during a call. It does not mention the webhook, which may not
/// be the slow one.
fn deadline_exceeded() -> Status {
    Status::timeout("request did not complete within requested timeout - context deadline exceeded", 0)
}

impl Failure {
    fn call(why: impl Into<String>, code: u16) -> Self {
        Self::Call { why: why.into(), code, passed_over: None }
    }

    /// Returns the failure for an unusable response.
    pub(crate) fn of_response(why: impl Into<String>) -> Self {
        Self::call(why, UNAVAILABLE)
    }

    /// Records the failure, and returns the request's error. If the webhook fails open, `annotate_failed_open` is
    /// called, and the client gets a warning if the reason is a lack of time.
    pub(crate) fn apply_failure_policy(
        self,
        call: &CallInfo<'_>,
        request: &Request<'_>,
        metrics: &Metrics,
        annotate_failed_open: impl FnOnce(),
    ) -> Result<(), Status> {
        let was_late = matches!(&self, Self::Call { passed_over: Some(SkipReason::Deadline), .. });
        if let Some(status) = self.record(call, metrics) {
            return Err(if was_late { deadline_exceeded() } else { status });
        }
        annotate_failed_open();
        if was_late {
            request.warn(skipped_warning(call.hook));
        }
        Ok(())
    }

    /// Records the failure; `None` if the webhook fails open.
    fn record(self, call: &CallInfo<'_>, metrics: &Metrics) -> Option<Status> {
        let CallInfo { of, hook, attributes, took } = *call;
        let (name, operation) = (hook.name.as_str(), attributes.operation);
        match self {
            Self::Call { why, code, passed_over } => {
                if let Some(passed_over) = passed_over {
                    metrics.passed_over(of, name, passed_over);
                }
                let why = format!("failed calling webhook {}: {why}", go_quote(name));
                metrics.called(of, name, operation, took, !hook.ignores_failures, code);
                if hook.ignores_failures {
                    metrics.failed_open(of, name);
                    tracing::warn!(why, "failed calling a webhook, failing open");
                    return None;
                }
                metrics.rejected(of, name, operation, Rejection::CallingWebhook, code);
                tracing::warn!(why, "failed calling a webhook, failing closed");
                Some(Status::internal(why))
            }
            Self::Refused(status) => {
                metrics.rejected(of, name, operation, Rejection::NoError, status.code());
                metrics.called(of, name, operation, took, true, status.code());
                Some(status)
            }
            Self::Unusable(status) => {
                metrics.rejected(of, name, operation, Rejection::Internal, 0);
                metrics.called(of, name, operation, took, true, 0);
                Some(status)
            }
        }
    }
}

/// The values of a call for metrics.
#[derive(Clone, Copy)]
pub(crate) struct CallInfo<'a> {
    pub(crate) of: Type,
    pub(crate) hook: &'a Hook,
    pub(crate) attributes: &'a Attributes,
    pub(crate) took: Duration,
}

impl Call<'_> {
    /// Calls the webhook, and returns its response.
    pub(crate) async fn send(&self) -> Result<WebhookResponse, Failure> {
        let hook = self.hook;
        if self.attributes.dry_run && !hook.supports_dry_run {
            let why = format!("admission webhook {} does not support dry run", go_quote(&hook.name));
            return Err(Failure::Unusable(Status::bad_request(why)));
        }
        let version = hook.reviews.ok_or_else(|| {
            let why = "could not create admission objects: webhook does not accept known AdmissionReview versions (v1, \
                       v1beta1)";
            Failure::call(why, 400)
        })?;
        let backend = hook.backend.as_ref();
        let backend = backend.map_err(|why| Failure::call(format!("could not get REST client: {why}"), 500))?;
        let uid = Uuid::new_v4().to_string();
        let review_request = ReviewRequest {
            version,
            uid: &uid,
            attributes: self.attributes,
            kind: &self.matched.kind,
            resource: &self.matched.resource,
            object: self.object,
            old_object: self.old_object,
            options: self.options,
        };
        let part = match self.of {
            Type::Admit => Part::MutatingWebhooks,
            Type::Validating => Part::ValidatingWebhooks,
        };
        // The memory of the response is charged until it is decoded.
        let posted = measured(part, self.exchange(backend, review_request.to_json())).await?;
        let answer = WebhookResponse::read(self.kinds, &posted.body, version, &uid, self.of == Type::Admit);
        answer.map_err(|bad| match bad {
            ResponseError::Unreadable(why) => Failure::of_response(format!("failed to call webhook: {why}")),
            ResponseError::Invalid(why) => Failure::of_response(format!("received invalid webhook response: {why}")),
        })
    }

    /// Returns an error if the response denies the request.
    pub(crate) fn check_allowed(&self, answer: &WebhookResponse) -> Result<(), Failure> {
        match answer.allowed {
            true => Ok(()),
            false => Err(Failure::Refused(refusal(&self.hook.name, answer.status.as_ref()))),
        }
    }

    /// Posts a document and returns the response, unless the breaker is open or no time is left.
    async fn exchange(&self, backend: &Backend, document: Bytes) -> Result<binnacle_webhook::Answer, Failure> {
        let began = Instant::now();
        let (time, is_shortened) = self.time.timeout(self.hook.ignores_failures, self.hook.timeout, began);
        let passed_over = |why: String, passed_over| {
            let why = format!("failed to call webhook: {why}");
            Failure::Call { why, code: UNAVAILABLE, passed_over: Some(passed_over) }
        };
        if time.is_some_and(|time| time.is_zero()) {
            return Err(passed_over("context deadline exceeded".to_owned(), SkipReason::Deadline));
        }
        let permit = backend.breaker.enter(began);
        let permit =
            permit.map_err(|why| passed_over(format!("{why} (not called again so soon)"), SkipReason::Dead))?;
        match post(backend, document, time, began).await {
            Ok(answer) => {
                permit.succeed();
                Ok(answer)
            }
            Err(error) => {
                let is_slow = match &error {
                    WebhookError::TimedOut { .. } => true,
                    WebhookError::Connection { .. } | WebhookError::TooLarge { .. } => began.elapsed() >= SLOW,
                    WebhookError::Status { .. } | WebhookError::Malformed(_) => false,
                };
                match (is_slow, is_shortened) {
                    (false, _) => permit.succeed(),
                    (true, false) => permit.fail(&error.to_string(), Instant::now()),
                    // The request had too little time left, which says nothing about the server.
                    (true, true) => return Err(passed_over(error.to_string(), SkipReason::Deadline)),
                }
                Err(Failure::call(format!("failed to call webhook: {error}"), error.code().unwrap_or(UNAVAILABLE)))
            }
        }
    }
}

/// Posts a document, and retries after the time in `Retry-After` headers.
async fn post(
    backend: &Backend,
    document: Bytes,
    time: Option<Duration>,
    began: Instant,
) -> Result<binnacle_webhook::Answer, WebhookError> {
    for _ in 1..ATTEMPTS {
        let left = time.map(|time| time.saturating_sub(began.elapsed()));
        let answer = match backend.client.post_within(document.clone(), left).await {
            Err(WebhookError::Status { code, retry_after: Some(seconds), .. }) if code == 429 || code >= 500 => {
                let pause = Duration::from_secs(seconds.into());
                let left = time.unwrap_or(MAX_TIMEOUT).saturating_sub(began.elapsed());
                if pause >= left {
                    tokio::time::sleep(left).await;
                    return Err(WebhookError::TimedOut { message: "context deadline exceeded".to_owned() });
                }
                tokio::time::sleep(pause).await;
                continue;
            }
            answer => answer?,
        };
        if answer.body.is_empty() {
            let media = answer.headers.get("content-type").and_then(|value| value.to_str().ok()).unwrap_or_default();
            let code = answer.code;
            let why = format!("0-length response with status code: {code} and content type: {media}");
            return Err(WebhookError::Malformed(why));
        }
        return Ok(answer);
    }
    let left = time.map(|time| time.saturating_sub(began.elapsed()));
    backend.client.post_within(document, left).await
}

/// Returns the warning for a webhook that failed open for lack of time.
fn skipped_warning(hook: &Hook) -> String {
    format!("admission webhook {} was not waited for: the request had no time left for it", go_quote(&hook.name))
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use binnacle_kinds::BuiltInKinds;
    use binnacle_meta::{GroupVersionKind, GroupVersionResource};
    use binnacle_registry::admission::{Operation, OperationOptions};
    use binnacle_request::User;
    use binnacle_testkit::Hook as Server;

    use super::*;
    use crate::testing::{creation, hooks};

    #[test]
    fn timeout_depends_on_deadline_and_failure_policy() {
        let now = Instant::now();
        let seconds = Duration::from_secs_f64;
        for (left, must, asks, want, is_shortened) in [
            (None, true, Some(10.0), Some(10.0), false),
            (None, true, None, None, true),
            (Some(34.0), true, Some(10.0), Some(10.0), false),
            (Some(4.0), true, Some(10.0), Some(4.0), true),
            // With `failurePolicy: Ignore`, a second is left, or half of a shorter time.
            (Some(34.0), false, Some(10.0), Some(10.0), false),
            (Some(4.0), false, Some(10.0), Some(3.0), true),
            (Some(1.0), false, Some(10.0), Some(0.5), true),
            (Some(0.0), false, Some(10.0), Some(0.0), true),
        ] {
            let attributes = Attributes {
                operation: Operation::Create,
                kind: GroupVersionKind::new("", "v1", "Pod"),
                resource: GroupVersionResource::new("", "v1", "pods"),
                subresource: "".into(),
                namespace: "".into(),
                name: "".into(),
                user: User::default(),
                dry_run: false,
                options: OperationOptions::None,
                deadline: left.map(|left| now + seconds(left)),
                by_server: false,
            };
            let got = Deadlines::of(&attributes, now).timeout(!must, asks.map(seconds), now);
            assert_eq!(got, (want.map(seconds), is_shortened), "{left:?} {must} {asks:?}");
        }
    }

    /// The response of a webhook counts as memory of the caller while it is in use.
    #[tokio::test(flavor = "multi_thread")]
    async fn charges_the_memory_of_responses_until_they_are_decoded() {
        // As large as a response may be. Eighteen of them exceed the share of a user.
        const SIZE: usize = 8 << 20;
        const MOST: usize = 18;
        let server = Server::start(|_| async { http::Response::new(vec![b' '; SIZE]) }).await;
        let hooks = hooks(&format!(
            r#"[{{"name":"a.b.c","sideEffects":"None","admissionReviewVersions":["v1"],
                  "clientConfig":{{"url":"{}","caBundle":"{}"}}}}]"#,
            server.url(),
            STANDARD.encode(&server.authority)
        ));
        let backend = hooks[0].backend.as_ref().expect("it can be called");
        let attributes = creation("", "ConfigMap", "configmaps");
        let matched = MatchedResource { kind: attributes.kind.clone(), resource: attributes.resource.clone() };
        let call = Call {
            of: Type::Admit,
            hook: &hooks[0],
            matched: &matched,
            attributes: &attributes,
            kinds: &BuiltInKinds,
            object: b"{}",
            old_object: b"",
            options: b"",
            time: Deadlines::of(&attributes, Instant::now()),
        };
        let mut in_use = Vec::new();
        let refused = loop {
            match call.exchange(backend, Bytes::from_static(b"{}")).await {
                Ok(response) => in_use.push(response),
                Err(failure) => break failure,
            }
            assert!(in_use.len() < MOST, "{MOST} responses in use");
        };
        let Failure::Call { why, .. } = refused else { panic!("{refused:?}") };
        assert!(why.contains("the memory for large requests is in use"), "{why}");
        assert!(in_use.len() >= MOST / 2, "{}", in_use.len());
        drop(in_use);
        assert!(call.exchange(backend, Bytes::from_static(b"{}")).await.is_ok(), "the memory was released");
    }
}
