//! Validation of mounted volumes and of block devices.

use std::collections::{HashMap, HashSet};

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks;

use super::paths;
use super::volumes::Volumes;
use crate::tree_names::member;

pub(super) fn mounts(container: &Value, volumes: &Volumes<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let devices = container.list_at(&["volumeDevices"]);
    let privileged = container.bool_at(&["securityContext", "privileged"]);
    let (device_names, device_paths) = names_and_paths(devices, "devicePath");
    let mut taken = HashSet::new();
    for (i, mount) in errors.while_room(container.list_at(&["volumeMounts"]).iter().enumerate()) {
        let at = path.index(i);
        let (name, target) = (mount.str_at(&["name"]), mount.str_at(&["mountPath"]));
        checks::required(&at.child("name"), name, errors);
        if volumes.get(name).is_none() {
            errors.push(FieldError::not_found(&at.child("name"), name));
        }
        checks::required(&at.child("mountPath"), target, errors);
        if !taken.insert(target) {
            errors.push(FieldError::invalid(&at.child("mountPath"), target, "must be unique"));
        }
        if device_names.contains(name) {
            errors.push(FieldError::invalid(&at.child("name"), name, "must not already exist in volumeDevices"));
        }
        if device_paths.contains(target) {
            let why = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(&at.child("mountPath"), target, why));
        }
        // From here on, kube-apiserver's paths do not name the mount.
        sub_paths(mount, path, &at, errors);
        if let Some(propagation) = mount.get("mountPropagation").and_then(Value::as_str) {
            let at = path.child("mountPropagation");
            checks::one_of(&at, propagation, &["Bidirectional", "HostToContainer", "None"], errors);
            if propagation == "Bidirectional" && !privileged {
                let why = "Bidirectional mount propagation is available only to privileged containers";
                errors.push(FieldError::forbidden(&at, why));
            }
        }
        recursive_read_only(mount, &path.child("recursiveReadOnly"), errors);
    }
}

pub(super) fn devices(container: &Value, volumes: &Volumes<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let mounts = container.list_at(&["volumeMounts"]);
    let (mount_names, mount_paths) = names_and_paths(mounts, "mountPath");
    let (mut names, mut taken) = (HashSet::new(), HashSet::new());
    for (i, device) in errors.while_room(container.list_at(&["volumeDevices"]).iter().enumerate()) {
        let (name_at, path_at) = (path.index(i).child("name"), path.index(i).child("devicePath"));
        let (name, target) = (device.str_at(&["name"]), device.str_at(&["devicePath"]));
        checks::required(&name_at, name, errors);
        if names.contains(name) {
            errors.push(FieldError::invalid(&name_at, name, "must be unique"));
        }
        match volumes.get(name) {
            Some(volume) if member(volume, "persistentVolumeClaim").or(member(volume, "ephemeral")).is_none() => {
                let why = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(FieldError::invalid(&name_at, name, why));
            }
            Some(_) => {}
            None => errors.push(FieldError::not_found(&name_at, name)),
        }
        checks::required(&path_at, target, errors);
        if taken.contains(target) {
            errors.push(FieldError::invalid(&path_at, target, "must be unique"));
        }
        if paths::has_backsteps(target) {
            errors.push(FieldError::invalid(&path_at, target, "can not contain backsteps ('..')"));
        } else {
            taken.insert(target);
        }
        if mount_names.contains(name) {
            errors.push(FieldError::invalid(&name_at, name, "must not already exist in volumeMounts"));
        }
        if mount_paths.contains(target) {
            let why = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(&path_at, target, why));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

/// Returns the names and paths in a list of mounts or devices; if several share a name, the path of the last one
/// counts.
fn names_and_paths<'a>(list: &'a [Value], field: &str) -> (HashSet<&'a str>, HashSet<&'a str>) {
    let by_name: HashMap<&str, &str> =
        list.iter().map(|item| (item.str_at(&["name"]), item.str_at(&[field]))).collect();
    (by_name.keys().copied().collect(), by_name.values().copied().collect())
}

fn sub_paths(mount: &Value, path: &FieldPath, at: &FieldPath, errors: &mut FieldErrors) {
    let (plain, expression) = (mount.str_at(&["subPath"]), mount.str_at(&["subPathExpr"]));
    if !plain.is_empty() {
        paths::descending(&path.child("subPath"), plain, errors);
    }
    if !expression.is_empty() {
        if !plain.is_empty() {
            let why = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(&at.child("subPathExpr"), expression, why));
        }
        paths::descending(&path.child("subPathExpr"), expression, errors);
    }
}

fn recursive_read_only(mount: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(mode) = mount.get("recursiveReadOnly").and_then(Value::as_str) else { return };
    checks::one_of(path, mode, &["Disabled", "Enabled", "IfPossible"], errors);
    if mode != "Enabled" && mode != "IfPossible" {
        return;
    }
    if !mount.bool_at(&["readOnly"]) {
        errors.push(FieldError::forbidden(path, "may only be specified when readOnly is true"));
    }
    if !matches!(mount.str_at(&["mountPropagation"]), "" | "None") {
        let why = "may only be specified when mountPropagation is None or not specified";
        errors.push(FieldError::forbidden(path, why));
    }
}
