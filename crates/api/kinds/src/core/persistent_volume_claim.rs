//! `PersistentVolumeClaim`: a request for storage.

use binnacle_fields::core::v1::{
    PersistentVolumeClaim as Claim, PersistentVolumeClaimSpec as Spec, PersistentVolumeClaimStatus as Status,
    TypedLocalObjectReference,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value};
use binnacle_validation::pod_resources as resources;

use crate::Features;
use crate::pod_spec::{set_claim_spec_defaults, warnings};
use crate::volume_claims::{self, has_namespace, normalize_data_sources};
use crate::{MetadataChecks, Strategy, StrategyContext};

/// The annotation with the storage class, from before there was a field for it.
const STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

pub(super) struct PersistentVolumeClaim;

impl Strategy for PersistentVolumeClaim {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_claim_defaults(object.make_object());
    }

    fn completes_stored(&self) -> bool {
        true
    }

    /// Completes the status of a stored claim: new claims are stored without one.
    fn complete_stored(&self, object: &mut Value) -> bool {
        let mut claim = FieldMut::<Claim>::root(object);
        let lacks = claim.read().at(Claim::STATUS).at(Status::PHASE).is_empty();
        if lacks {
            claim.entry(Claim::STATUS).set(Status::PHASE, "Pending");
        }
        lacks
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut claim = FieldMut::<Claim>::root(object);
        claim.remove(Claim::STATUS);
        update_data_sources(ctx.features, claim.entry(Claim::SPEC), None);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut claim = FieldMut::<Claim>::root(object);
        let old = FieldRef::root(old);
        claim.keep(old, Claim::STATUS);
        let old = old.at(Claim::SPEC);
        update_data_sources(ctx.features, claim.entry(Claim::SPEC), Some(old));
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::<Claim>::root(object).keep(FieldRef::root(old), Claim::SPEC);
        // Feature gate `PersistentVolumeClaimUnusedSinceTime` is off and drops nothing: only the controller uses it.
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        volume_claims::validate(FieldRef::root(object), None)
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        volume_claims::validate_update(FieldRef::root(object), FieldRef::root(old))
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        volume_claims::validate_status(FieldRef::root(object))
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let claim = FieldRef::<Claim>::root(object);
        let metadata = claim.at(Claim::METADATA);
        let annotations = metadata.at(ObjectMeta::ANNOTATIONS);
        if annotations.value().get(STORAGE_CLASS).is_some() {
            let at = annotations.key(STORAGE_CLASS).path();
            warnings.push(format!("{at}: deprecated since v1.8; use \"storageClassName\" attribute instead"));
        }
        let spec = claim.at(Claim::SPEC);
        warnings.extend(warnings::of_claim_spec(spec));
        warnings
    }
}

/// Sets the defaults of a claim, in objects and in templates of stateful sets.
pub(crate) fn set_claim_defaults(claim: &mut Object) {
    let mut value = Value::from(std::mem::take(claim));
    claim_defaults(FieldMut::root(&mut value));
    *claim = value.into_object().unwrap_or_default();
}

fn claim_defaults(mut claim: FieldMut<Claim>) {
    let mut status = claim.entry(Claim::STATUS);
    status.default_zero(Status::PHASE, "Pending");
    for list in [Status::CAPACITY, Status::ALLOCATED_RESOURCES] {
        if let Some(list) = status.map(list) {
            resources::round_up(list);
        }
    }
    set_claim_spec_defaults(claim.entry(Claim::SPEC).object());
}

/// Fills in `dataSource` and `dataSourceRef` from each other (KEP-1495). Kinds of sources that `dataSource` does not
/// support are dropped as before, unless the old claim has one.
fn update_data_sources(features: &Features, mut spec: FieldMut<Spec>, old: Option<FieldRef<Spec>>) {
    let had_source = old.is_some_and(|old| old.at(Spec::DATA_SOURCE).is_set());
    let had_reference = old.is_some_and(|old| old.at(Spec::DATA_SOURCE_REF).is_set());
    if !features.enabled("CrossNamespaceVolumeDataSource") && !had_reference && has_namespace(spec.read()) {
        spec.remove(Spec::DATA_SOURCE_REF);
    }
    if !had_source
        && !had_reference
        && spec.is_nil(Spec::DATA_SOURCE_REF)
        && !is_claim_or_snapshot(spec.read().at(Spec::DATA_SOURCE))
    {
        spec.remove(Spec::DATA_SOURCE);
    }
    normalize_data_sources(&mut spec);
}

fn is_claim_or_snapshot(source: FieldRef<TypedLocalObjectReference>) -> bool {
    matches!(
        (source.at(TypedLocalObjectReference::KIND).str(), source.at(TypedLocalObjectReference::API_GROUP).str()),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn normalizes_data_sources() {
        let claim = value!({"kind": "PersistentVolumeClaim", "name": "a"});
        let other = value!({"apiGroup": "x", "kind": "Y", "name": "a"});
        let elsewhere = value!({"kind": "PersistentVolumeClaim", "name": "a", "namespace": "n"});
        for (given, old, want) in [
            (
                value!({"dataSource": (claim.clone())}),
                None,
                value!({"dataSource": (claim.clone()), "dataSourceRef": (claim.clone())}),
            ),
            (
                value!({"dataSourceRef": (other.clone())}),
                None,
                value!({"dataSource": (other.clone()), "dataSourceRef": (other.clone())}),
            ),
            (value!({"dataSource": (other.clone())}), None, value!({})),
            (value!({"dataSourceRef": (elsewhere.clone())}), None, value!({})),
            (
                value!({"dataSource": (other.clone())}),
                Some(value!({"dataSource": (other.clone())})),
                value!({"dataSource": (other.clone()), "dataSourceRef": (other.clone())}),
            ),
        ] {
            let mut spec = given;
            update_data_sources(&crate::testing::FEATURES, FieldMut::root(&mut spec), old.as_ref().map(FieldRef::root));
            assert_eq!(spec, want);
        }
    }
}
