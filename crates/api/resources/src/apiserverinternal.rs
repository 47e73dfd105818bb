//! `internal.apiserver.k8s.io`: the storage versions of servers.

use binnacle_scheme::{GroupDescription, SubresourceDescription, VersionDescription, cluster, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 16000,
        versions: vec![VersionDescription {
            version: "v1alpha1",
            priority: 9,
            served_by_default: false,
            resources: shared![
                cluster!(NAME, "v1alpha1", "storageversions", "storageversion", "StorageVersion")
                    .only_conditional_update()
                    .resets(&["status"])
                    .subresources(&[SubresourceDescription::status(&["metadata", "spec"])])
            ],
        }],
    }
}

const NAME: &str = "internal.apiserver.k8s.io";
