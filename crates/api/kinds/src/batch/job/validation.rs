//! Validation of jobs, and of the jobs that cron jobs create.

use binnacle_fields::batch::v1::{Job, JobSpec as Spec, JobStatus};
use binnacle_fields::core::v1::{Affinity, Container, PodSpec, PodTemplateSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::Int;
use binnacle_fields::{Field, FieldMut, FieldRef, Message, Route, route};
use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value};
use binnacle_validation::checks::IMMUTABLE;
use binnacle_validation::{checks, domains, names, selectors};

use super::indexes::is_indexed;
use super::{CONTROLLER_UID_LABELS, JOB_NAME_LABELS, policies, template_labels};
use crate::Features;
use crate::checks::immutable_enum;
use crate::equality::equal;
use crate::internal;
use crate::pod_spec::validation::{self as pod_validation, PodValidationOptions};
use crate::workload::validation::{
    immutable_selector, labels, mismatch, not_negative, options_for_update, selects, shown_labels,
};

/// Limits that keep the lists of indexes in the status short.
const INDEXED_PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_OF_MANY_MAX: i64 = 10_000;
const FAILED_INDEXES_OF_MANY_MAX: i64 = 10_000;

const MANAGED_BY_MAX: usize = 63;

/// Validates a job; a rule that `old` breaks is relaxed.
pub(super) fn validate(features: &Features, job: FieldRef<Job>, old: Option<FieldRef<Job>>, errors: &mut FieldErrors) {
    let (options, prefixed) = options(features, old);
    generated_selector(job, prefixed, errors);
    let spec = job.at(Job::SPEC);
    selecting_spec(spec, &options, errors);
    // The pods' host names end with their index.
    let completions = spec.at(Spec::COMPLETIONS).int_or_zero();
    if is_indexed(spec) && completions > 0 {
        let metadata = job.at(Job::METADATA);
        let name = metadata.at(ObjectMeta::NAME);
        let longest = format!("{}-{}", name.str(), completions - 1);
        if !names::dns1123_label(&longest).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {longest}");
            errors.push(name.invalid_as(name.str(), why));
        }
    }
}

/// Validates an update, beyond the rules for new jobs.
pub(super) fn validate_change(features: &Features, new: FieldRef<Job>, old: FieldRef<Job>, errors: &mut FieldErrors) {
    let (spec, old_spec) = (new.at(Job::SPEC), old.at(Job::SPEC));
    // kube-apiserver validates the spec twice.
    selecting_spec(spec, &options(features, Some(old)).0, errors);
    completions_change(spec, old_spec, errors);
    immutable_selector(spec.at(Spec::SELECTOR), old_spec.at(Spec::SELECTOR), errors);
    template_change(features, new, old, errors);
    immutable_enum(spec.at(Spec::COMPLETION_MODE), old_spec.at(Spec::COMPLETION_MODE), errors);
    unchanged_struct(spec, old_spec, Spec::POD_FAILURE_POLICY, errors);
    unchanged(spec, old_spec, Spec::BACKOFF_LIMIT_PER_INDEX, errors);
    unchanged(spec, old_spec, Spec::MANAGED_BY, errors);
    unchanged_struct(spec, old_spec, Spec::SUCCESS_POLICY, errors);
}

fn unchanged<T>(spec: FieldRef<Spec>, old: FieldRef<Spec>, field: Field<Spec, T>, errors: &mut FieldErrors) {
    let new = spec.at(field);
    checks::immutable(&new, new.get() == old.at(field).get(), new.value(), errors);
}

fn unchanged_struct<M: Message>(
    spec: FieldRef<Spec>,
    old: FieldRef<Spec>,
    field: Field<Spec, M>,
    errors: &mut FieldErrors,
) {
    let (new, old) = (spec.at(field), old.at(field));
    if new.is_set() != old.is_set() || !equal(new, old) {
        errors.push(new.invalid_as(internal::shown(new), IMMUTABLE));
    }
}

/// Returns the validation options, relaxed for values of `old`, and true if the prefixed labels are required.
fn options<'a>(features: &'a Features, old: Option<FieldRef<Job>>) -> (PodValidationOptions<'a>, bool) {
    let Some(old) = old else { return (PodValidationOptions::for_template(features), true) };
    let mut options = options_for_update(features, old);
    options.any_selector_value |= selectors::is_invalid(old.at(Job::SPEC).at(Spec::SELECTOR).get());
    let had = |label: &str| template_labels(old).is_some_and(|labels| labels.contains(label));
    (options, had(JOB_NAME_LABELS[1]) && had(CONTROLLER_UID_LABELS[1]))
}

/// Requires that a generated selector and its labels belong to this job, unless `manualSelector` is true.
fn generated_selector(job: FieldRef<Job>, prefixed: bool, errors: &mut FieldErrors) {
    let spec = job.at(Job::SPEC);
    let selector = spec.at(Spec::SELECTOR);
    if !selector.is_set() || spec.at(Spec::MANUAL_SELECTOR).bool() {
        return;
    }
    let metadata = job.at(Job::METADATA);
    let (uid, name) = (metadata.at(ObjectMeta::UID), metadata.at(ObjectMeta::NAME).str());
    if uid.is_empty() {
        errors.push(uid.required(""));
    }
    let mut expected = Object::new();
    for i in if prefixed { 0..2 } else { 0..1 } {
        for (label, value) in [(CONTROLLER_UID_LABELS[i], uid.str()), (JOB_NAME_LABELS[i], name)] {
            has_label(spec.at(Spec::TEMPLATE), label, value, errors);
            expected.insert(label, value);
        }
    }
    if selects(selector, Some(&expected)) == Some(false) {
        errors.push(selector.invalid_as(internal::shown(selector), "`selector` not auto-generated"));
    }
}

fn has_label(template: FieldRef<PodTemplateSpec>, label: &str, value: &str, errors: &mut FieldErrors) {
    let metadata = template.at(PodTemplateSpec::METADATA);
    let labels = metadata.at(ObjectMeta::LABELS);
    let found = labels.key(label);
    if found.get_str() != Some(value) {
        let why = format!("must be '{value}'");
        errors.push(match found.get() {
            None => found.required(why),
            Some(_) => found.invalid_as(shown_labels(template), why),
        });
    }
}

fn selecting_spec(spec: FieldRef<Spec>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    validate_spec(spec, options, errors);
    let selector = spec.at(Spec::SELECTOR);
    if selector.is_set() {
        selectors::validate(selector, options.any_selector_value, errors);
    } else {
        errors.push(selector.required(""));
    }
    let template = spec.at(Spec::TEMPLATE);
    if selects(selector, labels(template)) == Some(false) {
        errors.push(mismatch(template));
    }
}

/// Validates a job's spec, except for its selector.
pub(in crate::batch) fn validate_spec(
    spec: FieldRef<Spec>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let counts = [
        Spec::PARALLELISM,
        Spec::COMPLETIONS,
        Spec::ACTIVE_DEADLINE_SECONDS,
        Spec::BACKOFF_LIMIT,
        Spec::TTL_SECONDS_AFTER_FINISHED,
        Spec::BACKOFF_LIMIT_PER_INDEX,
        Spec::MAX_FAILED_INDEXES,
    ];
    not_negative(spec, &counts, errors);
    let limit = spec.at(Spec::BACKOFF_LIMIT_PER_INDEX);
    if spec.at(Spec::MAX_FAILED_INDEXES).is_set() && !limit.is_set() {
        errors.push(limit.required("when maxFailedIndexes is specified"));
    }
    let manager = spec.at(Spec::MANAGED_BY);
    if let Some(name) = manager.get_str() {
        domains::domain_prefixed_path(&manager, name, errors);
        if name.len() > MANAGED_BY_MAX {
            errors.push(manager.too_long(MANAGED_BY_MAX));
        }
    }
    completion_mode(spec, errors);
    policies::validate(spec, errors);
    let template = spec.at(Spec::TEMPLATE);
    pod_validation::template(template, options, errors);
    restart_policy(spec, errors);
}

fn completion_mode(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let mode = spec.at(Spec::COMPLETION_MODE);
    if let Some(text) = mode.get_str() {
        checks::one_of(&mode, text, &["NonIndexed", "Indexed"], errors);
    }
    match mode.get_str() {
        Some("Indexed") => indexed(spec, errors),
        None | Some("NonIndexed") => {
            for field in [Spec::BACKOFF_LIMIT_PER_INDEX, Spec::MAX_FAILED_INDEXES] {
                let count = spec.at(field);
                if count.is_set() {
                    errors.push(count.invalid("requires indexed completion mode"));
                }
            }
        }
        Some(_) => {}
    }
}

fn indexed(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let completions = spec.at(Spec::COMPLETIONS);
    let (parallelism, failed) = (spec.at(Spec::PARALLELISM), spec.at(Spec::MAX_FAILED_INDEXES));
    if !completions.is_set() {
        errors.push(completions.required("when completion mode is Indexed"));
    }
    let what = format!("{INDEXED_PARALLELISM_MAX} when completion mode is Indexed");
    at_most(parallelism, INDEXED_PARALLELISM_MAX, &what, errors);
    if let Some(completions) = completions.int() {
        at_most(failed, completions, "completions", errors);
    }
    at_most(failed, FAILED_INDEXES_MAX, &FAILED_INDEXES_MAX.to_string(), errors);
    if completions.int_or_zero() <= MANY_COMPLETIONS || !spec.at(Spec::BACKOFF_LIMIT_PER_INDEX).is_set() {
        return;
    }
    if !failed.is_set() {
        errors.push(failed.required(format!("must be specified when completions is above {MANY_COMPLETIONS}")));
    }
    for (count, max) in [(parallelism, PARALLELISM_OF_MANY_MAX), (failed, FAILED_INDEXES_OF_MANY_MAX)] {
        let what = format!("{max} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
        at_most(count, max, &what, errors);
    }
}

fn at_most(count: FieldRef<Int>, max: i64, what: &str, errors: &mut FieldErrors) {
    if count.int().is_some_and(|count| count > max) {
        errors.push(count.invalid(format!("must be less than or equal to {what}")));
    }
}

/// Rejects restart policies under which pods never terminate.
fn restart_policy(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let template = spec.at(Spec::TEMPLATE);
    let pod = template.at(PodTemplateSpec::SPEC);
    let policy = pod.at(PodSpec::RESTART_POLICY);
    match policy.str() {
        "" | "Always" => errors.push(policy.required("valid values: \"OnFailure\", \"Never\"")),
        "Never" => {}
        "OnFailure" => {
            if spec.at(Spec::POD_FAILURE_POLICY).is_set() {
                errors.push(policy.invalid("only \"Never\" is supported when podFailurePolicy is specified"));
            }
        }
        _ => errors.push(policy.not_supported(&["OnFailure", "Never"])),
    }
}

/// Rejects changes of the number of completions, which only indexed jobs may change.
fn completions_change(spec: FieldRef<Spec>, old: FieldRef<Spec>, errors: &mut FieldErrors) {
    if !is_indexed(spec) {
        return unchanged(spec, old, Spec::COMPLETIONS, errors);
    }
    let completions = spec.at(Spec::COMPLETIONS);
    if let Some(new) = completions.int().filter(|new| Some(*new) != old.at(Spec::COMPLETIONS).int())
        && Some(new) != spec.at(Spec::PARALLELISM).int()
    {
        errors.push(completions.invalid("can only be modified in tandem with spec.parallelism"));
    }
}

/// Rejects changes of the template, except for scheduling and resources while the job is suspended.
fn template_change(features: &Features, new: FieldRef<Job>, old: FieldRef<Job>, errors: &mut FieldErrors) {
    let (spec, old_spec) = (new.at(Job::SPEC), old.at(Job::SPEC));
    let template = spec.at(Spec::TEMPLATE);
    let mut expected = old_spec.at(Spec::TEMPLATE).value().clone();
    let mut expected = FieldMut::<PodTemplateSpec>::root(&mut expected);
    let suspended = old_spec.at(Spec::SUSPEND).bool();
    let mutable = is_template_mutable(old);
    let schedulable = if features.enabled("MutableSchedulingDirectivesForSuspendedJobs") {
        mutable
    } else {
        suspended && !has_started(old)
    };
    if schedulable {
        take_scheduling(&mut expected, template);
    }
    if suspended && mutable && features.enabled("MutablePodResourcesForSuspendedJobs") {
        take_resources(&mut expected, template);
        let pod = template.at(PodTemplateSpec::SPEC);
        if !equal(pod, expected.read().at(PodTemplateSpec::SPEC)) {
            errors.push(pod.invalid_as(internal::shown(pod), IMMUTABLE));
        }
    } else if !equal(template, expected.read()) {
        errors.push(template.invalid_as(internal::shown(template), IMMUTABLE));
    }
}

/// Returns true for suspended jobs without active pods.
fn is_template_mutable(job: FieldRef<Job>) -> bool {
    job.at(Job::SPEC).at(Spec::SUSPEND).bool()
        && (!has_started(job) || super::status::is_true(job, "Suspended"))
        && job.at(Job::STATUS).at(JobStatus::ACTIVE).int_or_zero() == 0
}

fn has_started(job: FieldRef<Job>) -> bool {
    job.at(Job::STATUS).at(JobStatus::START_TIME).is_set()
}

/// The fields that affect the scheduling of pods, besides the affinity to nodes.
const SCHEDULING: [Route<PodTemplateSpec>; 5] = [
    route![PodTemplateSpec::SPEC, PodSpec::NODE_SELECTOR],
    route![PodTemplateSpec::SPEC, PodSpec::TOLERATIONS],
    route![PodTemplateSpec::SPEC, PodSpec::SCHEDULING_GATES],
    route![PodTemplateSpec::METADATA, ObjectMeta::ANNOTATIONS],
    route![PodTemplateSpec::METADATA, ObjectMeta::LABELS],
];

fn take_scheduling(expected: &mut FieldMut<PodTemplateSpec>, new: FieldRef<PodTemplateSpec>) {
    let nodes = route![PodTemplateSpec::SPEC, PodSpec::AFFINITY, Affinity::NODE_AFFINITY];
    let has = |template: FieldRef<PodTemplateSpec>| template.at(PodTemplateSpec::SPEC).at(PodSpec::AFFINITY).is_set();
    match (has(new), has(expected.read())) {
        (false, true) => {
            expected.remove_at(nodes);
            let rest = expected.read().at(PodTemplateSpec::SPEC).at(PodSpec::AFFINITY).object();
            if rest.is_none_or(|affinity| affinity.values().all(Value::is_null)) {
                expected.remove_at(route![PodTemplateSpec::SPEC, PodSpec::AFFINITY]);
            }
        }
        (true, false) => {
            expected.entry(PodTemplateSpec::SPEC).set(PodSpec::AFFINITY, Value::Object(Object::new()));
            expected.keep_at(new, nodes);
        }
        (true, true) => expected.keep_at(new, nodes),
        (false, false) => {}
    }
    SCHEDULING.iter().for_each(|route| expected.keep_at(new, *route));
}

fn take_resources(expected: &mut FieldMut<PodTemplateSpec>, new: FieldRef<PodTemplateSpec>) {
    let Some(mut expected) = expected.structure(PodTemplateSpec::SPEC) else { return };
    let new = new.at(PodTemplateSpec::SPEC);
    for list in [PodSpec::CONTAINERS, PodSpec::INIT_CONTAINERS] {
        let given = new.at(list);
        if expected.read().at(list).len() != given.len() {
            continue;
        }
        for (mut kept, given) in expected.items(list).zip(given.items()) {
            if kept.str(Container::NAME) == given.at(Container::NAME).str() {
                kept.keep(given, Container::RESOURCES);
            }
        }
    }
}
