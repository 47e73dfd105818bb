//! The operations that kube-apiserver calls each plugin for, which its metrics depend on.

use binnacle_registry::admission::Operation;
use binnacle_registry::admission::Operation::{Connect, Create, Delete, Update};

use crate::plugin::Stage;
use crate::plugin::Stage::{Mutate, Validate};

/// The stages and operations for which a plugin is called.
#[derive(Clone, Copy)]
pub(crate) struct RegisteredOperations {
    stages: &'static [Stage],
    operations: &'static [Operation],
}

const ALL: &[Operation] = &[Create, Update, Delete, Connect];
const CHANGES: &[Operation] = &[Create, Update, Delete];
const WRITES: &[Operation] = &[Create, Update];
const BOTH: &[Stage] = &[Mutate, Validate];

/// The stages and operations of kube-apiserver's plugins.
const TABLE: &[(&str, &[Stage], &[Operation])] = &[
    ("AlwaysAdmit", BOTH, ALL),
    ("NamespaceAutoProvision", &[Mutate], &[Create]),
    ("NamespaceLifecycle", &[Mutate], CHANGES),
    ("NamespaceExists", &[Validate], CHANGES),
    ("LimitPodHardAntiAffinityTopology", &[Validate], WRITES),
    ("LimitRanger", BOTH, WRITES),
    ("ServiceAccount", BOTH, WRITES),
    ("NodeRestriction", &[Mutate], CHANGES),
    ("TaintNodesByCondition", &[Mutate], &[Create]),
    ("AlwaysPullImages", BOTH, WRITES),
    ("ImagePolicyWebhook", &[Validate], WRITES),
    ("PodSecurity", &[Validate], WRITES),
    ("PodNodeSelector", BOTH, &[Create]),
    ("Priority", BOTH, CHANGES),
    ("DefaultTolerationSeconds", &[Mutate], WRITES),
    ("PodTolerationRestriction", BOTH, WRITES),
    ("EventRateLimit", &[Validate], WRITES),
    ("ExtendedResourceToleration", &[Mutate], WRITES),
    ("DefaultStorageClass", &[Mutate], &[Create]),
    ("StorageObjectInUseProtection", &[Mutate], &[Create]),
    ("PodGroupProtection", &[Mutate], &[Create]),
    ("OwnerReferencesPermissionEnforcement", &[Validate], WRITES),
    ("PersistentVolumeClaimResize", &[Validate], &[Update]),
    ("RuntimeClass", BOTH, &[Create]),
    ("CertificateApproval", &[Validate], &[Update]),
    ("CertificateSigning", &[Validate], &[Update]),
    ("ClusterTrustBundleAttest", &[Validate], WRITES),
    ("CertificateSubjectRestriction", &[Validate], &[Create]),
    ("DefaultIngressClass", &[Mutate], &[Create]),
    ("DenyServiceExternalIPs", &[Validate], WRITES),
    ("PodTopologyLabels", &[Mutate], &[Create]),
    ("PodGroupWorkloadExists", &[Validate], &[Create]),
    ("NodeDeclaredFeatureValidator", &[Validate], &[Update]),
    ("JobValidation", &[Validate], &[Update]),
    ("PodResizeValidator", &[Validate], &[Update]),
    ("MutatingAdmissionPolicy", &[Mutate], &[Create, Update, Connect]),
    ("MutatingAdmissionWebhook", &[Mutate], ALL),
    ("ValidatingAdmissionPolicy", &[Validate], ALL),
    ("ValidatingAdmissionWebhook", &[Validate], ALL),
    ("ResourceQuota", &[Validate], WRITES),
    ("AlwaysDeny", BOTH, ALL),
];

impl RegisteredOperations {
    /// Returns the stages and operations of a plugin; none if it is not in the table.
    pub(crate) fn of(name: &str) -> Self {
        let found = TABLE.iter().find(|(known, ..)| *known == name);
        found.map_or(Self { stages: &[], operations: &[] }, |(_, stages, operations)| Self { stages, operations })
    }

    pub(crate) fn includes(self, stage: Stage, operation: Operation) -> bool {
        self.stages.contains(&stage) && self.operations.contains(&operation)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chain::ORDER;

    #[test]
    fn covers_all_plugins_in_order() {
        assert_eq!(TABLE.iter().map(|(name, ..)| *name).collect::<Vec<_>>(), ORDER);
    }
}
