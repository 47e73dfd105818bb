//! `Job`: pods that run to completion.

mod indexes;
mod policies;
mod status;
mod validation;

pub(super) use validation::validate_spec;

use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value};

use crate::pod_spec::set_template_defaults;
use crate::tree_names::{default_nil, default_zero, is_nil, keep, struct_mut, structs_mut};
use crate::workload_names::{dns_label_recommended, job_warnings, prepare_create, prepare_update};
use crate::{MetadataChecks, Strategy, StrategyContext};

const TEMPLATE: &[&str] = &["spec", "template"];

/// The labels of a job's pods; the first is from before v1.27.
const JOB_NAME_LABELS: [&str; 2] = ["job-name", "batch.kubernetes.io/job-name"];
const CONTROLLER_UID_LABELS: [&str; 2] = ["controller-uid", CONTROLLER_UID_LABEL];
const CONTROLLER_UID_LABEL: &str = "batch.kubernetes.io/controller-uid";

pub(super) struct Job;

/// The warning that jobs orphan their pods by default, unlike all other kinds (for compatibility with v1 of the API).
const CHILDREN_PRESERVED: &str = "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning";

impl Strategy for Job {
    fn warnings_on_delete(&self, propagation_given: bool) -> Vec<String> {
        if propagation_given { Vec::new() } else { vec![CHILDREN_PRESERVED.to_owned()] }
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        if is_nil(spec, "completions") && is_nil(spec, "parallelism") {
            spec.insert("completions", 1i64);
        }
        default_nil(spec, "parallelism", 1i64);
        let limit = if is_nil(spec, "backoffLimitPerIndex") { 6 } else { i64::from(i32::MAX) };
        default_nil(spec, "backoffLimit", limit);
        default_nil(spec, "completionMode", "NonIndexed");
        default_nil(spec, "suspend", false);
        let replacement = if is_nil(spec, "podFailurePolicy") { "TerminatingOrFailed" } else { "Failed" };
        default_nil(spec, "podReplacementPolicy", replacement);
        default_nil(spec, "manualSelector", false);
        set_failure_policy_defaults(spec);
        set_template_defaults(spec.object_entry("template"));
    }

    fn completes_stored(&self) -> bool {
        true
    }

    fn complete_stored(&self, object: &mut Value) -> bool {
        default_labels(object)
    }

    fn pending_default(&self, object: &Value) -> Option<(&'static [&'static str], Value)> {
        const LABELS: &[&str] = &["metadata", "labels"];
        let none = object.object_at(LABELS).is_none_or(Object::is_empty);
        let labels =
            object.at(&["spec", "template", "metadata", "labels"]).filter(|labels| labels.as_object().is_some());
        labels.filter(|_| none).map(|labels| (LABELS, labels.clone()))
    }

    /// Labels that the job and its template share: those that are generated later reach both.
    fn shared_default(&self, object: &Value) -> Option<(&'static [&'static str], Value)> {
        self.pending_default(object).filter(|(_, labels)| labels.as_object().is_some_and(|labels| !labels.is_empty()))
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        let labelled =
            object.object_at(&["spec", "template", "metadata", "labels"]).is_some_and(|labels| !labels.is_empty());
        if !object.bool_at(&["spec", "manualSelector"]) {
            generate_selector(object);
        }
        prepare_create(situation.features, object, TEMPLATE);
        // If the template has only the generated labels, the job gets them too, as it would when next read.
        if labelled {
            default_labels(object);
        }
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        prepare_update(situation.features, object, old, TEMPLATE, "io.k8s.api.batch.v1.JobSpec");
        default_labels(object);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        // The template that was sent counts, as Go sets defaults when it decodes.
        default_labels(object);
        keep(object, old, "spec");
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::validate(situation.features, object, None, &mut errors);
        errors
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::validate(situation.features, object, Some(old), &mut errors);
        validation::validate_change(situation.features, object, old, &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        status::validate(object, old)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = if old.is_some() { Vec::new() } else { dns_label_recommended(object) };
        warnings.extend(job_warnings(object, old, &["spec"]));
        warnings
    }
}

/// Sets `status: True` as the default of conditions in failure policies.
pub(super) fn set_failure_policy_defaults(spec: &mut Object) {
    let Some(policy) = struct_mut(spec, "podFailurePolicy") else { return };
    for rule in structs_mut(policy, "rules") {
        structs_mut(rule, "onPodConditions").for_each(|pattern| default_zero(pattern, "status", "True"));
    }
}

/// Copies the labels of the pod template, generated ones included, to a job without labels. For this reason it is not a
/// default of the object as the client sent it.
fn default_labels(object: &mut Value) -> bool {
    if object.object_at(&["metadata", "labels"]).is_none_or(Object::is_empty)
        && let Some(labels) = object.object_at(&["spec", "template", "metadata", "labels"]).cloned()
    {
        object.make_at(&["metadata"]).insert("labels", labels);
        return true;
    }
    false
}

/// Generates labels and a selector by which a job finds its own pods only. Values that the client set stay; validation
/// checks that they match.
fn generate_selector(object: &mut Value) {
    let name = object.str_at(&["metadata", "name"]).to_owned();
    let uid = object.str_at(&["metadata", "uid"]).to_owned();
    let labels = object.make_at(&["spec", "template", "metadata", "labels"]);
    for label in JOB_NAME_LABELS {
        labels.entry(label, || name.as_str().into());
    }
    for label in CONTROLLER_UID_LABELS {
        labels.entry(label, || uid.as_str().into());
    }
    let selected = object.make_at(&["spec", "selector", "matchLabels"]);
    selected.entry(CONTROLLER_UID_LABEL, || uid.into());
    selected.sort_by_name();
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn counts() {
        for (given, completions, parallelism, backoff) in [
            (value!({}), Some(1), 1, 6),
            (value!({"completions": 3i64}), Some(3), 1, 6),
            (value!({"parallelism": 2i64}), None, 2, 6),
            (value!({"backoffLimitPerIndex": 1i64, "completions": 2i64}), Some(2), 1, 2147483647),
        ] {
            let mut object = value!({"spec": given});
            Job.set_defaults("v1", &mut object);
            assert_eq!(object.int_at(&["spec", "completions"]), completions);
            assert_eq!(object.int_at(&["spec", "parallelism"]), Some(parallelism));
            assert_eq!(object.int_at(&["spec", "backoffLimit"]), Some(backoff));
        }
    }

    #[test]
    fn selectors() {
        let mut object = value!({
            "metadata": {"name": "j", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"job-name": "mine"}}}}
        });
        Job.prepare_for_create(&crate::testing::situation("default"), &mut object);
        assert_eq!(object.at(&["metadata", "labels"]), object.at(&["spec", "template", "metadata", "labels"]));
        assert_eq!(
            object.get("spec"),
            Some(&value!({
                "template": {"metadata": {"labels": {
                    "job-name": "mine", "batch.kubernetes.io/job-name": "j",
                    "controller-uid": "u", "batch.kubernetes.io/controller-uid": "u"
                }}},
                "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
            }))
        );
    }
}
