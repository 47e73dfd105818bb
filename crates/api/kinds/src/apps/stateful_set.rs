//! `StatefulSet`: pods with names and storage of their own.

mod validation;

use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::names;

use super::TEMPLATE;
use crate::Features;
use crate::core::persistent_volume_claim::set_claim_defaults;
use crate::gated_names::{Gated, drop_disabled};
use crate::pod_spec::{set_template_defaults, warnings};
use crate::tree_names::{default_nil, default_zero, is_zero, struct_mut, structs_mut, text};
use crate::workload_names::{
    prepare_create, prepare_subresource, prepare_update, template_warnings, validate_subresource,
};
use crate::{Strategy, StrategyContext};

const GATED: &[Gated] = &[Gated {
    feature: "MaxUnavailableStatefulSet",
    fields: &[&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]],
}];

pub(super) struct StatefulSet;

impl Strategy for StatefulSet {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        default_zero(spec, "podManagementPolicy", "OrderedReady");
        let strategy = spec.object_entry("updateStrategy");
        if is_zero(strategy, "type") {
            strategy.insert("type", "RollingUpdate");
            strategy.object_entry("rollingUpdate");
        }
        if text(strategy, "type") == "RollingUpdate"
            && let Some(rolling) = struct_mut(strategy, "rollingUpdate")
        {
            default_nil(rolling, "partition", 0i64);
        }
        let retention = spec.object_entry("persistentVolumeClaimRetentionPolicy");
        default_zero(retention, "whenDeleted", "Retain");
        default_zero(retention, "whenScaled", "Retain");
        default_nil(spec, "replicas", 1i64);
        default_nil(spec, "revisionHistoryLimit", 10i64);
        set_template_defaults(spec.object_entry("template"));
        for claim in structs_mut(spec, "volumeClaimTemplates") {
            set_claim_defaults(claim);
            // Not what was sent counts: the type is implied.
            claim.insert("apiVersion", "v1");
            claim.insert("kind", "PersistentVolumeClaim");
        }
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        drop_disabled(situation.features, object, None, GATED);
        prepare_create(situation.features, object, TEMPLATE);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        drop_disabled(situation.features, object, Some(old), GATED);
        prepare_update(situation.features, object, old, TEMPLATE, "io.k8s.api.apps.v1.StatefulSetSpec");
    }

    fn prepare_for_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &mut Value,
        old: &Value,
    ) {
        prepare_subresource(self, subresource, situation, object, old);
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(situation.features, object)
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_update(situation.features, object, old)
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        situation: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        validate_subresource(self, subresource, situation, (object, old), validation::validate_status)
    }

    /// Validates the name, which becomes the beginning of the pods' names and their host name.
    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        names::dns1123_label_name(name, prefix)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut warnings = template_warnings(object, old, &["spec", "template"]);
        for (i, claim) in object.list_at(&["spec", "volumeClaimTemplates"]).iter().enumerate() {
            let at = FieldPath::new("spec").child("volumeClaimTemplates").index(i);
            // On updates, kube-apiserver reports another path.
            let at = if old.is_some() { at.child("Spec") } else { at };
            warnings.extend(warnings::of_claim_spec(claim.get("spec").unwrap_or(&Value::Null), &at));
        }
        if object.int_at(&["spec", "revisionHistoryLimit"]).is_some_and(|limit| limit < 0) {
            warnings.push("spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended".to_owned());
        }
        warnings
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn defaults() {
        for (given, want) in [
            (value!({}), value!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0i64}})),
            (value!({"type": "RollingUpdate"}), value!({"type": "RollingUpdate"})),
            (
                value!({"type": "RollingUpdate", "rollingUpdate": {}}),
                value!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0i64}}),
            ),
            (value!({"type": "OnDelete"}), value!({"type": "OnDelete"})),
        ] {
            let mut object = value!({"spec": {"updateStrategy": given, "volumeClaimTemplates": [{"spec": {}}]}});
            StatefulSet.set_defaults("v1", &mut object);
            assert_eq!(object.at(&["spec", "updateStrategy"]), Some(&want));
            assert_eq!(
                object.list_at(&["spec", "volumeClaimTemplates"]),
                [value!({
                    "spec": {"volumeMode": "Filesystem"}, "status": {"phase": "Pending"},
                    "apiVersion": "v1", "kind": "PersistentVolumeClaim"
                })]
            );
        }
    }
}
