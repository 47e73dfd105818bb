//! `Job`: pods that run to completion.

mod indexes;
mod policies;
mod status;
mod validation;

pub(super) use validation::validate_spec;

use binnacle_fields::batch::v1::{
    self, JobSpec as Spec, PodFailurePolicy, PodFailurePolicyOnPodConditionsPattern as Pattern, PodFailurePolicyRule,
};
use binnacle_fields::core::v1::PodTemplateSpec;
use binnacle_fields::meta::v1::{LabelSelector, ObjectMeta};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value};

use crate::pod_spec::set_template_defaults;
use crate::workload::validation::labels;
use crate::workload::{dns_label_recommended, job_warnings, prepare_create, prepare_update};
use crate::{MetadataChecks, Strategy, StrategyContext};

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
        let mut job = FieldMut::<v1::Job>::root(object);
        let mut spec = job.entry(v1::Job::SPEC);
        if spec.is_nil(Spec::COMPLETIONS) && spec.is_nil(Spec::PARALLELISM) {
            spec.set(Spec::COMPLETIONS, 1i64);
        }
        spec.default_nil(Spec::PARALLELISM, 1i64);
        let limit = if spec.is_nil(Spec::BACKOFF_LIMIT_PER_INDEX) { 6 } else { i64::from(i32::MAX) };
        spec.default_nil(Spec::BACKOFF_LIMIT, limit);
        spec.default_nil(Spec::COMPLETION_MODE, "NonIndexed");
        spec.default_nil(Spec::SUSPEND, false);
        let replacement = if spec.is_nil(Spec::POD_FAILURE_POLICY) { "TerminatingOrFailed" } else { "Failed" };
        spec.default_nil(Spec::POD_REPLACEMENT_POLICY, replacement);
        spec.default_nil(Spec::MANUAL_SELECTOR, false);
        set_failure_policy_defaults(&mut spec);
        set_template_defaults(spec.entry(Spec::TEMPLATE).object());
    }

    fn completes_stored(&self) -> bool {
        true
    }

    fn complete_stored(&self, object: &mut Value) -> bool {
        default_labels(&mut FieldMut::root(object))
    }

    fn pending_default(&self, object: &Value) -> Option<(&'static [&'static str], Value)> {
        const LABELS: &[&str] = &[v1::Job::METADATA.name(), ObjectMeta::LABELS.name()];
        let job = FieldRef::root(object);
        let labels = template_labels(job).filter(|_| !has_labels(job))?;
        Some((LABELS, labels.clone().into()))
    }

    /// The job and its template share these labels: labels that are generated later are added to both.
    fn shared_default(&self, object: &Value) -> Option<(&'static [&'static str], Value)> {
        self.pending_default(object).filter(|(_, labels)| labels.as_object().is_some_and(|labels| !labels.is_empty()))
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut job = FieldMut::<v1::Job>::root(object);
        let is_labelled = template_labels(job.read()).is_some_and(|labels| !labels.is_empty());
        if !job.read().at(v1::Job::SPEC).at(Spec::MANUAL_SELECTOR).bool() {
            generate_selector(&mut job);
        }
        prepare_create(ctx.features, &mut job);
        // If the template has only the generated labels, the job gets them too, as it would when next read.
        if is_labelled {
            default_labels(&mut job);
        }
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut job = FieldMut::root(object);
        prepare_update(ctx.features, &mut job, FieldRef::root(old));
        default_labels(&mut job);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut job = FieldMut::root(object);
        // The template as sent, because Go sets defaults while decoding.
        default_labels(&mut job);
        job.keep(FieldRef::root(old), v1::Job::SPEC);
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::validate(ctx.features, FieldRef::root(object), None, &mut errors);
        errors
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old_job) = (FieldRef::root(object), FieldRef::root(old));
        validation::validate(ctx.features, new, Some(old_job), &mut errors);
        errors.extend(self.validate_metadata_change(object, old));
        validation::validate_change(ctx.features, new, old_job, &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        status::validate(FieldRef::root(object), FieldRef::root(old))
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let job = FieldRef::<v1::Job>::root(object);
        let mut warnings = if old.is_some() { Vec::new() } else { dns_label_recommended(job) };
        warnings.extend(job_warnings(job, old.map(FieldRef::root), job.at(v1::Job::SPEC)));
        warnings
    }
}

/// Sets `status: True` as the default of conditions in failure policies.
pub(super) fn set_failure_policy_defaults(spec: &mut FieldMut<Spec>) {
    let Some(mut policy) = spec.structure(Spec::POD_FAILURE_POLICY) else { return };
    for mut rule in policy.items(PodFailurePolicy::RULES) {
        for mut pattern in rule.items(PodFailurePolicyRule::ON_POD_CONDITIONS) {
            pattern.default_zero(Pattern::STATUS, "True");
        }
    }
}

fn has_labels(job: FieldRef<v1::Job>) -> bool {
    !job.at(v1::Job::METADATA).at(ObjectMeta::LABELS).is_empty()
}

fn template_labels<'v>(job: FieldRef<'_, 'v, v1::Job>) -> Option<&'v Object> {
    labels(job.at(v1::Job::SPEC).at(Spec::TEMPLATE))
}

/// Copies the labels of the pod template, generated ones included, to a job without labels. For this reason it is not a
/// default of the object as the client sent it.
fn default_labels(job: &mut FieldMut<v1::Job>) -> bool {
    let labels = template_labels(job.read()).filter(|_| !has_labels(job.read())).cloned();
    let Some(labels) = labels else { return false };
    job.entry(v1::Job::METADATA).set(ObjectMeta::LABELS, Value::Object(labels));
    true
}

/// Generates labels and a selector by which a job finds its own pods only. Values that the client set stay; validation
/// checks that they match.
fn generate_selector(job: &mut FieldMut<v1::Job>) {
    let text = |field| job.read().at(v1::Job::METADATA).at(field).str().to_owned();
    let (name, uid) = (text(ObjectMeta::NAME), text(ObjectMeta::UID));
    let mut spec = job.entry(v1::Job::SPEC);
    let mut template = spec.entry(Spec::TEMPLATE);
    let mut metadata = template.entry(PodTemplateSpec::METADATA);
    let labels = metadata.map_entry(ObjectMeta::LABELS);
    for label in JOB_NAME_LABELS {
        labels.entry(label, || name.as_str().into());
    }
    for label in CONTROLLER_UID_LABELS {
        labels.entry(label, || uid.as_str().into());
    }
    let mut selector = spec.entry(Spec::SELECTOR);
    let selected = selector.map_entry(LabelSelector::MATCH_LABELS);
    selected.entry(CONTROLLER_UID_LABEL, || uid.into());
    selected.sort_by_name();
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn sets_defaults_of_counts() {
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
    fn generates_selector_and_labels() {
        let mut object = value!({
            "metadata": {"name": "j", "uid": "u"},
            "spec": {"template": {"metadata": {"labels": {"job-name": "mine"}}}}
        });
        Job.prepare_for_create(&crate::testing::ctx("default"), &mut object);
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
