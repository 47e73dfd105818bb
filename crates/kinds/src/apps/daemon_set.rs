//! `DaemonSet`: one pod on every node.

use binnacle_schema::Value;

use super::TEMPLATE;
use crate::equality::{equal, equal_at};
use crate::pod_spec::set_template_defaults;
use crate::tree::{default_nil, default_zero, keep, keep_at, text};
use crate::workload::{drop_disabled_template_fields, prepare_create};
use crate::{Situation, Strategy, spec_generation};

/// Counts the versions of the template. `apps/v1` has no field for it: the number lives in this annotation.
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
        default_nil(spec, "revisionHistoryLimit", 10i64);
        set_template_defaults(spec.object_entry("template"));
        // The number is part of every object of this version, from the beginning.
        object.make_at(&["metadata", "annotations"]).entry(TEMPLATE_GENERATION, || "0".into());
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        prepare_create(object, TEMPLATE);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        drop_disabled_template_fields(object, Some(old), TEMPLATE);
        keep(object, old, "status");
        let same_template = equal_at("io.k8s.api.core.v1.PodTemplateSpec", object, old, TEMPLATE);
        set_template_generation(object, template_generation(old) + i64::from(!same_template));
        spec_generation(object, Some(old), |object, old| {
            !equal("io.k8s.api.apps.v1.DaemonSetSpec", object.get("spec"), old.get("spec"))
        });
    }

    fn prepare_for_subresource(&self, _: &str, _: &Situation<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
        keep_at(object, old, &["metadata", "annotations", TEMPLATE_GENERATION]);
    }
}

fn template_generation(object: &Value) -> i64 {
    object.str_at(&["metadata", "annotations", TEMPLATE_GENERATION]).parse().unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    object.make_at(&["metadata", "annotations"]).insert(TEMPLATE_GENERATION, generation.to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    const SITUATION: Situation<'static> = Situation { now: 0, namespace: "default", dry_run: false };

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
