//! `PodTemplate`: a stored pod template.

use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::Value;

use crate::equality::equal_at;
use crate::pod_spec::set_template_defaults;
use crate::pod_spec::validation::{self, PodValidationOptions};
use crate::workload_names::{drop_disabled_template_fields, template_warnings};
use crate::{Strategy, StrategyContext, spec_generation};

pub(super) struct PodTemplate;

impl Strategy for PodTemplate {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_template_defaults(object.make_at(&["template"]));
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        spec_generation(object, None, |_, _| true);
        drop_disabled_template_fields(situation.features, object, None, &["template"]);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        drop_disabled_template_fields(situation.features, object, Some(old), &["template"]);
        spec_generation(object, Some(old), |object, old| {
            !equal_at("io.k8s.api.core.v1.PodTemplateSpec", object, old, &["template"])
        });
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        template_warnings(object, old, &["template"])
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(object, &PodValidationOptions::for_template(situation.features))
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validate(
            object,
            &PodValidationOptions::for_update(situation.features, old.get("template").unwrap_or(&Value::Null)),
        )
    }
}

fn validate(object: &Value, options: &PodValidationOptions<'_>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let template = object.get("template").unwrap_or(&Value::Null);
    validation::template(template, &FieldPath::new("template"), options, &mut errors);
    errors
}
