//! Validation of quotas: the names and amounts of resources, and the scopes that apply to them.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    ResourceQuotaSpec as Spec, ResourceQuotaStatus as Status, ScopeSelector,
    ScopedResourceSelectorRequirement as Requirement,
};
use binnacle_fields::types::{List, Map, Quantity, Str};
use binnacle_meta::{ErrorValue, FieldErrors};
use binnacle_validation::checks::IMMUTABLE;
use binnacle_validation::checks::of_named_type;
use binnacle_validation::resource_names;
use binnacle_validation::selectors::unknown_operator;

use crate::internal;

const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
const COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const NEEDS_EXISTS: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

pub(super) fn spec(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let hard = spec.at(Spec::HARD);
    amounts(hard, errors);
    let standard = standard_resources(hard);
    scopes(spec.at(Spec::SCOPES), &standard, errors);
    selector(spec, &standard, errors);
}

pub(super) fn status(status: FieldRef<Status>, errors: &mut FieldErrors) {
    for list in [Status::HARD, Status::USED] {
        amounts(status.at(list), errors);
    }
}

/// Validates an update, which may change the order of scopes but not the scopes.
pub(super) fn update(new: FieldRef<Spec>, old: FieldRef<Spec>, errors: &mut FieldErrors) {
    spec(new, errors);
    let scopes = new.at(Spec::SCOPES);
    if scopes.strs().collect::<BTreeSet<_>>() != old.at(Spec::SCOPES).strs().collect() {
        errors.push(scopes.invalid(IMMUTABLE));
    }
}

fn amounts(list: FieldRef<Map<Quantity>>, errors: &mut FieldErrors) {
    for (name, amount) in errors.while_room(list.entries()) {
        resource_names::of_quotas(&amount, name, errors);
        resource_names::amount(&amount, name, amount.str(), errors);
    }
}

fn scopes(scopes: FieldRef<List<Str>>, standard: &[&str], errors: &mut FieldErrors) {
    let shown = LazyCell::new(|| ErrorValue::from(scopes.value()));
    let invalid = |why: &str| scopes.invalid_as(shown.clone(), why);
    let names: Vec<&str> = scopes.strs().collect();
    for scope in errors.while_room(&names) {
        if !is_scope(scope) {
            errors.push(invalid("unsupported scope"));
        }
        for _ in 0..misfits(standard, scope) {
            errors.push(invalid("unsupported scope applied to resource"));
        }
    }
    errors.extend(conflicts(&names).map(|_| invalid("conflicting scopes")));
}

fn selector(spec: FieldRef<Spec>, standard: &[&str], errors: &mut FieldErrors) {
    let selector = spec.at(Spec::SCOPE_SELECTOR);
    let requirements = selector.at(ScopeSelector::MATCH_EXPRESSIONS);
    let shown = LazyCell::new(|| internal::shown(selector));
    for requirement in errors.while_room(requirements.items()) {
        // kube-apiserver reports requirements without their index.
        let requirement = requirement.located_at(&requirements);
        let (scope, operator) = (requirement.at(Requirement::SCOPE_NAME), requirement.at(Requirement::OPERATOR));
        if !is_scope(scope.str()) {
            errors.push(scope.invalid_as(of_named_type(scope.str()), "unsupported scope"));
        }
        for _ in 0..misfits(standard, scope.str()) {
            errors.push(requirement.invalid_as(shown.clone(), "unsupported scope applied to resource"));
        }
        let only_exists = ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
        if only_exists.contains(&scope.str()) && operator.str() != "Exists" {
            errors.push(operator.invalid_as(of_named_type(operator.str()), NEEDS_EXISTS));
        }
        let values = requirement.at(Requirement::VALUES);
        match operator.str() {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(values.required(why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(values.invalid(why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            text => errors.push(unknown_operator(&operator, text)),
        }
    }
    let named: Vec<&str> =
        requirements.items().map(|requirement| requirement.at(Requirement::SCOPE_NAME).str()).collect();
    for _ in errors.while_room(conflicts(&named)) {
        errors.push(requirements.invalid_as(spec.at(Spec::SCOPES).value(), "conflicting scopes"));
    }
}

fn conflicts(scopes: &[&str]) -> impl Iterator<Item = &'static [&'static str; 2]> {
    CONFLICTS.iter().filter(|pair| pair.iter().all(|scope| scopes.contains(scope)))
}

/// Returns the number of limited resources to which a scope does not apply.
fn misfits(standard: &[&str], scope: &str) -> usize {
    standard.iter().filter(|name| !fits(scope, name)).count()
}

/// Returns the limited resources that exist in every cluster: few, even if a quota names many resources.
fn standard_resources<'v>(hard: FieldRef<'_, 'v, Map<Quantity>>) -> Vec<&'v str> {
    hard.entries().map(|(name, _)| name).filter(|name| resource_names::is_standard_for_quotas(name)).collect()
}

fn fits(scope: &str, resource: &str) -> bool {
    match scope {
        "BestEffort" => resource == "pods",
        "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity" => {
            resource == "pods" || COMPUTE.contains(&resource)
        }
        "VolumeAttributesClass" => matches!(resource, "persistentvolumeclaims" | "requests.storage"),
        _ => true,
    }
}

fn is_scope(scope: &str) -> bool {
    matches!(
        scope,
        "Terminating"
            | "NotTerminating"
            | "BestEffort"
            | "NotBestEffort"
            | "PriorityClass"
            | "VolumeAttributesClass"
            | "CrossNamespacePodAffinity"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_fields::core::v1::ResourceQuota;
    use binnacle_schema::{Value, value};

    #[test]
    fn validates_quotas() {
        for (own, want) in [
            (value!({"hard": {"pods": "1", "example.com/x": "2", "requests.storage": "1Gi"}}), vec![]),
            (
                value!({"hard": {"storage": "1"}}),
                vec!["spec.hard[storage]: Invalid value: \"storage\": must be a standard resource for quota"],
            ),
            (
                value!({"hard": {"pods": "1500m"}}),
                vec!["spec.hard[pods]: Invalid value: \"1500m\": must be an integer"],
            ),
            (value!({"scopes": ["Weird"]}), vec!["spec.scopes: Invalid value: [\"Weird\"]: unsupported scope"]),
            (
                value!({"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}),
                vec!["spec.scopes: Invalid value: [\"BestEffort\"]: unsupported scope applied to resource"],
            ),
            (value!({"hard": {"cpu": "1"}, "scopes": ["NotBestEffort"]}), vec![]),
            (
                value!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists", "values": ["a"]}]}}),
                vec![
                    "spec.scopeSelector.matchExpressions.values: Invalid value: [\"a\"]: must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector",
                ],
            ),
            (
                value!({"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Like"}]}}),
                vec![
                    "spec.scopeSelector.matchExpressions.operator: Invalid value: \"Like\": not a valid selector operator",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            let object = value!({"spec": own});
            spec(FieldRef::<ResourceQuota>::root(&object).at(ResourceQuota::SPEC), &mut errors);
            let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(got, want, "{object:?}");
        }
    }

    #[test]
    fn scopes_are_immutable() {
        let of = |scopes: Value| value!({"spec": {"scopes": scopes}});
        let old = of(value!(["Terminating", "NotBestEffort"]));
        for (new, want) in [
            (of(value!(["NotBestEffort", "Terminating"])), vec![]),
            (of(value!(["Terminating"])), vec!["spec.scopes: Invalid value: [\"Terminating\"]: field is immutable"]),
        ] {
            let mut errors = FieldErrors::new();
            let (new, old) = (FieldRef::<ResourceQuota>::root(&new), FieldRef::<ResourceQuota>::root(&old));
            update(new.at(ResourceQuota::SPEC), old.at(ResourceQuota::SPEC), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }
}
