//! Validation of quotas: the names and amounts of resources, and the scopes that apply to them.

use std::cell::LazyCell;
use std::collections::BTreeSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::{IMMUTABLE, shown};
use binnacle_validation::resource_names;
use binnacle_validation::selectors::no_operator;

use crate::internal;

const SELECTOR: &str = "io.k8s.api.core.v1.ScopeSelector";
const CONFLICTS: [[&str; 2]; 2] = [["BestEffort", "NotBestEffort"], ["Terminating", "NotTerminating"]];
const COMPUTE: [&str; 6] = ["cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"];
const NEEDS_EXISTS: &str = "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity";

pub(super) fn spec(object: &Value, errors: &mut FieldErrors) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let path = FieldPath::new("spec");
    amounts(spec, "hard", &path, errors);
    scopes(spec, &path.child("scopes"), errors);
    selector(spec, &path.child("scopeSelector").child("matchExpressions"), errors);
}

pub(super) fn status(object: &Value, errors: &mut FieldErrors) {
    let status = object.get("status").unwrap_or(&Value::Null);
    for list in ["hard", "used"] {
        amounts(status, list, &FieldPath::new("status"), errors);
    }
}

/// Validates an update, which may change the order of scopes but not the scopes.
pub(super) fn update(object: &Value, old: &Value, errors: &mut FieldErrors) {
    spec(object, errors);
    let set = |object: &Value| -> BTreeSet<String> {
        object.list_at(&["spec", "scopes"]).iter().filter_map(Value::as_str).map(str::to_owned).collect()
    };
    if set(object) != set(old) {
        let path = FieldPath::new("spec").child("scopes");
        errors.push(FieldError::invalid(&path, shown(object.at(&["spec", "scopes"])), IMMUTABLE));
    }
}

fn amounts(holder: &Value, list: &str, path: &FieldPath, errors: &mut FieldErrors) {
    for (name, value) in errors.while_room(holder.object_at(&[list]).into_iter().flat_map(|members| members.iter())) {
        let at = path.child(list).key(name);
        resource_names::of_quotas(&at, name, errors);
        resource_names::amount(&at, name, value.as_str().unwrap_or(""), errors);
    }
}

fn scopes(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let scopes = texts(spec.list_at(&["scopes"]));
    let standard = standard_resources(spec);
    let shown = LazyCell::new(|| shown(spec.get("scopes")));
    let invalid = |why: &str| FieldError::invalid(path, shown.clone(), why);
    for scope in errors.while_room(&scopes) {
        if !is_scope(scope) {
            errors.push(invalid("unsupported scope"));
        }
        for _ in 0..misfits(&standard, scope) {
            errors.push(invalid("unsupported scope applied to resource"));
        }
    }
    errors.extend(conflicts(&scopes).map(|_| invalid("conflicting scopes")));
}

fn selector(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let requirements = spec.list_at(&["scopeSelector", "matchExpressions"]);
    let standard = standard_resources(spec);
    let selector = LazyCell::new(|| internal::shown_as(SELECTOR, spec.get("scopeSelector")));
    for requirement in errors.while_room(requirements) {
        let (scope, operator) = (requirement.str_at(&["scopeName"]), requirement.str_at(&["operator"]));
        if !is_scope(scope) {
            errors.push(FieldError::invalid(&path.child("scopeName"), scope, "unsupported scope"));
        }
        for _ in 0..misfits(&standard, scope) {
            errors.push(FieldError::invalid(path, selector.clone(), "unsupported scope applied to resource"));
        }
        let only_exists = ["BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"];
        if only_exists.contains(&scope) && operator != "Exists" {
            errors.push(FieldError::invalid(&path.child("operator"), operator, NEEDS_EXISTS));
        }
        let (values, at) = (requirement.list_at(&["values"]), path.child("values"));
        match operator {
            "In" | "NotIn" if values.is_empty() => {
                let why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(FieldError::required(&at, why));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                errors.push(FieldError::invalid(&at, shown(requirement.get("values")), why));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            _ => errors.push(no_operator(operator, path)),
        }
    }
    let named: Vec<&str> = requirements.iter().map(|requirement| requirement.str_at(&["scopeName"])).collect();
    for _ in errors.while_room(conflicts(&named)) {
        errors.push(FieldError::invalid(path, shown(spec.get("scopes")), "conflicting scopes"));
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
fn standard_resources(spec: &Value) -> Vec<&str> {
    let names = spec.object_at(&["hard"]).into_iter().flat_map(|hard| hard.keys());
    names.map(|name| name.as_str()).filter(|name| resource_names::is_standard_for_quotas(name)).collect()
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

fn texts(list: &[Value]) -> Vec<&str> {
    list.iter().filter_map(Value::as_str).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn rules() {
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
            spec(&object, &mut errors);
            let got: Vec<String> = errors.iter().map(ToString::to_string).collect();
            assert_eq!(got, want, "{object:?}");
        }
    }

    #[test]
    fn scopes_stay() {
        let of = |scopes: Value| value!({"spec": {"scopes": scopes}});
        let old = of(value!(["Terminating", "NotBestEffort"]));
        for (new, want) in [
            (of(value!(["NotBestEffort", "Terminating"])), vec![]),
            (of(value!(["Terminating"])), vec!["spec.scopes: Invalid value: [\"Terminating\"]: field is immutable"]),
        ] {
            let mut errors = FieldErrors::new();
            update(&new, &old, &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }
}
