//! ResourceClaimTemplate: a template of resource claims, one for each pod.

use binnacle_fields::resource::v1::{
    ResourceClaimSpec, ResourceClaimTemplate as Template, ResourceClaimTemplateSpec as Spec,
};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

use super::{claim_validation, requests};
use crate::checks::immutable_struct;
use crate::volume_claims::template_metadata;
use crate::{Features, MetadataChecks, Strategy, StrategyContext};

pub(crate) struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn set_defaults(&self, version: &str, object: &mut Value) {
        let mut template = FieldMut::root(object);
        if let Some(mut spec) = template.structure(Template::SPEC)
            && let Some(claim) = spec.structure(Spec::SPEC)
        {
            requests::set_defaults(version, claim);
        }
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        drop_disabled_fields(ctx.features, object, None);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        drop_disabled_fields(ctx.features, object, Some(old));
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let template = FieldRef::root(object);
        let spec = template.at(Template::SPEC);
        template_metadata(spec.at(Spec::METADATA), &mut errors);
        let claim = spec.at(Spec::SPEC);
        claim_validation::devices(claim.at(ResourceClaimSpec::DEVICES), &mut errors);
        errors
    }

    /// Like kube-apiserver, validates the whole template again, although it is immutable.
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        errors.extend(self.validate_metadata_change(object, old));
        let (new, old) = (FieldRef::root(object), FieldRef::root(old));
        immutable_struct(new.at(Template::SPEC), old.at(Template::SPEC), &mut errors);
        errors
    }
}

fn drop_disabled_fields(features: &Features, object: &mut Value, old: Option<&Value>) {
    let mut template = FieldMut::root(object);
    if let Some(mut spec) = template.structure(Template::SPEC)
        && let Some(claim) = spec.structure(Spec::SPEC)
    {
        let old = FieldRef::root(old.unwrap_or(&Value::Null));
        let old = old.at(Template::SPEC);
        requests::drop_disabled_fields(features, claim, Some(old.at(Spec::SPEC)));
    }
}
