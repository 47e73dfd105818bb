//! `flowcontrol.apiserver.k8s.io`: how requests share the server.

use crate::description::{GroupDescription, SubresourceDescription, VersionDescription, cluster};

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 16100,
    versions: &[VersionDescription {
        version: "v1",
        priority: 21,
        served_by_default: true,
        resources: &[
            cluster!(NAME, "v1", "flowschemas", "flowschema", "FlowSchema")
                .resets(&["status"])
                .subresources(STATUS)
                .since(29),
            cluster!(
                NAME,
                "v1",
                "prioritylevelconfigurations",
                "prioritylevelconfiguration",
                "PriorityLevelConfiguration"
            )
            .resets(&["status"])
            .subresources(STATUS)
            .since(29),
        ],
    }],
};

const NAME: &str = "flowcontrol.apiserver.k8s.io";

const STATUS: &[SubresourceDescription] = &[SubresourceDescription::status(&["metadata", "spec"])];
