//! kube-apiserver validates the whole template again, including its metadata, although it is immutable.

use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

use super::{claim_validation, requests};
use crate::checks::{immutable_struct_as, member, spec_path};
use crate::core::persistent_volume_claim::template_metadata;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn set_defaults(&self, version: &str, object: &mut Value) {
        requests::set_defaults(version, object, &["spec", "spec", "devices", "requests"]);
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        requests::drop_disabled_fields(situation.features, object, None, &["spec", "spec"]);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        requests::drop_disabled_fields(situation.features, object, Some(old), &["spec", "spec"]);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let template = member(object, "spec");
        template_metadata(template, &spec_path(), &mut errors);
        let path = spec_path().child("spec").child("devices");
        claim_validation::devices(member(member(template, "spec"), "devices"), &path, &mut errors);
        errors
    }

    /// kube-apiserver checks the whole template once more, its metadata included, although nothing of it may change.
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(situation, object);
        let spec = object.get("spec");
        immutable_struct_as(
            "io.k8s.api.resource.v1.ResourceClaimTemplateSpec",
            &spec_path(),
            spec,
            old.get("spec"),
            &mut errors,
        );
        errors
    }
}
