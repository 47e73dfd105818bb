//! Preparation of pods for updates through `status`, `ephemeralcontainers` and `resize`.

use std::collections::{HashMap, VecDeque};
use std::mem;

use binnacle_fields::core::v1::{Container, Pod, PodCondition, PodSpec as Spec, PodStatus as Status};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, route};

use crate::Features;
use crate::prepare::keep_metadata;

/// Restores fields that old kubelets do not support and so omit from the pod.
pub(super) fn prepare_status(pod: &mut FieldMut<Pod>, old: FieldRef<Pod>) {
    pod.keep(old, Pod::SPEC);
    pod.remove_at(route![Pod::METADATA, ObjectMeta::DELETION_TIMESTAMP]);
    pod.keep_at(old, route![Pod::METADATA, ObjectMeta::OWNER_REFERENCES]);
    let (mut status, old_status) = (pod.entry(Pod::STATUS), old.at(Pod::STATUS));
    if status.str(Status::QOS_CLASS).is_empty() {
        status.keep(old_status, Status::QOS_CLASS);
    }
    keep_observed_generations(status, old_status);
}

/// Keeps observed generations of the status and its conditions that an update omits. Conditions of the same type are
/// matched in order.
fn keep_observed_generations(mut status: FieldMut<Status>, old: FieldRef<Status>) {
    if let Some(generation) = old.at(Status::OBSERVED_GENERATION).get() {
        status.default_zero(Status::OBSERVED_GENERATION, generation.clone());
    }
    let conditions = old.at(Status::CONDITIONS);
    let mut known: HashMap<&str, VecDeque<FieldRef<PodCondition>>> = HashMap::new();
    for condition in conditions.items() {
        known.entry(condition.at(PodCondition::TYPE).str()).or_default().push_back(condition);
    }
    for mut condition in status.items(Status::CONDITIONS) {
        let known = known.get_mut(condition.str(PodCondition::TYPE)).and_then(VecDeque::pop_front);
        if let Some(generation) = known.and_then(|known| known.at(PodCondition::OBSERVED_GENERATION).get()) {
            condition.default_zero(PodCondition::OBSERVED_GENERATION, generation.clone());
        }
    }
}

/// Keeps everything except `spec.ephemeralContainers`.
pub(super) fn prepare_ephemeral_containers(pod: &mut FieldMut<Pod>, old: FieldRef<Pod>) {
    let new = mem::take(pod.entry(Pod::SPEC).value());
    keep_main(pod, old);
    pod.entry(Pod::SPEC).keep(FieldRef::root(&new), Spec::EPHEMERAL_CONTAINERS);
}

/// Keeps everything except the resources of the pod and its containers and their resize policies. A list of containers
/// of another length is left for validation to reject.
pub(super) fn prepare_resize(features: &Features, pod: &mut FieldMut<Pod>, old: FieldRef<Pod>) {
    let lists = [Spec::CONTAINERS, Spec::INIT_CONTAINERS];
    let old_spec = old.at(Pod::SPEC);
    let new = pod.entry(Pod::SPEC);
    if lists.iter().any(|list| new.read().at(*list).len() != old_spec.at(*list).len()) {
        return;
    }
    let new = mem::take(pod.entry(Pod::SPEC).value());
    let new = FieldRef::<Spec>::root(&new);
    keep_main(pod, old);
    let mut spec = pod.entry(Pod::SPEC);
    if features.enabled("InPlacePodLevelResourcesVerticalScaling") {
        spec.keep(new, Spec::RESOURCES);
    }
    for list in lists {
        let (containers, old_containers) = (new.at(list), old_spec.at(list));
        let mut pairs = containers.items().zip(old_containers.items());
        if pairs.any(|(new, old)| new.at(Container::NAME).str() != old.at(Container::NAME).str()) {
            spec.keep(new, list);
            continue;
        }
        for (mut container, new) in spec.items(list).zip(containers.items()) {
            container.keep(new, Container::RESOURCES);
            container.keep(new, Container::RESIZE_POLICY);
        }
    }
}

/// Keeps the spec, the status, and the metadata that only the main endpoint changes.
fn keep_main(pod: &mut FieldMut<Pod>, old: FieldRef<Pod>) {
    pod.keep(old, Pod::SPEC);
    pod.keep(old, Pod::STATUS);
    keep_metadata(pod, old);
    pod.keep_at(old, route![Pod::METADATA, ObjectMeta::SELF_LINK]);
}
