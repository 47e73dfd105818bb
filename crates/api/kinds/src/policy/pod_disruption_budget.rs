//! PodDisruptionBudget: the number of pods of a set that may be evicted.

use binnacle_fields::policy::v1::{
    PodDisruptionBudget as Budget, PodDisruptionBudgetSpec as Spec, PodDisruptionBudgetStatus as Status,
};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::{checks, conditions, names, numbers, selectors};

use crate::prepare::{count_generation, start_generation};
use crate::workload::validation::not_negative;
use crate::{Features, MetadataChecks, Strategy, StrategyContext, internal};

pub(crate) struct PodDisruptionBudget;

impl Strategy for PodDisruptionBudget {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::NONE
    }

    /// Only the general rules for names: the kind has no rules for metadata.
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
        let mut budget = FieldMut::root(object);
        budget.remove(Budget::STATUS);
        start_generation(&mut budget);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut budget, old) = (FieldMut::root(object), FieldRef::root(old));
        budget.keep(old, Budget::STATUS);
        count_generation(&mut budget, old, Budget::SPEC);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        spec_rules(FieldRef::root(object), false)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let old_selector = FieldRef::root(old).at(Budget::SPEC).at(Spec::SELECTOR).get();
        spec_rules(FieldRef::root(object), selectors::is_invalid(old_selector))
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let budget = FieldRef::root(object);
        let status = budget.at(Budget::STATUS);
        conditions::validate(status.at(Status::CONDITIONS).items(), &mut errors);
        let counts =
            [Status::DISRUPTIONS_ALLOWED, Status::CURRENT_HEALTHY, Status::DESIRED_HEALTHY, Status::EXPECTED_PODS];
        not_negative(status, &counts, &mut errors);
        errors
    }
}

fn spec_rules(budget: FieldRef<Budget>, any_label_value: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = budget.at(Budget::SPEC);
    let limits = [spec.at(Spec::MIN_AVAILABLE), spec.at(Spec::MAX_UNAVAILABLE)];
    if limits.iter().all(FieldRef::is_set) {
        errors.push(spec.invalid_as(internal::shown(spec), "minAvailable and maxUnavailable cannot be both set"));
    }
    for limit in limits {
        numbers::int_or_percent(&limit, limit.value(), &mut errors);
        numbers::not_more_than_100_percent(&limit, limit.value(), &mut errors);
    }
    selectors::validate(spec.at(Spec::SELECTOR), any_label_value, &mut errors);
    let policy = spec.at(Spec::UNHEALTHY_POD_EVICTION_POLICY);
    if policy.is_set() {
        checks::one_of(&policy, policy.str(), &["AlwaysAllow", "IfHealthyBudget"], &mut errors);
    }
    errors
}
