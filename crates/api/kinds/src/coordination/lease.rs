//! Lease: the holder of a lock, and when it was acquired and renewed.

use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;

use super::strategy_name;
use crate::checks::{member, present, spec_path};
use crate::gated_names::{Gated, drop_disabled};
use crate::{Strategy, StrategyContext};

pub(crate) struct Lease;

/// Gated fields of coordinated leader election. Each is kept on its own if the old object has it.
const GATED: &[Gated] = &[
    Gated { feature: "CoordinatedLeaderElection", fields: &[&["spec", "strategy"]] },
    Gated { feature: "CoordinatedLeaderElection", fields: &[&["spec", "preferredHolder"]] },
];

impl Strategy for Lease {
    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        drop_disabled(situation.features, object, None, GATED);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        drop_disabled(situation.features, object, Some(old), GATED);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (spec, path) = (member(object, "spec"), spec_path());
        if let Some(duration) = spec.int_at(&["leaseDurationSeconds"]).filter(|seconds| *seconds <= 0) {
            let at = path.child("leaseDurationSeconds");
            errors.push(FieldError::invalid(&at, duration, "must be greater than 0"));
        }
        if let Some(transitions) = spec.int_at(&["leaseTransitions"]).filter(|n| *n < 0) {
            let at = path.child("leaseTransitions");
            errors.push(FieldError::invalid(&at, transitions, "must be greater than or equal to 0"));
        }
        if let Some(strategy) = present(spec, "strategy").and_then(Value::as_str) {
            strategy_name(&path.child("strategy"), strategy, &mut errors);
        }
        if !spec.str_at(&["preferredHolder"]).is_empty() && spec.str_at(&["strategy"]).is_empty() {
            let detail = "may only be specified if `strategy` is defined";
            errors.push(FieldError::forbidden(&path.child("preferredHolder"), detail));
        }
        errors
    }
}
