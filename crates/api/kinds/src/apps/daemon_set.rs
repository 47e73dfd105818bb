//! `DaemonSet`: one pod on every node.

use binnacle_fields::apps::v1::{
    self, DaemonSetSpec as Spec, DaemonSetStatus as Status, DaemonSetUpdateStrategy as UpdateStrategy,
    RollingUpdateDaemonSet as RollingUpdate,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;

use binnacle_validation::numbers::not_more_than_100_percent;
use binnacle_validation::{checks, selectors};

use crate::equality::equal;
use crate::internal;
use crate::pod_spec::set_template_defaults;
use crate::pod_spec::validation::PodValidationOptions;
use crate::workload::validation::{
    amount, collision_count, immutable_selector, is_empty, labels, lasting_template, mismatch, not_negative, number,
    options_for_update, selects,
};
use crate::workload::{count_generation, drop_disabled_template_fields, prepare_create, template_warnings};
use crate::{Strategy, StrategyContext};

/// The annotation with the version number of the template, for which `apps/v1` has no field.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) struct DaemonSet;

impl Strategy for DaemonSet {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut set = FieldMut::<v1::DaemonSet>::root(object);
        let mut spec = set.entry(v1::DaemonSet::SPEC);
        let mut strategy = spec.entry(Spec::UPDATE_STRATEGY);
        strategy.default_zero(UpdateStrategy::TYPE, "RollingUpdate");
        if strategy.str(UpdateStrategy::TYPE) == "RollingUpdate" {
            let mut rolling = strategy.entry(UpdateStrategy::ROLLING_UPDATE);
            rolling.default_nil(RollingUpdate::MAX_UNAVAILABLE, 1i64);
            rolling.default_nil(RollingUpdate::MAX_SURGE, 0i64);
        }
        // In other versions, an empty struct gets the zero values of kube-apiserver's internal fields, which are not
        // pointers.
        if let Some(mut rolling) = strategy.structure(UpdateStrategy::ROLLING_UPDATE) {
            rolling.default_nil(RollingUpdate::MAX_UNAVAILABLE, 0i64);
            rolling.default_nil(RollingUpdate::MAX_SURGE, 0i64);
        }
        spec.default_nil(Spec::REVISION_HISTORY_LIMIT, 10i64);
        set_template_defaults(spec.entry(Spec::TEMPLATE).object());
        // Objects of this version always have the annotation.
        let mut metadata = set.entry(v1::DaemonSet::METADATA);
        metadata.map_entry(ObjectMeta::ANNOTATIONS).entry(TEMPLATE_GENERATION, || "0".into());
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut set = FieldMut::<v1::DaemonSet>::root(object);
        prepare_create(ctx.features, &mut set);
        let generation = template_generation(set.read()).max(1);
        set_template_generation(&mut set, generation);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut new = FieldMut::<v1::DaemonSet>::root(object);
        let old = FieldRef::<v1::DaemonSet>::root(old);
        drop_disabled_template_fields(ctx.features, &mut new, Some(old));
        new.keep(old, v1::DaemonSet::STATUS);
        let (spec, template) = (v1::DaemonSet::SPEC, Spec::TEMPLATE);
        let same_template = equal(new.read().at(spec).at(template), old.at(spec).at(template));
        set_template_generation(&mut new, template_generation(old) + i64::from(!same_template));
        count_generation(&mut new, old);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut new = FieldMut::<v1::DaemonSet>::root(object);
        let old = FieldRef::root(old);
        new.keep(old, v1::DaemonSet::SPEC);
        new.keep_key_at(old, route![v1::DaemonSet::METADATA, ObjectMeta::ANNOTATIONS], TEMPLATE_GENERATION);
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        spec_rules(FieldRef::root(object), &PodValidationOptions::for_template(ctx.features), &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::<v1::DaemonSet>::root(object), FieldRef::<v1::DaemonSet>::root(old));
        let (spec, old_spec) = (new.at(v1::DaemonSet::SPEC), old.at(v1::DaemonSet::SPEC));
        let old_selector = old_spec.at(Spec::SELECTOR);
        immutable_selector(spec.at(Spec::SELECTOR), old_selector, &mut errors);
        let mut options = options_for_update(ctx.features, old);
        options.any_selector_value |= selectors::is_invalid(old_selector.get());
        spec_rules(new, &options, &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::<v1::DaemonSet>::root(object), FieldRef::<v1::DaemonSet>::root(old));
        let (status, old) = (new.at(v1::DaemonSet::STATUS), old.at(v1::DaemonSet::STATUS));
        let counts = [
            Status::CURRENT_NUMBER_SCHEDULED,
            Status::NUMBER_MISSCHEDULED,
            Status::DESIRED_NUMBER_SCHEDULED,
            Status::NUMBER_READY,
            Status::OBSERVED_GENERATION,
            Status::UPDATED_NUMBER_SCHEDULED,
            Status::NUMBER_AVAILABLE,
            Status::NUMBER_UNAVAILABLE,
            Status::COLLISION_COUNT,
        ];
        not_negative(status, &counts, &mut errors);
        collision_count(status.at(Status::COLLISION_COUNT), old.at(Status::COLLISION_COUNT), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let set = FieldRef::root(object);
        if old.is_some_and(|old| template_generation(FieldRef::root(old)) == template_generation(set)) {
            return Vec::new();
        }
        template_warnings(set, None)
    }
}

fn template_generation(set: FieldRef<v1::DaemonSet>) -> i64 {
    let metadata = set.at(v1::DaemonSet::METADATA);
    metadata.at(ObjectMeta::ANNOTATIONS).key(TEMPLATE_GENERATION).str().parse().unwrap_or(0)
}

fn set_template_generation(set: &mut FieldMut<v1::DaemonSet>, generation: i64) {
    let mut metadata = set.entry(v1::DaemonSet::METADATA);
    metadata.map_entry(ObjectMeta::ANNOTATIONS).insert(TEMPLATE_GENERATION, generation.to_string());
}

fn spec_rules(set: FieldRef<v1::DaemonSet>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let spec = set.at(v1::DaemonSet::SPEC);
    let (selector, template) = (spec.at(Spec::SELECTOR), spec.at(Spec::TEMPLATE));
    selectors::validate(selector, options.any_selector_value, errors);
    if selects(selector, labels(template)) == Some(false) {
        errors.push(mismatch(template));
    }
    if selector.is_set() && is_empty(selector) {
        errors.push(selector.invalid_as(internal::shown(selector), "empty selector is invalid for daemonset"));
    }
    lasting_template(template, "DaemonSet", options, errors);
    not_negative(spec, &[Spec::MIN_READY_SECONDS], errors);
    // The annotation was a field of versions before v1, and is reported as that.
    checks::not_negative(&spec.path().child("templateGeneration"), Some(template_generation(set)), errors);
    update_strategy(spec.at(Spec::UPDATE_STRATEGY), errors);
    not_negative(spec, &[Spec::REVISION_HISTORY_LIMIT], errors);
}

fn update_strategy(strategy: FieldRef<UpdateStrategy>, errors: &mut FieldErrors) {
    let rolling = strategy.at(UpdateStrategy::ROLLING_UPDATE);
    match strategy.at(UpdateStrategy::TYPE).str() {
        "OnDelete" => {}
        "RollingUpdate" if !rolling.is_set() => errors.push(rolling.required("")),
        "RollingUpdate" => rolling_update(rolling, errors),
        _ => {
            let shown = internal::shown(strategy);
            errors.push(FieldError::not_supported(&strategy, shown, &["RollingUpdate", "OnDelete"]));
        }
    }
}

/// Validates a rolling update: exactly one of `maxUnavailable` and `maxSurge` is not zero.
fn rolling_update(rolling: FieldRef<RollingUpdate>, errors: &mut FieldErrors) {
    let unavailable = rolling.at(RollingUpdate::MAX_UNAVAILABLE);
    let surge = rolling.at(RollingUpdate::MAX_SURGE);
    amount(unavailable, errors);
    amount(surge, errors);
    not_more_than_100_percent(&unavailable, unavailable.value(), errors);
    not_more_than_100_percent(&surge, surge.value(), errors);
    match (number(unavailable) != 0, number(surge) != 0) {
        (true, true) => errors.push(surge.invalid("may not be set when maxUnavailable is non-zero")),
        (false, false) => errors.push(unavailable.required("cannot be 0 when maxSurge is 0")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use binnacle_schema::value;

    static CTX: LazyLock<StrategyContext<'static>> = LazyLock::new(|| crate::testing::ctx("default"));

    #[test]
    fn counts_template_generations() {
        let mut created = value!({"spec": {"template": {"spec": {}}}});
        DaemonSet.prepare_for_create(&CTX, &mut created);
        let object = |generation: i64, template_generation: &str, spec: Value| {
            value!({
                "metadata": {
                    "generation": generation,
                    "annotations": {"deprecated.daemonset.template.generation": template_generation}
                },
                "spec": spec
            })
        };
        let spec =
            |node: &str, ready: i64| value!({"minReadySeconds": ready, "template": {"spec": {"nodeName": node}}});
        assert_eq!(created, object(1, "1", value!({"template": {"spec": {}}})));
        for (new, want) in [
            (object(3, "9", spec("a", 0)), object(3, "2", spec("a", 0))),
            (object(3, "9", spec("a", 1)), object(4, "2", spec("a", 1))),
            (object(3, "9", spec("b", 0)), object(4, "3", spec("b", 0))),
            (value!({"spec": (spec("a", 0))}), object(3, "2", spec("a", 0))),
        ] {
            let mut object_ = new;
            DaemonSet.prepare_for_update(&CTX, &mut object_, &object(3, "2", spec("a", 0)));
            assert_eq!(object_, want);
        }
    }
}
