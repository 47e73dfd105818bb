//! Lease: the holder of a lock, and when it was acquired and renewed.

use binnacle_fields::coordination::v1::{self, LeaseSpec as Spec};
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::checks;

use super::strategy_name;
use crate::gated::{GatedFields, drop_disabled};
use crate::{Strategy, StrategyContext};

pub(crate) struct Lease;

/// Gated fields of coordinated leader election. Each is kept on its own if the old object has it.
const GATED: &[GatedFields<v1::Lease>] = &[
    GatedFields { feature: "CoordinatedLeaderElection", fields: &[route![v1::Lease::SPEC, Spec::STRATEGY]] },
    GatedFields { feature: "CoordinatedLeaderElection", fields: &[route![v1::Lease::SPEC, Spec::PREFERRED_HOLDER]] },
];

impl Strategy for Lease {
    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        drop_disabled(ctx.features, &mut FieldMut::root(object), None, GATED);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        drop_disabled(ctx.features, &mut FieldMut::root(object), Some(FieldRef::root(old)), GATED);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let lease = FieldRef::root(object);
        let spec = lease.at(v1::Lease::SPEC);
        let duration = spec.at(Spec::LEASE_DURATION_SECONDS);
        if duration.int().is_some_and(|seconds| seconds <= 0) {
            errors.push(duration.invalid("must be greater than 0"));
        }
        let transitions = spec.at(Spec::LEASE_TRANSITIONS);
        checks::not_negative(&transitions, transitions.int(), &mut errors);
        let (strategy, preferred) = (spec.at(Spec::STRATEGY), spec.at(Spec::PREFERRED_HOLDER));
        if strategy.is_set() {
            strategy_name(strategy, &mut errors);
        }
        if !preferred.is_empty() && strategy.is_empty() {
            errors.push(preferred.forbidden("may only be specified if `strategy` is defined"));
        }
        errors
    }
}
