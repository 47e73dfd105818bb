//! `apiextensions.k8s.io`: definitions of custom resources.

use binnacle_scheme::fields::{FieldLabels, METADATA};
use binnacle_scheme::{Deletion, GroupDescription, SubresourceDescription, VersionDescription, cluster, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 16700,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: shared![
                cluster!(
                    NAME,
                    "v1",
                    "customresourcedefinitions",
                    "customresourcedefinition",
                    "CustomResourceDefinition"
                )
                .short(&["crd", "crds"])
                .categories(&["api-extensions"])
                .announced_as("v1beta1")
                .key_prefix("apiextensions.k8s.io/customresourcedefinitions")
                .selectable(METADATA, FieldLabels::METADATA)
                .only_conditional_update()
                .deletion(Deletion::CustomResourceDefinition)
                .resets(&["status"])
                .subresources(&[SubresourceDescription::status(&["spec"]).without_table()])
                .since(16)
            ],
        }],
    }
}

const NAME: &str = "apiextensions.k8s.io";
