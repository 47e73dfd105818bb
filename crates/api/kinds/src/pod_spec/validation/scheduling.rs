//! Validation of scheduling: affinities, tolerations, topology spread constraints.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    Affinity, NodeAffinity, NodeSelector, NodeSelectorRequirement as Requirement, NodeSelectorTerm, PodAffinity,
    PodAffinityTerm, PodSpec, PreferredSchedulingTerm as PreferredTerm, TopologySpreadConstraint as Constraint,
    WeightedPodAffinityTerm as WeightedTerm,
};
use binnacle_fields::meta::v1::{LabelSelector, LabelSelectorRequirement};
use binnacle_fields::types::{Int, List};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_validation::selectors::{self, unknown_operator};
use binnacle_validation::{checks, names};

use super::{PodValidationOptions, optional_one_of};

const WEIGHT: &str = "must be in the range 1-100";

// === Affinity ===

pub(super) fn affinity(spec: FieldRef<PodSpec>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let affinity = spec.at(PodSpec::AFFINITY);
    node_affinity(affinity.at(Affinity::NODE_AFFINITY), options, errors);
    // Both have the same fields.
    for rules in [affinity.at(Affinity::POD_AFFINITY), affinity.at(Affinity::POD_ANTI_AFFINITY).cast()] {
        let required = rules.at(PodAffinity::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION);
        for term in errors.while_room(required.items()) {
            pod_term(term, options, errors);
        }
        let preferred = rules.at(PodAffinity::PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION);
        for weighted in errors.while_room(preferred.items()) {
            weight(weighted.at(WeightedTerm::WEIGHT), errors);
            pod_term(weighted.at(WeightedTerm::POD_AFFINITY_TERM), options, errors);
        }
    }
}

fn node_affinity(rules: FieldRef<NodeAffinity>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let required = rules.at(NodeAffinity::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION);
    if required.is_set() {
        node_selector(required, options.any_node_label_value, errors);
    }
    let preferred = rules.at(NodeAffinity::PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION);
    for term in errors.while_room(preferred.items()) {
        weight(term.at(PreferredTerm::WEIGHT), errors);
        node_selector_term(term.at(PreferredTerm::PREFERENCE), true, errors);
    }
}

/// Validates a node selector, which needs at least one term. `any_value` accepts invalid label values.
pub(crate) fn node_selector(selector: FieldRef<NodeSelector>, any_value: bool, errors: &mut FieldErrors) {
    let terms = selector.at(NodeSelector::NODE_SELECTOR_TERMS);
    if terms.is_empty() {
        errors.push(terms.required("must have at least one node selector term"));
    }
    for term in errors.while_room(terms.items()) {
        node_selector_term(term, any_value, errors);
    }
}

/// Returns true if a term of a node selector has invalid label values.
pub(crate) fn has_invalid_label_values(selector: FieldRef<NodeSelector>) -> bool {
    selector.at(NodeSelector::NODE_SELECTOR_TERMS).items().any(|term| {
        term.at(NodeSelectorTerm::MATCH_EXPRESSIONS).items().any(|requirement| {
            let mut values = requirement.at(Requirement::VALUES).strs();
            values.any(|value| !names::label_value(value).is_empty())
        })
    })
}

fn node_selector_term(term: FieldRef<NodeSelectorTerm>, any_value: bool, errors: &mut FieldErrors) {
    let expressions = term.at(NodeSelectorTerm::MATCH_EXPRESSIONS);
    for requirement in errors.while_room(expressions.items()) {
        label_requirement(requirement, any_value, errors);
    }
    let fields = term.at(NodeSelectorTerm::MATCH_FIELDS);
    for requirement in errors.while_room(fields.items()) {
        field_requirement(requirement, errors);
    }
}

fn label_requirement(requirement: FieldRef<Requirement>, any_value: bool, errors: &mut FieldErrors) {
    let values = requirement.at(Requirement::VALUES);
    let operator = requirement.at(Requirement::OPERATOR);
    match operator.str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        "Gt" | "Lt" if values.len() != 1 => {
            errors.push(values.required("must be specified single value when `operator` is 'Lt' or 'Gt'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt" => {}
        other => errors.push(unknown_operator(&operator, other)),
    }
    let key = requirement.at(Requirement::KEY);
    checks::qualified_name(&key, key.str(), errors);
    if !any_value {
        for value in errors.while_room(values.items()) {
            checks::invalid_for(&value, value.str(), names::label_value(value.str()), errors);
        }
    }
}

/// Validates a requirement on a field of a node; the only supported field is its name.
fn field_requirement(requirement: FieldRef<Requirement>, errors: &mut FieldErrors) {
    let values = requirement.at(Requirement::VALUES);
    let operator = requirement.at(Requirement::OPERATOR);
    match operator.str() {
        "In" | "NotIn" if values.len() != 1 => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(values.required(why));
        }
        "In" | "NotIn" => {}
        other => errors.push(unknown_operator(&operator, other)),
    }
    let key = requirement.at(Requirement::KEY);
    if key.str() != "metadata.name" {
        return errors.push(key.invalid_as(key.str(), "not a valid field selector key"));
    }
    for name in errors.while_room(values.items()) {
        checks::subdomain(&name, name.str(), errors);
    }
}

fn pod_term(term: FieldRef<PodAffinityTerm>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    for selector in [PodAffinityTerm::LABEL_SELECTOR, PodAffinityTerm::NAMESPACE_SELECTOR] {
        let selector = term.at(selector);
        selectors::validate(selector, options.any_selector_value, errors);
    }
    let namespaces = term.at(PodAffinityTerm::NAMESPACES);
    for namespace in errors.while_room(namespaces.strs()) {
        checks::label(&namespaces.reported_as("namespace"), namespace, errors);
    }
    label_keys(term, errors);
    let key = term.at(PodAffinityTerm::TOPOLOGY_KEY);
    if key.is_empty() {
        errors.push(key.required("can not be empty"));
    }
    checks::qualified_name(&key, key.str(), errors);
}

fn weight(weight: FieldRef<Int>, errors: &mut FieldErrors) {
    if !(1..=100).contains(&weight.int_or_zero()) {
        errors.push(weight.invalid_as(weight.int_or_zero(), WEIGHT));
    }
}

// === Label keys that become requirements ===

/// Validates label keys, which need a selector. Create has merged each key into it once, so two requirements for a key
/// mean that the client sent one.
pub(super) fn label_keys(term: FieldRef<PodAffinityTerm>, errors: &mut FieldErrors) {
    let selector = term.at(PodAffinityTerm::LABEL_SELECTOR);
    let matching = term.at(PodAffinityTerm::MATCH_LABEL_KEYS);
    let mismatching = term.at(PodAffinityTerm::MISMATCH_LABEL_KEYS);
    for keys in [matching, mismatching] {
        if !selector.is_set() && !keys.is_empty() {
            errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
            continue;
        }
        for key in errors.while_room(keys.items()) {
            checks::qualified_name(&key, key.str(), errors);
        }
    }
    let labels = selector.at(LabelSelector::MATCH_LABELS);
    let mut seen: BTreeSet<&str> = labels.entries().map(|(key, _)| key).collect();
    let places: BTreeMap<&str, usize> = matching.strs().enumerate().map(|(i, key)| (key, i)).collect();
    let expressions = selector.at(LabelSelector::MATCH_EXPRESSIONS);
    for requirement in errors.while_room(expressions.items()) {
        let key = requirement.at(LabelSelectorRequirement::KEY).str();
        if let Some(i) = places.get(key)
            && seen.contains(key)
        {
            // kube-apiserver's path has no field here.
            let why = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(&term.path().index(*i), key, why));
        }
        seen.insert(key);
    }
    let mismatching: BTreeSet<&str> = mismatching.strs().collect();
    for key in errors.while_room(matching.items().filter(|key| mismatching.contains(key.str()))) {
        errors.push(key.invalid("exists in both matchLabelKeys and mismatchLabelKeys"));
    }
}

/// Validates label keys by the older rule, for objects created before keys were merged.
pub(super) fn unmerged_label_keys(constraint: FieldRef<Constraint>, errors: &mut FieldErrors) {
    let keys = constraint.at(Constraint::MATCH_LABEL_KEYS);
    let selector = constraint.at(Constraint::LABEL_SELECTOR);
    if !keys.is_empty() && !selector.is_set() {
        errors.push(keys.forbidden("must not be specified when labelSelector is not set"));
    }
    let (labels, expressions) =
        (selector.at(LabelSelector::MATCH_LABELS), selector.at(LabelSelector::MATCH_EXPRESSIONS));
    let expressed: BTreeSet<&str> = expressions.items().map(|r| r.at(LabelSelectorRequirement::KEY).str()).collect();
    for key in errors.while_room(keys.items()) {
        checks::qualified_name(&key, key.str(), errors);
        let is_label = labels.object().is_some_and(|labels| labels.contains(key.str()));
        if is_label || expressed.contains(key.str()) {
            errors.push(key.invalid("exists in both matchLabelKeys and labelSelector"));
        }
    }
}

// === Spread ===

pub(super) fn topology_spread(
    list: FieldRef<List<Constraint>>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    fn pair<'v>(constraint: FieldRef<'_, 'v, Constraint>) -> (&'v str, &'v str) {
        (constraint.at(Constraint::TOPOLOGY_KEY).str(), constraint.at(Constraint::WHEN_UNSATISFIABLE).str())
    }
    let last: HashMap<_, _> = list.items().enumerate().map(|(i, constraint)| (pair(constraint), i)).collect();
    for (i, constraint) in errors.while_room(list.items().enumerate()) {
        positive(constraint.at(Constraint::MAX_SKEW), errors);
        let (key, action) = (constraint.at(Constraint::TOPOLOGY_KEY), constraint.at(Constraint::WHEN_UNSATISFIABLE));
        if key.is_empty() {
            errors.push(key.required("can not be empty"));
        }
        checks::one_of(&action, action.str(), &["DoNotSchedule", "ScheduleAnyway"], errors);
        if last.get(&pair(constraint)) != Some(&i) {
            let at = constraint.path().child("{topologyKey, whenUnsatisfiable}");
            let shown = format!("{{{}, {}}}", key.str(), action.str());
            errors.push(FieldError::duplicate(&at, shown.as_str()));
        }
        min_domains(constraint.at(Constraint::MIN_DOMAINS), action.str(), errors);
        for field in [Constraint::NODE_AFFINITY_POLICY, Constraint::NODE_TAINTS_POLICY] {
            optional_one_of(constraint.at(field), &["Honor", "Ignore"], errors);
        }
        if options.unmerged_label_keys {
            unmerged_label_keys(constraint, errors);
        } else {
            label_keys(as_term(constraint), errors);
        }
        if !options.any_spread_selector {
            let selector = constraint.at(Constraint::LABEL_SELECTOR);
            selectors::validate(selector, false, errors);
        }
    }
}

/// Returns a constraint as an affinity term: they have the same fields with label keys, except that a constraint has no
/// `mismatchLabelKeys`.
pub(super) fn as_term<'p, 'v>(constraint: FieldRef<'p, 'v, Constraint>) -> FieldRef<'p, 'v, PodAffinityTerm> {
    constraint.cast()
}

fn min_domains(domains: FieldRef<Int>, action: &str, errors: &mut FieldErrors) {
    if !domains.is_set() {
        return;
    }
    positive(domains, errors);
    if action != "DoNotSchedule" {
        let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.push(domains.invalid(why));
    }
}

fn positive(number: FieldRef<Int>, errors: &mut FieldErrors) {
    if number.int_or_zero() <= 0 {
        errors.push(number.invalid_as(number.int_or_zero(), "must be greater than zero"));
    }
}
