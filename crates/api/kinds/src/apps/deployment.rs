//! `Deployment`: replica sets that replace each other step by step.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use binnacle_validation::checks;
use binnacle_validation::metadata::shown;
use binnacle_validation::numbers::not_more_than_100_percent;

use super::TEMPLATE;
use super::replica_set::replica_template;
use crate::equality::{equal, equal_maps};
use crate::gated::drop_disabled;
use crate::internal;
use crate::pod_spec::set_template_defaults;
use crate::pod_spec::validation::PodValidationOptions;
use crate::tree::{default_nil, default_zero, keep, keep_at, member, text};
use crate::workload::validation::{amount, collision_count, immutable_selector, not_more, not_negative, number};
use crate::workload::{
    REPLICAS_GATED, dns_label_recommended, drop_disabled_template_fields, prepare_create, prepare_subresource,
    template_warnings, validate_subresource,
};
use crate::{Strategy, StrategyContext, spec_generation};

/// The annotation with the revision to roll back to, for which `apps/v1` has no field. It counts as part of the spec.
const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";

pub(super) struct Deployment;

impl Strategy for Deployment {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        default_nil(spec, "replicas", 1i64);
        let strategy = spec.object_entry("strategy");
        default_zero(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate" {
            let rolling = strategy.object_entry("rollingUpdate");
            default_nil(rolling, "maxUnavailable", "25%");
            default_nil(rolling, "maxSurge", "25%");
        }
        default_nil(spec, "revisionHistoryLimit", 10i64);
        default_nil(spec, "progressDeadlineSeconds", 600i64);
        set_template_defaults(spec.object_entry("template"));
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        prepare_create(situation.features, object, TEMPLATE);
    }

    /// Counts a change of the annotations as a new generation too, because replica sets copy them.
    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "status");
        drop_disabled_template_fields(situation.features, object, Some(old), TEMPLATE);
        spec_generation(object, Some(old), |object, old| {
            let annotations = ["metadata", "annotations"];
            !equal("io.k8s.api.apps.v1.DeploymentSpec", object.get("spec"), old.get("spec"))
                || !equal_maps(object.at(&annotations), old.at(&annotations))
        });
    }

    fn prepare_for_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &mut Value,
        old: &Value,
    ) {
        if !prepare_subresource(self, subresource, situation, object, old) {
            drop_disabled(situation.features, object, Some(old), REPLICAS_GATED);
            keep_at(object, old, &["metadata", "labels"]);
            keep_at(object, old, &["metadata", "annotations", ROLLBACK_TO]);
        }
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        spec_rules(object, &PodValidationOptions::for_template(situation.features), &mut errors);
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        spec_rules(
            object,
            &PodValidationOptions::for_update(situation.features, old.at(TEMPLATE).unwrap_or(&Value::Null)),
            &mut errors,
        );
        immutable_selector(object, old, &mut errors);
        errors
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        validate_subresource(self, subresource, situation, (object, old), validate_status)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = if old.is_some() { Vec::new() } else { dns_label_recommended(object) };
        warnings.extend(template_warnings(object, old, &["spec", "template"]));
        warnings
    }
}

fn spec_rules(object: &Value, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec");
    let null = Value::Null;
    let spec = object.get("spec").unwrap_or(&null);
    not_negative(spec, &["replicas"], &path, errors);
    replica_template(spec, "deployment", &path, options, errors);
    strategy(spec.get("strategy").unwrap_or(&null), &path.child("strategy"), errors);
    not_negative(spec, &["minReadySeconds", "revisionHistoryLimit"], &path, errors);
    let rollback = object.str_at(&["metadata", "annotations", ROLLBACK_TO]).parse().ok();
    checks::not_negative(&path.child("rollback").child("version"), rollback, errors);
    not_negative(spec, &["progressDeadlineSeconds"], &path, errors);
    if let Some(deadline) = spec.int_at(&["progressDeadlineSeconds"])
        && deadline <= spec.int_at(&["minReadySeconds"]).unwrap_or(0)
    {
        let at = path.child("progressDeadlineSeconds");
        errors.push(FieldError::invalid(&at, deadline, "must be greater than minReadySeconds"));
    }
}

fn strategy(strategy: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("rollingUpdate");
    match (strategy.str_at(&["type"]), member(strategy, "rollingUpdate")) {
        ("Recreate", Some(_)) => {
            errors.push(FieldError::forbidden(&at, "may not be specified when strategy `type` is 'Recreate'"));
        }
        ("Recreate", None) => {}
        ("RollingUpdate", None) => {
            errors.push(FieldError::required(&at, "this should be defaulted and never be nil"));
        }
        ("RollingUpdate", Some(rolling)) => {
            amount(rolling, "maxUnavailable", &at, errors);
            amount(rolling, "maxSurge", &at, errors);
            let unavailable = rolling.get("maxUnavailable");
            let at = at.child("maxUnavailable");
            if number(rolling, "maxUnavailable") == 0 && number(rolling, "maxSurge") == 0 {
                errors.push(FieldError::invalid(&at, shown(unavailable), "may not be 0 when `maxSurge` is 0"));
            }
            not_more_than_100_percent(&at, unavailable.unwrap_or(&Value::Null), errors);
        }
        _ => {
            let shown = internal::shown("io.k8s.api.apps.v1.DeploymentStrategy", Some(strategy));
            errors.push(FieldError::not_supported(path, shown, &["Recreate", "RollingUpdate"]));
        }
    }
}

fn validate_status(object: &Value, old: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("status");
    let status = object.get("status").unwrap_or(&Value::Null);
    let counts = [
        "observedGeneration",
        "replicas",
        "updatedReplicas",
        "readyReplicas",
        "availableReplicas",
        "unavailableReplicas",
        "terminatingReplicas",
        "collisionCount",
    ];
    not_negative(status, &counts, &path, &mut errors);
    let parts = ["updatedReplicas", "readyReplicas", "availableReplicas"];
    not_more(status, &parts, "replicas", "cannot be greater than status.replicas", &path, &mut errors);
    let why = "cannot be greater than readyReplicas";
    not_more(status, &["availableReplicas"], "readyReplicas", why, &path, &mut errors);
    collision_count(object, old, &mut errors);
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn strategy_defaults() {
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
    fn generations() {
        let old = value!({"metadata": {"generation": 1i64, "annotations": {"a": "b"}}, "spec": {"replicas": 1i64}});
        for (new, want) in [
            (value!({"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 1i64}}), 1),
            (value!({"metadata": {"annotations": {"a": "c"}}, "spec": {"replicas": 1i64}}), 2),
            (value!({"metadata": {"annotations": {"a": "b"}, "labels": {"x": "y"}}, "spec": {"replicas": 1i64}}), 1),
            (value!({"metadata": {"annotations": {"a": "b"}}, "spec": {"replicas": 2i64}}), 2),
        ] {
            let mut object = new;
            Deployment.prepare_for_update(&crate::testing::situation("default"), &mut object, &old);
            assert_eq!(object.int_at(&["metadata", "generation"]), Some(want));
        }
    }
}
