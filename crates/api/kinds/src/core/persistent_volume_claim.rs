//! `PersistentVolumeClaim`: a request for storage.

mod validation;

use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::pod_resources as resources;

use crate::Features;
use crate::pod_spec::{set_claim_spec_defaults, warnings};
use crate::tree_names::{default_zero, is_nil, keep, struct_mut, text};
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
        let lacks = object.str_at(&["status", "phase"]).is_empty();
        if lacks {
            object.make_at(&["status"]).insert("phase", "Pending");
        }
        lacks
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        object.make_object().remove("status");
        settle_data_source(situation.features, object.make_at(&["spec"]), None);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "status");
        settle_data_source(situation.features, object.make_at(&["spec"]), old.get("spec"));
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
        // Feature gate `PersistentVolumeClaimUnusedSinceTime` is off and drops nothing: only the controller uses it.
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(object, None)
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_update(object, old)
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        validation::validate_status(object)
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if object.at(&["metadata", "annotations", STORAGE_CLASS]).is_some() {
            let at = FieldPath::new("metadata").child("annotations").key(STORAGE_CLASS);
            warnings.push(format!("{at}: deprecated since v1.8; use \"storageClassName\" attribute instead"));
        }
        let spec = object.get("spec").unwrap_or(&Value::Null);
        warnings.extend(warnings::of_claim_spec(spec, &FieldPath::new("spec")));
        warnings
    }
}

pub(crate) use validation::{access_modes, template_metadata, validate_spec, validate_template};

/// Sets the defaults of a claim, in objects and in templates of stateful sets.
pub(crate) fn set_claim_defaults(claim: &mut Object) {
    let status = claim.object_entry("status");
    default_zero(status, "phase", "Pending");
    for name in ["capacity", "allocatedResources"] {
        if let Some(list) = struct_mut(status, name) {
            resources::round_up(list);
        }
    }
    set_claim_spec_defaults(claim.object_entry("spec"));
}

/// Fills in `dataSource` and `dataSourceRef` from each other (KEP-1495). Kinds of sources that `dataSource` does not
/// support are dropped as before, unless the old claim has one.
fn settle_data_source(features: &Features, spec: &mut Object, old: Option<&Value>) {
    let had = |name: &str| old.and_then(|old| old.get(name)).is_some_and(|source| !source.is_null());
    if !features.enabled("CrossNamespaceVolumeDataSource") && !had("dataSourceRef") && has_namespace(spec) {
        spec.remove("dataSourceRef");
    }
    if !had("dataSource")
        && !had("dataSourceRef")
        && is_nil(spec, "dataSourceRef")
        && !spec.get("dataSource").is_some_and(is_claim_or_snapshot)
    {
        spec.remove("dataSource");
    }
    normalize_data_sources(spec);
}

/// Sets the missing one of `dataSource` and `dataSourceRef`.
pub(super) fn normalize_data_sources(spec: &mut Object) {
    match (is_nil(spec, "dataSource"), is_nil(spec, "dataSourceRef")) {
        (false, true) => copy_source(spec, "dataSource", "dataSourceRef"),
        (true, false) if !has_namespace(spec) => copy_source(spec, "dataSourceRef", "dataSource"),
        _ => {}
    }
}

fn copy_source(spec: &mut Object, from: &str, to: &str) {
    let Some(source) = spec.get(from).and_then(Value::as_object) else { return };
    let members = ["apiGroup", "kind", "name"];
    let copy: Object = members.into_iter().filter_map(|name| Some((name, source.get(name)?.clone()))).collect();
    spec.insert(to, copy);
}

fn has_namespace(spec: &Object) -> bool {
    spec.get("dataSourceRef").is_some_and(|source| !source.str_at(&["namespace"]).is_empty())
}

fn is_claim_or_snapshot(source: &Value) -> bool {
    let Some(source) = source.as_object() else { return false };
    matches!(
        (text(source, "kind"), text(source, "apiGroup")),
        ("PersistentVolumeClaim", "") | ("VolumeSnapshot", "snapshot.storage.k8s.io")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn data_sources() {
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
            settle_data_source(&crate::testing::FEATURES, spec.make_object(), old.as_ref());
            assert_eq!(spec, want);
        }
    }
}
