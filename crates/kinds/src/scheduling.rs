//! `scheduling.k8s.io`: the order in which pods are placed, and groups of pods that are placed together.

mod pod_group;
mod priority_class;
mod workload;

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("PodGroup", &pod_group::PodGroup),
    ("PriorityClass", &priority_class::PriorityClass),
    ("Workload", &workload::Workload),
];

/// Fields of pod groups and their templates whose features (`TopologyAwareWorkloadScheduling`,
/// `DRAWorkloadResourceClaims`, `WorkloadAwarePreemption`) are off.
const DISABLED: [&str; 5] =
    ["schedulingConstraints", "resourceClaims", "disruptionMode", "priorityClassName", "priority"];
