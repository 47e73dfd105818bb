//! `storage.k8s.io`: storage classes, volume drivers and attachments.

use binnacle_scheme::{
    GroupDescription, ResourceDescription, SubresourceDescription, VersionDescription, cluster, namespaced, shared,
};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 16800,
        versions: vec![
            VersionDescription {
                version: "v1",
                priority: 15,
                served_by_default: true,
                resources: shared![
                    cluster!(NAME, "v1", "csidrivers", "csidriver", "CSIDriver")
                        .returns_deleted_object()
                        .only_conditional_update()
                        .since(18),
                    cluster!(NAME, "v1", "csinodes", "csinode", "CSINode")
                        .returns_deleted_object()
                        .only_conditional_update()
                        .since(17),
                    namespaced!(NAME, "v1", "csistoragecapacities", "csistoragecapacity", "CSIStorageCapacity")
                        .only_conditional_update()
                        .since(24),
                    cluster!(NAME, "v1", "storageclasses", "storageclass", "StorageClass")
                        .short(&["sc"])
                        .returns_deleted_object()
                        .since(6),
                    cluster!(NAME, "v1", "volumeattachments", "volumeattachment", "VolumeAttachment")
                        .returns_deleted_object()
                        .only_conditional_update()
                        .resets(&["status"])
                        .subresources(&[SubresourceDescription::status(&["metadata", "spec"])])
                        .since(13),
                    volume_attributes_classes("v1").since(34),
                ],
            },
            VersionDescription {
                version: "v1beta1",
                priority: 9,
                served_by_default: false,
                resources: shared![
                    volume_attributes_classes("v1beta1").since(31).deprecated(34).removed(37).replaced_by([
                        NAME,
                        "v1",
                        "VolumeAttributesClass",
                    ])
                ],
            },
        ],
    }
}

const NAME: &str = "storage.k8s.io";

fn volume_attributes_classes(version: &'static str) -> ResourceDescription {
    cluster!(NAME, version, "volumeattributesclasses", "volumeattributesclass", "VolumeAttributesClass")
        .short(&["vac"])
        .stored_in("v1")
        .returns_deleted_object()
}
