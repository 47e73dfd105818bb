//! `storage.k8s.io`: classes of volumes, their drivers and where they are attached.

mod csi_driver;
mod csi_node;
mod csi_storage_capacity;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("CSIDriver", &csi_driver::CsiDriver),
    ("CSINode", &csi_node::CsiNode),
    ("CSIStorageCapacity", &csi_storage_capacity::CsiStorageCapacity),
    ("StorageClass", &storage_class::StorageClass),
    ("VolumeAttachment", &volume_attachment::VolumeAttachment),
    ("VolumeAttributesClass", &volume_attributes_class::VolumeAttributesClass),
];
