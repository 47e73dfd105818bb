//! Validation of jobs, and of the jobs that cron jobs make.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::metadata::shown;
use binnacle_validation::{checks, domains, names, selectors};

use super::{CONTROLLER_UID_LABELS, JOB_NAME_LABELS, TEMPLATE, policies};
use crate::Features;
use crate::equality::equal_as;
use crate::internal;
use crate::pod_spec::validation::{self as pod_validation, PodValidationOptions};
use crate::tree_names::{keep_at, member, remove_at};
use crate::workload_names::validation::{immutable_selector, mismatch, not_negative, selects, shown_labels};

/// Limits that keep the lists of indexes in the status short.
const INDEXED_PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
const MANY_COMPLETIONS: i64 = 100_000;
const PARALLELISM_OF_MANY_MAX: i64 = 10_000;
const FAILED_INDEXES_OF_MANY_MAX: i64 = 10_000;

const MANAGED_BY_MAX: usize = 63;

pub(crate) fn is_indexed(spec: &Value) -> bool {
    spec.str_at(&["completionMode"]) == "Indexed"
}

/// Validates a job; a rule that `old` breaks is relaxed.
pub(super) fn validate(features: &Features, object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let (options, prefixed) = options(features, old);
    let spec = object.get("spec").unwrap_or(&Value::Null);
    generated_selector(object, prefixed, errors);
    selecting_spec(spec, &FieldPath::new("spec"), &options, errors);
    // The pods' host names end with their index.
    if let Some(completions) = spec.int_at(&["completions"]).filter(|count| is_indexed(spec) && *count > 0) {
        let name = object.str_at(&["metadata", "name"]);
        let longest = format!("{name}-{}", completions - 1);
        if !names::dns1123_label(&longest).is_empty() {
            let why = format!("will not able to create pod with invalid DNS label: {longest}");
            errors.push(FieldError::invalid(&FieldPath::new("metadata").child("name"), name, why));
        }
    }
}

/// Validates an update, beyond the rules for new jobs.
pub(super) fn validate_change(features: &Features, object: &Value, old: &Value, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec");
    let null = Value::Null;
    let (spec, old_spec) = (object.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    // kube-apiserver validates the spec twice.
    selecting_spec(spec, &path, &options(features, Some(old)).0, errors);
    completions_change(spec, old_spec, &path.child("completions"), errors);
    immutable_selector(object, old, errors);
    template_change(features, object, old, &path, errors);
    let unchanged = |field: &str, definition: &str, errors: &mut FieldErrors| {
        let (new, old) = (member(spec, field), member(old_spec, field));
        let same =
            new.is_some() == old.is_some() && (definition.is_empty() && new == old || equal_as(definition, new, old));
        let shown = if definition.is_empty() { shown(new) } else { internal::shown_as(definition, new) };
        checks::immutable(&path.child(field), same, shown, errors);
    };
    unchanged("completionMode", "", errors);
    unchanged("podFailurePolicy", "io.k8s.api.batch.v1.PodFailurePolicy", errors);
    unchanged("backoffLimitPerIndex", "", errors);
    unchanged("managedBy", "", errors);
    unchanged("successPolicy", "io.k8s.api.batch.v1.SuccessPolicy", errors);
}

/// Returns the validation options, relaxed for values of `old`, and true if the prefixed labels are required.
fn options<'a>(features: &'a Features, old: Option<&Value>) -> (PodValidationOptions<'a>, bool) {
    let Some(old) = old else { return (PodValidationOptions::for_template(features), true) };
    let mut options = PodValidationOptions::for_update(features, old.at(TEMPLATE).unwrap_or(&Value::Null));
    options.any_selector_value |= selectors::is_invalid(old.at(&["spec", "selector"]));
    let labels = old.at(&["spec", "template", "metadata", "labels"]);
    let had = |label: &str| labels.is_some_and(|labels| labels.get(label).is_some());
    (options, had(JOB_NAME_LABELS[1]) && had(CONTROLLER_UID_LABELS[1]))
}

/// Requires that a generated selector and its labels belong to this job, unless `manualSelector` is true.
fn generated_selector(object: &Value, prefixed: bool, errors: &mut FieldErrors) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let Some(selector) = member(spec, "selector").filter(|_| !spec.bool_at(&["manualSelector"])) else { return };
    let (uid, name) = (object.str_at(&["metadata", "uid"]), object.str_at(&["metadata", "name"]));
    if uid.is_empty() {
        errors.push(FieldError::required(&FieldPath::new("metadata").child("uid"), ""));
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    let mut expected = Object::new();
    for i in if prefixed { 0..2 } else { 0..1 } {
        for (label, value) in [(CONTROLLER_UID_LABELS[i], uid), (JOB_NAME_LABELS[i], name)] {
            has_label(template, label, value, errors);
            expected.insert(label, value);
        }
    }
    if selects(Some(selector), Some(&expected.into())) == Some(false) {
        let at = FieldPath::new("spec").child("selector");
        errors.push(FieldError::invalid(&at, shown(Some(selector)), "`selector` not auto-generated"));
    }
}

fn has_label(template: &Value, label: &str, value: &str, errors: &mut FieldErrors) {
    let at = FieldPath::new("spec").child("template").child("metadata").child("labels").key(label);
    let why = format!("must be '{value}'");
    match template.at(&["metadata", "labels", label]) {
        None => errors.push(FieldError::required(&at, why)),
        Some(found) if found.as_str() != Some(value) => {
            errors.push(FieldError::invalid(&at, shown_labels(template), why))
        }
        Some(_) => {}
    }
}

fn selecting_spec(spec: &Value, path: &FieldPath, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    validate_spec(spec, path, options, errors);
    let selector = member(spec, "selector");
    let at = path.child("selector");
    match selector {
        None => errors.push(FieldError::required(&at, "")),
        Some(_) => selectors::label_selector(selector, options.any_selector_value, &at, errors),
    }
    let template = spec.get("template").unwrap_or(&Value::Null);
    if selects(selector, template.at(&["metadata", "labels"])) == Some(false) {
        errors.push(mismatch(template, &path.child("template")));
    }
}

/// Validates a job's spec, except for its selector.
pub(crate) fn validate_spec(
    spec: &Value,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let counts = [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ];
    not_negative(spec, &counts, path, errors);
    let limit = spec.int_at(&["backoffLimitPerIndex"]);
    if spec.int_at(&["maxFailedIndexes"]).is_some() && limit.is_none() {
        let at = path.child("backoffLimitPerIndex");
        errors.push(FieldError::required(&at, "when maxFailedIndexes is specified"));
    }
    if let Some(manager) = spec.get("managedBy").and_then(Value::as_str) {
        let at = path.child("managedBy");
        domains::domain_prefixed_path(&at, manager, errors);
        if manager.len() > MANAGED_BY_MAX {
            errors.push(FieldError::too_long(&at, MANAGED_BY_MAX));
        }
    }
    completion_mode(spec, path, errors);
    policies::validate(spec, path, errors);
    let template = spec.get("template").unwrap_or(&Value::Null);
    let path = path.child("template");
    pod_validation::template(template, &path, options, errors);
    restart_policy(spec, template, &path.child("spec").child("restartPolicy"), errors);
}

fn completion_mode(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let mode = spec.get("completionMode").and_then(Value::as_str);
    if let Some(mode) = mode {
        checks::one_of(&path.child("completionMode"), mode, &["NonIndexed", "Indexed"], errors);
    }
    match mode {
        Some("Indexed") => indexed(spec, path, errors),
        None | Some("NonIndexed") => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(value) = spec.int_at(&[field]) {
                    errors.push(FieldError::invalid(&path.child(field), value, "requires indexed completion mode"));
                }
            }
        }
        Some(_) => {}
    }
}

fn indexed(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let completions = spec.int_at(&["completions"]);
    if completions.is_none() {
        errors.push(FieldError::required(&path.child("completions"), "when completion mode is Indexed"));
    }
    let what = format!("{INDEXED_PARALLELISM_MAX} when completion mode is Indexed");
    at_most(spec, "parallelism", INDEXED_PARALLELISM_MAX, &what, path, errors);
    if let Some(completions) = completions {
        at_most(spec, "maxFailedIndexes", completions, "completions", path, errors);
    }
    at_most(spec, "maxFailedIndexes", FAILED_INDEXES_MAX, &FAILED_INDEXES_MAX.to_string(), path, errors);
    if completions.is_none_or(|count| count <= MANY_COMPLETIONS) || spec.int_at(&["backoffLimitPerIndex"]).is_none() {
        return;
    }
    if spec.int_at(&["maxFailedIndexes"]).is_none() {
        let why = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.push(FieldError::required(&path.child("maxFailedIndexes"), why));
    }
    for (field, max) in [("parallelism", PARALLELISM_OF_MANY_MAX), ("maxFailedIndexes", FAILED_INDEXES_OF_MANY_MAX)] {
        let what = format!("{max} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index");
        at_most(spec, field, max, &what, path, errors);
    }
}

fn at_most(spec: &Value, field: &str, max: i64, what: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(value) = spec.int_at(&[field]).filter(|value| *value > max) {
        errors.push(FieldError::invalid(&path.child(field), value, format!("must be less than or equal to {what}")));
    }
}

/// Rejects restart policies with which pods never end.
fn restart_policy(spec: &Value, template: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    match template.str_at(&["spec", "restartPolicy"]) {
        "" | "Always" => errors.push(FieldError::required(path, "valid values: \"OnFailure\", \"Never\"")),
        "Never" => {}
        "OnFailure" if member(spec, "podFailurePolicy").is_none() => {}
        policy @ "OnFailure" => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.push(FieldError::invalid(path, policy, why));
        }
        policy => errors.push(FieldError::not_supported(path, policy, &["OnFailure", "Never"])),
    }
}

/// Rejects changes of the number of completions, which only indexed jobs may change.
fn completions_change(spec: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (new, old) = (spec.int_at(&["completions"]), old.int_at(&["completions"]));
    if !is_indexed(spec) {
        return checks::immutable(path, new == old, shown(spec.get("completions")), errors);
    }
    if let Some(new) = new.filter(|new| Some(*new) != old)
        && Some(new) != spec.int_at(&["parallelism"])
    {
        errors.push(FieldError::invalid(path, new, "can only be modified in tandem with spec.parallelism"));
    }
}

/// Rejects changes of the template, except for scheduling and resources while the job is suspended.
fn template_change(features: &Features, object: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let null = Value::Null;
    let new = object.at(TEMPLATE).unwrap_or(&null);
    let mut expected = old.at(TEMPLATE).cloned().unwrap_or_default();
    let suspended = old.bool_at(&["spec", "suspend"]);
    let mutable = is_template_mutable(old);
    let schedulable = if features.enabled("MutableSchedulingDirectivesForSuspendedJobs") {
        mutable
    } else {
        suspended && !has_started(old)
    };
    if schedulable {
        take_scheduling(&mut expected, new);
    }
    if suspended && mutable && features.enabled("MutablePodResourcesForSuspendedJobs") {
        take_resources(&mut expected, new);
        let (new, expected) = (new.get("spec"), expected.get("spec"));
        let definition = "io.k8s.api.core.v1.PodSpec";
        let at = path.child("template").child("spec");
        checks::immutable(&at, equal_as(definition, new, expected), internal::shown_as(definition, new), errors);
    } else {
        let definition = "io.k8s.api.core.v1.PodTemplateSpec";
        let same = equal_as(definition, Some(new), Some(&expected));
        checks::immutable(&path.child("template"), same, internal::shown_as(definition, Some(new)), errors);
    }
}

/// Returns true for suspended jobs without active pods.
fn is_template_mutable(job: &Value) -> bool {
    job.bool_at(&["spec", "suspend"])
        && (!has_started(job) || super::status::is_true(job, "Suspended"))
        && job.int_at(&["status", "active"]).unwrap_or(0) == 0
}

fn has_started(job: &Value) -> bool {
    job.at(&["status", "startTime"]).is_some_and(|time| !time.is_null())
}

fn take_scheduling(expected: &mut Value, new: &Value) {
    const AFFINITY: [&str; 2] = ["spec", "affinity"];
    const NODE: [&str; 3] = ["spec", "affinity", "nodeAffinity"];
    let has = |template: &Value| template.at(&AFFINITY).is_some_and(|affinity| !affinity.is_null());
    match (has(new), has(expected)) {
        (false, true) => {
            remove_at(expected, &NODE);
            let rest = expected.object_at(&AFFINITY);
            if rest.is_none_or(|affinity| affinity.iter().all(|(_, value)| value.is_null())) {
                remove_at(expected, &AFFINITY);
            }
        }
        (true, false) => {
            expected.make_at(&["spec"]).insert("affinity", Object::new());
            keep_at(expected, new, &NODE);
        }
        (true, true) => keep_at(expected, new, &NODE),
        (false, false) => {}
    }
    for path in [["spec", "nodeSelector"], ["spec", "tolerations"], ["spec", "schedulingGates"]] {
        keep_at(expected, new, &path);
    }
    for path in [["metadata", "annotations"], ["metadata", "labels"]] {
        keep_at(expected, new, &path);
    }
}

fn take_resources(expected: &mut Value, new: &Value) {
    for list in ["containers", "initContainers"] {
        let given = new.list_at(&["spec", list]);
        let Some(kept) = expected.at_mut(&["spec", list]).and_then(Value::as_list_mut) else { continue };
        if kept.len() != given.len() {
            continue;
        }
        for (kept, given) in kept.iter_mut().zip(given) {
            if kept.str_at(&["name"]) == given.str_at(&["name"]) {
                keep_at(kept, given, &["resources"]);
            }
        }
    }
}
