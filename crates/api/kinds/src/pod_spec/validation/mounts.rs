//! Validation of mounted volumes and of block devices.

use std::collections::{HashMap, HashSet};

use binnacle_fields::core::v1::{Container, SecurityContext, Volume, VolumeDevice, VolumeMount};
use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldRef};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_validation::checks;

use super::volumes::Volumes;
use super::{optional_one_of, paths};

pub(super) fn mounts(container: FieldRef<Container>, volumes: &Volumes<'_>, errors: &mut FieldErrors) {
    let privileged = container.at(Container::SECURITY_CONTEXT).at(SecurityContext::PRIVILEGED).bool();
    let devices = container.at(Container::VOLUME_DEVICES);
    let (device_names, device_paths) = names_and_paths(devices, VolumeDevice::NAME, VolumeDevice::DEVICE_PATH);
    let mut taken = HashSet::new();
    let list = container.at(Container::VOLUME_MOUNTS);
    for mount in errors.while_room(list.items()) {
        let (name, target) = (mount.at(VolumeMount::NAME), mount.at(VolumeMount::MOUNT_PATH));
        checks::required(&name, name.str(), errors);
        if volumes.get(name.str()).is_none() {
            errors.push(FieldError::not_found(&name, name.str()));
        }
        checks::required(&target, target.str(), errors);
        if !taken.insert(target.str()) {
            errors.push(target.invalid_as(target.str(), "must be unique"));
        }
        if device_names.contains(name.str()) {
            errors.push(name.invalid_as(name.str(), "must not already exist in volumeDevices"));
        }
        if device_paths.contains(target.str()) {
            errors.push(target.invalid_as(target.str(), "must not already exist as a path in volumeDevices"));
        }
        // From here on, kube-apiserver's paths do not name the mount.
        let unnamed = mount.located_at(&list);
        sub_paths(mount, unnamed, errors);
        let propagation = unnamed.at(VolumeMount::MOUNT_PROPAGATION);
        optional_one_of(propagation, &["Bidirectional", "HostToContainer", "None"], errors);
        if propagation.str() == "Bidirectional" && !privileged {
            let why = "Bidirectional mount propagation is available only to privileged containers";
            errors.push(propagation.forbidden(why));
        }
        recursive_read_only(unnamed, errors);
    }
}

pub(super) fn devices(container: FieldRef<Container>, volumes: &Volumes<'_>, errors: &mut FieldErrors) {
    let mounts = container.at(Container::VOLUME_MOUNTS);
    let (mount_names, mount_paths) = names_and_paths(mounts, VolumeMount::NAME, VolumeMount::MOUNT_PATH);
    let (mut names, mut taken) = (HashSet::new(), HashSet::new());
    let list = container.at(Container::VOLUME_DEVICES);
    for device in errors.while_room(list.items()) {
        let (name, target) = (device.at(VolumeDevice::NAME), device.at(VolumeDevice::DEVICE_PATH));
        let (given, path) = (name.str(), target.str());
        checks::required(&name, given, errors);
        if names.contains(given) {
            errors.push(name.invalid_as(given, "must be unique"));
        }
        match volumes.get(given) {
            Some(volume) if !is_block_device(volume) => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(name.invalid_as(given, why));
            }
            Some(_) => {}
            None => errors.push(FieldError::not_found(&name, given)),
        }
        checks::required(&target, path, errors);
        if taken.contains(path) {
            errors.push(target.invalid_as(path, "must be unique"));
        }
        if paths::has_backsteps(path) {
            errors.push(target.invalid_as(path, "can not contain backsteps ('..')"));
        } else {
            taken.insert(path);
        }
        if mount_names.contains(given) {
            errors.push(name.invalid_as(given, "must not already exist in volumeMounts"));
        }
        if mount_paths.contains(path) {
            errors.push(target.invalid_as(path, "must not already exist as a path in volumeMounts"));
        }
        if !given.is_empty() {
            names.insert(given);
        }
    }
}

fn is_block_device(volume: FieldRef<Volume>) -> bool {
    volume.at(Volume::PERSISTENT_VOLUME_CLAIM).is_set() || volume.at(Volume::EPHEMERAL).is_set()
}

/// Returns the names and paths in a list of mounts or devices; if several share a name, the path of the last one
/// counts.
fn names_and_paths<'v, M>(
    list: FieldRef<'_, 'v, List<M>>,
    name: Field<M, Str>,
    path: Field<M, Str>,
) -> (HashSet<&'v str>, HashSet<&'v str>) {
    let by_name: HashMap<_, _> = list.items().map(|item| (item.at(name).str(), item.at(path).str())).collect();
    (by_name.keys().copied().collect(), by_name.values().copied().collect())
}

fn sub_paths(mount: FieldRef<VolumeMount>, unnamed: FieldRef<VolumeMount>, errors: &mut FieldErrors) {
    let (plain, expression) = (unnamed.at(VolumeMount::SUB_PATH), unnamed.at(VolumeMount::SUB_PATH_EXPR));
    if !plain.is_empty() {
        paths::descending(&plain, plain.str(), errors);
    }
    if !expression.is_empty() {
        if !plain.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            errors.push(mount.at(VolumeMount::SUB_PATH_EXPR).invalid(why));
        }
        paths::descending(&expression, expression.str(), errors);
    }
}

fn recursive_read_only(mount: FieldRef<VolumeMount>, errors: &mut FieldErrors) {
    let mode = mount.at(VolumeMount::RECURSIVE_READ_ONLY);
    optional_one_of(mode, &["Disabled", "Enabled", "IfPossible"], errors);
    if !matches!(mode.str(), "Enabled" | "IfPossible") {
        return;
    }
    if !mount.at(VolumeMount::READ_ONLY).bool() {
        errors.push(mode.forbidden("may only be specified when readOnly is true"));
    }
    if !matches!(mount.at(VolumeMount::MOUNT_PROPAGATION).str(), "" | "None") {
        errors.push(mode.forbidden("may only be specified when mountPropagation is None or not specified"));
    }
}
