//! PersistentVolume and PersistentVolumeClaim.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    ObjectReference, PersistentVolume, PersistentVolumeClaim, PersistentVolumeClaimSpec as ClaimSpec,
    PersistentVolumeClaimStatus as ClaimStatus, PersistentVolumeSpec as VolumeSpec,
    PersistentVolumeStatus as VolumeStatus,
};
use binnacle_fields::types::{Kind, List, Str};

use crate::Now;
use crate::columns::{Cells, Columns, cells, doc, string, text};
use crate::format::{UNSET, join, quantity};
use crate::metadata::{AGE, NAME, annotation, created, deleting, name};

pub(crate) const PERSISTENT_VOLUME: Columns = Columns::new(
    &[
        NAME,
        string("Capacity", doc(VolumeSpec::CAPACITY)),
        string("Access Modes", doc(VolumeSpec::ACCESS_MODES)),
        string("Reclaim Policy", doc(VolumeSpec::PERSISTENT_VOLUME_RECLAIM_POLICY)),
        string("Status", doc(VolumeStatus::PHASE)),
        string("Claim", doc(VolumeSpec::CLAIM_REF)),
        string("StorageClass", text("StorageClass of the pv")),
        string("VolumeAttributesClass", text("VolumeAttributesClass of the pv")),
        string("Reason", doc(VolumeStatus::REASON)),
        AGE,
        string("VolumeMode", doc(VolumeSpec::VOLUME_MODE)).wide(),
    ],
    |object, now| volume(FieldRef::root(object), now),
);

pub(crate) const PERSISTENT_VOLUME_CLAIM: Columns = Columns::new(
    &[
        NAME,
        string("Status", doc(ClaimStatus::PHASE)),
        string("Volume", doc(ClaimSpec::VOLUME_NAME)),
        string("Capacity", doc(ClaimStatus::CAPACITY)),
        string("Access Modes", doc(ClaimStatus::ACCESS_MODES)),
        string("StorageClass", text("StorageClass of the pvc")),
        string("VolumeAttributesClass", text("VolumeAttributesClass of the pvc")),
        AGE,
        string("VolumeMode", doc(ClaimSpec::VOLUME_MODE)).wide(),
    ],
    |object, now| claim(FieldRef::root(object), now),
);

fn volume(volume: FieldRef<PersistentVolume>, now: Now) -> Cells {
    let (spec, status) = (volume.at(PersistentVolume::SPEC), volume.at(PersistentVolume::STATUS));
    let claim = match spec.at(VolumeSpec::CLAIM_REF).set() {
        Some(claim) => {
            format!("{}/{}", claim.at(ObjectReference::NAMESPACE).str(), claim.at(ObjectReference::NAME).str())
        }
        None => String::new(),
    };
    cells![
        name(volume),
        quantity(spec.at(VolumeSpec::CAPACITY).key("storage")),
        access_modes(spec.at(VolumeSpec::ACCESS_MODES)),
        spec.at(VolumeSpec::PERSISTENT_VOLUME_RECLAIM_POLICY).str(),
        phase(volume, status.at(VolumeStatus::PHASE)),
        claim,
        storage_class(volume, spec.at(VolumeSpec::STORAGE_CLASS_NAME)),
        spec.at(VolumeSpec::VOLUME_ATTRIBUTES_CLASS_NAME).get_str().unwrap_or(UNSET),
        status.at(VolumeStatus::REASON).str(),
        created(volume, now),
        spec.at(VolumeSpec::VOLUME_MODE).get_str().unwrap_or(UNSET),
    ]
}

fn claim(claim: FieldRef<PersistentVolumeClaim>, now: Now) -> Cells {
    let (spec, status) = (claim.at(PersistentVolumeClaim::SPEC), claim.at(PersistentVolumeClaim::STATUS));
    let volume = spec.at(ClaimSpec::VOLUME_NAME).str();
    let (capacity, modes) = match volume {
        "" => ("", String::new()),
        _ => {
            let capacity = quantity(status.at(ClaimStatus::CAPACITY).key("storage"));
            (capacity, access_modes(status.at(ClaimStatus::ACCESS_MODES)))
        }
    };
    cells![
        name(claim),
        phase(claim, status.at(ClaimStatus::PHASE)),
        volume,
        capacity,
        modes,
        storage_class(claim, spec.at(ClaimSpec::STORAGE_CLASS_NAME)),
        spec.at(ClaimSpec::VOLUME_ATTRIBUTES_CLASS_NAME).get_str().unwrap_or(UNSET),
        created(claim, now),
        spec.at(ClaimSpec::VOLUME_MODE).get_str().unwrap_or(UNSET),
    ]
}

fn phase<'v, K: Kind>(object: FieldRef<K>, phase: FieldRef<'_, 'v, Str>) -> &'v str {
    if deleting(object) { "Terminating" } else { phase.str() }
}

/// Returns the class; the deprecated annotation takes precedence over the field.
fn storage_class<'v, K: Kind>(object: FieldRef<'_, 'v, K>, class: FieldRef<'_, 'v, Str>) -> &'v str {
    annotation(object, "volume.beta.kubernetes.io/storage-class").unwrap_or_else(|| class.str())
}

/// Formats access modes by their short names, in a fixed order.
fn access_modes(modes: FieldRef<List<Str>>) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    join(SHORT.into_iter().filter(|(mode, _)| modes.contains(mode)).map(|(_, short)| short), ",")
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn prints_volumes() {
        let cases = [
            (value!({}), value!(["", "0", "", "", "", "", "", "<unset>", "", "<unknown>", "<unset>"])),
            (
                value!({
                    "metadata": {"name": "v", "creationTimestamp": "2024-03-10T11:00:00Z"},
                    "spec": {
                        "capacity": {"storage": "10Gi"},
                        "accessModes": ["ReadWriteMany", "ReadWriteOncePod", "ReadWriteOnce", "ReadOnlyMany", "ReadWriteOnce"],
                        "persistentVolumeReclaimPolicy": "Retain",
                        "claimRef": {"namespace": "ns", "name": "c"},
                        "storageClassName": "fast",
                        "volumeAttributesClassName": "gold",
                        "volumeMode": "Block",
                    },
                    "status": {"phase": "Bound", "reason": "r"},
                }),
                value!([
                    "v",
                    "10Gi",
                    "RWO,ROX,RWX,RWOP",
                    "Retain",
                    "Bound",
                    "ns/c",
                    "fast",
                    "gold",
                    "r",
                    "60m",
                    "Block"
                ]),
            ),
            (
                value!({
                    "metadata": {
                        "name": "v",
                        "deletionTimestamp": "2024-03-10T11:00:00Z",
                        "annotations": {"volume.beta.kubernetes.io/storage-class": "old"},
                    },
                    "spec": {"storageClassName": "fast"},
                    "status": {"phase": "Bound"},
                }),
                value!(["v", "0", "", "", "Terminating", "", "old", "<unset>", "", "<unknown>", "<unset>"]),
            ),
        ];
        check_cells("", "PersistentVolume", cases);
    }

    #[test]
    fn prints_volume_claims() {
        let cases = [
            (value!({}), value!(["", "", "", "", "", "", "<unset>", "<unknown>", "<unset>"])),
            (
                value!({
                    "metadata": {"name": "c"},
                    "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
                    "status": {"phase": "Pending", "capacity": {"storage": "1Gi"}},
                }),
                value!(["c", "Pending", "", "", "", "", "<unset>", "<unknown>", "<unset>"]),
            ),
            (
                value!({
                    "metadata": {"name": "c"},
                    "spec": {
                        "volumeName": "v",
                        "storageClassName": "s",
                        "volumeMode": "Filesystem",
                        "volumeAttributesClassName": "",
                    },
                    "status": {"phase": "Bound", "accessModes": ["ReadOnlyMany"], "capacity": {"storage": "2Gi"}},
                }),
                value!(["c", "Bound", "v", "2Gi", "ROX", "s", "", "<unknown>", "Filesystem"]),
            ),
            (
                value!({"metadata": {"name": "c", "deletionTimestamp": "2024-03-10T11:00:00Z"}, "spec": {"volumeName": "v"}}),
                value!(["c", "Terminating", "v", "0", "", "", "<unset>", "<unknown>", "<unset>"]),
            ),
        ];
        check_cells("", "PersistentVolumeClaim", cases);
    }
}
