//! Validation of pods, besides their specs: new ones, and changes of old ones.

mod reported;
mod resize;
mod status;
mod update;

use std::collections::HashMap;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};

use crate::Features;
use crate::diff;
use crate::equality::equal_as;
use crate::pod_spec::validation::containers::image_space;
use crate::pod_spec::validation::{self, PodValidationOptions, annotations};
use crate::tree_names::member;

pub(super) use resize::validate as validate_resize;
pub(super) use status::validate as validate_status;
pub(super) use update::validate as validate_update;

const SPEC: &str = "io.k8s.api.core.v1.PodSpec";

pub(super) fn validate_create(features: &Features, object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    metadata_and_spec(object, &PodValidationOptions::for_pod(features), &mut errors);
    let path = FieldPath::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    if !spec.list_at(&["ephemeralContainers"]).is_empty() {
        errors.push(FieldError::forbidden(&path.child("ephemeralContainers"), "cannot be set on create"));
    }
    if !spec.str_at(&["nodeName"]).is_empty() && !spec.list_at(&["schedulingGates"]).is_empty() {
        let why = "cannot be set until all schedulingGates have been cleared";
        errors.push(FieldError::forbidden(&path.child("nodeName"), why));
    }
    annotations::match_fields(annotations_of(object), spec, &path, &mut errors);
    errors
}

/// Validates an update through `ephemeralcontainers`, which may change no container that is there.
pub(super) fn validate_ephemeral_containers(features: &Features, object: &Value, old: &Value) -> FieldErrors {
    const DEFINITION: &str = "io.k8s.api.core.v1.EphemeralContainer";
    let mut errors = FieldErrors::new();
    let options = PodValidationOptions::for_pod_update(features, old);
    metadata_and_spec(object, &options, &mut errors);
    update::annotations(object, old, &options, &mut errors);
    if is_mirror(old) {
        return FieldError::forbidden(&nowhere(), "static pods do not support ephemeral containers").into();
    }
    let path = FieldPath::new("spec").child("ephemeralContainers");
    let list = object.list_at(&["spec", "ephemeralContainers"]).iter();
    let last: HashMap<&str, &Value> = list.map(|new| (new.str_at(&["name"]), new)).collect();
    for container in errors.while_room(old.list_at(&["spec", "ephemeralContainers"])) {
        let name = container.str_at(&["name"]);
        let why = match last.get(name).copied() {
            None => format!("existing ephemeral containers {name:?} may not be removed\n"),
            Some(new) if !equal_as(DEFINITION, Some(container), Some(new)) => {
                let difference = diff::of(DEFINITION, Some(container), Some(new));
                format!("existing ephemeral containers {name:?} may not be changed\n{difference}")
            }
            Some(_) => continue,
        };
        errors.push(FieldError::forbidden(&path, why));
    }
    errors
}

/// Validates the metadata and spec of any pod, new or changed.
fn metadata_and_spec(object: &Value, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec");
    let null = Value::Null;
    let (metadata, spec) = (object.get("metadata").unwrap_or(&null), object.get("spec").unwrap_or(&null));
    let at = FieldPath::new("metadata").child("annotations");
    annotations::validate(annotations_of(object), spec, &at, options, errors);
    validation::spec(spec, Some(metadata), &path, options, errors);
    if spec.str_at(&["serviceAccountName"]).is_empty() {
        for (i, volume) in errors.while_room(spec.list_at(&["volumes"]).iter().enumerate()) {
            for (j, source) in errors.while_room(volume.list_at(&["projected", "sources"]).iter().enumerate()) {
                if member(source, "serviceAccountToken").is_some() {
                    let at = path.child("volumes").index(i).child("projected").child("sources").index(j);
                    let why = "must not be specified when serviceAccountName is not set";
                    errors.push(FieldError::forbidden(&at.child("serviceAccountToken"), why));
                }
            }
        }
    }
    for list in ["containers", "initContainers"] {
        for (i, container) in errors.while_room(spec.list_at(&[list]).iter().enumerate()) {
            image_space(container, &path.child(list).index(i), errors);
        }
    }
}

fn annotations_of(object: &Value) -> Option<&Object> {
    object.object_at(&["metadata", "annotations"])
}

fn is_mirror(object: &Value) -> bool {
    annotations_of(object).is_some_and(|annotations| annotations.contains(annotations::MIRROR))
}

/// Returns the path of kube-apiserver's errors about the whole pod.
fn nowhere() -> FieldPath {
    FieldPath::root().key("")
}
