//! `coordination.k8s.io`: leases, by which one of many takes the lead.

mod lease;
mod lease_candidate;

use crate::all::Entry;

pub(crate) const STRATEGIES: &[Entry] =
    &[("Lease", &lease::Lease), ("LeaseCandidate", &lease_candidate::LeaseCandidate)];
