//! The ValidatingAdmissionWebhook plugin: webhooks that may deny requests, called concurrently.

use std::sync::Arc;
use std::time::Instant;

use binnacle_admission::{Plugin, Request, Stage, forbidden};
use binnacle_admission_matching::MatchedResource;
use binnacle_meta::Status;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::Attributes;
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use binnacle_scheme::Kinds;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::audit::{annotate, annotate_failed_open_validation};
use crate::call::{Call, CallInfo, Deadlines, timed_out};
use crate::encodings::{Encodings, text};
use crate::hook::Hook;
use crate::matching::{PluginDependencies, WebhookMatcher};
use crate::metrics::Type;
use crate::mutating::warn;
use crate::webhooks::Webhooks;

/// The ValidatingAdmissionWebhook plugin.
pub struct Validating {
    webhooks: Arc<Webhooks>,
    dependencies: PluginDependencies,
}

/// A matching webhook and the encoded objects for it.
struct MatchedWebhook<'a> {
    hook: &'a Hook,
    matched: MatchedResource,
    object: Arc<[u8]>,
    old: Arc<[u8]>,
}

impl Validating {
    pub fn new(webhooks: Arc<Webhooks>, dependencies: PluginDependencies) -> Self {
        Self { webhooks, dependencies }
    }

    async fn validate_all(&self, request: Request<'_>, object: &Value) -> Result<(), Status> {
        let attributes = request.attributes;
        let not_ready = || forbidden(attributes, object, "not yet ready to handle request");
        let list = self.webhooks.list(attributes).await.ok_or_else(not_ready)?;
        let mut matcher = WebhookMatcher::new(attributes, &self.dependencies);
        let (mut encodings, mut old_encodings) = (Encodings::default(), Encodings::default());
        let mut matched_webhooks = Vec::new();
        for (_, hook) in list.candidates(attributes) {
            let Some(matched) = matcher.matches(hook, object, request.old).await? else { continue };
            let subject = &matcher.subject;
            let sent = encodings.of(subject, &matched.kind, Some(object)).await?;
            let old = old_encodings.of(subject, &matched.kind, request.old).await?;
            matched_webhooks.push(MatchedWebhook { hook, matched, object: sent, old });
        }
        if matched_webhooks.is_empty() {
            return Ok(());
        }
        let time = Deadlines::of(attributes, Instant::now());
        if time.are_expired(Instant::now()) {
            return Err(timed_out());
        }
        let options = text(&attributes.options.to_value());
        let kinds = matcher.subject.kinds();
        let invoke = |(n, one)| self.invoke(&request, kinds, one, n, &options, time);
        let mut results: FuturesUnordered<_> = matched_webhooks.iter().enumerate().map(invoke).collect();
        // The first denial is reported, but all responses are awaited for their annotations and warnings.
        let mut result = Ok(());
        while let Some(outcome) = results.next().await {
            result = result.and(outcome);
        }
        result
    }

    async fn invoke(
        &self,
        request: &Request<'_>,
        kinds: &dyn Kinds,
        webhook: &MatchedWebhook<'_>,
        n: usize,
        options: &[u8],
        time: Deadlines,
    ) -> Result<(), Status> {
        let (hook, attributes) = (webhook.hook, request.attributes);
        let began = Instant::now();
        let call = Call {
            of: Type::Validating,
            hook,
            matched: &webhook.matched,
            attributes,
            kinds,
            object: &webhook.object,
            old_object: &webhook.old,
            options,
            time,
        };
        let outcome = call.send().await.and_then(|response| {
            annotate(request, hook, &response.audit_annotations);
            warn(request, &response.warnings);
            call.check_allowed(&response)
        });
        let metrics = &self.dependencies.metrics;
        let took = began.elapsed();
        let Err(failure) = outcome else {
            metrics.called(Type::Validating, &hook.name, attributes.operation, took, false, 200);
            return Ok(());
        };
        let of = CallInfo { of: Type::Validating, hook, attributes, took };
        failure.apply_failure_policy(&of, request, metrics, || annotate_failed_open_validation(request, hook, n))
    }
}

impl Plugin for Validating {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate && self.webhooks.may_match(attributes)
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.validate_all(request, object))
    }
}
