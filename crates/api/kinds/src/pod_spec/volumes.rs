//! Defaults of volumes, and of the claims made for ephemeral volumes and stateful sets.

use binnacle_schema::{Object, Value};
use binnacle_validation::pod_resources as resources;

use super::containers::set_field_selector_defaults;
use super::image;
use crate::tree_names::{default_nil, default_zero, struct_mut, structs_mut, text};

/// The default mode of files of secrets, config maps and the like: readable by all, writable by the owner.
const FILE_MODE: i64 = 0o644;
const TOKEN_EXPIRATION: i64 = 3600;

pub(super) fn set_volume_defaults(volume: &mut Object) {
    let named = volume.iter().any(|(name, value)| name != "name" && !value.is_null());
    if !named {
        volume.insert("emptyDir", Object::new());
    }
    if let Some(image) = struct_mut(volume, "image") {
        let policy = image::pull_policy(text(image, "reference"));
        default_zero(image, "pullPolicy", policy);
    }
    if let Some(path) = struct_mut(volume, "hostPath") {
        default_nil(path, "type", "");
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = struct_mut(volume, name) {
            default_nil(source, "defaultMode", FILE_MODE);
        }
    }
    if let Some(source) = struct_mut(volume, "downwardAPI") {
        set_downward_defaults(source);
    }
    if let Some(projected) = struct_mut(volume, "projected") {
        for source in structs_mut(projected, "sources") {
            if let Some(downward) = struct_mut(source, "downwardAPI") {
                set_downward_defaults(downward);
            }
            if let Some(token) = struct_mut(source, "serviceAccountToken") {
                default_nil(token, "expirationSeconds", TOKEN_EXPIRATION);
            }
        }
    }
    set_remote_volume_defaults(volume);
    if let Some(claim) = struct_mut(volume, "ephemeral").and_then(|e| struct_mut(e, "volumeClaimTemplate")) {
        set_claim_spec_defaults(claim.object_entry("spec"));
    }
}

/// Sets the constant defaults of network volumes, in pods and in persistent volumes.
pub(crate) fn set_remote_volume_defaults(source: &mut Object) {
    if let Some(rbd) = struct_mut(source, "rbd") {
        default_zero(rbd, "pool", "rbd");
        default_zero(rbd, "user", "admin");
        default_zero(rbd, "keyring", "/etc/ceph/keyring");
    }
    if let Some(iscsi) = struct_mut(source, "iscsi") {
        default_zero(iscsi, "iscsiInterface", "default");
    }
    if let Some(disk) = struct_mut(source, "azureDisk") {
        default_nil(disk, "cachingMode", "ReadWrite");
        default_nil(disk, "fsType", "ext4");
        default_nil(disk, "readOnly", false);
        default_nil(disk, "kind", "Shared");
    }
    if let Some(scale_io) = struct_mut(source, "scaleIO") {
        default_zero(scale_io, "storageMode", "ThinProvisioned");
        default_zero(scale_io, "fsType", "xfs");
    }
}

/// Sets the defaults of the spec of a claim.
pub(crate) fn set_claim_spec_defaults(spec: &mut Object) {
    default_nil(spec, "volumeMode", Value::from("Filesystem"));
    if let Some(requirements) = struct_mut(spec, "resources") {
        resources::round_up_requirements(requirements);
    }
}

fn set_downward_defaults(source: &mut Object) {
    for item in structs_mut(source, "items") {
        if let Some(field) = struct_mut(item, "fieldRef") {
            set_field_selector_defaults(field);
        }
    }
}
