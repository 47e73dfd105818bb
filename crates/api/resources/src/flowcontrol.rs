//! `flowcontrol.apiserver.k8s.io`: priority and fairness of requests.

use binnacle_scheme::{GroupDescription, SubresourceDescription, VersionDescription, cluster, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 16100,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 21,
            served_by_default: true,
            resources: shared![
                cluster!(NAME, "v1", "flowschemas", "flowschema", "FlowSchema")
                    .resets(&["status"])
                    .subresources(status())
                    .since(29),
                cluster!(
                    NAME,
                    "v1",
                    "prioritylevelconfigurations",
                    "prioritylevelconfiguration",
                    "PriorityLevelConfiguration"
                )
                .resets(&["status"])
                .subresources(status())
                .since(29),
            ],
        }],
    }
}

const NAME: &str = "flowcontrol.apiserver.k8s.io";

fn status() -> Vec<SubresourceDescription> {
    vec![SubresourceDescription::status(&["metadata", "spec"])]
}
