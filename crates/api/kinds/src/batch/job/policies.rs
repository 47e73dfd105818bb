//! Validation of a job's policies: when it fails or succeeds, and when a pod is replaced.

use std::collections::HashSet;

use binnacle_fields::FieldRef;
use binnacle_fields::batch::v1::{
    JobSpec as Spec, PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement as ExitCodes,
    PodFailurePolicyOnPodConditionsPattern as Pattern, PodFailurePolicyRule, SuccessPolicy, SuccessPolicyRule,
};
use binnacle_fields::core::v1::{Container, PodSpec, PodTemplateSpec};
use binnacle_fields::types::{List, Str};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_validation::checks;

use super::indexes;
use super::indexes::is_indexed;
use crate::internal;
use crate::workload::validation::not_negative;

const RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const PATTERNS_MAX: usize = 20;
const INDEXES_MAX: usize = 64 * 1024;

const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
const OPERATORS: [&str; 2] = ["In", "NotIn"];
const STATUSES: [&str; 3] = ["False", "True", "Unknown"];

pub(super) fn validate(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let failure = spec.at(Spec::POD_FAILURE_POLICY);
    if failure.is_set() {
        let rules = failure.at(PodFailurePolicy::RULES);
        at_most(rules, RULES_MAX, errors);
        let containers = container_names(spec.at(Spec::TEMPLATE));
        for rule in errors.while_room(rules.items()) {
            failure_rule(spec, &containers, rule, errors);
        }
    }
    let policy = spec.at(Spec::SUCCESS_POLICY);
    if policy.is_set() {
        if is_indexed(spec) {
            success(spec, policy.at(SuccessPolicy::RULES), errors);
        } else {
            errors.push(policy.invalid_as(internal::shown(policy), "requires indexed completion mode"));
        }
    }
    let replacement = spec.at(Spec::POD_REPLACEMENT_POLICY);
    if let Some(policy) = replacement.get_str() {
        let supported: &[&str] = if failure.is_set() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
        checks::one_of(&replacement, policy, supported, errors);
    }
}

fn container_names<'v>(template: FieldRef<'_, 'v, PodTemplateSpec>) -> HashSet<&'v str> {
    let pod = template.at(PodTemplateSpec::SPEC);
    let mut names = HashSet::new();
    for list in [PodSpec::CONTAINERS, PodSpec::INIT_CONTAINERS] {
        names.extend(pod.at(list).items().map(|container| container.at(Container::NAME).str()));
    }
    names
}

fn at_most<T>(list: FieldRef<List<T>>, max: usize, errors: &mut FieldErrors) {
    if list.len() > max {
        errors.push(list.too_many(max));
    }
}

/// Requires one of the supported values; the message for an absent value lists them.
fn listed(field: FieldRef<Str>, supported: &[&str], errors: &mut FieldErrors) {
    if field.is_empty() {
        let quoted: Vec<String> = supported.iter().map(|value| format!("{value:?}")).collect();
        errors.push(field.required(format!("valid values: [{}]", quoted.join(" "))));
    } else {
        checks::one_of(&field, field.str(), supported, errors);
    }
}

fn failure_rule(
    spec: FieldRef<Spec>,
    containers: &HashSet<&str>,
    rule: FieldRef<PodFailurePolicyRule>,
    errors: &mut FieldErrors,
) {
    let action = rule.at(PodFailurePolicyRule::ACTION);
    listed(action, &ACTIONS, errors);
    if action.str() == "FailIndex" && !spec.at(Spec::BACKOFF_LIMIT_PER_INDEX).is_set() {
        errors.push(action.invalid("requires the backoffLimitPerIndex to be set"));
    }
    let codes = rule.at(PodFailurePolicyRule::ON_EXIT_CODES);
    let patterns = rule.at(PodFailurePolicyRule::ON_POD_CONDITIONS);
    if codes.is_set() {
        exit_codes(containers, codes, errors);
    }
    conditions(patterns, errors);
    match (codes.is_set(), !patterns.is_empty()) {
        (true, true) => {
            let why = "specifying both OnExitCodes and OnPodConditions is not supported";
            errors.push(FieldError::invalid_omitting(&rule, why));
        }
        (false, false) => {
            let why = "specifying one of OnExitCodes and OnPodConditions is required";
            errors.push(FieldError::invalid_omitting(&rule, why));
        }
        _ => {}
    }
}

fn conditions(patterns: FieldRef<List<Pattern>>, errors: &mut FieldErrors) {
    at_most(patterns, PATTERNS_MAX, errors);
    for pattern in errors.while_room(patterns.items()) {
        let kind = pattern.at(Pattern::TYPE);
        checks::qualified_name(&kind, kind.str(), errors);
        listed(pattern.at(Pattern::STATUS), &STATUSES, errors);
    }
}

fn exit_codes(containers: &HashSet<&str>, codes: FieldRef<ExitCodes>, errors: &mut FieldErrors) {
    let operator = codes.at(ExitCodes::OPERATOR);
    listed(operator, &OPERATORS, errors);
    let container = codes.at(ExitCodes::CONTAINER_NAME);
    if container.get_str().is_some_and(|name| !containers.contains(name)) {
        errors.push(container.invalid("must be one of the container or initContainer names in the pod template"));
    }
    let values = codes.at(ExitCodes::VALUES);
    if values.is_empty() {
        errors.push(values.invalid("at least one value is required"));
    }
    at_most(values, EXIT_CODES_MAX, errors);
    let mut seen = HashSet::new();
    for value in errors.while_room(values.items()) {
        if operator.str() == "In" && value.int() == Some(0) {
            errors.push(value.invalid("must not be 0 for the In operator"));
        }
        if !seen.insert(value.int()) {
            errors.push(value.duplicate());
        }
    }
    if !values.items().is_sorted_by_key(|value| value.int()) {
        errors.push(values.invalid("must be ordered"));
    }
}

fn success(spec: FieldRef<Spec>, rules: FieldRef<List<SuccessPolicyRule>>, errors: &mut FieldErrors) {
    if rules.is_empty() {
        errors.push(rules.required("at least one rules must be specified when the successPolicy is specified"));
    }
    at_most(rules, RULES_MAX, errors);
    let completions = spec.at(Spec::COMPLETIONS).int_or_zero();
    for rule in errors.while_room(rules.items()) {
        success_rule(completions, rule, errors);
    }
}

fn success_rule(completions: i64, rule: FieldRef<SuccessPolicyRule>, errors: &mut FieldErrors) {
    let count = rule.at(SuccessPolicyRule::SUCCEEDED_COUNT);
    let list = rule.at(SuccessPolicyRule::SUCCEEDED_INDEXES);
    if !count.is_set() && !list.is_set() {
        errors.push(rule.required("at least one of succeededCount or succeededIndexes must be specified"));
    }
    let mut total = None;
    if let Some(text) = list.get_str() {
        if text.len() > INDEXES_MAX {
            errors.push(list.too_long(INDEXES_MAX));
        }
        total = Some(indexes::count(text, completions).unwrap_or_else(|why| {
            errors.push(list.invalid(format!("error parsing succeededIndexes: {why}")));
            0
        }));
    }
    not_negative(rule, &[SuccessPolicyRule::SUCCEEDED_COUNT], errors);
    let Some(number) = count.int() else { return };
    if number > completions {
        let why = format!("must be less than or equal to {completions} (the number of specified completions)");
        errors.push(count.invalid(why));
    }
    if let Some(total) = total.filter(|total| number > *total) {
        errors.push(count.invalid(format!(
            "must be less than or equal to {total} (the number of indexes in the specified succeededIndexes field)"
        )));
    }
}
