//! `DaemonSet`: one pod on every node.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use binnacle_validation::metadata::shown;
use binnacle_validation::numbers::not_more_than_100_percent;
use binnacle_validation::{checks, selectors};

use super::TEMPLATE;
use crate::equality::{equal_as, equal_at};
use crate::internal;
use crate::pod_spec::set_template_defaults;
use crate::pod_spec::validation::PodValidationOptions;
use crate::tree_names::{default_nil, default_zero, keep, keep_at, member, struct_mut, text};
use crate::workload_names::validation::{
    SELECTOR, amount, collision_count, immutable_selector, is_empty, lasting_template, mismatch, not_negative, number,
    selects,
};
use crate::workload_names::{drop_disabled_template_fields, prepare_create, template_warnings};
use crate::{Strategy, StrategyContext, spec_generation};

/// The annotation with the version number of the template, for which `apps/v1` has no field.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

pub(super) struct DaemonSet;

impl Strategy for DaemonSet {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        let strategy = spec.object_entry("updateStrategy");
        default_zero(strategy, "type", "RollingUpdate");
        if text(strategy, "type") == "RollingUpdate" {
            let rolling = strategy.object_entry("rollingUpdate");
            default_nil(rolling, "maxUnavailable", 1i64);
            default_nil(rolling, "maxSurge", 0i64);
        }
        // In other versions, an empty struct gets the zero values of kube-apiserver's internal fields, which are not
        // pointers.
        if let Some(rolling) = struct_mut(strategy, "rollingUpdate") {
            default_nil(rolling, "maxUnavailable", 0i64);
            default_nil(rolling, "maxSurge", 0i64);
        }
        default_nil(spec, "revisionHistoryLimit", 10i64);
        set_template_defaults(spec.object_entry("template"));
        // Objects of this version always have the annotation.
        object.make_at(&["metadata", "annotations"]).entry(TEMPLATE_GENERATION, || "0".into());
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        prepare_create(situation.features, object, TEMPLATE);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        drop_disabled_template_fields(situation.features, object, Some(old), TEMPLATE);
        keep(object, old, "status");
        let same_template = equal_at("io.k8s.api.core.v1.PodTemplateSpec", object, old, TEMPLATE);
        set_template_generation(object, template_generation(old) + i64::from(!same_template));
        spec_generation(object, Some(old), |object, old| {
            !equal_as("io.k8s.api.apps.v1.DaemonSetSpec", object.get("spec"), old.get("spec"))
        });
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
        keep_at(object, old, &["metadata", "annotations", TEMPLATE_GENERATION]);
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        spec_rules(object, &PodValidationOptions::for_template(situation.features), &mut errors);
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        immutable_selector(object, old, &mut errors);
        let mut options =
            PodValidationOptions::for_update(situation.features, old.at(TEMPLATE).unwrap_or(&Value::Null));
        options.any_selector_value |= selectors::is_invalid(old.at(&["spec", "selector"]));
        spec_rules(object, &options, &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let counts = [
            "currentNumberScheduled",
            "numberMisscheduled",
            "desiredNumberScheduled",
            "numberReady",
            "observedGeneration",
            "updatedNumberScheduled",
            "numberAvailable",
            "numberUnavailable",
            "collisionCount",
        ];
        not_negative(object.get("status").unwrap_or(&Value::Null), &counts, &FieldPath::new("status"), &mut errors);
        collision_count(object, old, &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| template_generation(old) == template_generation(object)) {
            return Vec::new();
        }
        template_warnings(object, None, TEMPLATE)
    }
}

fn template_generation(object: &Value) -> i64 {
    object.str_at(&["metadata", "annotations", TEMPLATE_GENERATION]).parse().unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    object.make_at(&["metadata", "annotations"]).insert(TEMPLATE_GENERATION, generation.to_string());
}

fn spec_rules(object: &Value, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let path = FieldPath::new("spec");
    let null = Value::Null;
    let spec = object.get("spec").unwrap_or(&null);
    let (selector, template) = (member(spec, "selector"), spec.get("template").unwrap_or(&null));
    selectors::label_selector(selector, options.any_selector_value, &path.child("selector"), errors);
    let at = path.child("template");
    if selects(selector, template.at(&["metadata", "labels"])) == Some(false) {
        errors.push(mismatch(template, &at));
    }
    if let Some(selector) = selector.filter(|selector| is_empty(selector)) {
        let why = "empty selector is invalid for daemonset";
        errors.push(FieldError::invalid(&path.child("selector"), internal::shown_as(SELECTOR, Some(selector)), why));
    }
    lasting_template(template, "DaemonSet", &at, options, errors);
    not_negative(spec, &["minReadySeconds"], &path, errors);
    checks::not_negative(&path.child("templateGeneration"), Some(template_generation(object)), errors);
    update_strategy(spec.get("updateStrategy").unwrap_or(&null), &path.child("updateStrategy"), errors);
    not_negative(spec, &["revisionHistoryLimit"], &path, errors);
}

fn update_strategy(strategy: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    match (strategy.str_at(&["type"]), member(strategy, "rollingUpdate")) {
        ("OnDelete", _) => {}
        ("RollingUpdate", None) => errors.push(FieldError::required(&path.child("rollingUpdate"), "")),
        ("RollingUpdate", Some(rolling)) => rolling_update(rolling, &path.child("rollingUpdate"), errors),
        _ => {
            let shown = internal::shown_as("io.k8s.api.apps.v1.DaemonSetUpdateStrategy", Some(strategy));
            errors.push(FieldError::not_supported(path, shown, &["RollingUpdate", "OnDelete"]));
        }
    }
}

/// Validates a rolling update: exactly one of `maxUnavailable` and `maxSurge` is not zero.
fn rolling_update(rolling: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let fields = ["maxUnavailable", "maxSurge"];
    fields.iter().for_each(|field| amount(rolling, field, path, errors));
    for field in fields {
        not_more_than_100_percent(&path.child(field), rolling.get(field).unwrap_or(&Value::Null), errors);
    }
    match fields.map(|field| number(rolling, field) != 0) {
        [true, true] => {
            let surge = shown(rolling.get("maxSurge"));
            let why = "may not be set when maxUnavailable is non-zero";
            errors.push(FieldError::invalid(&path.child("maxSurge"), surge, why));
        }
        [false, false] => {
            let why = "cannot be 0 when maxSurge is 0";
            errors.push(FieldError::required(&path.child("maxUnavailable"), why));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;
    use binnacle_schema::value;

    static SITUATION: LazyLock<StrategyContext<'static>> = LazyLock::new(|| crate::testing::situation("default"));

    #[test]
    fn template_generations() {
        let mut created = value!({"spec": {"template": {"spec": {}}}});
        DaemonSet.prepare_for_create(&SITUATION, &mut created);
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
            DaemonSet.prepare_for_update(&SITUATION, &mut object_, &object(3, "2", spec("a", 0)));
            assert_eq!(object_, want);
        }
    }
}
