//! `apiregistration.k8s.io`: the servers of group versions.

use binnacle_scheme::fields::{FieldLabels, METADATA};
use binnacle_scheme::{GroupDescription, SubresourceDescription, VersionDescription, cluster, shared};

/// Always first in discovery. This group has no APIService, since it defines APIServices.
pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 20000,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 0,
            served_by_default: true,
            resources: shared![
                cluster!(NAME, "v1", "apiservices", "apiservice", "APIService")
                    .categories(&["api-extensions"])
                    .key_prefix("apiregistration.k8s.io/apiservices")
                    .selectable(METADATA, FieldLabels::METADATA)
                    .only_conditional_update()
                    .resets(&["status"])
                    .subresources(&[SubresourceDescription::status(&["metadata", "spec"]).without_table()])
                    .since(10)
            ],
        }],
    }
}

const NAME: &str = "apiregistration.k8s.io";
