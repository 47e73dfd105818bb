//! Validation of a resize, which may change the CPU and memory of containers and of the pod (KEP-1287, KEP-5419).

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};

use super::{SPEC, is_mirror, metadata_and_spec, nowhere};
use crate::Features;
use crate::equality::equal_as;
use crate::pod_spec::validation::PodValidationOptions;
use crate::pod_spec::validation::containers::is_sidecar;
use crate::tree_names::{keep_at, member};
use binnacle_validation::pod_resources::qos_class;

const CONTAINER: &str = "io.k8s.api.core.v1.Container";
const REQUIREMENTS: &str = "io.k8s.api.core.v1.ResourceRequirements";
const LISTS: [&str; 2] = ["requests", "limits"];
const CHANGEABLE: [&str; 2] = ["cpu", "memory"];

pub(in crate::core::pod) fn validate(features: &Features, object: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    metadata_and_spec(object, &PodValidationOptions::for_pod_update(features, old), &mut errors);
    if is_mirror(old) {
        return FieldError::forbidden(&nowhere(), "static pods cannot be resized").into();
    }
    let path = FieldPath::new("spec");
    let null = Value::Null;
    let (spec, old_spec) = (object.get("spec").unwrap_or(&null), old.get("spec").unwrap_or(&null));
    if old_spec.str_at(&["os", "name"]) == "windows" {
        return FieldError::forbidden(&nowhere(), "windows pods cannot be resized").into();
    }
    let class = spec.as_object().map_or("", qos_class);
    let old_class = match old.str_at(&["status", "qosClass"]) {
        "" => old_spec.as_object().map_or("", qos_class),
        class => class,
    };
    if class != old_class {
        let why = "Pod QOS Class may not change as a result of resizing";
        errors.push(FieldError::invalid(&path, object.str_at(&["status", "qosClass"]), why));
    }
    if !is_supported(old) {
        errors.push(FieldError::forbidden(&path, "Pod running on node without support for resize"));
    }
    let mut rest = spec.clone();
    let has_own = |spec: &Value| {
        LISTS.iter().any(|list| spec.object_at(&["resources", list]).is_some_and(|list| !list.is_empty()))
    };
    if has_own(spec) || has_own(old_spec) {
        if !features.enabled("InPlacePodLevelResourcesVerticalScaling") {
            let why = "resize of pods with pod-level resources is forbidden when InPlacePodLevelResourcesVerticalScalingEnabled feature gate is disabled";
            errors.push(FieldError::forbidden(&nowhere(), why));
            return errors;
        }
        of_pod(spec, old_spec, &mut rest, &path, &mut errors);
    }
    if !old.list_at(&["status", "nodeAllocatableResourceClaimStatuses"]).is_empty() {
        let why = "pods with node allocatable resource claims cannot be resized";
        errors.push(FieldError::forbidden(&path, why));
    }
    if !same_containers(spec, old_spec, &path, &mut errors) {
        return errors;
    }
    for list in ["initContainers", "containers"] {
        for (i, (new, old)) in
            errors.while_room(spec.list_at(&[list]).iter().zip(old_spec.list_at(&[list])).enumerate())
        {
            if list == "initContainers" && !may_resize(features, old) {
                continue;
            }
            let at = path.child(list).index(i).child("resources");
            for (kind, what) in [("requests", "resource requests"), ("limits", "resource limits")] {
                if is_removed(new, old, kind) {
                    errors.push(FieldError::forbidden(&at.child(kind), format!("{what} cannot be removed")));
                }
            }
        }
    }
    of_containers(&mut rest, old_spec, &path, &mut errors);
    of_init_containers(features, spec, &mut rest, old_spec, &path, &mut errors);
    // This check reports nothing new if there are errors.
    if errors.is_empty() && !equal_as(SPEC, Some(&rest), Some(old_spec)) {
        errors.push(FieldError::forbidden(&path, "only cpu and memory resources are mutable"));
    }
    errors
}

/// Returns true unless the first running container reports no resources: kubelets that can resize report them.
fn is_supported(pod: &Value) -> bool {
    let mut statuses = pod.list_at(&["status", "containerStatuses"]).iter();
    let running = statuses.find(|status| status.at(&["state", "running"]).is_some_and(|state| !state.is_null()));
    running.is_none_or(|status| member(status, "resources").is_some())
}

fn of_pod(spec: &Value, old: &Value, rest: &mut Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("resources");
    if member(old, "resources").is_some() {
        if member(spec, "resources").is_none() {
            return errors.push(FieldError::forbidden(&at, "pod-level resources cannot be removed"));
        }
        for (list, what) in [("requests", "pod-level resource requests"), ("limits", "pod-level resource limits")] {
            if is_removed(spec, old, list) {
                errors.push(FieldError::forbidden(&at.child(list), format!("{what} cannot be removed")));
            }
        }
    }
    if member(rest, "resources").is_some() {
        forget_changeable(rest, old);
        let empty = ["requests", "limits", "claims"].iter().all(|list| match rest.at(&["resources", list]) {
            Some(Value::Object(list)) => list.is_empty(),
            Some(Value::List(list)) => list.is_empty(),
            _ => true,
        });
        if empty && member(old, "resources").is_none() {
            rest.make_object().remove("resources");
        }
    }
    let presence = |spec: &Value| member(spec, "resources").is_some();
    let same = presence(rest) == presence(old) && equal_as(REQUIREMENTS, rest.get("resources"), old.get("resources"));
    if !same {
        errors.push(FieldError::forbidden(path, "only cpu and memory resources are mutable at pod-level"));
    }
}

fn same_containers(spec: &Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    let before = errors.len();
    for list in ["containers", "initContainers"] {
        let (new, old) = (spec.list_at(&[list]), old.list_at(&[list]));
        let at = path.child(list);
        if new.len() != old.len() {
            errors.push(FieldError::forbidden(&at, format!("{list} may not be added or removed on resize")));
            continue;
        }
        for (i, _) in errors.while_room(
            new.iter().zip(old).enumerate().filter(|(_, (a, b))| a.str_at(&["name"]) != b.str_at(&["name"])),
        ) {
            let why = format!("{list} may not be renamed or reordered on resize");
            errors.push(FieldError::forbidden(&at.index(i).child("name"), why));
        }
    }
    errors.len() == before
}

fn of_containers(rest: &mut Value, old: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let containers = rest.get_mut("containers").and_then(Value::as_list_mut).into_iter().flatten();
    for (container, old) in errors.while_room(containers.zip(old.list_at(&["containers"]))) {
        forget_changeable(container, old);
        forget_claims(container);
        if !equal_as(CONTAINER, Some(container), Some(old)) {
            errors.push(FieldError::forbidden(path, "only cpu and memory resources are mutable"));
        }
    }
}

fn of_init_containers(
    features: &Features,
    spec: &Value,
    rest: &mut Value,
    old: &Value,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let containers = rest.get_mut("initContainers").and_then(Value::as_list_mut).into_iter().flatten();
    let known = spec.list_at(&["initContainers"]).iter().zip(old.list_at(&["initContainers"]));
    for (i, (container, (new, old))) in errors.while_room(containers.zip(known).enumerate()) {
        let at = path.child("initContainers").index(i);
        if !may_resize(features, new) {
            if !equal_as(CONTAINER, Some(new), Some(old)) {
                let why = "resources for non-sidecar init containers are immutable";
                errors.push(FieldError::forbidden(path, why));
            }
            continue;
        }
        forget_changeable(container, old);
        forget_claims(container);
        if !equal_as(CONTAINER, Some(container), Some(old)) {
            let why = "only cpu and memory resources for init or sidecar containers are mutable";
            errors.push(FieldError::forbidden(&at, why));
        }
        if is_sidecar(new) || equal_as(CONTAINER, Some(new), Some(old)) {
            continue;
        }
        for policy in errors.while_room(new.list_at(&["resizePolicy"])) {
            if policy.str_at(&["restartPolicy"]) == "RestartContainer" {
                let why = "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                errors.push(FieldError::forbidden(&at, why));
            }
        }
    }
}

/// Returns true if a container may be resized; init containers that end need a feature gate.
fn may_resize(features: &Features, container: &Value) -> bool {
    is_sidecar(container) || features.enabled("InPlacePodVerticalScalingInitContainers")
}

/// Restores the old CPU and memory, so that any other change shows.
fn forget_changeable(holder: &mut Value, old: &Value) {
    for list in ["requests", "limits"] {
        for name in CHANGEABLE {
            keep_at(holder, old, &["resources", list, name]);
        }
    }
}

/// Removes the claims of a container, which then differs from any old container that has claims.
fn forget_claims(container: &mut Value) {
    if let Some(resources) = container.at_mut(&["resources"]).and_then(Value::as_object_mut) {
        resources.remove("claims");
    }
}

fn is_removed(new: &Value, old: &Value, list: &str) -> bool {
    let names = |holder: &Value| holder.object_at(&["resources", list]).cloned().unwrap_or_default();
    let (new, old): (Object, Object) = (names(new), names(old));
    old.keys().any(|name| !new.contains(name))
}
