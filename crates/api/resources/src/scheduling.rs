//! `scheduling.k8s.io`: priorities of pods, and groups of pods that are scheduled together.

use binnacle_scheme::{GroupDescription, SubresourceDescription, VersionDescription, cluster, namespaced, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 16600,
        versions: vec![
            VersionDescription {
                version: "v1",
                priority: 15,
                served_by_default: true,
                resources: shared![
                    cluster!(NAME, "v1", "priorityclasses", "priorityclass", "PriorityClass").short(&["pc"]).since(14)
                ],
            },
            VersionDescription {
                version: "v1alpha2",
                priority: 2,
                served_by_default: false,
                resources: shared![
                    namespaced!(NAME, "v1alpha2", "podgroups", "podgroup", "PodGroup")
                        .gated_by("GenericWorkload")
                        .resets(&["status"])
                        .subresources(&[SubresourceDescription::status(&["metadata", "spec"]).without_table()]),
                    namespaced!(NAME, "v1alpha2", "workloads", "workload", "Workload").gated_by("GenericWorkload"),
                ],
            },
        ],
    }
}

const NAME: &str = "scheduling.k8s.io";
