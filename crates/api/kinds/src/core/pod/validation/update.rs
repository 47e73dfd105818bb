//! Validation of a pod's update, which may change little of the spec, but more while the pod is gated (KEP-3838).

use std::collections::HashSet;

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Value, json};
use binnacle_validation::metadata::shown;
use binnacle_validation::names::inclusive_range_error;
use binnacle_validation::tolerations::tolerations as toleration_rules;

use super::{SPEC, annotations_of, metadata_and_spec};
use crate::Features;
use crate::diff;
use crate::equality::{equal_as, equal_at, equal_maps};
use crate::internal::internal;
use crate::pod_spec::validation::{PodValidationOptions, annotations as annotation_rules};
use crate::tree_names::{keep_at, member, remove_at};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const NODE_AFFINITY: [&str; 2] = ["affinity", "nodeAffinity"];
const TERM: &str = "io.k8s.api.core.v1.NodeSelectorTerm";

const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(in crate::core::pod) fn validate(features: &Features, object: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let options = PodValidationOptions::for_pod_update(features, old);
    metadata_and_spec(object, &options, &mut errors);
    annotations(object, old, &options, &mut errors);
    let path = FieldPath::new("spec");
    let null = Value::Null;
    let (spec, old_spec) = (object.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    for list in ["containers", "initContainers"] {
        if !container_images(spec.list_at(&[list]), old_spec.list_at(&[list]), &path.child(list), &mut errors) {
            return errors;
        }
    }
    if !deadline(spec, old_spec, &path.child("activeDeadlineSeconds"), &mut errors) {
        return errors;
    }
    tolerations(spec, old_spec, &path.child("tolerations"), &options, &mut errors);
    scheduling_gates(spec, old_spec, &path.child("schedulingGates"), &mut errors);
    if equal_as(SPEC, Some(spec), Some(old_spec)) {
        return errors;
    }
    let mut rest = spec.clone();
    forget_changeable(&mut rest, old_spec);
    if !old_spec.list_at(&["schedulingGates"]).is_empty() {
        gated(&mut rest, old_spec, &path, &mut errors);
    }
    if !equal_as(SPEC, Some(&rest), Some(old_spec)) {
        let difference = diff::of(SPEC, Some(old_spec), Some(&rest));
        let why = format!("pod updates may not change fields other than {CHANGEABLE}\n{difference}");
        errors.push(FieldError::forbidden(&path, why));
    }
    errors
}

/// Validates a pod's annotations if they have changed.
pub(super) fn annotations(object: &Value, old: &Value, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let path = FieldPath::new("metadata").child("annotations");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    annotation_rules::validate_update(annotations_of(object), annotations_of(old), &path, errors);
    annotation_rules::validate(annotations_of(object), spec, &path, options, errors);
}

/// Validates the images, which may change; false if the number of containers changed, so that no further check applies.
fn container_images(new: &[Value], old: &[Value], path: &FieldPath, errors: &mut FieldErrors) -> bool {
    if new.len() != old.len() {
        errors.push(FieldError::forbidden(path, "pod updates may not add or remove containers"));
        return false;
    }
    for (i, container) in errors.while_room(new.iter().enumerate()) {
        let image = container.str_at(&["image"]);
        let at = path.index(i).child("image");
        if image.is_empty() {
            errors.push(FieldError::required(&at, ""));
        }
        if image.trim() != image {
            errors.push(FieldError::invalid(&at, image, "must not have leading or trailing whitespace"));
        }
    }
    true
}

/// Validates the deadline, which may only decrease; false if invalid.
fn deadline(spec: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    const MAX: i64 = i32::MAX as i64;
    let seconds = |spec: &Value| spec.int_at(&["activeDeadlineSeconds"]);
    match (seconds(spec), seconds(old)) {
        (Some(new), _) if !(0..=MAX).contains(&new) => {
            errors.push(FieldError::invalid(path, new, inclusive_range_error(0, MAX)));
            false
        }
        (Some(new), Some(old)) if old < new => {
            errors.push(FieldError::invalid(path, new, "must be less than or equal to previous value"));
            false
        }
        (None, Some(_)) => {
            errors.push(FieldError::invalid(path, shown(None), "must not update from a positive integer to nil value"));
            true
        }
        _ => true,
    }
}

fn tolerations(
    spec: &Value,
    old: &Value,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let new = spec.list_at(&["tolerations"]);
    fn told(toleration: &Value) -> [&str; 4] {
        ["key", "operator", "value", "effect"].map(|field| toleration.str_at(&[field]))
    }
    let kept: HashSet<_> = new.iter().map(told).collect();
    if old.list_at(&["tolerations"]).iter().any(|old| !kept.contains(&told(old))) {
        let why = "existing toleration can not be modified except its tolerationSeconds";
        return errors.push(FieldError::forbidden(path, why));
    }
    toleration_rules(new, options.compares_tolerations(), path, errors);
}

fn scheduling_gates(spec: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let known: HashSet<&str> = old.list_at(&["schedulingGates"]).iter().map(|gate| gate.str_at(&["name"])).collect();
    for (i, gate) in errors.while_room(spec.list_at(&["schedulingGates"]).iter().enumerate()) {
        let name = gate.str_at(&["name"]);
        if !known.contains(name) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{name}'");
            errors.push(FieldError::forbidden(&path.index(i).child("name"), why));
        }
    }
}

/// Restores the old values of all fields that may change, so that any other change shows.
fn forget_changeable(spec: &mut Value, old: &Value) {
    for list in ["containers", "initContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_list_mut).into_iter().flatten();
        for (container, old) in containers.zip(old.list_at(&[list])) {
            keep_at(container, old, &["image"]);
        }
    }
    for field in ["activeDeadlineSeconds", "schedulingGates", "tolerations"] {
        keep_at(spec, old, &[field]);
    }
    let grace = |spec: &Value| spec.int_at(&["terminationGracePeriodSeconds"]);
    if grace(old).is_some_and(|seconds| seconds < 0) && grace(spec) == Some(1) {
        keep_at(spec, old, &["terminationGracePeriodSeconds"]);
    }
}

/// Accepts node selectors and affinities of a gated pod that are narrower than the old ones.
fn gated(spec: &mut Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if !equal_maps(spec.get("nodeSelector"), old.get("nodeSelector")) {
        let mut labels = old.object_at(&["nodeSelector"]).into_iter().flat_map(|labels| labels.iter());
        if !labels.all(|(name, value)| spec.at(&["nodeSelector", name.as_str()]) == Some(value)) {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.push(FieldError::invalid(&path.child("nodeSelector"), shown(spec.get("nodeSelector")), why));
        }
        keep_at(spec, old, &["nodeSelector"]);
    }
    if equal_at("io.k8s.api.core.v1.NodeAffinity", spec, old, &NODE_AFFINITY) && same_presence(spec, old) {
        return;
    }
    node_affinity(spec, old, &path.child("affinity").child("nodeAffinity"), errors);
    let others = ["podAffinity", "podAntiAffinity"];
    let has_others = spec.get("affinity").is_some_and(|a| others.iter().any(|other| member(a, other).is_some()));
    if member(old, "affinity").is_none() && !has_others {
        remove_at(spec, &["affinity"]);
    } else if member(spec, "affinity").is_some() || old.at(&NODE_AFFINITY).is_some() {
        keep_at(spec, old, &NODE_AFFINITY);
    }
}

fn same_presence(spec: &Value, old: &Value) -> bool {
    let present = |spec: &Value| spec.at(&NODE_AFFINITY).is_some_and(|affinity| !affinity.is_null());
    present(spec) == present(old)
}

/// Validates required terms: requirements may be added but not removed, and the terms stay the same.
fn node_affinity(spec: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let path_of_terms = ["affinity", "nodeAffinity", REQUIRED, "nodeSelectorTerms"];
    let (new, old) = (spec.list_at(&path_of_terms), old.list_at(&path_of_terms));
    let at = path.child(REQUIRED).child("nodeSelectorTerms");
    if !old.is_empty() && old.len() != new.len() {
        let terms = match new {
            [] => Value::Null,
            terms => Value::List(terms.iter().map(|term| internal(TERM, Some(term))).collect()),
        };
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.push(FieldError::invalid(&at, ErrorValue::raw(json::to_string(&terms)), why));
    }
    for (i, (new, _)) in
        errors.while_room(new.iter().zip(old).enumerate().filter(|(_, (new, old))| !only_adds(new, old)))
    {
        let term = ErrorValue::raw(json::to_string(&internal(TERM, Some(new))));
        errors.push(FieldError::invalid(&at.index(i), term, "only additions are allowed (no mutations or deletions)"));
    }
}

fn only_adds(new: &Value, old: &Value) -> bool {
    let lists = ["matchExpressions", "matchFields"];
    let is_empty = |term: &Value| lists.iter().all(|list| term.list_at(&[list]).is_empty());
    // An empty term matches nothing: with requirements it would match more.
    if is_empty(old) {
        return is_empty(new);
    }
    lists.iter().all(|list| new.list_at(&[list]).starts_with(old.list_at(&[list])))
}
