//! The plugin MutatingAdmissionWebhook: webhooks that change objects, one after the other.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use binnacle_admission::{Plugin, Reinvocation, Request, Stage, forbidden};
use binnacle_admission_matching::{Matched, SharedDefault};
use binnacle_fields::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use binnacle_fields::metadata;
use binnacle_meta::{Status, Text};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::Attributes;
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::audit::{Round, annotate, note_mutation, note_open_mutation, note_patch};
use crate::call::{Call, CallOf, Failure, Time, timed_out};
use crate::encodings::{Forms, text};
use crate::hook::Hook;
use crate::managed_fields::restore_unreadable;
use crate::matching::{Comparison, Surroundings};
use crate::metrics::Type;
use crate::patch::{Patched, patched};
use crate::type_meta::Untyped;
use crate::webhooks::Webhooks;

const NAME: &str = "MutatingAdmissionWebhook";

/// The plugin.
pub struct Mutating {
    webhooks: Arc<Webhooks>,
    surroundings: Surroundings,
}

/// The state of the first pass that the second pass uses.
#[derive(Default)]
struct Passes {
    /// The object after the webhooks, if one of them can be reinvoked.
    left: Option<Value>,
    /// The called webhooks that are reinvoked if the object changes.
    called: HashSet<Text>,
    /// The webhooks to reinvoke.
    again: HashSet<Text>,
    /// True once a patch was applied.
    patched: bool,
}

impl Passes {
    /// Marks the webhooks called before as to be reinvoked, after a change of the object.
    fn changed(&mut self) {
        self.again.extend(self.called.drain());
    }
}

/// The calls of the webhooks for one request.
struct Dispatch<'a> {
    request: Request<'a>,
    surroundings: &'a Surroundings,
    comparison: Comparison<'a>,
    reinvocation: &'a Reinvocation,
    time: Time,
    options: Arc<[u8]>,
    forms: Forms,
    old_forms: Forms,
    /// The type of the object as the last patch left it.
    untyped: Untyped,
    /// The default that is shown in the object.
    shared: SharedDefault,
}

impl Mutating {
    pub fn new(webhooks: Arc<Webhooks>, surroundings: Surroundings) -> Self {
        Self { webhooks, surroundings }
    }

    async fn admit(&self, request: Request<'_>, object: &mut WriteObject) -> Result<(), Status> {
        let attributes = request.attributes;
        let not_ready = || forbidden(attributes, object, "not yet ready to handle request");
        let list = self.webhooks.list(attributes).await.ok_or_else(not_ready)?;
        let only_pass = Reinvocation::default();
        let mut dispatch = Dispatch {
            request,
            surroundings: &self.surroundings,
            comparison: Comparison::new(attributes, &self.surroundings),
            reinvocation: request.reinvocation().unwrap_or(&only_pass),
            time: Time::of(attributes, Instant::now()),
            options: text(&attributes.options.to_value()),
            forms: Forms::default(),
            old_forms: Forms::default(),
            untyped: Untyped::default(),
            shared: SharedDefault::default(),
        };
        dispatch.shared = SharedDefault::show(&dispatch.comparison.subject, object);
        if dispatch.reinvocation.is_second() {
            // Built-in plugins may have changed the object since.
            dispatch.passes(|passes| {
                if passes.left.as_ref().is_some_and(|left| *left != **object) {
                    passes.changed();
                }
            });
        }
        let mut before = None;
        for (index, hook) in list.candidates(attributes) {
            dispatch.ask(index, hook, object, &mut before).await?;
        }
        let subject = &dispatch.comparison.subject;
        subject.check_version(object)?;
        subject.check_metadata(object)?;
        if let Some(before) = &before {
            restore_unreadable(&request, before, object);
        }
        if subject.left_unpruned() {
            object.mark_unpruned();
        }
        dispatch.passes(|passes| {
            let may_be_asked_again = !passes.called.is_empty();
            passes.left = may_be_asked_again.then(|| Value::clone(object));
        });
        dispatch.shared.hide(object);
        Ok(())
    }
}

impl Dispatch<'_> {
    fn passes<T>(&self, use_them: impl FnOnce(&mut Passes) -> T) -> T {
        self.reinvocation.with_state(NAME, use_them)
    }

    /// Calls one webhook if it matches, and applies its patch to the object. `before` holds the object as it was before
    /// the first change.
    async fn ask(
        &mut self,
        index: usize,
        hook: &Hook,
        object: &mut Value,
        before: &mut Option<Value>,
    ) -> Result<(), Status> {
        let Some(matched) = self.comparison.concerns(hook, object, self.request.old).await? else { return Ok(()) };
        let second = self.reinvocation.is_second();
        // A webhook that was not called in the first pass is not called in the second, even if it would match now.
        if second && !self.passes(|passes| passes.again.contains(&hook.id)) {
            return Ok(());
        }
        let round = Round { second, index };
        let began = Instant::now();
        let outcome = self.call(hook, &matched, round, object).await;
        let was_patched =
            matches!(outcome, Ok(Some(_))) && self.passes(|passes| std::mem::replace(&mut passes.patched, true));
        let changed = match &outcome {
            Ok(Some(after)) => {
                after.object != *object
                    || after.untyped != self.untyped
                    || !was_patched
                        && self.comparison.subject.built_in(&matched.kind).is_some()
                        && has_new_times(object, self.request.old)
            }
            _ => false,
        };
        note_mutation(&self.request, hook, round, changed);
        self.passes(|passes| {
            if changed {
                passes.changed();
            }
            if hook.reinvoked {
                passes.called.insert(hook.id.clone());
            }
        });
        if changed {
            self.reinvocation.request();
        }
        let attributes = self.request.attributes;
        let metrics = &self.surroundings.metrics;
        match outcome {
            Ok(after) => {
                metrics.called(Type::Admit, &hook.name, attributes.operation, began.elapsed(), false, 200);
                if let Some(after) = after {
                    let replaced = std::mem::replace(object, after.object);
                    self.untyped = after.untyped;
                    before.get_or_insert(replaced);
                    self.shared = SharedDefault::show(&self.comparison.subject, object);
                    self.forms.forget();
                }
                Ok(())
            }
            Err(failure) => {
                let of = CallOf { of: Type::Admit, hook, attributes, took: began.elapsed() };
                failure.conclude(&of, &self.request, metrics, || note_open_mutation(&self.request, hook, round))?;
                if self.time.is_up(Instant::now()) { Err(timed_out()) } else { Ok(()) }
            }
        }
    }

    /// Calls a webhook, and returns the patched object; `None` without a patch.
    async fn call(
        &mut self,
        hook: &Hook,
        matched: &Matched,
        round: Round,
        object: &Value,
    ) -> Result<Option<Patched>, Failure> {
        let subject = &self.comparison.subject;
        let unusable = Failure::Unusable;
        self.untyped.convert_to(&matched.kind);
        let (kind, untyped) = (&matched.kind, &self.untyped);
        let sent = self.forms.untyped(subject, kind, Some(object), untyped).await.map_err(unusable)?;
        let old = self.old_forms.of(subject, &matched.kind, self.request.old).await.map_err(unusable)?;
        let call = Call {
            of: Type::Admit,
            hook,
            matched,
            attributes: self.request.attributes,
            kinds: subject.kinds(),
            object: &sent,
            old_object: &old,
            options: &self.options,
            time: self.time,
        };
        let answer = call.make().await?;
        annotate(&self.request, hook, &answer.audit_annotations);
        warn(&self.request, &answer.warnings);
        call.judge(&answer)?;
        let after = patched(subject, hook, matched, &answer, object, untyped).await?;
        if after.is_some() {
            note_patch(&self.request, hook, round, &answer.patch);
        }
        Ok(after)
    }
}

/// Returns true if this request has set times in the managed fields. For built-in kinds, Go's server keeps nanoseconds
/// in these until the first patch is applied, which leaves seconds: any patch then counts as a change.
fn has_new_times(object: &Value, old: Option<&Value>) -> bool {
    let times = |object: &Value| -> Vec<Text> {
        let entries = metadata(object).at(ObjectMeta::MANAGED_FIELDS).values();
        let times = entries.map(|entry| entry.at(ManagedFieldsEntry::TIME).str());
        times.filter(|time| !time.is_empty()).map(Text::from).collect()
    };
    let times_now = times(object);
    !times_now.is_empty() && old.is_none_or(|old| times(old) != times_now)
}

/// Adds a webhook's warnings to the response, unless a header cannot hold them.
pub(crate) fn warn(request: &Request<'_>, warnings: &[String]) {
    let told = |text: &&String| !text.is_empty() && !text.contains(char::is_control);
    warnings.iter().filter(told).for_each(|text| request.warn(text));
}

impl Plugin for Mutating {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate && self.webhooks.may_concern(attributes)
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.admit(request, object))
    }
}
