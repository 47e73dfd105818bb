//! Preparation of pods for updates through `status`, `ephemeralcontainers` and `resize`.

use std::collections::{HashMap, VecDeque};

use binnacle_schema::{Object, Value};

use crate::Features;
use crate::tree_names::{is_zero, keep, keep_at, remove_at, structs_mut, text};

/// Metadata that only the main endpoint changes.
const MAIN_METADATA: [&str; 7] =
    ["deletionTimestamp", "generation", "selfLink", "labels", "annotations", "finalizers", "ownerReferences"];

/// Restores fields that old kubelets do not support and so omit from the pod.
pub(super) fn prepare_status(object: &mut Value, old: &Value) {
    keep(object, old, "spec");
    remove_at(object, &["metadata", "deletionTimestamp"]);
    keep_at(object, old, &["metadata", "ownerReferences"]);
    if object.str_at(&["status", "qosClass"]).is_empty() {
        keep_at(object, old, &["status", "qosClass"]);
    }
    keep_observed_generations(object, old);
}

/// Keeps observed generations of the status and its conditions that an update omits. Conditions of the same type are
/// matched in order.
fn keep_observed_generations(object: &mut Value, old: &Value) {
    let status = object.make_at(&["status"]);
    let none = Object::new();
    let old = old.object_at(&["status"]).unwrap_or(&none);
    if is_zero(status, "observedGeneration")
        && let Some(generation) = old.get("observedGeneration").cloned()
    {
        status.insert("observedGeneration", generation);
    }
    let mut known: HashMap<&str, VecDeque<&Value>> = HashMap::new();
    for condition in old.get("conditions").and_then(Value::as_list).unwrap_or(&[]) {
        known.entry(condition.str_at(&["type"])).or_default().push_back(condition);
    }
    for condition in structs_mut(status, "conditions") {
        let known = known.get_mut(text(condition, "type")).and_then(VecDeque::pop_front);
        let generation = known.and_then(|known| known.get("observedGeneration")).cloned();
        if is_zero(condition, "observedGeneration")
            && let Some(generation) = generation
        {
            condition.insert("observedGeneration", generation);
        }
    }
}

/// Keeps everything except `spec.ephemeralContainers`.
pub(super) fn prepare_ephemeral_containers(object: &mut Value, old: &Value) {
    let containers = object.at(&["spec", "ephemeralContainers"]).cloned();
    keep_main(object, old);
    match containers {
        Some(containers) => {
            object.make_at(&["spec"]).insert("ephemeralContainers", containers);
        }
        None => remove_at(object, &["spec", "ephemeralContainers"]),
    }
}

/// Keeps everything except the resources of the pod and its containers and their resize policies. A list of containers
/// of another length is left for validation to reject.
pub(super) fn prepare_resize(features: &Features, object: &mut Value, old: &Value) {
    let lists = ["containers", "initContainers"];
    let length = |object: &Value, list: &str| object.list_at(&["spec", list]).len();
    if lists.iter().any(|list| length(object, list) != length(old, list)) {
        return;
    }
    let pod_resources = object.at(&["spec", "resources"]).cloned();
    let merged: Vec<(&str, Vec<Value>)> = lists
        .into_iter()
        .map(|list| (list, merge(object.list_at(&["spec", list]), old.list_at(&["spec", list]))))
        .collect();
    keep_main(object, old);
    let spec = object.make_at(&["spec"]);
    if features.enabled("InPlacePodLevelResourcesVerticalScaling") {
        set(spec, "resources", pod_resources);
    }
    for (list, containers) in merged {
        if !containers.is_empty() {
            spec.insert(list, containers);
        }
    }
}

fn merge(new: &[Value], old: &[Value]) -> Vec<Value> {
    if new.iter().zip(old).any(|(new, old)| new.str_at(&["name"]) != old.str_at(&["name"])) {
        return new.to_vec();
    }
    let mut merged = old.to_vec();
    for (container, new) in merged.iter_mut().zip(new) {
        let container = container.make_object();
        set(container, "resources", new.get("resources").cloned());
        set(container, "resizePolicy", new.get("resizePolicy").cloned());
    }
    merged
}

fn set(object: &mut Object, name: &str, value: Option<Value>) {
    match value {
        Some(value) => {
            object.insert(name, value);
        }
        None => {
            object.remove(name);
        }
    }
}

fn keep_main(object: &mut Value, old: &Value) {
    keep(object, old, "spec");
    keep(object, old, "status");
    for member in MAIN_METADATA {
        keep_at(object, old, &["metadata", member]);
    }
}
