//! Validation of persistent volumes, and of the inline volumes of attachments.

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::metadata::{self, shown};
use binnacle_validation::{checks, names};

use crate::Features;
use crate::core::persistent_volume_claim::access_modes;
use crate::equality::equal_as;
use crate::internal::{self, internal};
use crate::pod_spec::validation::{scheduling, sources};
use crate::tree_names::{member, remove_at};
use crate::{diff, tree_names as tree};
use binnacle_validation::pod_resources::quantity;

const SPEC: &str = "io.k8s.api.core.v1.PersistentVolumeSpec";
const NODE_AFFINITY: &str = "io.k8s.api.core.v1.VolumeNodeAffinity";
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";

/// Validates one type of volume source; called with the source, the name of the volume and the path.
type Rule = fn(&Value, &str, &FieldPath, &mut FieldErrors);

/// Every source in kube-apiserver's order: its field, the path of its own errors, and the path of the error that it is
/// a second source.
#[rustfmt::skip]
const SOURCES: &[(&str, &str, &str, Rule)] = &[
    ("hostPath", "hostPath", "hostPath", |s, _, p, e| sources::host_path(s, p, e)),
    ("gcePersistentDisk", "persistentDisk", "gcePersistentDisk", |s, _, p, e| sources::gce_disk(s, p, e)),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", |s, _, p, e| sources::aws_store(s, p, e)),
    ("glusterfs", "glusterfs", "glusterfs", glusterfs),
    ("flocker", "flocker", "flocker", |s, _, p, e| sources::flocker(s, p, e)),
    ("nfs", "nfs", "nfs", |s, _, p, e| sources::nfs(s, p, e)),
    ("rbd", "rbd", "rbd", |s, _, p, e| sources::rbd(s, p, e)),
    ("quobyte", "quobyte", "quobyte", |s, _, p, e| sources::quobyte(s, p, e)),
    ("cephfs", "cephfs", "cephFS", |s, _, p, e| sources::monitors(s, p, e)),
    ("iscsi", "iscsi", "iscsi", iscsi),
    ("cinder", "cinder", "cinder", |s, _, p, e| sources::cinder(s, true, p, e)),
    ("fc", "fc", "fc", |s, _, p, e| sources::fibre_channel(s, p, e)),
    (FLEX, "flexVolume", "flexVolume", |s, _, p, e| sources::flex(s, p, e)),
    ("azureFile", "azureFile", "azureFile", azure_file),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |s, _, p, e| sources::needs(s, &["volumePath"], p, e)),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |s, _, p, e| sources::needs(s, &["pdID"], p, e)),
    ("portworxVolume", "portworxVolume", "portworxVolume", |s, _, p, e| sources::needs(s, &["volumeID"], p, e)),
    ("azureDisk", "azureDisk", "azureDisk", |s, _, p, e| sources::azure_disk(s, p, e)),
    ("scaleIO", "scaleIO", "scaleIO", |s, _, p, e| sources::needs(s, &["gateway", "system", "volumeName"], p, e)),
    (LOCAL, "local", "local", local),
    ("storageos", "storageos", "storageos", |s, _, p, e| sources::storage_os(s, true, p, e)),
    ("csi", "csi", "csi", csi),
];

/// The source that may be combined with another.
const FLEX: &str = "flexVolume";
/// The source that only exists on some nodes.
const LOCAL: &str = "local";

/// Sources for which the mount options annotation is valid.
const WITH_MOUNT_OPTIONS: [&str; 13] = [
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "glusterfs",
    "nfs",
    "rbd",
    "quobyte",
    "iscsi",
    "cinder",
    "cephfs",
    "azureFile",
    "vsphereVolume",
    "azureDisk",
    "photonPersistentDisk",
];

/// Node labels and their new names. Updates may rename them in an affinity.
const RENAMED_LABELS: [(&str, &str); 5] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("beta.kubernetes.io/os", "kubernetes.io/os"),
    ("beta.kubernetes.io/arch", "kubernetes.io/arch"),
    ("beta.kubernetes.io/instance-type", "node.kubernetes.io/instance-type"),
];

/// Validates a volume; a rule that `old` breaks is relaxed.
pub(super) fn validate(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    volume(object, old, &mut errors);
    mount_options(object, &mut errors);
    errors
}

pub(super) fn validate_update(features: &Features, object: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate(object, Some(old));
    // kube-apiserver validates the volume twice.
    volume(object, Some(old), &mut errors);
    source_change(object, old, &mut errors);
    let mode = |object: &Value| object.at(&["spec", "volumeMode"]).cloned();
    let at = FieldPath::new("volumeMode");
    checks::immutable(&at, mode(object) == mode(old), shown(mode(object).as_ref()), &mut errors);
    if !features.enabled("MutablePVNodeAffinity") {
        affinity_change(object, old, &mut errors);
    }
    let class =
        |object: &Value| object.at(&["spec", "volumeAttributesClassName"]).is_some_and(|class| !class.is_null());
    if class(old) && !class(object) {
        let at = FieldPath::new("spec").child("volumeAttributesClassName");
        errors.push(FieldError::forbidden(&at, "update from non-nil value to nil is forbidden"));
    }
    errors
}

/// Validates the inline volume of an attachment: a CSI volume that has been migrated.
pub(crate) fn validate_inline(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const WHERE: &str = "in the context of inline volumes";
    let mut forbid = |field: &str| {
        errors.push(FieldError::forbidden(&path.child(field), format!("may not be specified {WHERE}")));
    };
    if member(spec, "claimRef").is_some() {
        forbid("claimRef");
    }
    if spec.object_at(&["capacity"]).is_some_and(|capacity| !capacity.is_empty()) {
        forbid("capacity");
    }
    if member(spec, "csi").is_none() {
        errors.push(FieldError::required(&path.child("csi"), format!("has to be specified {WHERE}")));
    }
    modes(spec, path, errors);
    if !matches!(spec.str_at(&["persistentVolumeReclaimPolicy"]), "" | "Retain") {
        let at = path.child("persistentVolumeReclaimPolicy");
        errors.push(FieldError::forbidden(&at, format!("may only be Retain {WHERE}")));
    }
    if member(spec, "nodeAffinity").is_some() {
        errors.push(FieldError::forbidden(&path.child("nodeAffinity"), format!("may not be specified {WHERE}")));
    }
    source(spec, "", false, path, errors);
    if !spec.str_at(&["storageClassName"]).is_empty() {
        let at = path.child("storageClassName");
        errors.push(FieldError::forbidden(&at, format!("may not be specified {WHERE}")));
    }
    if spec.get("volumeMode").and_then(Value::as_str).is_some_and(|mode| mode != "Filesystem") {
        let why = format!("may not specify volumeMode other than Filesystem {WHERE}");
        errors.push(FieldError::forbidden(&path.child("volumeMode"), why));
    }
    // The volume attributes class is ignored: kube-apiserver validates inline volumes without that feature.
}

fn volume(object: &Value, old: Option<&Value>, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec");
    let spec = object.get("spec").unwrap_or(&Value::Null);
    modes(spec, &path, errors);
    capacity(spec, &path.child("capacity"), errors);
    let policy = spec.str_at(&["persistentVolumeReclaimPolicy"]);
    if !policy.is_empty() {
        let at = path.child("persistentVolumeReclaimPolicy");
        checks::one_of(&at, policy, &["Delete", "Recycle", "Retain"], errors);
    }
    let affinity = member(spec, "nodeAffinity");
    if let Some(affinity) = affinity {
        let at = path.child("nodeAffinity").child("required");
        let any_value = old
            .and_then(|old| old.at(&["spec", "nodeAffinity", "required"]))
            .is_some_and(scheduling::has_invalid_label_values);
        match member(affinity, "required") {
            Some(selector) => scheduling::node_selector(selector, any_value, &at, errors),
            None => errors.push(FieldError::required(&at, "must specify required node constraints")),
        }
    }
    source(spec, object.str_at(&["metadata", "name"]), affinity.is_some(), &path, errors);
    let class = spec.str_at(&["storageClassName"]);
    if !class.is_empty() {
        checks::subdomain(&path.child("storageClassName"), class, errors);
    }
    if let Some(mode) = spec.get("volumeMode").and_then(Value::as_str) {
        checks::one_of(&path.child("volumeMode"), mode, &["Block", "Filesystem"], errors);
    }
    attributes_class(spec, &path, errors);
}

fn modes(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("accessModes");
    let modes = spec.list_at(&["accessModes"]);
    if modes.is_empty() {
        errors.push(FieldError::required(&at, ""));
    }
    access_modes(modes, &at, errors);
}

/// Requires a capacity of storage and no other resource.
fn capacity(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let amounts = spec.object_at(&["capacity"]);
    let count = amounts.map_or(0, Object::len);
    if count == 0 {
        errors.push(FieldError::required(path, ""));
    }
    if count > 1 || amounts.is_none_or(|amounts| amounts.get("storage").is_none()) {
        errors.push(FieldError::not_supported(path, shown(member(spec, "capacity")), &["storage"]));
    }
    for (name, amount) in errors.while_room(amounts.into_iter().flat_map(|amounts| amounts.iter())) {
        let (at, Some(amount)) = (path.key(name), quantity(amount)) else { continue };
        if amount.value() < 0 {
            errors.push(FieldError::invalid(&at, amount.value(), "must be a valid resource quantity"));
        }
        if amount.sign() <= 0 {
            errors.push(FieldError::invalid(&at, amount.to_string().as_str(), "must be greater than zero"));
        }
    }
}

fn source(spec: &Value, name: &str, has_affinity: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let mut found = false;
    for (field, own, second, rule) in SOURCES {
        let Some(source) = member(spec, field) else { continue };
        if found && *field != FLEX {
            errors.push(FieldError::forbidden(&path.child(second), "may not specify more than 1 volume type"));
            continue;
        }
        found = true;
        rule(source, name, &path.child(own), errors);
        if *field == LOCAL && !has_affinity {
            errors.push(FieldError::required(&path.child("nodeAffinity"), "Local volume requires node affinity"));
        }
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
    // The recycler would delete all files of the node.
    let recycled = spec.str_at(&["persistentVolumeReclaimPolicy"]) == "Recycle";
    if recycled && is_root(spec.str_at(&["hostPath", "path"])) {
        let at = path.child("persistentVolumeReclaimPolicy");
        errors.push(FieldError::forbidden(&at, "may not be 'recycle' for a hostPath mount of '/'"));
    }
}

fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn attributes_class(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(class) = spec.get("volumeAttributesClassName").and_then(Value::as_str) else { return };
    let at = path.child("volumeAttributesClassName");
    if class.is_empty() {
        errors.push(FieldError::required(&at, "an empty string is disallowed"));
    } else {
        checks::subdomain(&at, class, errors);
    }
    if member(spec, "csi").is_none() {
        let why = "has to be specified when using volumeAttributesClassName";
        errors.push(FieldError::required(&path.child("csi"), why));
    }
}

fn mount_options(object: &Value, errors: &mut FieldErrors) {
    let supported =
        || WITH_MOUNT_OPTIONS.iter().any(|source| object.at(&["spec", source]).is_some_and(|s| !s.is_null()));
    if object.at(&["metadata", "annotations", MOUNT_OPTIONS]).is_some() && !supported() {
        let at = FieldPath::new("metadata").child("annotations").child(MOUNT_OPTIONS);
        errors.push(FieldError::forbidden(&at, "may not specify mount options for this volume type"));
    }
}

// === Sources ===

fn glusterfs(source: &Value, _: &str, path: &FieldPath, errors: &mut FieldErrors) {
    sources::needs(source, &["endpoints", "path"], path, errors);
    let at = path.child("endpointsNamespace");
    match source.get("endpointsNamespace").and_then(Value::as_str) {
        None => {}
        Some("") => {
            let why = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.push(FieldError::invalid(&at, "", why));
        }
        Some(name) => checks::invalid_for(&at, name, names::dns1123_label_name(name, false), errors),
    }
}

fn iscsi(source: &Value, name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    const FORMAT: &str = "must be valid format";
    sources::needs(source, &["targetPortal"], path, errors);
    let portal = source.str_at(&["targetPortal"]);
    if member(source, "initiatorName").is_some() && name.len() + 1 + portal.len() > 64 {
        errors.push(FieldError::invalid(&path.child("targetportal"), portal, sources::ISCSI_NAMES));
    }
    sources::iscsi_rules(source, path, FORMAT, errors);
    if let Some(secret) = member(source, "secretRef") {
        sources::needs(secret, &["name"], &path.child("secretRef"), errors);
    }
    sources::iscsi_initiator(source, path, FORMAT, errors);
}

fn azure_file(source: &Value, _: &str, path: &FieldPath, errors: &mut FieldErrors) {
    sources::needs(source, &["secretName", "shareName"], path, errors);
    if source.get("secretNamespace").and_then(Value::as_str) == Some("") {
        errors.push(FieldError::required(&path.child("secretNamespace"), ""));
    }
}

fn local(source: &Value, _: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let directory = source.str_at(&["path"]);
    if directory.is_empty() {
        return errors.push(FieldError::required(&path.child("path"), ""));
    }
    crate::pod_spec::validation::paths::no_backsteps(&path.child("path"), directory, errors);
}

fn csi(source: &Value, _: &str, path: &FieldPath, errors: &mut FieldErrors) {
    sources::csi_driver_name(&path.child("driver"), source.str_at(&["driver"]), errors);
    sources::needs(source, &["volumeHandle"], path, errors);
    let secrets =
        ["controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef"];
    for field in secrets {
        let Some(secret) = member(source, field) else { continue };
        let (name, namespace) = (secret.str_at(&["name"]), secret.str_at(&["namespace"]));
        let at = path.child(field);
        match name {
            "" => errors.push(FieldError::required(&at.child("name"), "")),
            _ => checks::subdomain(&at.child("name"), name, errors),
        }
        match namespace {
            "" => errors.push(FieldError::required(&at.child("namespace"), "")),
            _ => checks::label(&at.child("namespace"), namespace, errors),
        }
    }
}

// === Changes ===

/// Reports changes of the source, except for adding an expansion secret to a CSI volume.
fn source_change(object: &Value, old: &Value, errors: &mut FieldErrors) {
    const EXPAND: [&str; 2] = ["csi", "controllerExpandSecretRef"];
    let (mut new, old) = (source_of(object), source_of(old));
    let had_none = old.at(&EXPAND).is_none_or(Value::is_null);
    if member(&old, "csi").is_some() && had_none {
        remove_at(&mut new, &EXPAND);
    }
    if equal_as(SPEC, Some(&new), Some(&old)) {
        return;
    }
    let difference = diff::of_values(&internal_source(&old), &internal_source(&new));
    let why = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
    errors.push(FieldError::forbidden(&FieldPath::new("spec").child("persistentvolumesource"), why));
}

fn source_of(object: &Value) -> Value {
    let members = object.object_at(&["spec"]).into_iter().flat_map(|spec| spec.iter());
    let sources = members.filter(|(name, _)| SOURCES.iter().any(|(field, ..)| *field == name.as_str()));
    sources.map(|(name, value)| (name.clone(), value.clone())).collect::<Object>().into()
}

/// Returns the struct that holds all sources, as messages show it.
fn internal_source(source: &Value) -> Value {
    const OTHERS: [&str; 9] = [
        "Capacity",
        "AccessModes",
        "ClaimRef",
        "PersistentVolumeReclaimPolicy",
        "StorageClassName",
        "MountOptions",
        "VolumeMode",
        "NodeAffinity",
        "VolumeAttributesClassName",
    ];
    let mut shown = internal(SPEC, Some(source));
    for field in OTHERS {
        tree::remove_at(&mut shown, &[field]);
    }
    shown
}

/// Reports changes of an affinity, except for renamed node labels.
fn affinity_change(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let of = |object: &Value| object.at(&["spec", "nodeAffinity"]).filter(|affinity| !affinity.is_null()).cloned();
    let (new, Some(mut expected)) = (of(object), of(old)) else { return };
    let terms = expected.at_mut(&["required", "nodeSelectorTerms"]).and_then(Value::as_list_mut);
    for (i, term) in terms.into_iter().flatten().enumerate() {
        for list in ["matchExpressions", "matchFields"] {
            let requirements = term.at_mut(&[list]).and_then(Value::as_list_mut);
            for (j, requirement) in requirements.into_iter().flatten().enumerate() {
                let given = new.as_ref().and_then(|new| {
                    let terms = new.list_at(&["required", "nodeSelectorTerms"]);
                    terms.get(i)?.list_at(&[list]).get(j)?.get("key")?.as_str()
                });
                let renamed = RENAMED_LABELS.iter().find(|(beta, _)| *beta == requirement.str_at(&["key"]));
                if let Some((_, renamed)) = renamed.filter(|(_, renamed)| given == Some(renamed)) {
                    requirement.make_object().insert("key", *renamed);
                }
            }
        }
    }
    if new.is_some() && equal_as(NODE_AFFINITY, new.as_ref(), Some(&expected)) {
        return;
    }
    let shown: ErrorValue = internal::shown_as(NODE_AFFINITY, new.as_ref());
    let why = format!("{}, except for updating from beta label to GA", metadata::IMMUTABLE);
    errors.push(FieldError::invalid(&FieldPath::new("nodeAffinity"), shown, why));
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    fn with(spec: Value) -> Value {
        let mut object = value!({
            "metadata": {"name": "v"},
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "capacity": {"storage": "1Gi"},
                "persistentVolumeReclaimPolicy": "Retain",
                "volumeMode": "Filesystem"
            }
        });
        for (name, value) in spec.as_object().expect("a spec").clone() {
            object.make_at(&["spec"]).insert(name, value);
        }
        object
    }

    fn texts(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn rules() {
        for (spec, want) in [
            (value!({"hostPath": {"path": "/data"}}), vec![]),
            (value!({}), vec!["spec: Required value: must specify a volume type"]),
            (
                value!({"hostPath": {"path": "/a/.."}, "persistentVolumeReclaimPolicy": "Recycle"}),
                vec![
                    "spec.hostPath.path: Invalid value: \"/a/..\": must not contain '..'",
                    "spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'",
                ],
            ),
            (
                value!({"nfs": {"server": "s", "path": "/x"}, "local": {"path": "/x"}}),
                vec!["spec.local: Forbidden: may not specify more than 1 volume type"],
            ),
            (
                value!({"csi": {"driver": "d", "volumeHandle": "h", "nodePublishSecretRef": {"name": "s"}}, "volumeAttributesClassName": ""}),
                vec![
                    "spec.csi.nodePublishSecretRef.namespace: Required value",
                    "spec.volumeAttributesClassName: Required value: an empty string is disallowed",
                ],
            ),
        ] {
            assert_eq!(texts(&validate(&with(spec), None)), want);
        }
    }

    #[test]
    fn changes() {
        let affinity = |key: &str| {
            value!({
                "hostPath": {"path": "/x"},
                "nodeAffinity": {"required": {"nodeSelectorTerms": [
                    {"matchExpressions": [{"key": key, "operator": "In", "values": ["a"]}]}
                ]}}
            })
        };
        let csi = |secret: Value| {
            let mut csi = value!({"csi": {"driver": "d", "volumeHandle": "h"}});
            if !secret.is_null() {
                csi.make_at(&["csi"]).insert("controllerExpandSecretRef", secret);
            }
            csi
        };
        let (zone, other) = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone");
        for (old, new, same) in [
            (affinity(other), affinity(zone), true),
            (affinity(zone), affinity(other), false),
            (value!({"hostPath": {"path": "/x"}}), affinity(zone), true),
            (affinity(zone), value!({"hostPath": {"path": "/x"}}), false),
            (csi(Value::Null), csi(value!({"name": "s", "namespace": "n"})), true),
            (csi(value!({"name": "s", "namespace": "n"})), csi(Value::Null), false),
        ] {
            let errors = validate_update(&Features::default(), &with(new), &with(old));
            assert_eq!(errors.is_empty(), same, "{errors:?}");
        }
    }
}
