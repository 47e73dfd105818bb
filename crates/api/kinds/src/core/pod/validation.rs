//! Validation of pods, besides their specs: new ones, and changes of old ones.

mod claim_statuses;
mod resize;
mod status;
mod update;

use std::collections::HashMap;

use binnacle_fields::core::v1::{
    EphemeralContainer, Pod, PodSpec as Spec, ProjectedVolumeSource, Volume, VolumeProjection,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, Message};
use binnacle_meta::{FieldError, FieldErrors, FieldPath, go_quote};
use binnacle_schema::Object;

use crate::Features;
use crate::diff;
use crate::equality::equal;
use crate::pod_spec::validation::containers::image_space;
use crate::pod_spec::validation::{self, PodValidationOptions, annotations};

pub(super) use resize::validate as validate_resize;
pub(super) use status::validate as validate_status;
pub(super) use update::validate as validate_update;

pub(super) fn validate_create(features: &Features, pod: FieldRef<Pod>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    metadata_and_spec(pod, &PodValidationOptions::for_pod(features), &mut errors);
    let spec = pod.at(Pod::SPEC);
    let ephemeral = spec.at(Spec::EPHEMERAL_CONTAINERS);
    if !ephemeral.is_empty() {
        errors.push(ephemeral.forbidden("cannot be set on create"));
    }
    let node = spec.at(Spec::NODE_NAME);
    if !node.is_empty() && !spec.at(Spec::SCHEDULING_GATES).is_empty() {
        errors.push(node.forbidden("cannot be set until all schedulingGates have been cleared"));
    }
    annotations::match_fields(annotations_of(pod), spec, &mut errors);
    errors
}

/// Validates an update through `ephemeralcontainers`, which may change no container that is there.
pub(super) fn validate_ephemeral_containers(
    features: &Features,
    pod: FieldRef<Pod>,
    old: FieldRef<Pod>,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let options = PodValidationOptions::for_pod_update(features, old.value());
    metadata_and_spec(pod, &options, &mut errors);
    update::annotations(pod, old, &options, &mut errors);
    if is_mirror(old) {
        return FieldError::forbidden(&nowhere(), "static pods do not support ephemeral containers").into();
    }
    let (spec, old_spec) = (pod.at(Pod::SPEC), old.at(Pod::SPEC));
    let containers = spec.at(Spec::EPHEMERAL_CONTAINERS);
    let last: HashMap<&str, FieldRef<EphemeralContainer>> =
        containers.items().map(|new| (new.at(EphemeralContainer::NAME).str(), new)).collect();
    for old in errors.while_room(old_spec.at(Spec::EPHEMERAL_CONTAINERS).items()) {
        let name = old.at(EphemeralContainer::NAME).str();
        let why = match last.get(name) {
            None => format!("existing ephemeral containers {} may not be removed\n", go_quote(name)),
            Some(new) if !equal(old, *new) => {
                let difference = diff::of(EphemeralContainer::DEFINITION, Some(old.value()), Some(new.value()));
                format!("existing ephemeral containers {} may not be changed\n{difference}", go_quote(name))
            }
            Some(_) => continue,
        };
        errors.push(containers.forbidden(why));
    }
    errors
}

/// Validates the metadata and spec of any pod, new or changed.
fn metadata_and_spec(pod: FieldRef<Pod>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let (metadata, spec) = (pod.at(Pod::METADATA), pod.at(Pod::SPEC));
    let given = metadata.at(ObjectMeta::ANNOTATIONS);
    annotations::validate(given, spec, options, errors);
    validation::spec(spec, Some(metadata), options, errors);
    if spec.at(Spec::SERVICE_ACCOUNT_NAME).is_empty() {
        for volume in errors.while_room(spec.at(Spec::VOLUMES).items()) {
            let projected = volume.at(Volume::PROJECTED);
            for source in errors.while_room(projected.at(ProjectedVolumeSource::SOURCES).items()) {
                let token = source.at(VolumeProjection::SERVICE_ACCOUNT_TOKEN);
                if token.is_set() {
                    errors.push(token.forbidden("must not be specified when serviceAccountName is not set"));
                }
            }
        }
    }
    for list in [Spec::CONTAINERS, Spec::INIT_CONTAINERS] {
        for container in errors.while_room(spec.at(list).items()) {
            image_space(container.cast(), errors);
        }
    }
}

fn annotations_of<'v>(pod: FieldRef<'_, 'v, Pod>) -> Option<&'v Object> {
    pod.at(Pod::METADATA).at(ObjectMeta::ANNOTATIONS).object()
}

fn is_mirror(pod: FieldRef<Pod>) -> bool {
    annotations_of(pod).is_some_and(|annotations| annotations.contains(annotations::MIRROR))
}

/// Returns the path of kube-apiserver's errors about the whole pod.
fn nowhere() -> FieldPath {
    FieldPath::root().key("")
}
