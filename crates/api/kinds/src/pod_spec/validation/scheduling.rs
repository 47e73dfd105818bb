//! Validation of scheduling: affinities, tolerations, topology spread constraints.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::selectors::{self, no_operator};
use binnacle_validation::{checks, names};

use super::PodValidationOptions;
use crate::tree_names::member;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const WEIGHT: &str = "must be in the range 1-100";

// === Affinity ===

pub(super) fn affinity(spec: &Value, path: &FieldPath, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let Some(affinity) = member(spec, "affinity") else { return };
    if let Some(rules) = member(affinity, "nodeAffinity") {
        let path = path.child("nodeAffinity");
        if let Some(selector) = member(rules, REQUIRED) {
            node_selector(selector, options.any_node_label_value, &path.child(REQUIRED), errors);
        }
        for (i, term) in errors.while_room(rules.list_at(&[PREFERRED]).iter().enumerate()) {
            let at = path.child(PREFERRED).index(i);
            weight(term, &at, errors);
            let preference = term.get("preference").unwrap_or(&Value::Null);
            node_selector_term(preference, true, &at.child("preference"), errors);
        }
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(rules) = member(affinity, kind) else { continue };
        let path = path.child(kind);
        for (i, term) in errors.while_room(rules.list_at(&[REQUIRED]).iter().enumerate()) {
            pod_term(term, &path.child(REQUIRED).index(i), options, errors);
        }
        for (i, weighted) in errors.while_room(rules.list_at(&[PREFERRED]).iter().enumerate()) {
            let at = path.child(PREFERRED).index(i);
            weight(weighted, &at, errors);
            let term = weighted.get("podAffinityTerm").unwrap_or(&Value::Null);
            pod_term(term, &at.child("podAffinityTerm"), options, errors);
        }
    }
}

/// Validates a node selector, which needs at least one term. `any_value` accepts invalid label values.
pub(crate) fn node_selector(selector: &Value, any_value: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let terms = selector.list_at(&["nodeSelectorTerms"]);
    let path = path.child("nodeSelectorTerms");
    if terms.is_empty() {
        errors.push(FieldError::required(&path, "must have at least one node selector term"));
    }
    for (i, term) in errors.while_room(terms.iter().enumerate()) {
        node_selector_term(term, any_value, &path.index(i), errors);
    }
}

/// Returns true if a term of a node selector has invalid label values.
pub(crate) fn has_invalid_label_values(selector: &Value) -> bool {
    selector
        .list_at(&["nodeSelectorTerms"])
        .iter()
        .flat_map(|term| term.list_at(&["matchExpressions"]))
        .flat_map(|requirement| requirement.list_at(&["values"]))
        .any(|value| !names::label_value(value.as_str().unwrap_or("")).is_empty())
}

fn node_selector_term(term: &Value, any_value: bool, path: &FieldPath, errors: &mut FieldErrors) {
    for (i, requirement) in errors.while_room(term.list_at(&["matchExpressions"]).iter().enumerate()) {
        label_requirement(requirement, any_value, &path.child("matchExpressions").index(i), errors);
    }
    for (i, requirement) in errors.while_room(term.list_at(&["matchFields"]).iter().enumerate()) {
        field_requirement(requirement, &path.child("matchFields").index(i), errors);
    }
}

fn label_requirement(requirement: &Value, any_value: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let values = requirement.list_at(&["values"]);
    let at = path.child("values");
    match requirement.str_at(&["operator"]) {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(FieldError::required(&at, "must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&at, why));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            let why = "must be specified single value when `operator` is 'Lt' or 'Gt'";
            errors.push(FieldError::required(&at, why));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.push(no_operator(other, path)),
    }
    checks::qualified_name(&path.child("key"), requirement.str_at(&["key"]), errors);
    if !any_value {
        for (i, value) in errors.while_room(values.iter().filter_map(Value::as_str).enumerate()) {
            checks::invalid_for(&at.index(i), value, names::label_value(value), errors);
        }
    }
}

/// Validates a requirement on a field of a node; the only supported field is its name.
fn field_requirement(requirement: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let values = requirement.list_at(&["values"]);
    match requirement.str_at(&["operator"]) {
        "In" | "NotIn" if values.len() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(&path.child("values"), why));
        }
        "In" | "NotIn" => {}
        other => errors.push(no_operator(other, path)),
    }
    let key = requirement.str_at(&["key"]);
    if key != "metadata.name" {
        return errors.push(FieldError::invalid(&path.child("key"), key, "not a valid field selector key"));
    }
    for (i, name) in errors.while_room(values.iter().filter_map(Value::as_str).enumerate()) {
        checks::subdomain(&path.child("values").index(i), name, errors);
    }
}

fn pod_term(term: &Value, path: &FieldPath, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    for selector in ["labelSelector", "namespaceSelector"] {
        selectors::label_selector(term.get(selector), options.any_selector_value, &path.child(selector), errors);
    }
    for namespace in errors.while_room(term.list_at(&["namespaces"]).iter().filter_map(Value::as_str)) {
        checks::label(&path.child("namespace"), namespace, errors);
    }
    label_keys(term, path, errors);
    let key = term.str_at(&["topologyKey"]);
    let at = path.child("topologyKey");
    if key.is_empty() {
        errors.push(FieldError::required(&at, "can not be empty"));
    }
    checks::qualified_name(&at, key, errors);
}

fn weight(term: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let weight = term.int_at(&["weight"]).unwrap_or(0);
    if !(1..=100).contains(&weight) {
        errors.push(FieldError::invalid(&path.child("weight"), weight, WEIGHT));
    }
}

// === Label keys that become requirements ===

/// Validates label keys, which need a selector. Create has merged each key into it once, so two requirements for a key
/// mean that the client sent one.
pub(super) fn label_keys(holder: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let selector = member(holder, "labelSelector");
    let keys = |list: &str| holder.list_at(&[list]).iter().filter_map(Value::as_str).collect::<Vec<_>>();
    let (matching, mismatching) = (keys("matchLabelKeys"), keys("mismatchLabelKeys"));
    for (name, list) in [("matchLabelKeys", &matching), ("mismatchLabelKeys", &mismatching)] {
        let at = path.child(name);
        if selector.is_none() && !list.is_empty() {
            errors.push(FieldError::forbidden(&at, "must not be specified when labelSelector is not set"));
            continue;
        }
        for (i, key) in errors.while_room(list.iter().enumerate()) {
            checks::qualified_name(&at.index(i), key, errors);
        }
    }
    if let Some(selector) = selector {
        let labels = selector.object_at(&["matchLabels"]).into_iter().flat_map(|labels| labels.keys());
        let mut seen: BTreeSet<&str> = labels.map(|key| key.as_str()).collect();
        let places: BTreeMap<&str, usize> = matching.iter().enumerate().map(|(i, key)| (*key, i)).collect();
        for requirement in errors.while_room(selector.list_at(&["matchExpressions"])) {
            let key = requirement.str_at(&["key"]);
            if let Some(i) = places.get(key)
                && seen.contains(key)
            {
                let why = "exists in both matchLabelKeys and labelSelector";
                errors.push(FieldError::invalid(&path.index(*i), key, why));
            }
            seen.insert(key);
        }
    }
    let mismatching: BTreeSet<&str> = mismatching.iter().copied().collect();
    for (i, key) in errors.while_room(matching.iter().enumerate().filter(|(_, key)| mismatching.contains(*key))) {
        let at = path.child("matchLabelKeys").index(i);
        errors.push(FieldError::invalid(&at, *key, "exists in both matchLabelKeys and mismatchLabelKeys"));
    }
}

/// Validates label keys by the older rule, for objects created before keys were merged.
pub(super) fn unmerged_label_keys(holder: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let keys = holder.list_at(&["matchLabelKeys"]);
    let path = path.child("matchLabelKeys");
    let selector = member(holder, "labelSelector");
    if !keys.is_empty() && selector.is_none() {
        errors.push(FieldError::forbidden(&path, "must not be specified when labelSelector is not set"));
    }
    let expressions = selector.map_or(&[][..], |selector| selector.list_at(&["matchExpressions"]));
    let expressed: BTreeSet<&str> = expressions.iter().map(|requirement| requirement.str_at(&["key"])).collect();
    let selects = |key: &str| {
        selector.is_some_and(|selector| selector.at(&["matchLabels", key]).is_some() || expressed.contains(key))
    };
    for (i, key) in errors.while_room(keys.iter().filter_map(Value::as_str).enumerate()) {
        checks::qualified_name(&path.index(i), key, errors);
        if selects(key) {
            let why = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(&path.index(i), key, why));
        }
    }
}

// === Spread ===

pub(super) fn topology_spread(
    list: &[Value],
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    fn pair(constraint: &Value) -> (&str, &str) {
        (constraint.str_at(&["topologyKey"]), constraint.str_at(&["whenUnsatisfiable"]))
    }
    let last: HashMap<_, _> = list.iter().enumerate().map(|(i, constraint)| (pair(constraint), i)).collect();
    for (i, constraint) in errors.while_room(list.iter().enumerate()) {
        let at = path.index(i);
        positive(&at.child("maxSkew"), constraint.int_at(&["maxSkew"]).unwrap_or(0), errors);
        let (key, action) = pair(constraint);
        if key.is_empty() {
            errors.push(FieldError::required(&at.child("topologyKey"), "can not be empty"));
        }
        checks::one_of(&at.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"], errors);
        if last.get(&(key, action)) != Some(&i) {
            let at = at.child("{topologyKey, whenUnsatisfiable}");
            errors.push(FieldError::duplicate(&at, format!("{{{key}, {action}}}").as_str()));
        }
        if let Some(domains) = constraint.int_at(&["minDomains"]) {
            let at = at.child("minDomains");
            positive(&at, domains, errors);
            if action != "DoNotSchedule" {
                let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.push(FieldError::invalid(&at, domains, why));
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            if let Some(policy) = constraint.get(field).and_then(Value::as_str) {
                checks::one_of(&at.child(field), policy, &["Honor", "Ignore"], errors);
            }
        }
        if options.unmerged_label_keys {
            unmerged_label_keys(constraint, &at, errors);
        } else {
            // There is no `mismatchLabelKeys` in a constraint.
            label_keys(constraint, &at, errors);
        }
        if !options.any_spread_selector {
            selectors::label_selector(constraint.get("labelSelector"), false, &at.child("labelSelector"), errors);
        }
    }
}

fn positive(path: &FieldPath, value: i64, errors: &mut FieldErrors) {
    if value <= 0 {
        errors.push(FieldError::invalid(path, value, "must be greater than zero"));
    }
}
