//! `scheduling.k8s.io`: priorities of pods, and groups of pods that are scheduled together.

mod group_validation;
mod pod_group;
mod priority_class;
mod workload;

use binnacle_fields::route;
use binnacle_fields::scheduling::v1alpha2::PodGroupSpec;

use crate::Entry;
use crate::gated::GatedFields;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("PodGroup", &pod_group::PodGroup),
    ("PriorityClass", &priority_class::PriorityClass),
    ("Workload", &workload::Workload),
];

/// The gated fields of pod groups. Each is kept on its own if the old object has it.
const GATED: &[GatedFields<PodGroupSpec>] = &[
    GatedFields { feature: "TopologyAwareWorkloadScheduling", fields: &[route![PodGroupSpec::SCHEDULING_CONSTRAINTS]] },
    GatedFields { feature: "DRAWorkloadResourceClaims", fields: &[route![PodGroupSpec::RESOURCE_CLAIMS]] },
    GatedFields { feature: "WorkloadAwarePreemption", fields: &[route![PodGroupSpec::DISRUPTION_MODE]] },
    GatedFields { feature: "WorkloadAwarePreemption", fields: &[route![PodGroupSpec::PRIORITY_CLASS_NAME]] },
    GatedFields { feature: "WorkloadAwarePreemption", fields: &[route![PodGroupSpec::PRIORITY]] },
];
