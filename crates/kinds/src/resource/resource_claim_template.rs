//! ResourceClaimTemplate: claims that are made for each pod.

use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

use super::{claim_validation, requests};
use crate::checks::{immutable_as, member, spec_path};
use crate::core::persistent_volume_claim::template_metadata;
use crate::{Situation, Strategy, internal};

pub(crate) struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn set_defaults(&self, version: &str, object: &mut Value) {
        requests::set_defaults(version, object, &["spec", "spec", "devices", "requests"]);
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        requests::drop_disabled_fields(object, None, &["spec", "spec"]);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        requests::drop_disabled_fields(object, Some(old), &["spec", "spec"]);
    }

    fn validate(&self, _: &Situation<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let template = member(object, "spec");
        template_metadata(template, &spec_path(), &mut errors);
        let path = spec_path().child("spec").child("devices");
        claim_validation::devices(member(member(template, "spec"), "devices"), &path, &mut errors);
        errors
    }

    fn validate_update(&self, _: &Situation<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let spec = object.get("spec");
        let shown = || internal::shown("io.k8s.api.resource.v1.ResourceClaimTemplateSpec", spec);
        immutable_as(&spec_path(), spec, old.get("spec"), shown, &mut errors);
        errors
    }
}
