//! Validation of a job's policies: when it fails or succeeds, and when a pod is replaced.

use std::collections::HashSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks;
use binnacle_validation::metadata::shown;

use super::indexes;
use super::validation::is_indexed;
use crate::internal;
use crate::tree_names::member;
use crate::workload_names::validation::not_negative;

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const PATTERNS_MAX: usize = 20;
const INDEXES_MAX: usize = 64 * 1024;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

pub(super) fn validate(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let failure = member(spec, "podFailurePolicy");
    if let Some(policy) = failure {
        let at = path.child("podFailurePolicy").child("rules");
        let rules = policy.list_at(&["rules"]);
        at_most(&at, rules.len(), RULES_MAX, errors);
        let lists = ["containers", "initContainers"].iter().flat_map(|list| spec.list_at(&["template", "spec", list]));
        let containers = lists.map(|container| container.str_at(&["name"])).collect();
        for (i, rule) in errors.while_room(rules.iter().enumerate()) {
            failure_rule(spec, &containers, rule, &at.index(i), errors);
        }
    }
    if let Some(policy) = member(spec, "successPolicy") {
        let at = path.child("successPolicy");
        if is_indexed(spec) {
            success(spec, policy, &at.child("rules"), errors);
        } else {
            let shown = internal::shown_as("io.k8s.api.batch.v1.SuccessPolicy", Some(policy));
            errors.push(FieldError::invalid(&at, shown, "requires indexed completion mode"));
        }
    }
    if let Some(replacement) = spec.get("podReplacementPolicy").and_then(Value::as_str) {
        let supported: &[&str] = if failure.is_some() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        checks::one_of(&path.child("podReplacementPolicy"), replacement, supported, errors);
    }
}

fn at_most(path: &FieldPath, count: usize, max: usize, errors: &mut FieldErrors) {
    if count > max {
        errors.push(FieldError::too_many(path, count, max));
    }
}

/// Requires one of the supported values; the message for an absent value lists them.
fn listed(path: &FieldPath, value: &str, supported: &[&str], errors: &mut FieldErrors) {
    if value.is_empty() {
        let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        errors.push(FieldError::required(path, format!("valid values: [{}]", quoted.join(" "))));
    } else {
        checks::one_of(path, value, supported, errors);
    }
}

fn failure_rule(spec: &Value, containers: &HashSet<&str>, rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let action = rule.str_at(&["action"]);
    let at = path.child("action");
    listed(&at, action, &ACTIONS, errors);
    if action == "FailIndex" && spec.int_at(&["backoffLimitPerIndex"]).is_none() {
        errors.push(FieldError::invalid(&at, action, "requires the backoffLimitPerIndex to be set"));
    }
    let codes = member(rule, "onExitCodes");
    let patterns = rule.list_at(&["onPodConditions"]);
    if let Some(codes) = codes {
        exit_codes(containers, codes, &path.child("onExitCodes"), errors);
    }
    conditions(patterns, &path.child("onPodConditions"), errors);
    match (codes.is_some(), !patterns.is_empty()) {
        (true, true) => {
            let why = "specifying both OnExitCodes and OnPodConditions is not supported";
            errors.push(FieldError::invalid_omitting(path, why));
        }
        (false, false) => {
            let why = "specifying one of OnExitCodes and OnPodConditions is required";
            errors.push(FieldError::invalid_omitting(path, why));
        }
        _ => {}
    }
}

fn conditions(patterns: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    at_most(path, patterns.len(), PATTERNS_MAX, errors);
    for (i, pattern) in errors.while_room(patterns.iter().enumerate()) {
        let at = path.index(i);
        checks::qualified_name(&at.child("type"), pattern.str_at(&["type"]), errors);
        listed(&at.child("status"), pattern.str_at(&["status"]), &STATUSES, errors);
    }
}

fn exit_codes(containers: &HashSet<&str>, codes: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let operator = codes.str_at(&["operator"]);
    listed(&path.child("operator"), operator, &OPERATORS, errors);
    if let Some(name) = codes.get("containerName").and_then(Value::as_str)
        && !containers.contains(name)
    {
        let why = "must be one of the container or initContainer names in the pod template";
        errors.push(FieldError::invalid(&path.child("containerName"), name, why));
    }
    let at = path.child("values");
    let values: Vec<i64> = codes.list_at(&["values"]).iter().filter_map(Value::as_i64).collect();
    if values.is_empty() {
        errors.push(FieldError::invalid(&at, shown(member(codes, "values")), "at least one value is required"));
    }
    at_most(&at, values.len(), EXIT_CODES_MAX, errors);
    let mut seen = HashSet::new();
    for (i, value) in errors.while_room(values.iter().enumerate()) {
        if operator == "In" && *value == 0 {
            errors.push(FieldError::invalid(&at.index(i), *value, "must not be 0 for the In operator"));
        }
        if !seen.insert(value) {
            errors.push(FieldError::duplicate(&at.index(i), *value));
        }
    }
    if !values.is_sorted() {
        errors.push(FieldError::invalid(&at, shown(codes.get("values")), "must be ordered"));
    }
}

fn success(spec: &Value, policy: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let rules = policy.list_at(&["rules"]);
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.push(FieldError::required(path, why));
    }
    at_most(path, rules.len(), RULES_MAX, errors);
    for (i, rule) in errors.while_room(rules.iter().enumerate()) {
        success_rule(spec, rule, &path.index(i), errors);
    }
}

fn success_rule(spec: &Value, rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let completions = spec.int_at(&["completions"]).unwrap_or(0);
    let (count, list) = (rule.int_at(&["succeededCount"]), rule.get("succeededIndexes").and_then(Value::as_str));
    if count.is_none() && list.is_none() {
        let why = "at least one of succeededCount or succeededIndexes must be specified";
        errors.push(FieldError::required(path, why));
    }
    let mut total = None;
    if let Some(list) = list {
        let at = path.child("succeededIndexes");
        if list.len() > INDEXES_MAX {
            errors.push(FieldError::too_long(&at, INDEXES_MAX));
        }
        total = Some(indexes::count(list, completions).unwrap_or_else(|why| {
            errors.push(FieldError::invalid(&at, list, format!("error parsing succeededIndexes: {why}")));
            0
        }));
    }
    not_negative(rule, &["succeededCount"], path, errors);
    let Some(count) = count else { return };
    let at = path.child("succeededCount");
    if count > completions {
        let why = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(FieldError::invalid(&at, count, why));
    }
    if let Some(total) = total.filter(|total| count > *total) {
        let why = format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        );
        errors.push(FieldError::invalid(&at, count, why));
    }
}
