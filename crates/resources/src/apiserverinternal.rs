//! `internal.apiserver.k8s.io`: which servers store which versions.

use crate::description::{GroupDescription, SubresourceDescription, VersionDescription, cluster};

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 16000,
    versions: &[VersionDescription {
        version: "v1alpha1",
        priority: 9,
        served_by_default: false,
        resources: &[cluster!(NAME, "v1alpha1", "storageversions", "storageversion", "StorageVersion")
            .only_conditional_update()
            .resets(&["status"])
            .subresources(&[SubresourceDescription::status(&["metadata", "spec"])])],
    }],
};

const NAME: &str = "internal.apiserver.k8s.io";
