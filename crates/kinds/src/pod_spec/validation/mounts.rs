//! The rules of mounted volumes and of block devices.

use std::collections::HashSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks;

use super::paths;
use super::volumes::Volumes;
use crate::tree::member;

pub(super) fn mounts(container: &Value, volumes: &Volumes<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let devices = container.list_at(&["volumeDevices"]);
    let privileged = container.bool_at(&["securityContext", "privileged"]);
    let mut taken = HashSet::new();
    for (i, mount) in container.list_at(&["volumeMounts"]).iter().enumerate() {
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
        if devices.iter().any(|device| device.str_at(&["name"]) == name) {
            errors.push(FieldError::invalid(&at.child("name"), name, "must not already exist in volumeDevices"));
        }
        if last_by_name(devices, "devicePath").any(|device| device == target) {
            let why = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(&at.child("mountPath"), target, why));
        }
        // From here on the reference names no mount.
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
    let (mut names, mut taken) = (HashSet::new(), HashSet::new());
    for (i, device) in container.list_at(&["volumeDevices"]).iter().enumerate() {
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
        if mounts.iter().any(|mount| mount.str_at(&["name"]) == name) {
            errors.push(FieldError::invalid(&name_at, name, "must not already exist in volumeMounts"));
        }
        if last_by_name(mounts, "mountPath").any(|mount| mount == target) {
            let why = "must not already exist as a path in volumeMounts";
            errors.push(FieldError::invalid(&path_at, target, why));
        }
        if !name.is_empty() {
            names.insert(name);
        }
    }
}

/// The paths of a list of mounts or devices, of those that share a name the last.
fn last_by_name<'a>(list: &'a [Value], field: &'a str) -> impl Iterator<Item = &'a str> {
    let name = |item: &Value| item.str_at(&["name"]).to_owned();
    let last = move |(i, item): &(usize, &Value)| !list[i + 1..].iter().any(|later| name(later) == name(item));
    list.iter().enumerate().filter(last).map(move |(_, item)| item.str_at(&[field]))
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
