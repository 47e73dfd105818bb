//! `coordination.k8s.io`: leases and candidates for leader election.

mod lease;
mod lease_candidate;

use binnacle_fields::FieldRef;
use binnacle_fields::types::Str;
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_validation::{checks, names};

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] =
    &[("Lease", &lease::Lease), ("LeaseCandidate", &lease_candidate::LeaseCandidate)];

/// The only election strategy that Kubernetes defines.
const STRATEGY: &str = "OldestEmulationVersion";

/// Validates the name of an election strategy: a known one, or one with a domain.
fn strategy_name(strategy: FieldRef<Str>, errors: &mut FieldErrors) {
    let name = strategy.str();
    if name == STRATEGY {
        return;
    }
    // kube-apiserver reports the name of the field twice.
    let path = strategy.path().child("strategy");
    if name.contains('/') {
        checks::invalid_for(&path, name, names::label_key(name), errors);
    } else {
        errors.push(FieldError::not_supported(&path, checks::of_named_type(name), &[STRATEGY]));
    }
}
