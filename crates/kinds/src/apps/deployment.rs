//! `Deployment`: replica sets that replace each other step by step.

use binnacle_schema::Value;

use super::TEMPLATE;
use crate::equality::{equal, equal_maps};
use crate::pod_spec::set_template_defaults;
use crate::tree::{default_nil, default_zero, keep, keep_at, text};
use crate::workload::{dns_label_recommended, drop_disabled_template_fields, prepare_create, prepare_scale};
use crate::{Situation, Strategy, spec_generation};

/// The revision to roll back to. `apps/v1` has no field for it: the number lives in this annotation, and counts as part
/// of the spec.
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

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        prepare_create(object, TEMPLATE);
    }

    /// Replica sets copy the annotations, so a change of these is a new generation too.
    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "status");
        drop_disabled_template_fields(object, Some(old), TEMPLATE);
        spec_generation(object, Some(old), |object, old| {
            let annotations = ["metadata", "annotations"];
            !equal("io.k8s.api.apps.v1.DeploymentSpec", object.get("spec"), old.get("spec"))
                || !equal_maps(object.at(&annotations), old.at(&annotations))
        });
    }

    fn prepare_for_subresource(&self, subresource: &str, situation: &Situation<'_>, object: &mut Value, old: &Value) {
        if subresource == "scale" {
            prepare_scale(object, old);
            return self.prepare_for_update(situation, object, old);
        }
        keep(object, old, "spec");
        keep_at(object, old, &["metadata", "labels"]);
        keep_at(object, old, &["metadata", "annotations", ROLLBACK_TO]);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() { Vec::new() } else { dns_label_recommended(object) }
    }
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
            Deployment.prepare_for_update(
                &Situation { now: 0, namespace: "default", dry_run: false },
                &mut object,
                &old,
            );
            assert_eq!(object.int_at(&["metadata", "generation"]), Some(want));
        }
    }
}
