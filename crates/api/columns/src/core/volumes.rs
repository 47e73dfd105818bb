//! PersistentVolume and PersistentVolumeClaim.

use binnacle_schema::Value;

use crate::Now;
use crate::columns::{Cells, Columns, cells, definitions, doc, string, text};
use crate::format::{UNSET, join, pointer_or, quantity, strings};
use crate::metadata::{AGE, NAME, annotation, created, deleting, name, present};

definitions!("io.k8s.api.core.v1":
    VOLUME_SPEC = "PersistentVolumeSpec",
    VOLUME_STATUS = "PersistentVolumeStatus",
    CLAIM_SPEC = "PersistentVolumeClaimSpec",
    CLAIM_STATUS = "PersistentVolumeClaimStatus",
);

pub(crate) const PERSISTENT_VOLUME: Columns = Columns::new(
    &[
        NAME,
        string("Capacity", doc(VOLUME_SPEC, "capacity")),
        string("Access Modes", doc(VOLUME_SPEC, "accessModes")),
        string("Reclaim Policy", doc(VOLUME_SPEC, "persistentVolumeReclaimPolicy")),
        string("Status", doc(VOLUME_STATUS, "phase")),
        string("Claim", doc(VOLUME_SPEC, "claimRef")),
        string("StorageClass", text("StorageClass of the pv")),
        string("VolumeAttributesClass", text("VolumeAttributesClass of the pv")),
        string("Reason", doc(VOLUME_STATUS, "reason")),
        AGE,
        string("VolumeMode", doc(VOLUME_SPEC, "volumeMode")).wide(),
    ],
    volume,
);

pub(crate) const PERSISTENT_VOLUME_CLAIM: Columns = Columns::new(
    &[
        NAME,
        string("Status", doc(CLAIM_STATUS, "phase")),
        string("Volume", doc(CLAIM_SPEC, "volumeName")),
        string("Capacity", doc(CLAIM_STATUS, "capacity")),
        string("Access Modes", doc(CLAIM_STATUS, "accessModes")),
        string("StorageClass", text("StorageClass of the pvc")),
        string("VolumeAttributesClass", text("VolumeAttributesClass of the pvc")),
        AGE,
        string("VolumeMode", doc(CLAIM_SPEC, "volumeMode")).wide(),
    ],
    claim,
);

fn volume(volume: &Value, now: Now) -> Cells {
    let claim = if present(volume, &["spec", "claimRef"]) {
        let reference = |member| volume.str_at(&["spec", "claimRef", member]);
        format!("{}/{}", reference("namespace"), reference("name"))
    } else {
        String::new()
    };
    cells![
        name(volume),
        quantity(volume, &["spec", "capacity", "storage"]),
        access_modes(volume, &["spec", "accessModes"]),
        volume.str_at(&["spec", "persistentVolumeReclaimPolicy"]),
        phase(volume),
        claim,
        storage_class(volume),
        pointer_or(volume, &["spec", "volumeAttributesClassName"], UNSET),
        volume.str_at(&["status", "reason"]),
        created(volume, now),
        pointer_or(volume, &["spec", "volumeMode"], UNSET),
    ]
}

fn claim(claim: &Value, now: Now) -> Cells {
    let volume = claim.str_at(&["spec", "volumeName"]);
    let (capacity, modes) = match volume {
        "" => ("", String::new()),
        _ => (quantity(claim, &["status", "capacity", "storage"]), access_modes(claim, &["status", "accessModes"])),
    };
    cells![
        name(claim),
        phase(claim),
        volume,
        capacity,
        modes,
        storage_class(claim),
        pointer_or(claim, &["spec", "volumeAttributesClassName"], UNSET),
        created(claim, now),
        pointer_or(claim, &["spec", "volumeMode"], UNSET),
    ]
}

fn phase(object: &Value) -> &str {
    if deleting(object) { "Terminating" } else { object.str_at(&["status", "phase"]) }
}

/// Returns the class; the deprecated annotation takes precedence over the field.
fn storage_class(object: &Value) -> &str {
    annotation(object, "volume.beta.kubernetes.io/storage-class")
        .unwrap_or_else(|| object.str_at(&["spec", "storageClassName"]))
}

/// Formats access modes by their short names, in a fixed order.
fn access_modes(object: &Value, path: &[&str]) -> String {
    const SHORT: [(&str, &str); 4] =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    let has = |mode: &str| strings(object, path).any(|other| other == mode);
    join(SHORT.into_iter().filter(|(mode, _)| has(mode)).map(|(_, short)| short), ",")
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    #[test]
    fn volumes() {
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
    fn claims() {
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
