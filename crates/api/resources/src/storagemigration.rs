//! `storagemigration.k8s.io`: requests to rewrite stored objects.

use binnacle_scheme::{GroupDescription, SubresourceDescription, VersionDescription, cluster, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 15800,
        versions: vec![VersionDescription {
            version: "v1beta1",
            priority: 9,
            served_by_default: false,
            resources: shared![
                cluster!(
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
                .removed(41)
            ],
        }],
    }
}

const NAME: &str = "storagemigration.k8s.io";
