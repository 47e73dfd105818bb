//! The storage.k8s.io group. CSIStorageCapacity has no columns of its own.

use binnacle_fields::FieldRef;
use binnacle_fields::storage::v1::{
    CSIDriver, CSIDriverSpec as DriverSpec, CSINode, CSINodeSpec, StorageClass, TokenRequest, VolumeAttachment,
    VolumeAttachmentSource as AttachmentSource, VolumeAttachmentSpec as AttachmentSpec,
    VolumeAttachmentStatus as AttachmentStatus, VolumeAttributesClass,
};

use crate::Now;
use crate::columns::{Cells, Columns, Kind, boolean, cells, doc, integer, string, text};
use crate::format::{NONE, UNSET, join, non_empty, strings};
use crate::metadata::{AGE, NAME, annotation, created, name};

pub(crate) const KINDS: &[Kind] = &[
    ("CSIDriver", &CSI_DRIVER),
    ("CSINode", &CSI_NODE),
    ("StorageClass", &STORAGE_CLASS),
    ("VolumeAttachment", &VOLUME_ATTACHMENT),
    ("VolumeAttributesClass", &VOLUME_ATTRIBUTES_CLASS),
];

const CSI_DRIVER: Columns = Columns::new(
    &[
        NAME,
        boolean("AttachRequired", doc(DriverSpec::ATTACH_REQUIRED)),
        boolean("PodInfoOnMount", doc(DriverSpec::POD_INFO_ON_MOUNT)),
        boolean("StorageCapacity", doc(DriverSpec::STORAGE_CAPACITY)),
        string("TokenRequests", doc(DriverSpec::TOKEN_REQUESTS)),
        boolean("RequiresRepublish", doc(DriverSpec::REQUIRES_REPUBLISH)),
        string("Modes", doc(DriverSpec::VOLUME_LIFECYCLE_MODES)),
        AGE,
    ],
    |object, now| csi_driver(FieldRef::root(object), now),
);

const CSI_NODE: Columns = Columns::new(
    &[NAME, integer("Drivers", text("Drivers indicates the number of CSI drivers registered on the node")), AGE],
    |object, now| {
        let node = FieldRef::<CSINode>::root(object);
        cells![name(node), node.at(CSINode::SPEC).at(CSINodeSpec::DRIVERS).len() as i64, created(node, now)]
    },
);

const STORAGE_CLASS: Columns = Columns::new(
    &[
        NAME,
        string("Provisioner", doc(StorageClass::PROVISIONER)),
        string("ReclaimPolicy", doc(StorageClass::RECLAIM_POLICY)),
        string("VolumeBindingMode", doc(StorageClass::VOLUME_BINDING_MODE)),
        string("AllowVolumeExpansion", doc(StorageClass::ALLOW_VOLUME_EXPANSION)),
        AGE,
    ],
    |object, now| storage_class(FieldRef::root(object), now),
);

const VOLUME_ATTACHMENT: Columns = Columns::new(
    &[
        NAME,
        string("Attacher", doc(AttachmentSpec::ATTACHER)).format("name"),
        string("PV", doc(AttachmentSource::PERSISTENT_VOLUME_NAME)),
        string("Node", doc(AttachmentSpec::NODE_NAME)),
        boolean("Attached", doc(AttachmentStatus::ATTACHED)),
        AGE,
    ],
    |object, now| {
        let attachment = FieldRef::<VolumeAttachment>::root(object);
        let spec = attachment.at(VolumeAttachment::SPEC);
        cells![
            name(attachment),
            spec.at(AttachmentSpec::ATTACHER).str(),
            spec.at(AttachmentSpec::SOURCE).at(AttachmentSource::PERSISTENT_VOLUME_NAME).str(),
            spec.at(AttachmentSpec::NODE_NAME).str(),
            attachment.at(VolumeAttachment::STATUS).at(AttachmentStatus::ATTACHED).bool(),
            created(attachment, now),
        ]
    },
);

const VOLUME_ATTRIBUTES_CLASS: Columns =
    Columns::new(&[NAME, string("DriverName", doc(VolumeAttributesClass::DRIVER_NAME)), AGE], |object, now| {
        let class = FieldRef::<VolumeAttributesClass>::root(object);
        cells![name(class), class.at(VolumeAttributesClass::DRIVER_NAME).str(), created(class, now)]
    });

fn csi_driver(driver: FieldRef<CSIDriver>, now: Now) -> Cells {
    let spec = driver.at(CSIDriver::SPEC);
    let requests = spec.at(DriverSpec::TOKEN_REQUESTS);
    let audiences = join(requests.items().map(|request| request.at(TokenRequest::AUDIENCE).str()), ",");
    let modes = join(strings(spec.at(DriverSpec::VOLUME_LIFECYCLE_MODES)), ",");
    cells![
        name(driver),
        spec.at(DriverSpec::ATTACH_REQUIRED).get_bool().unwrap_or(true),
        spec.at(DriverSpec::POD_INFO_ON_MOUNT).bool(),
        spec.at(DriverSpec::STORAGE_CAPACITY).bool(),
        // An empty list is not stored, so it counts as absent.
        if requests.is_empty() { UNSET } else { &audiences },
        spec.at(DriverSpec::REQUIRES_REPUBLISH).bool(),
        non_empty(&modes, NONE),
        created(driver, now),
    ]
}

fn storage_class(class: FieldRef<StorageClass>, now: Now) -> Cells {
    const DEFAULT: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let mark = if DEFAULT.iter().any(|key| annotation(class, key) == Some("true")) { " (default)" } else { "" };
    cells![
        format!("{}{mark}", name(class)),
        class.at(StorageClass::PROVISIONER).str(),
        class.at(StorageClass::RECLAIM_POLICY).get_str().unwrap_or("Delete"),
        class.at(StorageClass::VOLUME_BINDING_MODE).get_str().unwrap_or("Immediate"),
        class.at(StorageClass::ALLOW_VOLUME_EXPANSION).bool(),
        created(class, now),
    ]
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    const GROUP: &str = "storage.k8s.io";

    #[test]
    fn prints_csi_drivers_and_nodes() {
        let cases = [
            (value!({}), value!(["", true, false, false, "<unset>", false, "<none>", "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "d"},
                    "spec": {
                        "attachRequired": false,
                        "podInfoOnMount": true,
                        "storageCapacity": true,
                        "tokenRequests": [{"audience": "a"}, {"audience": ""}, {"audience": "b"}],
                        "requiresRepublish": true,
                        "volumeLifecycleModes": ["Persistent", "Ephemeral"],
                    },
                }),
                value!(["d", false, true, true, "a,,b", true, "Persistent,Ephemeral", "<unknown>"]),
            ),
            (
                value!({"spec": {"tokenRequests": [{"audience": ""}]}}),
                value!(["", true, false, false, "", false, "<none>", "<unknown>"]),
            ),
        ];
        check_cells(GROUP, "CSIDriver", cases);
        check_cells(
            GROUP,
            "CSINode",
            [
                (value!({}), value!(["", 0i64, "<unknown>"])),
                (value!({"metadata": {"name": "n"}, "spec": {"drivers": [{}, {}]}}), value!(["n", 2i64, "<unknown>"])),
            ],
        );
    }

    #[test]
    fn prints_storage_classes() {
        let cases = [
            (value!({}), value!(["", "", "Delete", "Immediate", false, "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "a", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
                    "provisioner": "p.test",
                    "reclaimPolicy": "Retain",
                    "volumeBindingMode": "WaitForFirstConsumer",
                    "allowVolumeExpansion": true,
                }),
                value!(["a (default)", "p.test", "Retain", "WaitForFirstConsumer", true, "<unknown>"]),
            ),
            (
                value!({"metadata": {"name": "b", "annotations": {
                    "storageclass.kubernetes.io/is-default-class": "false",
                    "storageclass.beta.kubernetes.io/is-default-class": "true",
                }}}),
                value!(["b (default)", "", "Delete", "Immediate", false, "<unknown>"]),
            ),
        ];
        check_cells(GROUP, "StorageClass", cases);
        check_cells(
            GROUP,
            "VolumeAttributesClass",
            [
                (value!({}), value!(["", "", "<unknown>"])),
                (value!({"metadata": {"name": "a"}, "driverName": "d.test"}), value!(["a", "d.test", "<unknown>"])),
            ],
        );
    }

    #[test]
    fn prints_volume_attachments() {
        let cases = [
            (value!({}), value!(["", "", "", "", false, "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "spec": {"attacher": "d.test", "nodeName": "n", "source": {"persistentVolumeName": "v"}},
                    "status": {"attached": true},
                }),
                value!(["a", "d.test", "v", "n", true, "<unknown>"]),
            ),
        ];
        check_cells(GROUP, "VolumeAttachment", cases);
    }
}
