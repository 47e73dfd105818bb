//! Validation of a pod's update, which may change little of the spec, but more while the pod is gated (KEP-3838).

use std::collections::{HashMap, HashSet};

use binnacle_fields::core::v1::{
    Affinity, Container, NodeAffinity, NodeSelector, NodeSelectorTerm, Pod, PodSchedulingGate, PodSpec as Spec,
    Toleration,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{Int, List};
use binnacle_fields::{Field, FieldMut, FieldRef, Message, route};
use binnacle_meta::{ErrorValue, FieldErrors};
use binnacle_schema::{Object, Value, json};
use binnacle_validation::names::inclusive_range_error;
use binnacle_validation::tolerations;

use super::{annotations_of, metadata_and_spec};
use crate::Features;
use crate::diff;
use crate::equality::{equal, equal_maps};
use crate::internal;
use crate::pod_spec::validation::{PodValidationOptions, annotations as annotation_rules};

const CHANGEABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

pub(in crate::core::pod) fn validate(features: &Features, pod: FieldRef<Pod>, old: FieldRef<Pod>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let options = PodValidationOptions::for_pod_update(features, old.value());
    metadata_and_spec(pod, &options, &mut errors);
    annotations(pod, old, &options, &mut errors);
    let (spec, old_spec) = (pod.at(Pod::SPEC), old.at(Pod::SPEC));
    for list in [Spec::CONTAINERS, Spec::INIT_CONTAINERS] {
        if !container_images(spec.at(list), old_spec.at(list), &mut errors) {
            return errors;
        }
    }
    let seconds = Spec::ACTIVE_DEADLINE_SECONDS;
    if !deadline(spec.at(seconds), old_spec.at(seconds), &mut errors) {
        return errors;
    }
    tolerations(spec.at(Spec::TOLERATIONS), old_spec.at(Spec::TOLERATIONS), &options, &mut errors);
    scheduling_gates(spec.at(Spec::SCHEDULING_GATES), old_spec.at(Spec::SCHEDULING_GATES), &mut errors);
    if equal(spec, old_spec) {
        return errors;
    }
    let mut rest = spec.value().clone();
    let mut rest = FieldMut::root(&mut rest);
    restore_changeable(&mut rest, old_spec);
    if !old_spec.at(Spec::SCHEDULING_GATES).is_empty() {
        gated(spec, &mut rest, old_spec, &mut errors);
    }
    if !equal(rest.read(), old_spec) {
        show_requests_of_empty_limits(&mut rest);
        let difference = diff::of(Spec::DEFINITION, Some(old_spec.value()), Some(rest.read().value()));
        let why = format!("pod updates may not change fields other than {CHANGEABLE}\n{difference}");
        errors.push(spec.forbidden(why));
    }
    errors
}

/// Sets the requests that kube-apiserver's defaults add to explicitly empty limits: an empty list, which only a message
/// shows.
fn show_requests_of_empty_limits(spec: &mut FieldMut<Spec>) {
    for list in [Spec::CONTAINERS, Spec::INIT_CONTAINERS] {
        for mut container in spec.items(list) {
            let requirements = container.get_mut(Container::RESOURCES).and_then(Value::as_object_mut);
            if let Some(requirements) = requirements
                && requirements.get("limits").and_then(Value::as_object).is_some_and(Object::is_empty)
            {
                requirements.object_entry("requests");
            }
        }
    }
}

/// Validates a pod's annotations if they have changed.
pub(super) fn annotations(
    pod: FieldRef<Pod>,
    old: FieldRef<Pod>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let metadata = pod.at(Pod::METADATA);
    let annotations = metadata.at(ObjectMeta::ANNOTATIONS);
    let path = annotations.path();
    annotation_rules::validate_update(annotations.object(), annotations_of(old), &path, errors);
    annotation_rules::validate(annotations, pod.at(Pod::SPEC), options, errors);
}

/// Validates the images, which may change; false if the number of containers changed, so that no further check applies.
fn container_images(new: FieldRef<List<Container>>, old: FieldRef<List<Container>>, errors: &mut FieldErrors) -> bool {
    if new.len() != old.len() {
        errors.push(new.forbidden("pod updates may not add or remove containers"));
        return false;
    }
    for container in errors.while_room(new.items()) {
        let image = container.at(Container::IMAGE);
        if image.is_empty() {
            errors.push(image.required(""));
        }
        if image.str().trim() != image.str() {
            errors.push(image.invalid("must not have leading or trailing whitespace"));
        }
    }
    true
}

/// Validates the deadline, which may only decrease; false if invalid.
fn deadline(new: FieldRef<Int>, old: FieldRef<Int>, errors: &mut FieldErrors) -> bool {
    const MAX: i64 = i32::MAX as i64;
    match (new.int(), old.int()) {
        (Some(seconds), _) if !(0..=MAX).contains(&seconds) => {
            errors.push(new.invalid(inclusive_range_error(0, MAX)));
            false
        }
        (Some(seconds), Some(old)) if old < seconds => {
            errors.push(new.invalid("must be less than or equal to previous value"));
            false
        }
        (None, Some(_)) => {
            errors.push(new.invalid_as(new.value(), "must not update from a positive integer to nil value"));
            true
        }
        _ => true,
    }
}

fn tolerations(
    new: FieldRef<List<Toleration>>,
    old: FieldRef<List<Toleration>>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    fn key<'v>(toleration: FieldRef<'_, 'v, Toleration>) -> [&'v str; 4] {
        let fields = [Toleration::KEY, Toleration::OPERATOR, Toleration::VALUE, Toleration::EFFECT];
        fields.map(|field| toleration.at(field).str())
    }
    let remaining: HashSet<_> = new.items().map(key).collect();
    if old.items().any(|old| !remaining.contains(&key(old))) {
        return errors.push(new.forbidden("existing toleration can not be modified except its tolerationSeconds"));
    }
    tolerations::validate(new.items(), options.compares_tolerations(), errors);
}

fn scheduling_gates(
    new: FieldRef<List<PodSchedulingGate>>,
    old: FieldRef<List<PodSchedulingGate>>,
    errors: &mut FieldErrors,
) {
    let known: HashSet<&str> = old.items().map(|gate| gate.at(PodSchedulingGate::NAME).str()).collect();
    // Of equal gates, kube-apiserver reports the last.
    let names = new.items().map(|gate| gate.at(PodSchedulingGate::NAME).str());
    let last: HashMap<&str, usize> = names.enumerate().map(|(index, name)| (name, index)).collect();
    for (index, gate) in errors.while_room(new.items().enumerate()) {
        let name = gate.at(PodSchedulingGate::NAME);
        if !known.contains(name.str()) && last.get(name.str()) == Some(&index) {
            let why = format!("only deletion is allowed, but found new scheduling gate '{}'", name.str());
            errors.push(name.forbidden(why));
        }
    }
}

/// Restores the old values of all fields that may change, so that any other change shows.
fn restore_changeable(spec: &mut FieldMut<Spec>, old: FieldRef<Spec>) {
    for list in [Spec::CONTAINERS, Spec::INIT_CONTAINERS] {
        for (mut container, old) in spec.items(list).zip(old.at(list).items()) {
            container.keep(old, Container::IMAGE);
        }
        // kube-apiserver copies the containers into a list that is nil without any.
        if spec.read().at(list).is_empty() {
            spec.remove(list);
        }
    }
    spec.keep(old, Spec::ACTIVE_DEADLINE_SECONDS);
    spec.keep(old, Spec::SCHEDULING_GATES);
    spec.keep(old, Spec::TOLERATIONS);
    let grace = Spec::TERMINATION_GRACE_PERIOD_SECONDS;
    if old.at(grace).int_or_zero() < 0 && spec.read().at(grace).int() == Some(1) {
        spec.keep(old, grace);
    }
}

/// Accepts node selectors and affinities of a gated pod that are narrower than the old ones: restores the old ones in
/// the rest of the spec.
fn gated(new: FieldRef<Spec>, rest: &mut FieldMut<Spec>, old: FieldRef<Spec>, errors: &mut FieldErrors) {
    let (selector, old_selector) = (new.at(Spec::NODE_SELECTOR), old.at(Spec::NODE_SELECTOR));
    if !equal_maps(selector.get(), old_selector.get()) {
        if !old_selector.entries().all(|(name, label)| selector.key(name).get() == Some(label.value())) {
            let why = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
            errors.push(selector.invalid(why));
        }
        rest.keep(old, Spec::NODE_SELECTOR);
    }
    let (affinity, old_affinity) = (new.at(Spec::AFFINITY), old.at(Spec::AFFINITY));
    let (of_nodes, old_of_nodes) = (affinity.at(Affinity::NODE_AFFINITY), old_affinity.at(Affinity::NODE_AFFINITY));
    if equal(of_nodes, old_of_nodes) && of_nodes.is_set() == old_of_nodes.is_set() {
        return;
    }
    node_affinity(of_nodes, old_of_nodes, errors);
    let has_others = affinity.at(Affinity::POD_AFFINITY).is_set() || affinity.at(Affinity::POD_ANTI_AFFINITY).is_set();
    if !old_affinity.is_set() && !has_others {
        rest.remove(Spec::AFFINITY);
    } else if affinity.is_set() || old_of_nodes.is_set() {
        rest.keep_at(old, route![Spec::AFFINITY, Affinity::NODE_AFFINITY]);
    }
}

/// Validates required terms: requirements may be added but not removed, and the terms stay the same.
fn node_affinity(new: FieldRef<NodeAffinity>, old: FieldRef<NodeAffinity>, errors: &mut FieldErrors) {
    const REQUIRED: Field<NodeAffinity, NodeSelector> =
        NodeAffinity::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION;
    let (new, old) = (new.at(REQUIRED), old.at(REQUIRED));
    let (new, old) = (new.at(NodeSelector::NODE_SELECTOR_TERMS), old.at(NodeSelector::NODE_SELECTOR_TERMS));
    if !old.is_empty() && old.len() != new.len() {
        let terms = match new.list() {
            [] => Value::Null,
            terms => Value::List(
                terms.iter().map(|term| internal::internal(NodeSelectorTerm::DEFINITION, Some(term))).collect(),
            ),
        };
        let why = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.push(new.invalid_as(ErrorValue::raw(json::to_string(&terms)), why));
    }
    for (new, _) in errors.while_room(new.items().zip(old.items()).filter(|(new, old)| !only_adds(*new, *old))) {
        let why = "only additions are allowed (no mutations or deletions)";
        errors.push(new.invalid_as(internal::shown(new), why));
    }
}

fn only_adds(new: FieldRef<NodeSelectorTerm>, old: FieldRef<NodeSelectorTerm>) -> bool {
    let lists = [NodeSelectorTerm::MATCH_EXPRESSIONS, NodeSelectorTerm::MATCH_FIELDS];
    let is_empty = |term: FieldRef<NodeSelectorTerm>| lists.iter().all(|list| term.at(*list).is_empty());
    // An empty term matches nothing: with requirements it would match more.
    if is_empty(old) {
        return is_empty(new);
    }
    lists.iter().all(|list| new.at(*list).list().starts_with(old.at(*list).list()))
}
