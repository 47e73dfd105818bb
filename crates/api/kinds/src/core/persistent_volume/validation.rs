//! Validation of persistent volumes, and of the inline volumes of attachments.

use binnacle_fields::core::v1::{
    CSIPersistentVolumeSource as Csi, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    PersistentVolume as Volume, PersistentVolumeSpec as Spec, VolumeNodeAffinity,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{self, List, Map, Str};
use binnacle_fields::{Field, FieldMut, FieldRef, Message, Route, route};
use binnacle_meta::{FieldError, FieldErrors, Location};
use binnacle_schema::Value;
use binnacle_validation::checks::IMMUTABLE;
use binnacle_validation::metadata;
use binnacle_validation::pod_resources::quantity;
use binnacle_validation::{checks, names};

use super::sources::source;
use crate::checks::immutable_enum;
use crate::equality::equal;
use crate::gated::in_use;
use crate::internal::{self, internal};
use crate::pod_spec::validation::scheduling;
use crate::volume_claims::access_modes;
use crate::{Features, diff};

const REQUIRED: Field<VolumeNodeAffinity, NodeSelector> = VolumeNodeAffinity::REQUIRED;
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
const NOT_INLINE: &str = "may not be specified in the context of inline volumes";

/// Sources for which the mount options annotation is valid.
const WITH_MOUNT_OPTIONS: [Route<Spec>; 13] = [
    route![Spec::GCE_PERSISTENT_DISK],
    route![Spec::AWS_ELASTIC_BLOCK_STORE],
    route![Spec::GLUSTERFS],
    route![Spec::NFS],
    route![Spec::RBD],
    route![Spec::QUOBYTE],
    route![Spec::ISCSI],
    route![Spec::CINDER],
    route![Spec::CEPHFS],
    route![Spec::AZURE_FILE],
    route![Spec::VSPHERE_VOLUME],
    route![Spec::AZURE_DISK],
    route![Spec::PHOTON_PERSISTENT_DISK],
];

/// The fields of a spec that are not sources, and their names in the internal type.
const OTHERS: [(Route<Spec>, &str); 9] = [
    (route![Spec::CAPACITY], "Capacity"),
    (route![Spec::ACCESS_MODES], "AccessModes"),
    (route![Spec::CLAIM_REF], "ClaimRef"),
    (route![Spec::PERSISTENT_VOLUME_RECLAIM_POLICY], "PersistentVolumeReclaimPolicy"),
    (route![Spec::STORAGE_CLASS_NAME], "StorageClassName"),
    (route![Spec::MOUNT_OPTIONS], "MountOptions"),
    (route![Spec::VOLUME_MODE], "VolumeMode"),
    (route![Spec::NODE_AFFINITY], "NodeAffinity"),
    (route![Spec::VOLUME_ATTRIBUTES_CLASS_NAME], "VolumeAttributesClassName"),
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
pub(super) fn validate(new: FieldRef<Volume>, old: Option<FieldRef<Volume>>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    volume(new, old, &mut errors);
    mount_options(new, &mut errors);
    errors
}

pub(super) fn validate_update(features: &Features, new: FieldRef<Volume>, old: FieldRef<Volume>) -> FieldErrors {
    let mut errors = validate(new, Some(old));
    // kube-apiserver validates the volume twice, with its metadata.
    let own = new.at(Volume::METADATA);
    let (given, path) = (own.value(), own.path());
    errors.extend(metadata::validate(given, false, names::dns1123_subdomain_name, &path));
    errors.extend(metadata::finalizers_have_domains(given, &path));
    volume(new, Some(old), &mut errors);
    let (spec, old) = (new.at(Volume::SPEC), old.at(Volume::SPEC));
    source_change(spec, old, &mut errors);
    // kube-apiserver reports these two fields as those of the volume.
    let bare = FieldRef::<Spec>::root(spec.value());
    immutable_enum(bare.at(Spec::VOLUME_MODE), old.at(Spec::VOLUME_MODE), &mut errors);
    if !features.enabled("MutablePVNodeAffinity") {
        affinity_change(bare.at(Spec::NODE_AFFINITY), old.at(Spec::NODE_AFFINITY), &mut errors);
    }
    let class = spec.at(Spec::VOLUME_ATTRIBUTES_CLASS_NAME);
    if old.at(Spec::VOLUME_ATTRIBUTES_CLASS_NAME).is_set() && !class.is_set() {
        errors.push(class.forbidden("update from non-nil value to nil is forbidden"));
    }
    errors
}

/// Validates the inline volume of an attachment: a CSI volume that has been migrated.
pub(crate) fn validate_inline(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let forbid_if = |is_given: bool, field: &dyn Location, errors: &mut FieldErrors| {
        errors.extend(is_given.then(|| FieldError::forbidden(field, NOT_INLINE)));
    };
    let (claim, capacity) = (spec.at(Spec::CLAIM_REF), spec.at(Spec::CAPACITY));
    forbid_if(claim.is_set(), &claim, errors);
    forbid_if(!capacity.is_empty(), &capacity, errors);
    let csi = spec.at(Spec::CSI);
    if !csi.is_set() {
        errors.push(csi.required("has to be specified in the context of inline volumes"));
    }
    modes(spec.at(Spec::ACCESS_MODES), errors);
    let policy = spec.at(Spec::PERSISTENT_VOLUME_RECLAIM_POLICY);
    if !matches!(policy.str(), "" | "Retain") {
        errors.push(policy.forbidden("may only be Retain in the context of inline volumes"));
    }
    let affinity = spec.at(Spec::NODE_AFFINITY);
    forbid_if(affinity.is_set(), &affinity, errors);
    source(spec, "", false, errors);
    let class = spec.at(Spec::STORAGE_CLASS_NAME);
    forbid_if(!class.is_empty(), &class, errors);
    let mode = spec.at(Spec::VOLUME_MODE);
    if mode.get_str().is_some_and(|mode| mode != "Filesystem") {
        let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.push(mode.forbidden(why));
    }
    // The volume attributes class is ignored: kube-apiserver validates inline volumes without that feature.
}

fn volume(volume: FieldRef<Volume>, old: Option<FieldRef<Volume>>, errors: &mut FieldErrors) {
    let spec = volume.at(Volume::SPEC);
    modes(spec.at(Spec::ACCESS_MODES), errors);
    capacity(spec.at(Spec::CAPACITY), errors);
    let policy = spec.at(Spec::PERSISTENT_VOLUME_RECLAIM_POLICY);
    if !policy.is_empty() {
        checks::one_of(&policy, policy.str(), &["Delete", "Recycle", "Retain"], errors);
    }
    let affinity = spec.at(Spec::NODE_AFFINITY);
    let selector = affinity.at(REQUIRED);
    if selector.is_set() {
        let any_value = old.is_some_and(|old| {
            scheduling::has_invalid_label_values(old.at(Volume::SPEC).at(Spec::NODE_AFFINITY).at(REQUIRED))
        });
        scheduling::node_selector(selector, any_value, errors);
    } else if affinity.is_set() {
        errors.push(selector.required("must specify required node constraints"));
    }
    let name = volume.at(Volume::METADATA).at(ObjectMeta::NAME).str();
    source(spec, name, affinity.is_set(), errors);
    let class = spec.at(Spec::STORAGE_CLASS_NAME);
    if !class.is_empty() {
        checks::subdomain(&class, class.str(), errors);
    }
    let mode = spec.at(Spec::VOLUME_MODE);
    if let Some(text) = mode.get_str() {
        checks::one_of(&mode, text, &["Block", "Filesystem"], errors);
    }
    attributes_class(spec, errors);
}

fn modes(modes: FieldRef<List<Str>>, errors: &mut FieldErrors) {
    if modes.is_empty() {
        errors.push(modes.required(""));
    }
    access_modes(modes, errors);
}

/// Requires a capacity of storage and no other resource.
fn capacity(capacity: FieldRef<Map<types::Quantity>>, errors: &mut FieldErrors) {
    if capacity.is_empty() {
        errors.push(capacity.required(""));
    }
    if capacity.len() > 1 || capacity.value().get("storage").is_none() {
        errors.push(capacity.not_supported(&["storage"]));
    }
    for (_, field) in errors.while_room(capacity.entries()) {
        let Some(amount) = quantity(field.value()) else { continue };
        if amount.value() < 0 {
            errors.push(field.invalid_as(amount.value(), "must be a valid resource quantity"));
        }
        if amount.sign() <= 0 {
            errors.push(field.invalid_as(&amount.to_string(), "must be greater than zero"));
        }
    }
}

fn attributes_class(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    let class = spec.at(Spec::VOLUME_ATTRIBUTES_CLASS_NAME);
    match class.get_str() {
        None => return,
        Some("") => errors.push(class.required("an empty string is disallowed")),
        Some(name) => checks::subdomain(&class, name, errors),
    }
    let csi = spec.at(Spec::CSI);
    if !csi.is_set() {
        errors.push(csi.required("has to be specified when using volumeAttributesClassName"));
    }
}

fn mount_options(volume: FieldRef<Volume>, errors: &mut FieldErrors) {
    let metadata = volume.at(Volume::METADATA);
    let annotations = metadata.at(ObjectMeta::ANNOTATIONS);
    let spec = volume.at(Volume::SPEC);
    let is_supported = || WITH_MOUNT_OPTIONS.iter().any(|source| in_use(spec, *source));
    if annotations.value().get(MOUNT_OPTIONS).is_some() && !is_supported() {
        let annotation = annotations.key(MOUNT_OPTIONS).reported_as(MOUNT_OPTIONS);
        errors.push(annotation.forbidden("may not specify mount options for this volume type"));
    }
}

// === Changes ===

/// Reports changes of the source, except for adding an expansion secret to a CSI volume.
fn source_change(spec: FieldRef<Spec>, old: FieldRef<Spec>, errors: &mut FieldErrors) {
    let (mut new_source, old_source) = (source_of(spec), source_of(old));
    let old_csi = old.at(Spec::CSI);
    if old_csi.is_set() && !old_csi.at(Csi::CONTROLLER_EXPAND_SECRET_REF).is_set() {
        let secret = route![Spec::CSI, Csi::CONTROLLER_EXPAND_SECRET_REF];
        FieldMut::root(&mut new_source).remove_at(secret);
    }
    if equal::<Spec>(FieldRef::root(&new_source), FieldRef::root(&old_source)) {
        return;
    }
    let difference = diff::of_values(&internal_source(&old_source), &internal_source(&new_source));
    let why = format!("spec.persistentvolumesource is immutable after creation\n{difference}");
    errors.push(FieldError::forbidden(&spec.path().child("persistentvolumesource"), why));
}

fn source_of(spec: FieldRef<Spec>) -> Value {
    let mut source = Value::from(spec.object().cloned().unwrap_or_default());
    let mut fields = FieldMut::root(&mut source);
    OTHERS.iter().for_each(|(field, _)| fields.remove_at(*field));
    source
}

/// Returns the struct that holds all sources, as messages show it.
fn internal_source(source: &Value) -> Value {
    let mut shown = internal(Spec::DEFINITION, Some(source));
    if let Some(shown) = shown.as_object_mut() {
        OTHERS.iter().for_each(|(_, name)| drop(shown.remove(name)));
    }
    shown
}

/// Reports changes of an affinity, except for renamed node labels.
fn affinity_change(new: FieldRef<VolumeNodeAffinity>, old: FieldRef<VolumeNodeAffinity>, errors: &mut FieldErrors) {
    let Some(mut expected) = old.get().cloned() else { return };
    let mut affinity = FieldMut::<VolumeNodeAffinity>::root(&mut expected);
    if let Some(selector) = affinity.structure(REQUIRED) {
        rename_labels(selector, new.at(REQUIRED));
    }
    if new.is_set() && equal(new, FieldRef::root(&expected)) {
        return;
    }
    let why = format!("{IMMUTABLE}, except for updating from beta label to GA");
    errors.push(new.invalid_as(internal::shown(new), why));
}

/// Renames the labels of the old selector that the new selector has under their new names.
fn rename_labels(mut selector: FieldMut<NodeSelector>, new: FieldRef<NodeSelector>) {
    const KEY: Field<NodeSelectorRequirement, Str> = NodeSelectorRequirement::KEY;
    let new_terms = new.at(NodeSelector::NODE_SELECTOR_TERMS);
    for (mut term, new) in selector.items(NodeSelector::NODE_SELECTOR_TERMS).zip(new_terms.items()) {
        for list in [NodeSelectorTerm::MATCH_EXPRESSIONS, NodeSelectorTerm::MATCH_FIELDS] {
            for (mut requirement, new) in term.items(list).zip(new.at(list).items()) {
                let key = new.at(KEY).str();
                if RENAMED_LABELS.contains(&(requirement.str(KEY), key)) {
                    requirement.set(KEY, key);
                }
            }
        }
    }
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
    fn validates_volumes() {
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
            assert_eq!(texts(&validate(FieldRef::root(&with(spec)), None)), want);
        }
    }

    #[test]
    fn validates_volume_updates() {
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
            let (new, old) = (with(new), with(old));
            let errors = validate_update(&Features::default(), FieldRef::root(&new), FieldRef::root(&old));
            assert_eq!(errors.is_empty(), same, "{errors:?}");
        }
    }
}
