//! Validation of a resize, which may change the CPU and memory of containers and of the pod (KEP-1287, KEP-5419).

use binnacle_fields::core::v1::{
    Container, ContainerResizePolicy, ContainerState, ContainerStatus, Pod, PodOS, PodSpec as Spec,
    PodStatus as Status, ResourceRequirements as Requirements,
};
use binnacle_fields::types::{Map, Quantity};
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_validation::pod_resources::qos_class;

use super::{is_mirror, metadata_and_spec, nowhere};
use crate::Features;
use crate::equality::equal;
use crate::pod_spec::containers::is_sidecar;
use crate::pod_spec::validation::PodValidationOptions;

const CHANGEABLE: [&str; 2] = ["cpu", "memory"];

pub(in crate::core::pod) fn validate(features: &Features, pod: FieldRef<Pod>, old: FieldRef<Pod>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    metadata_and_spec(pod, &PodValidationOptions::for_pod_update(features, old.value()), &mut errors);
    if is_mirror(old) {
        return FieldError::forbidden(&nowhere(), "static pods cannot be resized").into();
    }
    let (spec, old_spec) = (pod.at(Pod::SPEC), old.at(Pod::SPEC));
    if old_spec.at(Spec::OS).at(PodOS::NAME).str() == "windows" {
        return FieldError::forbidden(&nowhere(), "windows pods cannot be resized").into();
    }
    let (status, old_status) = (pod.at(Pod::STATUS), old.at(Pod::STATUS));
    let class = spec.object().map_or("", qos_class);
    let old_class = match old_status.at(Status::QOS_CLASS).str() {
        "" => old_spec.object().map_or("", qos_class),
        class => class,
    };
    if class != old_class {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(spec.invalid_as(status.at(Status::QOS_CLASS).str(), why));
    }
    if !is_supported(old_status) {
        errors.push(spec.forbidden("Pod running on node without support for resize"));
    }
    let mut rest = spec.value().clone();
    let mut rest = FieldMut::root(&mut rest);
    if has_own(spec) || has_own(old_spec) {
        if !features.enabled("InPlacePodLevelResourcesVerticalScaling") {
            let why = "resize of pods with pod-level resources is forbidden when InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled";
            errors.push(FieldError::forbidden(&nowhere(), why));
            return errors;
        }
        of_pod(spec, old_spec, &mut rest, &mut errors);
    }
    if !old_status.at(Status::NODE_ALLOCATABLE_RESOURCE_CLAIM_STATUSES).is_empty() {
        errors.push(spec.forbidden("pods with node allocatable resource claims cannot be resized"));
    }
    if !same_containers(spec, old_spec, &mut errors) {
        return errors;
    }
    removed_resources(features, spec, old_spec, &mut errors);
    of_containers(spec, old_spec, &mut rest, &mut errors);
    of_init_containers(features, spec, old_spec, &mut rest, &mut errors);
    // This check adds nothing if there are errors already.
    if errors.is_empty() && !equal(rest.read(), old_spec) {
        errors.push(spec.forbidden("only cpu and memory resources are mutable"));
    }
    errors
}

/// Returns true if a pod has resources itself, besides those of its containers.
fn has_own(spec: FieldRef<Spec>) -> bool {
    let own = spec.at(Spec::RESOURCES);
    !own.at(Requirements::REQUESTS).is_empty() || !own.at(Requirements::LIMITS).is_empty()
}

/// Returns true unless the first running container reports no resources: kubelets that can resize report them.
fn is_supported(status: FieldRef<Status>) -> bool {
    let statuses = status.at(Status::CONTAINER_STATUSES);
    let mut statuses = statuses.items();
    let running = statuses.find(|status| status.at(ContainerStatus::STATE).at(ContainerState::RUNNING).is_set());
    running.is_none_or(|status| status.at(ContainerStatus::RESOURCES).is_set())
}

fn of_pod(new: FieldRef<Spec>, old: FieldRef<Spec>, rest: &mut FieldMut<Spec>, errors: &mut FieldErrors) {
    let (resources, old_resources) = (new.at(Spec::RESOURCES), old.at(Spec::RESOURCES));
    if old_resources.is_set() {
        if !resources.is_set() {
            return errors.push(resources.forbidden("pod-level resources cannot be removed"));
        }
        for (list, what) in [
            (Requirements::REQUESTS, "pod-level resource requests"),
            (Requirements::LIMITS, "pod-level resource limits"),
        ] {
            not_removed(resources.at(list), old_resources.at(list), what, errors);
        }
    }
    if let Some(mut own) = rest.structure(Spec::RESOURCES) {
        restore_changeable(&mut own, old_resources);
        let own = own.read();
        let is_empty = own.at(Requirements::REQUESTS).is_empty()
            && own.at(Requirements::LIMITS).is_empty()
            && own.at(Requirements::CLAIMS).is_empty();
        if is_empty && !old_resources.is_set() {
            rest.remove(Spec::RESOURCES);
        }
    }
    let rest = rest.read();
    let own = rest.at(Spec::RESOURCES);
    if own.is_set() != old_resources.is_set() || !equal(own, old_resources) {
        errors.push(new.forbidden("only cpu and memory resources are mutable at pod-level"));
    }
}

fn same_containers(new: FieldRef<Spec>, old: FieldRef<Spec>, errors: &mut FieldErrors) -> bool {
    let before = errors.len();
    for field in [Spec::CONTAINERS, Spec::INIT_CONTAINERS] {
        let (new, old, list) = (new.at(field), old.at(field), field.name());
        if new.len() != old.len() {
            errors.push(new.forbidden(format!("{list} may not be added or removed on resize")));
            continue;
        }
        for (new, old) in errors.while_room(new.items().zip(old.items())) {
            let name = new.at(Container::NAME);
            if name.str() != old.at(Container::NAME).str() {
                errors.push(name.forbidden(format!("{list} may not be renamed or reordered on resize")));
            }
        }
    }
    errors.len() == before
}

fn removed_resources(features: &Features, new: FieldRef<Spec>, old: FieldRef<Spec>, errors: &mut FieldErrors) {
    for (list, is_init) in [(Spec::INIT_CONTAINERS, true), (Spec::CONTAINERS, false)] {
        for (new, old) in errors.while_room(new.at(list).items().zip(old.at(list).items())) {
            if is_init && !may_resize(features, old) {
                continue;
            }
            let (new, old) = (new.at(Container::RESOURCES), old.at(Container::RESOURCES));
            for (list, what) in
                [(Requirements::REQUESTS, "resource requests"), (Requirements::LIMITS, "resource limits")]
            {
                not_removed(new.at(list), old.at(list), what, errors);
            }
        }
    }
}

fn not_removed(new: FieldRef<Map<Quantity>>, old: FieldRef<Map<Quantity>>, what: &str, errors: &mut FieldErrors) {
    if !old.entries().all(|(name, _)| new.has_key(name)) {
        errors.push(new.forbidden(format!("{what} cannot be removed")));
    }
}

fn of_containers(new: FieldRef<Spec>, old: FieldRef<Spec>, rest: &mut FieldMut<Spec>, errors: &mut FieldErrors) {
    let old = old.at(Spec::CONTAINERS);
    for (mut container, old) in errors.while_room(rest.items(Spec::CONTAINERS).zip(old.items())) {
        restore_container(&mut container, old);
        if !equal(container.read(), old) {
            errors.push(new.forbidden("only cpu and memory resources are mutable"));
        }
    }
}

fn of_init_containers(
    features: &Features,
    spec: FieldRef<Spec>,
    old: FieldRef<Spec>,
    rest: &mut FieldMut<Spec>,
    errors: &mut FieldErrors,
) {
    let (new, old) = (spec.at(Spec::INIT_CONTAINERS), old.at(Spec::INIT_CONTAINERS));
    let known = new.items().zip(old.items());
    for (mut container, (new, old)) in errors.while_room(rest.items(Spec::INIT_CONTAINERS).zip(known)) {
        if !may_resize(features, new) {
            if !equal(new, old) {
                errors.push(spec.forbidden("resources for non-sidecar init containers are immutable"));
            }
            continue;
        }
        restore_container(&mut container, old);
        if !equal(container.read(), old) {
            let why = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.push(new.forbidden(why));
        }
        if is_sidecar(new.value()) || equal(new, old) {
            continue;
        }
        for policy in errors.while_room(new.at(Container::RESIZE_POLICY).items()) {
            if policy.at(ContainerResizePolicy::RESTART_POLICY).str() == "RestartContainer" {
                let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errors.push(new.forbidden(why));
            }
        }
    }
}

/// Returns true if a container may be resized; init containers that end need a feature gate.
fn may_resize(features: &Features, container: FieldRef<Container>) -> bool {
    is_sidecar(container.value()) || features.enabled("InPlacePodVerticalScalingInitContainers")
}

/// Restores the old CPU and memory, so that any other change shows.
fn restore_changeable(resources: &mut FieldMut<Requirements>, old: FieldRef<Requirements>) {
    for list in [route![Requirements::REQUESTS], route![Requirements::LIMITS]] {
        for name in CHANGEABLE {
            resources.keep_key_at(old, list, name);
        }
    }
}

/// Restores the old CPU and memory of a container. Removes its claims, so that it differs from any old container that
/// has claims.
fn restore_container(container: &mut FieldMut<Container>, old: FieldRef<Container>) {
    let mut resources = container.entry(Container::RESOURCES);
    restore_changeable(&mut resources, old.at(Container::RESOURCES));
    resources.remove(Requirements::CLAIMS);
}
