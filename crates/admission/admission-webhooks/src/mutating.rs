//! The MutatingAdmissionWebhook plugin: webhooks that change objects, called in order.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use binnacle_admission::{Plugin, Reinvocation, Request, Stage, forbidden};
use binnacle_admission_matching::{MatchedResource, SharedDefault};
use binnacle_fields::meta::v1::{ManagedFieldsEntry, ObjectMeta};
use binnacle_fields::metadata;
use binnacle_meta::{Status, Text};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::Attributes;
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::audit::{Round, annotate, annotate_failed_open_mutation, annotate_mutation, annotate_patch};
use crate::call::{Call, CallInfo, Deadlines, Failure, timed_out};
use crate::encodings::{Encodings, text};
use crate::hook::Hook;
use crate::managed_fields::restore_unreadable;
use crate::matching::{PluginDependencies, WebhookMatcher};
use crate::metrics::Type;
use crate::patch::{PatchedObject, apply_patch};
use crate::type_meta::MissingTypeMeta;
use crate::webhooks::Webhooks;

const NAME: &str = "MutatingAdmissionWebhook";

/// The MutatingAdmissionWebhook plugin.
pub struct Mutating {
    webhooks: Arc<Webhooks>,
    dependencies: PluginDependencies,
}

/// The state that is passed from the first pass to the second.
#[derive(Default)]
struct ReinvocationState {
    /// The object after the last webhook, if one of them can be reinvoked.
    last_object: Option<Value>,
    /// The webhooks that were called and must be reinvoked if the object changes.
    called: HashSet<Text>,
    /// The webhooks to reinvoke.
    due: HashSet<Text>,
    /// True once a patch was applied.
    patched: bool,
}

impl ReinvocationState {
    /// Marks the webhooks that were called before a change of the object for reinvocation.
    fn changed(&mut self) {
        self.due.extend(self.called.drain());
    }
}

/// The calls of a request's webhooks.
struct Dispatch<'a> {
    request: Request<'a>,
    dependencies: &'a PluginDependencies,
    matcher: WebhookMatcher<'a>,
    reinvocation: &'a Reinvocation,
    time: Deadlines,
    options: Arc<[u8]>,
    encodings: Encodings,
    old_encodings: Encodings,
    /// The type fields that the last patch removed.
    missing_type_meta: MissingTypeMeta,
    /// The default that was set in the object temporarily.
    shared: SharedDefault,
}

impl Mutating {
    pub fn new(webhooks: Arc<Webhooks>, dependencies: PluginDependencies) -> Self {
        Self { webhooks, dependencies }
    }

    async fn admit(&self, request: Request<'_>, object: &mut WriteObject) -> Result<(), Status> {
        let attributes = request.attributes;
        let not_ready = || forbidden(attributes, object, "not yet ready to handle request");
        let list = self.webhooks.list(attributes).await.ok_or_else(not_ready)?;
        let only_pass = Reinvocation::default();
        let mut dispatch = Dispatch {
            request,
            dependencies: &self.dependencies,
            matcher: WebhookMatcher::new(attributes, &self.dependencies),
            reinvocation: request.reinvocation().unwrap_or(&only_pass),
            time: Deadlines::of(attributes, Instant::now()),
            options: text(&attributes.options.to_value()),
            encodings: Encodings::default(),
            old_encodings: Encodings::default(),
            missing_type_meta: MissingTypeMeta::default(),
            shared: SharedDefault::default(),
        };
        dispatch.shared = SharedDefault::show(&dispatch.matcher.subject, object);
        if dispatch.reinvocation.is_second() {
            // Other plugins may have changed the object since the first pass.
            dispatch.passes(|passes| {
                if passes.last_object.as_ref().is_some_and(|last_object| *last_object != **object) {
                    passes.changed();
                }
            });
        }
        let mut before = None;
        for (index, hook) in list.candidates(attributes) {
            dispatch.invoke(index, hook, object, &mut before).await?;
        }
        let subject = &dispatch.matcher.subject;
        subject.check_version(object)?;
        subject.check_metadata(object)?;
        if let Some(before) = &before {
            restore_unreadable(&request, before, object);
        }
        if subject.left_unpruned() {
            object.mark_unpruned();
        }
        dispatch.passes(|passes| {
            let may_be_reinvoked = !passes.called.is_empty();
            passes.last_object = may_be_reinvoked.then(|| Value::clone(object));
        });
        dispatch.shared.hide(object);
        Ok(())
    }
}

impl Dispatch<'_> {
    fn passes<T>(&self, f: impl FnOnce(&mut ReinvocationState) -> T) -> T {
        self.reinvocation.with_state(NAME, f)
    }

    /// Calls a webhook if it matches, and applies its patch to the object. `before` is the object before the first
    /// change.
    async fn invoke(
        &mut self,
        index: usize,
        hook: &Hook,
        object: &mut Value,
        before: &mut Option<Value>,
    ) -> Result<(), Status> {
        let Some(matched) = self.matcher.matches(hook, object, self.request.old).await? else { return Ok(()) };
        let second = self.reinvocation.is_second();
        // Webhooks that were not called in the first pass are not called in the second, even if they match now.
        if second && !self.passes(|passes| passes.due.contains(&hook.id)) {
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
                    || after.missing_type_meta != self.missing_type_meta
                    || !was_patched
                        && self.matcher.subject.built_in(&matched.kind).is_some()
                        && has_new_times(object, self.request.old)
            }
            _ => false,
        };
        annotate_mutation(&self.request, hook, round, changed);
        self.passes(|passes| {
            if changed {
                passes.changed();
            }
            if hook.is_reinvocable {
                passes.called.insert(hook.id.clone());
            }
        });
        if changed {
            self.reinvocation.request();
        }
        let attributes = self.request.attributes;
        let metrics = &self.dependencies.metrics;
        match outcome {
            Ok(after) => {
                metrics.called(Type::Admit, &hook.name, attributes.operation, began.elapsed(), false, 200);
                if let Some(after) = after {
                    let replaced = std::mem::replace(object, after.object);
                    self.missing_type_meta = after.missing_type_meta;
                    before.get_or_insert(replaced);
                    self.shared = SharedDefault::show(&self.matcher.subject, object);
                    self.encodings.clear();
                }
                Ok(())
            }
            Err(failure) => {
                let of = CallInfo { of: Type::Admit, hook, attributes, took: began.elapsed() };
                failure.apply_failure_policy(&of, &self.request, metrics, || {
                    annotate_failed_open_mutation(&self.request, hook, round)
                })?;
                if self.time.are_expired(Instant::now()) { Err(timed_out()) } else { Ok(()) }
            }
        }
    }

    /// Calls a webhook and returns the patched object; `None` without a patch.
    async fn call(
        &mut self,
        hook: &Hook,
        matched: &MatchedResource,
        round: Round,
        object: &Value,
    ) -> Result<Option<PatchedObject>, Failure> {
        let subject = &self.matcher.subject;
        let unusable = Failure::Unusable;
        self.missing_type_meta.convert_to(&matched.kind);
        let (kind, missing_type_meta) = (&matched.kind, &self.missing_type_meta);
        let sent =
            self.encodings.without_type_meta(subject, kind, Some(object), missing_type_meta).await.map_err(unusable)?;
        let old = self.old_encodings.of(subject, &matched.kind, self.request.old).await.map_err(unusable)?;
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
        let response = call.send().await?;
        annotate(&self.request, hook, &response.audit_annotations);
        warn(&self.request, &response.warnings);
        call.check_allowed(&response)?;
        let after = apply_patch(subject, hook, matched, &response, object, missing_type_meta).await?;
        if after.is_some() {
            annotate_patch(&self.request, hook, round, &response.patch);
        }
        Ok(after)
    }
}

/// Returns true if this request has set times in the managed fields. For built-in kinds, kube-apiserver keeps
/// nanoseconds in them until the first patch is applied, which truncates them to seconds, so that any patch counts as a
/// change.
fn has_new_times(object: &Value, old: Option<&Value>) -> bool {
    let times = |object: &Value| -> Vec<Text> {
        let entries = metadata(object).at(ObjectMeta::MANAGED_FIELDS).values();
        let times = entries.map(|entry| entry.at(ManagedFieldsEntry::TIME).str());
        times.filter(|time| !time.is_empty()).map(Text::from).collect()
    };
    let times_now = times(object);
    !times_now.is_empty() && old.is_none_or(|old| times(old) != times_now)
}

/// Adds a webhook's warnings to the response, except those that are not valid in headers.
pub(crate) fn warn(request: &Request<'_>, warnings: &[String]) {
    let is_valid = |text: &&String| !text.is_empty() && !text.contains(char::is_control);
    warnings.iter().filter(is_valid).for_each(|text| request.warn(text));
}

impl Plugin for Mutating {
    fn name(&self) -> &'static str {
        NAME
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate && self.webhooks.may_match(attributes)
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.admit(request, object))
    }
}

#[cfg(test)]
mod tests {
    use binnacle_registry::RequestNotes;

    use super::*;
    use crate::testing::{creation, parse};

    /// Returns the warnings of a request.
    fn warnings(use_request: impl FnOnce(&Request<'_>)) -> Vec<String> {
        let (notes, attributes) = (RequestNotes::default(), creation("", "Pod", "pods"));
        use_request(&Request::new(&attributes, None, &notes));
        notes.warnings().take()
    }

    #[test]
    fn drops_warnings_that_headers_cannot_have() {
        let given = ["", "a\nb", "c\u{7f}", "é", "d"].map(str::to_owned);
        assert_eq!(warnings(|request| warn(request, &given)), ["é", "d"]);
    }

    /// Checks whether an object has times that the old object lacks.
    fn check_times(old: Option<&str>, object: &str, want: bool) {
        let object_of = |entries: &str| parse(&format!(r#"{{"metadata": {{"managedFields": {entries}}}}}"#));
        let old = old.map(object_of);
        assert_eq!(has_new_times(&object_of(object), old.as_ref()), want, "{object}");
    }

    #[test]
    fn managed_fields_have_new_times_if_the_request_set_some() {
        let (one, two) = (r#"[{"time": "2026-01-01T00:00:00Z"}]"#, r#"[{"time": "2026-01-02T00:00:00Z"}]"#);
        check_times(None, one, true);
        check_times(None, "[{}]", false);
        check_times(Some(one), one, false);
        check_times(Some(one), two, true);
        check_times(Some(one), "null", false);
        check_times(Some("[{}]"), one, true);
    }

    #[test]
    fn restores_managed_fields_that_became_undecodable() {
        let object_of = |entries: &str| parse(&format!(r#"{{"metadata": {{"managedFields": {entries}}}}}"#));
        let good = r#"[{"manager": "m", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]"#;
        let other = good.replace("Update", "Apply");
        let bad = good.replace("FieldsV1\"", "FieldsV2\"");
        for (before, after, want, count) in [
            (good, good, good, 0),
            (good, &other, &other, 0),
            (good, &bad, good, 1),
            ("null", &bad, "null", 1),
            (good, "[1]", "[1]", 0),
        ] {
            let (before, mut object) = (object_of(before), object_of(after));
            let got = warnings(|request| restore_unreadable(request, &before, &mut object));
            assert_eq!(got.len(), count, "{got:?}");
            let [got, want] = [&object, &object_of(want)]
                .map(|object| metadata(object).at(ObjectMeta::MANAGED_FIELDS).list().to_vec());
            assert_eq!(got, want, "{after}");
        }
    }
}
