//! Additions for the scheduler on create: the condition of a gated pod, and selectors derived from label keys.

use binnacle_fields::core::v1::{
    Affinity, Pod, PodAffinity, PodAffinityTerm as Term, PodCondition, PodSpec as Spec, PodStatus as Status,
    TopologySpreadConstraint as Constraint, WeightedPodAffinityTerm as WeightedTerm,
};
use binnacle_fields::meta::v1::{LabelSelector, LabelSelectorRequirement as Requirement, ObjectMeta};
use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldMut, Message};
use binnacle_meta::Time;
use binnacle_schema::{Object, Value};

use crate::Features;
use crate::pod_spec::validation::merges_label_keys;

/// Sets the condition of a pod with scheduling gates.
pub(super) fn set_gated_condition(pod: &mut FieldMut<Pod>, now: i64) {
    if pod.read().at(Pod::SPEC).at(Spec::SCHEDULING_GATES).is_empty() {
        return;
    }
    let mut value = Value::Null;
    let mut condition = FieldMut::<PodCondition>::root(&mut value);
    condition.set(PodCondition::TYPE, "PodScheduled");
    condition.set(PodCondition::STATUS, "False");
    condition.set(PodCondition::LAST_TRANSITION_TIME, Time::from_unix(now, 0).to_string());
    condition.set(PodCondition::REASON, "SchedulingGated");
    condition.set(PodCondition::MESSAGE, "Scheduling is blocked due to non-empty scheduling gates");
    pod.entry(Pod::STATUS).set(Status::CONDITIONS, vec![value]);
}

/// Adds requirements for `matchLabelKeys` and `mismatchLabelKeys` with the values of the pod's labels (KEP-3633,
/// KEP-3243). An absent selector matches nothing and stays absent.
pub(super) fn merge_label_keys(features: &Features, pod: &mut FieldMut<Pod>) {
    let labels = pod.read().at(Pod::METADATA).at(ObjectMeta::LABELS).object().cloned().unwrap_or_default();
    let mut spec = pod.entry(Pod::SPEC);
    if let Some(mut affinity) = spec.structure(Spec::AFFINITY) {
        // Anti-affinity has the same fields as affinity.
        merge_terms(affinity.get_mut(Affinity::POD_AFFINITY), &labels);
        merge_terms(affinity.get_mut(Affinity::POD_ANTI_AFFINITY), &labels);
    }
    if merges_label_keys(features) {
        for mut constraint in spec.items(Spec::TOPOLOGY_SPREAD_CONSTRAINTS) {
            merge(&mut constraint, Constraint::MATCH_LABEL_KEYS, "In", Constraint::LABEL_SELECTOR, &labels);
        }
    }
}

fn merge_terms(rules: Option<&mut Value>, labels: &Object) {
    let Some(mut rules) = rules.map(FieldMut::<PodAffinity>::root) else { return };
    for mut weighted in rules.items(PodAffinity::PREFERRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION) {
        weighted.structure(WeightedTerm::POD_AFFINITY_TERM).into_iter().for_each(|term| merge_term(term, labels));
    }
    for term in rules.items(PodAffinity::REQUIRED_DURING_SCHEDULING_IGNORED_DURING_EXECUTION) {
        merge_term(term, labels);
    }
}

fn merge_term(mut term: FieldMut<Term>, labels: &Object) {
    merge(&mut term, Term::MATCH_LABEL_KEYS, "In", Term::LABEL_SELECTOR, labels);
    merge(&mut term, Term::MISMATCH_LABEL_KEYS, "NotIn", Term::LABEL_SELECTOR, labels);
}

fn merge<M: Message>(
    holder: &mut FieldMut<M>,
    keys: Field<M, List<Str>>,
    operator: &str,
    selector: Field<M, LabelSelector>,
    labels: &Object,
) {
    let requirement = |key: &str| {
        let label = labels.get(key)?.clone();
        let mut value = Value::Null;
        let mut requirement = FieldMut::<Requirement>::root(&mut value);
        requirement.set(Requirement::KEY, key);
        requirement.set(Requirement::OPERATOR, operator);
        requirement.set(Requirement::VALUES, vec![label]);
        Some(value)
    };
    let requirements: Vec<Value> = holder.read().at(keys).strs().filter_map(requirement).collect();
    let Some(mut selector) = holder.structure(selector).filter(|_| !requirements.is_empty()) else { return };
    match selector.get_mut(LabelSelector::MATCH_EXPRESSIONS) {
        Some(Value::List(items)) => items.extend(requirements),
        _ => selector.set(LabelSelector::MATCH_EXPRESSIONS, requirements),
    }
}
