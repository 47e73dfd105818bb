//! `StatefulSet`: pods with stable names and storage.

mod validation;

use binnacle_fields::apps::v1::{
    self, RollingUpdateStatefulSetStrategy as RollingUpdate,
    StatefulSetPersistentVolumeClaimRetentionPolicy as RetentionPolicy, StatefulSetSpec as Spec,
    StatefulSetUpdateStrategy as UpdateStrategy,
};
use binnacle_fields::core::v1::PersistentVolumeClaim;
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::names;

use crate::Features;
use crate::core::persistent_volume_claim::set_claim_defaults;
use crate::gated::{GatedFields, drop_disabled};
use crate::pod_spec::{set_template_defaults, warnings};
use crate::workload::{prepare_create, prepare_subresource, prepare_update, template_warnings};
use crate::{MetadataChecks, Strategy, StrategyContext};

const GATED: &[GatedFields<v1::StatefulSet>] = &[GatedFields {
    feature: "MaxUnavailableStatefulSet",
    fields: &[route![
        v1::StatefulSet::SPEC,
        Spec::UPDATE_STRATEGY,
        UpdateStrategy::ROLLING_UPDATE,
        RollingUpdate::MAX_UNAVAILABLE
    ]],
}];

pub(super) struct StatefulSet;

impl Strategy for StatefulSet {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut set = FieldMut::<v1::StatefulSet>::root(object);
        let mut spec = set.entry(v1::StatefulSet::SPEC);
        spec.default_zero(Spec::POD_MANAGEMENT_POLICY, "OrderedReady");
        let mut strategy = spec.entry(Spec::UPDATE_STRATEGY);
        if strategy.str(UpdateStrategy::TYPE).is_empty() {
            strategy.set(UpdateStrategy::TYPE, "RollingUpdate");
            strategy.entry(UpdateStrategy::ROLLING_UPDATE).object();
        }
        if strategy.str(UpdateStrategy::TYPE) == "RollingUpdate"
            && let Some(mut rolling) = strategy.structure(UpdateStrategy::ROLLING_UPDATE)
        {
            rolling.default_nil(RollingUpdate::PARTITION, 0i64);
        }
        let mut retention = spec.entry(Spec::PERSISTENT_VOLUME_CLAIM_RETENTION_POLICY);
        retention.default_zero(RetentionPolicy::WHEN_DELETED, "Retain");
        retention.default_zero(RetentionPolicy::WHEN_SCALED, "Retain");
        spec.default_nil(Spec::REPLICAS, 1i64);
        spec.default_nil(Spec::REVISION_HISTORY_LIMIT, 10i64);
        set_template_defaults(spec.entry(Spec::TEMPLATE).object());
        for mut claim in spec.items(Spec::VOLUME_CLAIM_TEMPLATES) {
            set_claim_defaults(claim.object());
            // Compares the object as decoded, not as sent: the type is implied.
            claim.set(PersistentVolumeClaim::API_VERSION, "v1");
            claim.set(PersistentVolumeClaim::KIND, "PersistentVolumeClaim");
        }
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut set = FieldMut::root(object);
        drop_disabled(ctx.features, &mut set, None, GATED);
        prepare_create(ctx.features, &mut set);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::root(object), FieldRef::root(old));
        drop_disabled(ctx.features, &mut new, Some(old), GATED);
        prepare_update(ctx.features, &mut new, old);
    }

    fn prepare_for_subresource(&self, subresource: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        prepare_subresource::<v1::StatefulSet>(self, subresource, ctx, object, old);
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(ctx.features, FieldRef::root(object))
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_update(ctx.features, FieldRef::root(object), FieldRef::root(old))
    }

    fn validate_subresource(
        &self,
        subresource: &str,
        ctx: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        if subresource == "scale" {
            let mut errors = self.validate_metadata_change(object, old);
            errors.extend(self.validate_update(ctx, object, old));
            return errors;
        }
        let (new, old_set) = (FieldRef::root(object), FieldRef::root(old));
        let mut errors = validation::validate_status(new);
        errors.extend(self.validate_metadata_change(object, old));
        validation::validate_collision_count(new, old_set, &mut errors);
        errors
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks { subresources: &[], ..MetadataChecks::CHANGE }
    }

    /// Validates the name, which becomes the beginning of the pods' names and their host name.
    fn validate_name(&self, _: &Features, name: &str, prefix: bool) -> Vec<String> {
        names::dns1123_label_name(name, prefix)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let set = FieldRef::<v1::StatefulSet>::root(object);
        let mut warnings = template_warnings(set, old.map(FieldRef::root));
        let spec = set.at(v1::StatefulSet::SPEC);
        for claim in spec.at(Spec::VOLUME_CLAIM_TEMPLATES).items() {
            // On updates, kube-apiserver reports another path.
            let at = if old.is_some() { claim.path().child("Spec") } else { claim.path() };
            let spec = claim.at(PersistentVolumeClaim::SPEC);
            warnings.extend(warnings::of_claim_spec(FieldRef::located(spec.value(), &at)));
        }
        if spec.at(Spec::REVISION_HISTORY_LIMIT).int().is_some_and(|limit| limit < 0) {
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
    fn sets_defaults_of_update_strategy_and_claims() {
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
