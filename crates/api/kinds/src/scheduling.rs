//! `scheduling.k8s.io`: priorities of pods, and groups of pods that are scheduled together.

mod group_validation;
mod pod_group;
mod priority_class;
mod workload;

use crate::all::Entry;
use crate::gated_names::Gated;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("PodGroup", &pod_group::PodGroup),
    ("PriorityClass", &priority_class::PriorityClass),
    ("Workload", &workload::Workload),
];

/// The gated fields of pod groups and their templates. Each is kept on its own if the old object has it.
const GATED: &[Gated] = &[
    Gated { feature: "TopologyAwareWorkloadScheduling", fields: &[&["schedulingConstraints"]] },
    Gated { feature: "DRAWorkloadResourceClaims", fields: &[&["resourceClaims"]] },
    Gated { feature: "WorkloadAwarePreemption", fields: &[&["disruptionMode"]] },
    Gated { feature: "WorkloadAwarePreemption", fields: &[&["priorityClassName"]] },
    Gated { feature: "WorkloadAwarePreemption", fields: &[&["priority"]] },
];
