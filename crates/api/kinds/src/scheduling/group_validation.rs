//! Validation that pod groups and their templates share. Templates have the fields of pod groups, and their rules read
//! them as such.

use std::collections::HashSet;

use binnacle_fields::scheduling::v1alpha2::{
    GangSchedulingPolicy, PodGroupResourceClaim as Claim, PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy as Policy, PodGroupSpec as Spec, PodGroupTemplateReference, TopologyConstraint,
    WorkloadPodGroupTemplateReference as Reference,
};
use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldRef, Message};
use binnacle_meta::{ErrorValue, FieldErrors, Location};
use binnacle_validation::checks;
use binnacle_validation::checks::IMMUTABLE;

use crate::Features;
use crate::prepare::semantically_equal;

pub(super) const CLAIMS_MAX: usize = 4;
const TOPOLOGIES_MAX: usize = 1;
const PRIORITY_MAX: i64 = 1_000_000_000;

/// Validates the spec of a new pod group.
pub(super) fn spec(features: &Features, spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let reference = spec.at(Spec::POD_GROUP_TEMPLATE_REF);
    if reference.is_set() {
        template_reference(reference, errors);
    }
    group(spec, errors);
    let mode = spec.at(Spec::DISRUPTION_MODE);
    if features.enabled("WorkloadAwarePreemption") && !mode.is_set() {
        errors.push(mode.required(""));
    }
}

/// Reports each change of a pod group's spec, which is immutable.
pub(super) fn spec_update(spec: FieldRef<Spec>, old: FieldRef<Spec>, errors: &mut FieldErrors) {
    immutable(spec, old, Spec::POD_GROUP_TEMPLATE_REF, errors);
    immutable(spec, old, Spec::SCHEDULING_POLICY, errors);
    immutable(spec, old, Spec::SCHEDULING_CONSTRAINTS, errors);
    immutable(spec, old, Spec::RESOURCE_CLAIMS, errors);
    immutable(spec, old, Spec::DISRUPTION_MODE, errors);
    immutable(spec, old, Spec::PRIORITY_CLASS_NAME, errors);
    immutable(spec, old, Spec::PRIORITY, errors);
}

/// Reports a change of an immutable field without its value.
pub(super) fn immutable<M, T>(new: FieldRef<M>, old: FieldRef<M>, field: Field<M, T>, errors: &mut FieldErrors) {
    let (new, old) = (new.at(field), old.at(field));
    if !semantically_equal(new.get(), old.get()) {
        errors.push(new.invalid_as(ErrorValue::raw("null"), IMMUTABLE));
    }
}

/// Validates the fields that a pod group and a pod group template share.
pub(super) fn group(group: FieldRef<Spec>, errors: &mut FieldErrors) {
    let policy = group.at(Spec::SCHEDULING_POLICY);
    let gang = policy.at(Policy::GANG);
    one_of(policy, &[given(policy, Policy::BASIC), given(policy, Policy::GANG)], errors);
    let count = gang.at(GangSchedulingPolicy::MIN_COUNT);
    match count.int_or_zero() {
        0 if gang.is_set() => errors.push(count.required("")),
        ..0 => errors.push(count.invalid("must be greater than or equal to 1")),
        _ => {}
    }
    topologies(group.at(Spec::SCHEDULING_CONSTRAINTS), errors);
    claims(group.at(Spec::RESOURCE_CLAIMS), errors);
    let mode = group.at(Spec::DISRUPTION_MODE);
    if mode.is_set() {
        checks::one_of(&mode, mode.str(), &["Pod", "PodGroup"], errors);
    }
    let class = group.at(Spec::PRIORITY_CLASS_NAME);
    if !class.is_empty() {
        checks::long_name(&class, class.str(), errors);
    }
    let priority = group.at(Spec::PRIORITY);
    if priority.int_or_zero() > PRIORITY_MAX {
        errors.push(priority.invalid(format!("must be less than or equal to {PRIORITY_MAX}")));
    }
}

/// Validates the names of the structs in a list, which must be unique.
pub(super) fn unique_names<T: Message>(list: FieldRef<List<T>>, name: Field<T, Str>, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for item in errors.while_room(list.items()) {
        if !seen.insert(item.at(name).str()) {
            errors.push(item.duplicate());
        }
    }
}

/// Returns the name of a field, and true if the structure has it.
fn given<M, T>(union: FieldRef<M>, field: Field<M, T>) -> (&'static str, bool) {
    (field.name(), union.at(field).is_set())
}

/// Requires exactly one of some fields.
fn one_of<M>(union: FieldRef<M>, fields: &[(&'static str, bool)], errors: &mut FieldErrors) {
    let quoted = |fields: &[&str]| fields.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ");
    let all: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    let given: Vec<&str> = fields.iter().filter(|(_, is_given)| *is_given).map(|(name, _)| *name).collect();
    match given.len() {
        0 => errors.push(union.invalid_as("", format!("must specify one of: {}", quoted(&all)))),
        1 => {}
        _ => {
            let why = format!("must specify exactly one of: {}", quoted(&all));
            errors.push(union.invalid_as(&format!("{{{}}}", quoted(&given)), why));
        }
    }
}

fn template_reference(reference: FieldRef<PodGroupTemplateReference>, errors: &mut FieldErrors) {
    one_of(reference, &[given(reference, PodGroupTemplateReference::WORKLOAD)], errors);
    let workload = reference.at(PodGroupTemplateReference::WORKLOAD);
    if workload.is_set() {
        required_name(workload.at(Reference::WORKLOAD_NAME), checks::long_name, errors);
        required_name(workload.at(Reference::POD_GROUP_TEMPLATE_NAME), checks::short_name, errors);
    }
}

/// Requires a name that follows a rule of [`checks`].
pub(super) fn required_name(
    name: FieldRef<Str>,
    rule: fn(&dyn Location, &str, &mut FieldErrors),
    errors: &mut FieldErrors,
) {
    match name.str() {
        "" => errors.push(name.required("")),
        text => rule(&name, text, errors),
    }
}

fn topologies(constraints: FieldRef<PodGroupSchedulingConstraints>, errors: &mut FieldErrors) {
    let list = constraints.at(PodGroupSchedulingConstraints::TOPOLOGY);
    if list.len() > TOPOLOGIES_MAX {
        return errors.push(list.too_many(TOPOLOGIES_MAX));
    }
    for constraint in errors.while_room(list.items()) {
        required_name(constraint.at(TopologyConstraint::KEY), checks::qualified_name, errors);
    }
}

fn claims(claims: FieldRef<List<Claim>>, errors: &mut FieldErrors) {
    if claims.len() > CLAIMS_MAX {
        return errors.push(claims.too_many(CLAIMS_MAX));
    }
    unique_names(claims, Claim::NAME, errors);
    for claim in errors.while_room(claims.items()) {
        let sources = [Claim::RESOURCE_CLAIM_NAME, Claim::RESOURCE_CLAIM_TEMPLATE_NAME];
        one_of(claim, &sources.map(|source| given(claim, source)), errors);
        required_name(claim.at(Claim::NAME), checks::short_name, errors);
        for source in sources {
            if let Some(name) = claim.at(source).set() {
                checks::long_name(&name, name.str(), errors);
            }
        }
    }
}
