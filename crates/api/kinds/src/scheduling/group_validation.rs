//! Validation that pod groups and their templates share.

use std::collections::BTreeSet;

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks;
use binnacle_validation::metadata::{IMMUTABLE, shown};

use crate::Features;
use crate::checks::{items, member, present};
use crate::prepare::semantically_equal;

pub(super) const CLAIMS_MAX: usize = 4;
const TOPOLOGIES_MAX: usize = 1;
const PRIORITY_MAX: i64 = 1_000_000_000;

/// Validates the spec of a pod group, which is immutable.
pub(super) fn spec(features: &Features, spec: &Value, old: Option<&Value>, path: &FieldPath, errors: &mut FieldErrors) {
    const FIELDS: [&str; 7] = [
        "podGroupTemplateRef",
        "schedulingPolicy",
        "schedulingConstraints",
        "resourceClaims",
        "disruptionMode",
        "priorityClassName",
        "priority",
    ];
    if let Some(old) = old {
        let changed = FIELDS.iter().filter(|field| !semantically_equal(spec.get(field), old.get(field)));
        errors.extend(changed.map(|field| FieldError::invalid(&path.child(field), ErrorValue::raw("null"), IMMUTABLE)));
        return;
    }
    if let Some(reference) = present(spec, "podGroupTemplateRef") {
        template_reference(reference, &path.child("podGroupTemplateRef"), errors);
    }
    group(spec, path, errors);
    if features.enabled("WorkloadAwarePreemption") && present(spec, "disruptionMode").is_none() {
        errors.push(FieldError::required(&path.child("disruptionMode"), ""));
    }
}

/// Validates the fields that a pod group and a pod group template share.
pub(super) fn group(group: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (policy, at) = (member(group, "schedulingPolicy"), path.child("schedulingPolicy"));
    one_of(policy, &["basic", "gang"], &at, errors);
    if let Some(gang) = present(policy, "gang") {
        let at = at.child("gang").child("minCount");
        match gang.int_at(&["minCount"]).unwrap_or(0) {
            0 => errors.push(FieldError::required(&at, "")),
            count if count < 1 => errors.push(FieldError::invalid(&at, count, "must be greater than or equal to 1")),
            _ => {}
        }
    }
    if let Some(constraints) = present(group, "schedulingConstraints") {
        topology(constraints, &path.child("schedulingConstraints"), errors);
    }
    claims(group, path, errors);
    if let Some(mode) = present(group, "disruptionMode").and_then(Value::as_str) {
        checks::one_of(&path.child("disruptionMode"), mode, &["Pod", "PodGroup"], errors);
    }
    let class = group.str_at(&["priorityClassName"]);
    if !class.is_empty() {
        checks::long_name(&path.child("priorityClassName"), class, errors);
    }
    if let Some(priority) = group.int_at(&["priority"])
        && priority > PRIORITY_MAX
    {
        let why = format!("must be less than or equal to {PRIORITY_MAX}");
        errors.push(FieldError::invalid(&path.child("priority"), priority, why));
    }
}

/// Validates the names of the structs in a list, which must be unique.
pub(super) fn unique_names(holder: &Value, list: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for (at, item) in errors.while_room(items(holder, list, path)) {
        if !seen.insert(item.str_at(&["name"])) {
            errors.push(FieldError::duplicate(&at, shown(Some(item))));
        }
    }
}

/// Requires exactly one of some members.
fn one_of(union: &Value, members: &[&str], path: &FieldPath, errors: &mut FieldErrors) {
    let quoted = |members: &[&str]| members.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let given: Vec<&str> = members.iter().copied().filter(|name| present(union, name).is_some()).collect();
    match given.len() {
        0 => errors.push(FieldError::invalid(path, "", format!("must specify one of: {}", quoted(members)))),
        1 => {}
        _ => {
            let why = format!("must specify exactly one of: {}", quoted(members));
            errors.push(FieldError::invalid(path, format!("{{{}}}", quoted(&given)).as_str(), why));
        }
    }
}

fn template_reference(reference: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    one_of(reference, &["workload"], path, errors);
    let Some(workload) = present(reference, "workload") else { return };
    let path = path.child("workload");
    for (field, is_label) in [("workloadName", false), ("podGroupTemplateName", true)] {
        let (name, at) = (workload.str_at(&[field]), path.child(field));
        match name {
            "" => errors.push(FieldError::required(&at, "")),
            name if is_label => checks::short_name(&at, name, errors),
            name => checks::long_name(&at, name, errors),
        }
    }
}

fn topology(constraints: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let list = constraints.list_at(&["topology"]);
    if list.len() > TOPOLOGIES_MAX {
        return errors.push(FieldError::too_many(&path.child("topology"), list.len(), TOPOLOGIES_MAX));
    }
    for (at, constraint) in errors.while_room(items(constraints, "topology", path)) {
        match constraint.str_at(&["key"]) {
            "" => errors.push(FieldError::required(&at.child("key"), "")),
            key => checks::qualified_name(&at.child("key"), key, errors),
        }
    }
}

fn claims(group: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let list = group.list_at(&["resourceClaims"]);
    if list.len() > CLAIMS_MAX {
        return errors.push(FieldError::too_many(&path.child("resourceClaims"), list.len(), CLAIMS_MAX));
    }
    unique_names(group, "resourceClaims", path, errors);
    for (at, claim) in errors.while_room(items(group, "resourceClaims", path)) {
        let sources = ["resourceClaimName", "resourceClaimTemplateName"];
        one_of(claim, &sources, &at, errors);
        match claim.str_at(&["name"]) {
            "" => errors.push(FieldError::required(&at.child("name"), "")),
            name => checks::short_name(&at.child("name"), name, errors),
        }
        for field in sources {
            if let Some(name) = present(claim, field).and_then(Value::as_str) {
                checks::long_name(&at.child(field), name, errors);
            }
        }
    }
}
