//! `storagemigration.k8s.io`: orders to rewrite stored objects.

use crate::description::{GroupDescription, SubresourceDescription, VersionDescription, cluster};

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 15800,
    versions: &[VersionDescription {
        version: "v1beta1",
        priority: 9,
        served_by_default: false,
        resources: &[cluster!(
            NAME,
            "v1beta1",
            "storageversionmigrations",
            "storageversionmigration",
            "StorageVersionMigration"
        )
        .gated_by("StorageVersionMigrator")
        .only_conditional_update()
        .resets(&["status"])
        .subresources(&[SubresourceDescription::status(&["metadata", "spec"])])
        .since(35)
        .deprecated(38)
        .removed(41)],
    }],
};

const NAME: &str = "storagemigration.k8s.io";
