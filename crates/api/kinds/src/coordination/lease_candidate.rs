//! LeaseCandidate: a candidate for the holder of a lease.

use binnacle_fields::FieldRef;
use binnacle_fields::coordination::v1beta1::{LeaseCandidate as Candidate, LeaseCandidateSpec as Spec};
use binnacle_fields::types::Str;
use binnacle_meta::{FieldErrors, SemanticVersion};
use binnacle_schema::Value;
use binnacle_validation::names;

use super::{STRATEGY, strategy_name};
use crate::Features;
use crate::checks::immutable;
use crate::{Strategy, StrategyContext};

pub(crate) struct LeaseCandidate;

impl Strategy for LeaseCandidate {
    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let candidate = FieldRef::root(object);
        let spec = candidate.at(Candidate::SPEC);
        let lease = spec.at(Spec::LEASE_NAME);
        if lease.is_empty() {
            errors.push(lease.required(""));
        }
        let (emulation_field, binary_field) = (spec.at(Spec::EMULATION_VERSION), spec.at(Spec::BINARY_VERSION));
        let emulation = version(emulation_field, &mut errors);
        let binary = version(binary_field, &mut errors);
        if binary_field.is_empty() {
            errors.push(binary_field.required(""));
        }
        if !binary_field.is_empty() && !emulation_field.is_empty() && binary < emulation {
            errors.push(binary_field.invalid("must be greater than or equal to `emulationVersion`"));
        }
        let strategy = spec.at(Spec::STRATEGY);
        if strategy.is_empty() {
            errors.push(strategy.required(""));
            return errors;
        }
        if strategy.str() == STRATEGY && emulation == SemanticVersion::default() {
            let detail = "must be specified when `strategy` is 'OldestEmulationVersion'";
            errors.push(emulation_field.required(detail));
        }
        strategy_name(strategy, &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        let (spec, old_spec) = (new.at(Candidate::SPEC), old.at(Candidate::SPEC));
        immutable(spec.at(Spec::LEASE_NAME), old_spec.at(Spec::LEASE_NAME), &mut errors);
        errors
    }

    fn validate_name(&self, _: &Features, name: &str, _: bool) -> Vec<String> {
        names::config_map_key(name)
    }
}

/// Returns a version; an invalid one counts as 0.0.0.
fn version(field: FieldRef<Str>, errors: &mut FieldErrors) -> SemanticVersion {
    let version = SemanticVersion::parse(field.str()).ok();
    if version.is_none() && !field.is_empty() {
        errors.push(field.invalid("must be a valid semantic version"));
    }
    version.unwrap_or_default()
}
