//! HorizontalPodAutoscaler: scales a workload by metrics.

use binnacle_fields::autoscaling::v2::{
    self, HPAScalingPolicy, HPAScalingRules as Rules, HorizontalPodAutoscalerBehavior as Behavior,
    HorizontalPodAutoscalerSpec as Spec, HorizontalPodAutoscalerStatus as Status,
};
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

use super::validation;
use crate::conversion::autoscaling::{default_metric, drop_round_trip_annotations};
use crate::gated::{GatedFields, drop_disabled};
use crate::workload::validation::not_negative;
use crate::{Strategy, StrategyContext};

pub(crate) struct HorizontalPodAutoscaler;

const GATED: &[GatedFields<v2::HorizontalPodAutoscaler>] = &[GatedFields {
    feature: "HPAConfigurableTolerance",
    fields: &[
        route![v2::HorizontalPodAutoscaler::SPEC, Spec::BEHAVIOR, Behavior::SCALE_DOWN, Rules::TOLERANCE],
        route![v2::HorizontalPodAutoscaler::SPEC, Spec::BEHAVIOR, Behavior::SCALE_UP, Rules::TOLERANCE],
    ],
}];

impl Strategy for HorizontalPodAutoscaler {
    fn set_defaults(&self, version: &str, object: &mut Value) {
        let mut autoscaler = FieldMut::<v2::HorizontalPodAutoscaler>::root(object);
        let mut spec = autoscaler.entry(v2::HorizontalPodAutoscaler::SPEC);
        // v1 has this field too.
        spec.default_nil(Spec::MIN_REPLICAS, 1i64);
        // In v1 the default metric depends on annotations: the conversion sets it.
        if version == "v1" {
            return;
        }
        if spec.read().at(Spec::METRICS).is_empty() {
            spec.set(Spec::METRICS, vec![default_metric()]);
        }
        if let Some(behavior) = spec.structure(Spec::BEHAVIOR) {
            default_behavior(behavior);
        }
        drop_round_trip_annotations(object);
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut autoscaler = FieldMut::root(object);
        autoscaler.remove(v2::HorizontalPodAutoscaler::STATUS);
        drop_disabled(ctx.features, &mut autoscaler, None, GATED);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::root(object), FieldRef::root(old));
        new.keep(old, v2::HorizontalPodAutoscaler::STATUS);
        drop_disabled(ctx.features, &mut new, Some(old), GATED);
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::spec(ctx.features, FieldRef::root(object), None)
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::spec(ctx.features, FieldRef::root(object), Some(FieldRef::root(old)))
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let autoscaler = FieldRef::<v2::HorizontalPodAutoscaler>::root(object);
        let status = autoscaler.at(v2::HorizontalPodAutoscaler::STATUS);
        not_negative(status, &[Status::CURRENT_REPLICAS, Status::DESIRED_REPLICAS], &mut errors);
        errors
    }
}

/// Sets the defaults of a behavior, if there is one.
fn default_behavior(mut behavior: FieldMut<Behavior>) {
    let mut up = behavior.entry(Behavior::SCALE_UP);
    up.default_nil(Rules::STABILIZATION_WINDOW_SECONDS, 0i64);
    up.default_nil(Rules::SELECT_POLICY, "Max");
    up.default_nil(Rules::POLICIES, vec![policy("Pods", 4), policy("Percent", 100)]);
    // The default of scaling down is a flag of the controller.
    let mut down = behavior.entry(Behavior::SCALE_DOWN);
    down.default_nil(Rules::SELECT_POLICY, "Max");
    down.default_nil(Rules::POLICIES, vec![policy("Percent", 100)]);
}

fn policy(kind: &'static str, value: i64) -> Value {
    FieldMut::build(|mut policy| {
        policy.set(HPAScalingPolicy::TYPE, kind);
        policy.set(HPAScalingPolicy::VALUE, value);
        policy.set(HPAScalingPolicy::PERIOD_SECONDS, 15i64);
    })
}
