//! Conversion between the served versions of a kind and the stored one.
//!
//! Conversions take canonical trees and produce canonical trees. `metadata` stays the same, except for the annotations
//! in which autoscaling/v1 keeps fields that its structs lack.

pub(crate) mod autoscaling;
mod autoscaling_v1;
mod definitions;
mod events;
mod go_json;
mod resource;

use binnacle_fields::meta::v1::PartialObjectMetadata;
use binnacle_fields::{Field, FieldMut};
use binnacle_schema::{Value, canonical};

use crate::tables;

/// Converts an object in place, `apiVersion` and `kind` included.
pub type Convert = fn(&mut Value);

/// Returns the conversions from a version to the stored version of its kind and back; `None` for the stored version
/// itself and for unknown kinds.
pub fn conversion(group: &str, version: &str, kind: &str) -> Option<(Convert, Convert)> {
    let mut all = CONVERSIONS.iter().chain(removed_versions::CONVERSIONS);
    all.find(|c| (c.group, c.version, c.kind) == (group, version, kind)).map(|c| (c.to, c.from))
}

struct Conversion {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    to: Convert,
    from: Convert,
}

/// Versions that differ only in name: group, served version, stored version, kind.
macro_rules! renamed {
    ($group:literal, $version:literal => $stored:literal, $kind:literal) => {
        Conversion {
            group: $group,
            version: $version,
            kind: $kind,
            to: |object| set_type(object, concat!($group, "/", $stored), $kind),
            from: |object| set_type(object, concat!($group, "/", $version), $kind),
        }
    };
}

/// Versions that also differ in fields: group and served version, stored version (and group, if different), kind, and
/// the changes that are made before the type is set.
macro_rules! converted {
    ($group:literal, $version:literal => $stored:literal, $kind:literal, $to:expr, $from:expr) => {
        converted!($group, $version => $group, $stored, $kind, $to, $from)
    };
    ($group:literal, $version:literal => $stored_group:literal, $stored:literal, $kind:literal, $to:expr, $from:expr) => {
        Conversion {
            group: $group,
            version: $version,
            kind: $kind,
            to: |object| {
                $to(object);
                finish(object, $stored_group, $stored, $kind);
            },
            from: |object| {
                $from(object);
                finish(object, $group, $version, $kind);
            },
        }
    };
}

mod old_workloads;
// It needs the macros.
mod removed_versions;

const CONVERSIONS: &[Conversion] = &[
    Conversion {
        group: "autoscaling",
        version: "v1",
        kind: "HorizontalPodAutoscaler",
        to: autoscaling::to_v2,
        from: autoscaling::from_v2,
    },
    Conversion { group: "events.k8s.io", version: "v1", kind: "Event", to: events::to_core, from: events::from_core },
    // Policies are stored as v1beta1, so that the previous release can read them.
    renamed!("admissionregistration.k8s.io", "v1" => "v1beta1", "MutatingAdmissionPolicy"),
    renamed!("admissionregistration.k8s.io", "v1" => "v1beta1", "MutatingAdmissionPolicyBinding"),
    renamed!("admissionregistration.k8s.io", "v1alpha1" => "v1beta1", "MutatingAdmissionPolicy"),
    renamed!("admissionregistration.k8s.io", "v1alpha1" => "v1beta1", "MutatingAdmissionPolicyBinding"),
    renamed!("admissionregistration.k8s.io", "v1beta1" => "v1", "ValidatingAdmissionPolicy"),
    renamed!("admissionregistration.k8s.io", "v1beta1" => "v1", "ValidatingAdmissionPolicyBinding"),
    renamed!("certificates.k8s.io", "v1alpha1" => "v1beta1", "ClusterTrustBundle"),
    renamed!("coordination.k8s.io", "v1alpha2" => "v1beta1", "LeaseCandidate"),
    renamed!("networking.k8s.io", "v1beta1" => "v1", "IPAddress"),
    renamed!("networking.k8s.io", "v1beta1" => "v1", "ServiceCIDR"),
    renamed!("resource.k8s.io", "v1beta1" => "v1", "DeviceClass"),
    Conversion {
        group: "resource.k8s.io",
        version: "v1beta1",
        kind: "ResourceClaim",
        to: resource::claim_to_v1,
        from: resource::claim_from_v1,
    },
    Conversion {
        group: "resource.k8s.io",
        version: "v1beta1",
        kind: "ResourceClaimTemplate",
        to: resource::claim_template_to_v1,
        from: resource::claim_template_from_v1,
    },
    Conversion {
        group: "resource.k8s.io",
        version: "v1beta1",
        kind: "ResourceSlice",
        to: resource::slice_to_v1,
        from: resource::slice_from_v1,
    },
    renamed!("resource.k8s.io", "v1beta2" => "v1", "DeviceClass"),
    renamed!("resource.k8s.io", "v1beta2" => "v1alpha3", "DeviceTaintRule"),
    renamed!("resource.k8s.io", "v1beta2" => "v1", "ResourceClaim"),
    renamed!("resource.k8s.io", "v1beta2" => "v1", "ResourceClaimTemplate"),
    renamed!("resource.k8s.io", "v1beta2" => "v1", "ResourceSlice"),
    renamed!("storage.k8s.io", "v1beta1" => "v1", "VolumeAttributesClass"),
];

/// Sets `apiVersion` and `kind` and leaves all other members unchanged.
fn set_type(object: &mut Value, api_version: &'static str, kind: &'static str) {
    let mut object = FieldMut::root(object);
    object.set(PartialObjectMetadata::KIND, kind);
    object.set(PartialObjectMetadata::API_VERSION, api_version);
}

/// Sets the type of a converted object and brings it into the canonical form of that version.
fn finish(object: &mut Value, group: &'static str, version: &'static str, kind: &'static str) {
    let mut typed = FieldMut::root(object);
    typed.set(PartialObjectMetadata::KIND, kind);
    let api_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    typed.set(PartialObjectMetadata::API_VERSION, api_version);
    if let Some(message) = tables::kind(group, version, kind) {
        canonical::canonicalize(object, message);
    }
}

/// The names of a field in two versions.
type Names = (&'static str, &'static str);

const fn names<M, N, T>(from: Field<M, T>, to: Field<N, T>) -> Names {
    (from.name(), to.name())
}

/// Renames a field of a version to that of another.
fn rename<M, N, T>(object: &mut FieldMut<M>, from: Field<M, T>, to: Field<N, T>) {
    rename_member(object.value(), names(from, to));
}

fn rename_member(object: &mut Value, (from, to): Names) {
    let Some(members) = object.as_object_mut() else { return };
    if let Some(value) = members.remove(from) {
        members.insert(to, value);
    }
}

/// Sets a field, if there is a value for it.
fn set_some<M, T>(object: &mut FieldMut<M>, field: Field<M, T>, value: Option<Value>) {
    if let Some(value) = value {
        object.set(field, value);
    }
}

#[cfg(test)]
mod tests;
