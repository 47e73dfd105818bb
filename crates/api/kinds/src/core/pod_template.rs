//! `PodTemplate`: a stored pod template.

use binnacle_fields::core::v1::{self, PodTemplateSpec};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

use crate::Features;
use crate::equality::equal;
use crate::pod_spec::validation::{self, PodValidationOptions};
use crate::pod_spec::{drop_disabled_spec_fields, set_template_defaults, warnings};
use crate::prepare::{count_generation_if, start_generation};
use crate::workload::has_same_generation;
use crate::{Strategy, StrategyContext};

pub(super) struct PodTemplate;

impl Strategy for PodTemplate {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_template_defaults(FieldMut::root(object).entry(v1::PodTemplate::TEMPLATE).object());
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut new = FieldMut::<v1::PodTemplate>::root(object);
        start_generation(&mut new);
        drop_disabled_fields(ctx.features, &mut new, None);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::<v1::PodTemplate>::root(object), FieldRef::root(old));
        drop_disabled_fields(ctx.features, &mut new, Some(old));
        let has_changed = !equal(new.read().at(v1::PodTemplate::TEMPLATE), old.at(v1::PodTemplate::TEMPLATE));
        count_generation_if(has_changed, &mut new, old);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let new = FieldRef::<v1::PodTemplate>::root(object);
        let template = new.at(v1::PodTemplate::TEMPLATE);
        if !template.is_set() || old.is_some_and(|old| has_same_generation(new, FieldRef::root(old))) {
            return Vec::new();
        }
        warnings::of_template(template)
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(FieldRef::root(object), &PodValidationOptions::for_template(ctx.features))
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let old = FieldRef::<v1::PodTemplate>::root(old);
        let options = PodValidationOptions::for_update(ctx.features, old.at(v1::PodTemplate::TEMPLATE).value());
        validate(FieldRef::root(object), &options)
    }
}

fn drop_disabled_fields(
    features: &Features,
    object: &mut FieldMut<v1::PodTemplate>,
    old: Option<FieldRef<v1::PodTemplate>>,
) {
    let old = old.and_then(|old| old.at(v1::PodTemplate::TEMPLATE).at(PodTemplateSpec::SPEC).get());
    let Some(mut template) = object.structure(v1::PodTemplate::TEMPLATE) else { return };
    let Some(mut spec) = template.structure(PodTemplateSpec::SPEC) else { return };
    drop_disabled_spec_fields(features, spec.value(), old);
}

fn validate(object: FieldRef<v1::PodTemplate>, options: &PodValidationOptions<'_>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let template = object.at(v1::PodTemplate::TEMPLATE);
    validation::template(template, options, &mut errors);
    errors
}
