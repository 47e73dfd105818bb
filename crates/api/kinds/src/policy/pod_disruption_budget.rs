//! PodDisruptionBudget: the number of pods of a set that may be evicted.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{conditions, names, numbers, selectors};

use crate::checks::{member, one_of, present, spec_path};
use crate::prepare::{clear_status, first_generation, next_generation, put_back};
use crate::{Features, MetadataChecks, Strategy, StrategyContext, internal};

pub(crate) struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::NONE
    }

    /// Only what every name must be: the rules of the kind do not look at metadata.
    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        names::path_segment(name, prefix)
    }

    /// Only the spec has rules.
    fn reports_metadata(&self) -> bool {
        false
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
        next_generation(object, old, &["spec"]);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        spec(object, false)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        spec(object, selectors::is_invalid(old.at(&["spec", "selector"])))
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (status, path) = (member(object, "status"), FieldPath::new("status"));
        conditions::conditions(status.list_at(&["conditions"]), &path.child("conditions"), &mut errors);
        for name in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
            numbers::non_negative(&path.child(name), status.int_at(&[name]).unwrap_or(0), &mut errors);
        }
        errors
    }
}

fn spec(budget: &Value, any_label_value: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (member(budget, "spec"), spec_path());
    let limits = ["minAvailable", "maxUnavailable"].map(|name| (name, present(spec, name)));
    if limits.iter().all(|(_, limit)| limit.is_some()) {
        let shown = internal::shown_as("io.k8s.api.policy.v1.PodDisruptionBudgetSpec", Some(spec));
        errors.push(FieldError::invalid(&path, shown, "minAvailable and maxUnavailable cannot be both set"));
    }
    for (name, limit) in limits {
        let Some(limit) = limit else { continue };
        numbers::int_or_percent(&path.child(name), limit, &mut errors);
        numbers::not_more_than_100_percent(&path.child(name), limit, &mut errors);
    }
    selectors::label_selector(spec.get("selector"), any_label_value, &path.child("selector"), &mut errors);
    if let Some(policy) = present(spec, "unhealthyPodEvictionPolicy").and_then(Value::as_str) {
        let at = path.child("unhealthyPodEvictionPolicy");
        one_of(&at, policy, &["AlwaysAllow", "IfHealthyBudget"], &mut errors);
    }
    errors
}
