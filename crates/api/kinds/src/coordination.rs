//! `coordination.k8s.io`: leases and candidates for leader election.

mod lease;
mod lease_candidate;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_validation::names;

use crate::all::Entry;
use crate::checks::invalid_each;

pub(crate) const STRATEGIES: &[Entry] =
    &[("Lease", &lease::Lease), ("LeaseCandidate", &lease_candidate::LeaseCandidate)];

/// The only election strategy that Kubernetes defines.
const STRATEGY: &str = "OldestEmulationVersion";

/// Validates the name of an election strategy: a known one, or one with a domain.
fn strategy_name(path: &FieldPath, strategy: &str, errors: &mut FieldErrors) {
    let path = path.child("strategy");
    if strategy.contains('/') {
        invalid_each(&path, strategy, &names::label_key(strategy), errors);
    } else if strategy != STRATEGY {
        errors.push(FieldError::not_supported(&path, strategy, &[STRATEGY]));
    }
}
