//! The plugin ValidatingAdmissionWebhook: webhooks that may refuse requests, called concurrently.

use std::sync::Arc;
use std::time::Instant;

use binnacle_admission::{Plugin, Request, Stage, forbidden};
use binnacle_admission_matching::Matched;
use binnacle_meta::Status;
use binnacle_registry::WriteObject;
use binnacle_registry::admission::Attributes;
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use binnacle_scheme::Kinds;
use futures::StreamExt;
use futures::stream::FuturesUnordered;

use crate::audit::{annotate, note_open_validation};
use crate::call::{Call, CallOf, Time, timed_out};
use crate::encodings::{Forms, text};
use crate::hook::Hook;
use crate::matching::{Comparison, Surroundings};
use crate::metrics::Type;
use crate::mutating::warn;
use crate::webhooks::Webhooks;

/// The plugin.
pub struct Validating {
    webhooks: Arc<Webhooks>,
    surroundings: Surroundings,
}

/// A matching webhook, and the encoded objects for it.
struct Concerned<'a> {
    hook: &'a Hook,
    matched: Matched,
    object: Arc<[u8]>,
    old: Arc<[u8]>,
}

impl Validating {
    pub fn new(webhooks: Arc<Webhooks>, surroundings: Surroundings) -> Self {
        Self { webhooks, surroundings }
    }

    async fn judge(&self, request: Request<'_>, object: &Value) -> Result<(), Status> {
        let attributes = request.attributes;
        let not_ready = || forbidden(attributes, object, "not yet ready to handle request");
        let list = self.webhooks.list(attributes).await.ok_or_else(not_ready)?;
        let mut comparison = Comparison::new(attributes, &self.surroundings);
        let (mut forms, mut old_forms) = (Forms::default(), Forms::default());
        let mut concerned = Vec::new();
        for (_, hook) in list.candidates(attributes) {
            let Some(matched) = comparison.concerns(hook, object, request.old).await? else { continue };
            let subject = &comparison.subject;
            let sent = forms.of(subject, &matched.kind, Some(object)).await?;
            let old = old_forms.of(subject, &matched.kind, request.old).await?;
            concerned.push(Concerned { hook, matched, object: sent, old });
        }
        if concerned.is_empty() {
            return Ok(());
        }
        let time = Time::of(attributes, Instant::now());
        if time.is_up(Instant::now()) {
            return Err(timed_out());
        }
        let options = text(&attributes.options.to_value());
        let kinds = comparison.subject.kinds();
        let ask = |(n, one)| self.ask(&request, kinds, one, n, &options, time);
        let mut answers: FuturesUnordered<_> = concerned.iter().enumerate().map(ask).collect();
        // The first refusal is reported, but all responses are awaited, for their annotations and warnings.
        let mut told = Ok(());
        while let Some(answer) = answers.next().await {
            told = told.and(answer);
        }
        told
    }

    async fn ask(
        &self,
        request: &Request<'_>,
        kinds: &dyn Kinds,
        concerned: &Concerned<'_>,
        n: usize,
        options: &[u8],
        time: Time,
    ) -> Result<(), Status> {
        let (hook, attributes) = (concerned.hook, request.attributes);
        let began = Instant::now();
        let call = Call {
            of: Type::Validating,
            hook,
            matched: &concerned.matched,
            attributes,
            kinds,
            object: &concerned.object,
            old_object: &concerned.old,
            options,
            time,
        };
        let outcome = call.make().await.and_then(|answer| {
            annotate(request, hook, &answer.audit_annotations);
            warn(request, &answer.warnings);
            call.judge(&answer)
        });
        let metrics = &self.surroundings.metrics;
        let took = began.elapsed();
        let Err(failure) = outcome else {
            metrics.called(Type::Validating, &hook.name, attributes.operation, took, false, 200);
            return Ok(());
        };
        let of = CallOf { of: Type::Validating, hook, attributes, took };
        failure.conclude(&of, request, metrics, || note_open_validation(request, hook, n))
    }
}

impl Plugin for Validating {
    fn name(&self) -> &'static str {
        "ValidatingAdmissionWebhook"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate && self.webhooks.may_concern(attributes)
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.judge(request, object))
    }
}
