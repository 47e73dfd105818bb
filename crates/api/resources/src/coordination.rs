//! `coordination.k8s.io`: leases, for leader election.

use binnacle_fields::coordination::v1beta1::{LeaseCandidate, LeaseCandidateSpec};
use binnacle_scheme::fields::{FieldLabels, NAME as METADATA_NAME, NAMESPACE, SelectableField, text};
use binnacle_scheme::{GroupDescription, ResourceDescription, VersionDescription, namespaced, shared};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 16500,
        versions: vec![
            VersionDescription {
                version: "v1",
                priority: 15,
                served_by_default: true,
                resources: shared![
                    namespaced!(NAME, "v1", "leases", "lease", "Lease")
                        .create_on_update()
                        .only_conditional_update()
                        .since(14)
                ],
            },
            VersionDescription {
                version: "v1beta1",
                priority: 13,
                served_by_default: false,
                resources: shared![lease_candidates("v1beta1").since(33).deprecated(36).removed(39)],
            },
            VersionDescription {
                version: "v1alpha2",
                priority: 12,
                served_by_default: false,
                resources: shared![lease_candidates("v1alpha2").since(32).deprecated(35).removed(38)],
            },
        ],
    }
}

const NAME: &str = "coordination.k8s.io";

fn lease_candidates(version: &'static str) -> ResourceDescription {
    namespaced!(NAME, version, "leasecandidates", "leasecandidate", "LeaseCandidate")
        .stored_in("v1beta1")
        .selectable(CANDIDATE_FIELDS, FieldLabels::METADATA)
        .create_on_update()
        .only_conditional_update()
}

/// `spec.leaseName` is computed, but has no field label in the served versions.
const CANDIDATE_FIELDS: &[SelectableField] =
    &[METADATA_NAME, NAMESPACE, text("spec.leaseName", path![LeaseCandidate::SPEC, LeaseCandidateSpec::LEASE_NAME])];
