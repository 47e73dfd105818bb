//! Audit annotations of webhooks: those of their responses, and those about their mutations.

use std::fmt;

use binnacle_admission::Request;
use binnacle_request::AuditLevel;
use binnacle_schema::{Limits, json, value};
use binnacle_validation::names;

use crate::hook::Hook;

const MUTATION: &str = "mutation.webhook.admission.k8s.io/";
const PATCH: &str = "patch.webhook.admission.k8s.io/";
const VALIDATING: &str = "validating.webhook.admission.k8s.io/";

/// The call of a mutating webhook that an annotation is about.
#[derive(Clone, Copy)]
pub(crate) struct Round {
    pub(crate) second: bool,
    /// The index of the webhook among all mutating webhooks.
    pub(crate) index: usize,
}

/// A patch, which is only formatted if it is included in an event.
struct PatchAnnotation<'a> {
    hook: &'a Hook,
    patch: &'a [u8],
}

impl fmt::Display for Round {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "round_{}_index_{}", u8::from(self.second), self.index)
    }
}

/// Adds the annotations of a webhook's response, prefixed with its name. Invalid keys are dropped.
pub(crate) fn annotate(request: &Request<'_>, hook: &Hook, annotations: &[(String, String)]) {
    for (key, value) in annotations {
        let key = format!("{}/{key}", hook.name);
        if names::label_key(&key).is_empty() {
            request.annotate(&key, value);
        } else {
            tracing::warn!(webhook = hook.name.as_str(), key, "an audit annotation has no valid key");
        }
    }
}

/// Records whether a webhook has changed the object.
pub(crate) fn annotate_mutation(request: &Request<'_>, hook: &Hook, round: Round, mutated: bool) {
    let (configuration, webhook) = (hook.configuration.clone(), hook.name.clone());
    let note = value!({"configuration": configuration, "webhook": webhook, "mutated": mutated});
    request.annotate(&format!("{MUTATION}{round}"), json::to_string(&note));
}

/// Records the patch of a webhook in events of the level `Request` and above.
pub(crate) fn annotate_patch(request: &Request<'_>, hook: &Hook, round: Round, patch: &[u8]) {
    request.annotate_from(AuditLevel::Request, &format!("{PATCH}{round}"), PatchAnnotation { hook, patch });
}

/// Records that the call of a mutating webhook failed open.
pub(crate) fn annotate_failed_open_mutation(request: &Request<'_>, hook: &Hook, round: Round) {
    request.annotate(&format!("failed-open.{MUTATION}{round}"), &hook.name);
}

/// Records that the call of a validating webhook, the n-th matching one, failed open.
pub(crate) fn annotate_failed_open_validation(request: &Request<'_>, hook: &Hook, n: usize) {
    request.annotate(&format!("failed-open.{VALIDATING}round_0_index_{n}"), &hook.name);
}

impl fmt::Display for PatchAnnotation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The patch has been parsed before.
        let mut patch = json::parse(self.patch, &Limits::default()).unwrap_or_default();
        for operation in patch.as_list_mut().into_iter().flatten() {
            if let Some(members) = operation.as_object_mut() {
                members.sort_by_name();
            }
        }
        let (configuration, webhook) = (self.hook.configuration.clone(), self.hook.name.clone());
        let note = value!({
            "configuration": configuration, "webhook": webhook, "patch": patch, "patchType": "JSONPatch",
        });
        f.write_str(&json::to_string(&note))
    }
}

#[cfg(test)]
mod tests {
    use binnacle_registry::{RequestNotes, Warnings};
    use binnacle_request::Record;

    use super::*;
    use crate::testing::{creation, hooks};

    /// Checks the annotations in events of a level, `key=value` in order of their keys.
    fn check(level: AuditLevel, annotate: impl FnOnce(&Request<'_>, &Hook), want: &[&str]) {
        let record = Record::open(Default::default(), "/".into(), None, None);
        record.begin_audit().decide(level, false);
        let notes = RequestNotes::new(Warnings::default(), record.clone());
        let attributes = creation("", "Pod", "pods");
        annotate(&Request::new(&attributes, None, &notes), &hooks(r#"[{"name": "a.b.c"}]"#)[0]);
        let annotations = record.begin_audit().noted().annotations;
        let got: Vec<String> = annotations.iter().map(|(key, value)| format!("{key}={value}")).collect();
        assert_eq!(got, want);
    }

    #[test]
    fn prefixes_annotations_and_drops_invalid_keys() {
        let annotations = |keys: &[&str]| -> Vec<(String, String)> {
            keys.iter().map(|key| ((*key).to_owned(), "v".to_owned())).collect()
        };
        let given = annotations(&["ok", "not ok", "a/b", ""]);
        check(AuditLevel::Metadata, |request, hook| annotate(request, hook, &given), &["a.b.c/ok=v"]);
    }

    #[test]
    fn patches_appear_from_level_request_with_sorted_members() {
        let patch = br#"[{"value":{"z":1,"a":2},"path":"/x","op":"add"}]"#;
        let round = Round { second: true, index: 3 };
        let annotate = |request: &Request<'_>, hook: &Hook| {
            annotate_mutation(request, hook, round, true);
            annotate_patch(request, hook, round, patch);
        };
        let mutation = r#"mutation.webhook.admission.k8s.io/round_1_index_3={"configuration":"c","webhook":"a.b.c","mutated":true}"#;
        let patch = r#"patch.webhook.admission.k8s.io/round_1_index_3={"configuration":"c","webhook":"a.b.c","patch":[{"op":"add","path":"/x","value":{"z":1,"a":2}}],"patchType":"JSONPatch"}"#;
        check(AuditLevel::Metadata, annotate, &[mutation]);
        check(AuditLevel::Request, annotate, &[mutation, patch]);
    }

    #[test]
    fn failures_of_validating_webhooks_have_one_round() {
        let annotate = |request: &Request<'_>, hook: &Hook| {
            annotate_failed_open_validation(request, hook, 2);
            annotate_failed_open_mutation(request, hook, Round { second: false, index: 1 });
        };
        let want = [
            "failed-open.mutation.webhook.admission.k8s.io/round_0_index_1=a.b.c",
            "failed-open.validating.webhook.admission.k8s.io/round_0_index_2=a.b.c",
        ];
        check(AuditLevel::Metadata, annotate, &want);
    }
}
