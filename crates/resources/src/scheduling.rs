//! `scheduling.k8s.io`: the order in which pods are placed, and groups of pods that are placed together.

use crate::description::{GroupDescription, SubresourceDescription, VersionDescription, cluster, namespaced};

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 16600,
    versions: &[
        VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: &[cluster!(NAME, "v1", "priorityclasses", "priorityclass", "PriorityClass")
                .short(&["pc"])
                .since(14)],
        },
        VersionDescription {
            version: "v1alpha2",
            priority: 2,
            served_by_default: false,
            resources: &[
                namespaced!(NAME, "v1alpha2", "podgroups", "podgroup", "PodGroup")
                    .gated_by("GenericWorkload")
                    .resets(&["status"])
                    .subresources(&[SubresourceDescription::status(&["metadata", "spec"])]),
                namespaced!(NAME, "v1alpha2", "workloads", "workload", "Workload").gated_by("GenericWorkload"),
            ],
        },
    ],
};

const NAME: &str = "scheduling.k8s.io";
