//! All kinds with rules of their own, by group. Each group lists its kinds in its own module.

use crate::{
    DefaultStrategy, Entry, Strategy, admissionregistration, apiextensions, apiregistration, apiserverinternal, apps,
    autoscaling, batch, certificates, coordination, core, discovery, flowcontrol, networking, node, policy, rbac,
    resource, scheduling, storage, storagemigration,
};

/// Returns the strategy of a kind in the stored version; kinds without rules of their own get the plain one.
pub fn strategy(group: &str, kind: &str) -> &'static dyn Strategy {
    let own = GROUPS.iter().find(|(name, _)| *name == group).map_or(&[][..], |(_, kinds)| kinds);
    own.iter().find(|(name, _)| *name == kind).map_or(&DefaultStrategy, |(_, strategy)| *strategy)
}

/// One line per group; the core group is the empty string.
#[rustfmt::skip]
const GROUPS: &[(&str, &[Entry])] = &[
    ("", core::STRATEGIES),
    ("apps", apps::STRATEGIES),
    ("batch", batch::STRATEGIES),
    ("admissionregistration.k8s.io", admissionregistration::STRATEGIES),
    ("apiextensions.k8s.io", apiextensions::STRATEGIES),
    ("apiregistration.k8s.io", apiregistration::STRATEGIES),
    ("autoscaling", autoscaling::STRATEGIES),
    ("certificates.k8s.io", certificates::STRATEGIES),
    ("coordination.k8s.io", coordination::STRATEGIES),
    ("discovery.k8s.io", discovery::STRATEGIES),
    ("flowcontrol.apiserver.k8s.io", flowcontrol::STRATEGIES),
    ("internal.apiserver.k8s.io", apiserverinternal::STRATEGIES),
    ("networking.k8s.io", networking::STRATEGIES),
    ("node.k8s.io", node::STRATEGIES),
    ("policy", policy::STRATEGIES),
    ("rbac.authorization.k8s.io", rbac::STRATEGIES),
    ("resource.k8s.io", resource::STRATEGIES),
    ("scheduling.k8s.io", scheduling::STRATEGIES),
    ("storage.k8s.io", storage::STRATEGIES),
    ("storagemigration.k8s.io", storagemigration::STRATEGIES),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tables;

    #[test]
    fn every_strategy_has_a_kind_in_field_tables() {
        for (group, kinds) in GROUPS {
            for (kind, _) in *kinds {
                let known = tables::kinds().any(|known| known.group == *group && known.kind == *kind);
                assert!(known, "no kind {kind} in group {group:?}");
            }
        }
    }
}
