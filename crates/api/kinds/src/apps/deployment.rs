//! `Deployment`: replica sets that replace each other step by step.

use binnacle_fields::apps::v1::{
    self, DeploymentSpec as Spec, DeploymentStatus as Status, DeploymentStrategy,
    RollingUpdateDeployment as RollingUpdate,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;

use binnacle_validation::checks;
use binnacle_validation::numbers::not_more_than_100_percent;

use super::replica_set::replica_template;
use crate::equality::{equal, equal_maps};
use crate::gated::drop_disabled;
use crate::internal;
use crate::pod_spec::set_template_defaults;
use crate::pod_spec::validation::PodValidationOptions;
use crate::prepare::count_generation_if;
use crate::workload::validation::{
    amount, collision_count, immutable_selector, not_more, not_negative, number, options_for_update,
};
use crate::workload::{
    DEPLOYMENT_GATED, dns_label_recommended, drop_disabled_template_fields, prepare_create, prepare_subresource,
    template_warnings, validate_subresource,
};
use crate::{Strategy, StrategyContext};

/// The annotation with the revision to roll back to, for which `apps/v1` has no field. It counts as part of the spec.
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

pub(super) struct Deployment;

impl Strategy for Deployment {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut deployment = FieldMut::<v1::Deployment>::root(object);
        let mut spec = deployment.entry(v1::Deployment::SPEC);
        spec.default_nil(Spec::REPLICAS, 1i64);
        let mut strategy = spec.entry(Spec::STRATEGY);
        strategy.default_zero(DeploymentStrategy::TYPE, "RollingUpdate");
        if strategy.str(DeploymentStrategy::TYPE) == "RollingUpdate" {
            let mut rolling = strategy.entry(DeploymentStrategy::ROLLING_UPDATE);
            rolling.default_nil(RollingUpdate::MAX_UNAVAILABLE, "25%");
            rolling.default_nil(RollingUpdate::MAX_SURGE, "25%");
        }
        spec.default_nil(Spec::REVISION_HISTORY_LIMIT, 10i64);
        spec.default_nil(Spec::PROGRESS_DEADLINE_SECONDS, 600i64);
        set_template_defaults(spec.entry(Spec::TEMPLATE).object());
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        prepare_create(ctx.features, &mut FieldMut::<v1::Deployment>::root(object));
    }

    /// Counts a change of the annotations as a new generation too, because replica sets copy them.
    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut new = FieldMut::<v1::Deployment>::root(object);
        let old = FieldRef::<v1::Deployment>::root(old);
        new.keep(old, v1::Deployment::STATUS);
        drop_disabled_template_fields(ctx.features, &mut new, Some(old));
        let has_changed = !equal(new.read().at(v1::Deployment::SPEC), old.at(v1::Deployment::SPEC))
            || !equal_maps(annotations(new.read()), annotations(old));
        count_generation_if(has_changed, &mut new, old);
    }

    fn prepare_for_subresource(&self, subresource: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        if !prepare_subresource::<v1::Deployment>(self, subresource, ctx, object, old) {
            let mut new = FieldMut::<v1::Deployment>::root(object);
            let old = FieldRef::root(old);
            drop_disabled(ctx.features, &mut new, Some(old), DEPLOYMENT_GATED);
            new.keep_at(old, route![v1::Deployment::METADATA, ObjectMeta::LABELS]);
            new.keep_key_at(old, route![v1::Deployment::METADATA, ObjectMeta::ANNOTATIONS], ROLLBACK_TO);
        }
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let deployment = FieldRef::root(object);
        spec_rules(deployment, &PodValidationOptions::for_template(ctx.features), &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::<v1::Deployment>::root(object), FieldRef::root(old));
        spec_rules(new, &options_for_update(ctx.features, old), &mut errors);
        let (spec, old_spec) = (new.at(v1::Deployment::SPEC), old.at(v1::Deployment::SPEC));
        immutable_selector(spec.at(Spec::SELECTOR), old_spec.at(Spec::SELECTOR), &mut errors);
        errors
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        ctx: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        validate_subresource(self, subresource, ctx, (object, old), validate_status)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let deployment = FieldRef::<v1::Deployment>::root(object);
        let mut warnings = if old.is_some() { Vec::new() } else { dns_label_recommended(deployment) };
        warnings.extend(template_warnings(deployment, old.map(FieldRef::root)));
        warnings
    }
}

fn annotations<'v>(deployment: FieldRef<'_, 'v, v1::Deployment>) -> Option<&'v Value> {
    deployment.at(v1::Deployment::METADATA).at(ObjectMeta::ANNOTATIONS).get()
}

fn spec_rules(deployment: FieldRef<v1::Deployment>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let spec = deployment.at(v1::Deployment::SPEC);
    not_negative(spec, &[Spec::REPLICAS], errors);
    let (selector, template) = (spec.at(Spec::SELECTOR), spec.at(Spec::TEMPLATE));
    replica_template(selector, template, "deployment", options, errors);
    strategy(spec.at(Spec::STRATEGY), errors);
    not_negative(spec, &[Spec::MIN_READY_SECONDS, Spec::REVISION_HISTORY_LIMIT], errors);
    // The annotation was a field of versions before v1, and is reported as that.
    let metadata = deployment.at(v1::Deployment::METADATA);
    let rollback = metadata.at(ObjectMeta::ANNOTATIONS).key(ROLLBACK_TO).get_str().and_then(|text| text.parse().ok());
    checks::not_negative(&spec.path().child("rollback").child("version"), rollback, errors);
    not_negative(spec, &[Spec::PROGRESS_DEADLINE_SECONDS], errors);
    let deadline = spec.at(Spec::PROGRESS_DEADLINE_SECONDS);
    if deadline.int().is_some_and(|seconds| seconds <= spec.at(Spec::MIN_READY_SECONDS).int_or_zero()) {
        errors.push(deadline.invalid("must be greater than minReadySeconds"));
    }
}

fn strategy(strategy: FieldRef<DeploymentStrategy>, errors: &mut FieldErrors) {
    let rolling = strategy.at(DeploymentStrategy::ROLLING_UPDATE);
    match strategy.at(DeploymentStrategy::TYPE).str() {
        "Recreate" if rolling.is_set() => {
            errors.push(rolling.forbidden("may not be specified when strategy `type` is 'Recreate'"));
        }
        "Recreate" => {}
        "RollingUpdate" if !rolling.is_set() => {
            errors.push(rolling.required("this should be defaulted and never be nil"));
        }
        "RollingUpdate" => {
            let unavailable = rolling.at(RollingUpdate::MAX_UNAVAILABLE);
            let surge = rolling.at(RollingUpdate::MAX_SURGE);
            amount(unavailable, errors);
            amount(surge, errors);
            if number(unavailable) == 0 && number(surge) == 0 {
                errors.push(unavailable.invalid("may not be 0 when `maxSurge` is 0"));
            }
            not_more_than_100_percent(&unavailable, unavailable.value(), errors);
        }
        _ => {
            let shown = internal::shown(strategy);
            errors.push(FieldError::not_supported(&strategy, shown, &["Recreate", "RollingUpdate"]));
        }
    }
}

fn validate_status(new: FieldRef<v1::Deployment>, old: FieldRef<v1::Deployment>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (status, old) = (new.at(v1::Deployment::STATUS), old.at(v1::Deployment::STATUS));
    let counts = [
        Status::OBSERVED_GENERATION,
        Status::REPLICAS,
        Status::UPDATED_REPLICAS,
        Status::READY_REPLICAS,
        Status::AVAILABLE_REPLICAS,
        Status::UNAVAILABLE_REPLICAS,
        Status::TERMINATING_REPLICAS,
        Status::COLLISION_COUNT,
    ];
    not_negative(status, &counts, &mut errors);
    let parts = [Status::UPDATED_REPLICAS, Status::READY_REPLICAS, Status::AVAILABLE_REPLICAS];
    not_more(status, &parts, Status::REPLICAS, "cannot be greater than status.replicas", &mut errors);
    let why = "cannot be greater than readyReplicas";
    let ready = Status::READY_REPLICAS;
    not_more(status, &[Status::AVAILABLE_REPLICAS], ready, why, &mut errors);
    let count = Status::COLLISION_COUNT;
    collision_count(status.at(count), old.at(count), &mut errors);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn sets_strategy_defaults() {
        for (given, want) in [
            (
                value!({}),
                value!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}}),
            ),
            (
                value!({"rollingUpdate": {"maxSurge": 3i64}}),
                value!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": 3i64}}),
            ),
            (value!({"type": "Recreate"}), value!({"type": "Recreate"})),
        ] {
            let mut object = value!({"spec": {"strategy": given}});
            Deployment.set_defaults("v1", &mut object);
            assert_eq!(object.at(&["spec", "strategy"]), Some(&want));
        }
    }

    #[test]
    fn increments_generation_if_spec_or_annotations_change() {
        let old = value!({"metadata": {"generation": 1i64, "annotations": {"a": "b"}}, "spec": {"replicas": 1i64}});
        for (new, want) in [
            (value!({"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 1i64}}), 1),
            (value!({"metadata": {"annotations": {"a": "c"}}, "spec": {"replicas": 1i64}}), 2),
            (value!({"metadata": {"annotations": {"a": "b"}, "labels": {"x": "y"}}, "spec": {"replicas": 1i64}}), 1),
            (value!({"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 2i64}}), 2),
        ] {
            let mut object = new;
            Deployment.prepare_for_update(&crate::testing::ctx("default"), &mut object, &old);
            assert_eq!(object.int_at(&["metadata", "generation"]), Some(want));
        }
    }
}
