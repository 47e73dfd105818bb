//! HorizontalPodAutoscaler: scales a workload by metrics.

use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::{Object, Value, value};
use binnacle_validation::numbers;

use super::validation;
use crate::conversion::autoscaling::{default_metric, drop_round_trip_annotations};
use crate::gated_names::{Gated, drop_disabled};
use crate::prepare::{clear_status, default_to, put_back};
use crate::{Strategy, StrategyContext};

pub(crate) struct HorizontalPodAutoscaler;

const GATED: &[Gated] = &[Gated {
    feature: "HPAConfigurableTolerance",
    fields: &[&["spec", "behavior", "scaleDown", "tolerance"], &["spec", "behavior", "scaleUp", "tolerance"]],
}];

impl Strategy for HorizontalPodAutoscaler {
    fn set_defaults(&self, version: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        default_to(spec, "minReplicas", 1i64);
        // In v1 the default metric depends on annotations: the conversion sets it.
        if version == "v1" {
            return;
        }
        if spec.get("metrics").and_then(Value::as_list).is_none_or(<[Value]>::is_empty) {
            spec.insert("metrics", vec![default_metric()]);
        }
        if let Some(behavior) = spec.get_mut("behavior").and_then(Value::as_object_mut) {
            default_behavior(behavior);
        }
        drop_round_trip_annotations(object);
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
        drop_disabled(situation.features, object, None, GATED);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
        drop_disabled(situation.features, object, Some(old), GATED);
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::spec(situation.features, object, None)
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::spec(situation.features, object, Some(old))
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        for name in ["currentReplicas", "desiredReplicas"] {
            let replicas = object.int_at(&["status", name]).unwrap_or(0);
            numbers::non_negative(&FieldPath::new("status").child(name), replicas, &mut errors);
        }
        errors
    }
}

/// Sets the defaults of a behavior, if there is one.
fn default_behavior(behavior: &mut Object) {
    let policy = |kind: &'static str, value: i64| value!({"type": kind, "value": value, "periodSeconds": 15i64});
    let up = behavior.object_entry("scaleUp");
    default_to(up, "stabilizationWindowSeconds", 0i64);
    default_to(up, "selectPolicy", "Max");
    default_to(up, "policies", vec![policy("Pods", 4), policy("Percent", 100)]);
    // The default of scaling down is a flag of the controller.
    let down = behavior.object_entry("scaleDown");
    default_to(down, "selectPolicy", "Max");
    default_to(down, "policies", vec![policy("Percent", 100)]);
}
