//! The storage.k8s.io group. CSIStorageCapacity has no columns of its own.

use binnacle_schema::Value;

use crate::Now;
use crate::columns::{Cells, Columns, Kind, boolean, cells, definitions, doc, integer, string, text};
use crate::format::{NONE, UNSET, bool_or, join, non_empty, pointer_or, strings};
use crate::metadata::{AGE, NAME, annotation, created, name};

pub(crate) const KINDS: &[Kind] = &[
    ("CSIDriver", &CSI_DRIVER),
    ("CSINode", &CSI_NODE),
    ("StorageClass", &STORAGE_CLASS),
    ("VolumeAttachment", &VOLUME_ATTACHMENT),
    ("VolumeAttributesClass", &VOLUME_ATTRIBUTES_CLASS),
];

definitions!("io.k8s.api.storage.v1":
    ATTACHMENT_SOURCE = "VolumeAttachmentSource",
    ATTACHMENT_SPEC = "VolumeAttachmentSpec",
    ATTACHMENT_STATUS = "VolumeAttachmentStatus",
    ATTRIBUTES_CLASS = "VolumeAttributesClass",
    DRIVER_SPEC = "CSIDriverSpec",
    CLASS = "StorageClass",
);

const CSI_DRIVER: Columns = Columns::new(
    &[
        NAME,
        boolean("AttachRequired", doc(DRIVER_SPEC, "attachRequired")),
        boolean("PodInfoOnMount", doc(DRIVER_SPEC, "podInfoOnMount")),
        boolean("StorageCapacity", doc(DRIVER_SPEC, "storageCapacity")),
        string("TokenRequests", doc(DRIVER_SPEC, "tokenRequests")),
        boolean("RequiresRepublish", doc(DRIVER_SPEC, "requiresRepublish")),
        string("Modes", doc(DRIVER_SPEC, "volumeLifecycleModes")),
        AGE,
    ],
    csi_driver,
);

const CSI_NODE: Columns = Columns::new(
    &[NAME, integer("Drivers", text("Drivers indicates the number of CSI drivers registered on the node")), AGE],
    |object, now| cells![name(object), object.list_at(&["spec", "drivers"]).len() as i64, created(object, now)],
);

const STORAGE_CLASS: Columns = Columns::new(
    &[
        NAME,
        string("Provisioner", doc(CLASS, "provisioner")),
        string("ReclaimPolicy", doc(CLASS, "reclaimPolicy")),
        string("VolumeBindingMode", doc(CLASS, "volumeBindingMode")),
        string("AllowVolumeExpansion", doc(CLASS, "allowVolumeExpansion")),
        AGE,
    ],
    storage_class,
);

const VOLUME_ATTACHMENT: Columns = Columns::new(
    &[
        NAME,
        string("Attacher", doc(ATTACHMENT_SPEC, "attacher")).format("name"),
        string("PV", doc(ATTACHMENT_SOURCE, "persistentVolumeName")),
        string("Node", doc(ATTACHMENT_SPEC, "nodeName")),
        boolean("Attached", doc(ATTACHMENT_STATUS, "attached")),
        AGE,
    ],
    |object, now| {
        cells![
            name(object),
            object.str_at(&["spec", "attacher"]),
            object.str_at(&["spec", "source", "persistentVolumeName"]),
            object.str_at(&["spec", "nodeName"]),
            object.bool_at(&["status", "attached"]),
            created(object, now),
        ]
    },
);

const VOLUME_ATTRIBUTES_CLASS: Columns =
    Columns::new(&[NAME, string("DriverName", doc(ATTRIBUTES_CLASS, "driverName")), AGE], |object, now| {
        cells![name(object), object.str_at(&["driverName"]), created(object, now)]
    });

fn csi_driver(object: &Value, now: Now) -> Cells {
    let requests = object.list_at(&["spec", "tokenRequests"]);
    let audiences = join(requests.iter().map(|request| request.str_at(&["audience"])), ",");
    let modes = join(strings(object, &["spec", "volumeLifecycleModes"]), ",");
    cells![
        name(object),
        bool_or(object, &["spec", "attachRequired"], true),
        object.bool_at(&["spec", "podInfoOnMount"]),
        object.bool_at(&["spec", "storageCapacity"]),
        // An empty list is not stored, so it counts as absent.
        if requests.is_empty() { UNSET } else { &audiences },
        object.bool_at(&["spec", "requiresRepublish"]),
        non_empty(&modes, NONE),
        created(object, now),
    ]
}

fn storage_class(object: &Value, now: Now) -> Cells {
    const DEFAULT: [&str; 2] =
        ["storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class"];
    let mark = if DEFAULT.iter().any(|key| annotation(object, key) == Some("true")) { " (default)" } else { "" };
    cells![
        format!("{}{mark}", name(object)),
        object.str_at(&["provisioner"]),
        pointer_or(object, &["reclaimPolicy"], "Delete"),
        pointer_or(object, &["volumeBindingMode"], "Immediate"),
        object.bool_at(&["allowVolumeExpansion"]),
        created(object, now),
    ]
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use crate::testing::check_cells;

    const GROUP: &str = "storage.k8s.io";

    #[test]
    fn drivers() {
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
    fn classes() {
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
    fn attachments() {
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
