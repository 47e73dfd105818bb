//! Additions for the scheduler on create: the condition of a gated pod, and selectors made of label keys.

use binnacle_meta::Time;
use binnacle_schema::{Object, Value, value};

use crate::Features;
use crate::pod_spec::validation::merges_label_keys;
use crate::tree_names::{struct_mut, structs_mut};

const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";

/// Sets the condition of a pod with scheduling gates.
pub(super) fn set_gated_condition(object: &mut Value, now: i64) {
    if object.list_at(&["spec", "schedulingGates"]).is_empty() {
        return;
    }
    let condition = value!({
        "type": "PodScheduled",
        "status": "False",
        "lastTransitionTime": (Time::from_unix(now, 0).to_string()),
        "reason": "SchedulingGated",
        "message": "Scheduling is blocked due to non-empty scheduling gates"
    });
    object.make_at(&["status"]).insert("conditions", vec![condition]);
}

/// Adds requirements for `matchLabelKeys` and `mismatchLabelKeys` with the values of the pod's labels (KEP-3633,
/// KEP-3243). An absent selector matches nothing and stays absent.
pub(super) fn merge_label_keys(features: &Features, object: &mut Value) {
    let labels = object.object_at(&["metadata", "labels"]).cloned().unwrap_or_default();
    let spec = object.make_at(&["spec"]);
    if let Some(affinity) = struct_mut(spec, "affinity") {
        for kind in ["podAffinity", "podAntiAffinity"] {
            let Some(rules) = struct_mut(affinity, kind) else { continue };
            structs_mut(rules, PREFERRED)
                .filter_map(|weighted| struct_mut(weighted, "podAffinityTerm"))
                .for_each(|term| merge_term(term, &labels));
            structs_mut(rules, REQUIRED).for_each(|term| merge_term(term, &labels));
        }
    }
    if !merges_label_keys(features) {
        return;
    }
    for constraint in structs_mut(spec, "topologySpreadConstraints") {
        merge(constraint, "matchLabelKeys", "In", &labels);
    }
}

fn merge_term(term: &mut Object, labels: &Object) {
    merge(term, "matchLabelKeys", "In", labels);
    merge(term, "mismatchLabelKeys", "NotIn", labels);
}

fn merge(holder: &mut Object, keys: &str, operator: &str, labels: &Object) {
    let Some(keys) = holder.get(keys).and_then(Value::as_list).map(<[Value]>::to_vec) else { return };
    let Some(selector) = struct_mut(holder, "labelSelector") else { return };
    let requirements: Vec<Value> = keys
        .iter()
        .filter_map(|key| Some((key.clone(), labels.get(key.as_str()?)?.clone())))
        .map(|(key, label)| value!({"key": key, "operator": operator, "values": [label]}))
        .collect();
    if requirements.is_empty() {
        return;
    }
    let expressions = selector.entry("matchExpressions", || Value::List(Vec::new()));
    match expressions {
        Value::List(items) => items.extend(requirements),
        other => *other = Value::List(requirements),
    }
}
