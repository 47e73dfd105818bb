//! `PodTemplate`: a template for pods on its own.

use binnacle_schema::Value;

use crate::equality::equal_at;
use crate::pod_spec::set_template_defaults;
use crate::workload::drop_disabled_template_fields;
use crate::{Situation, Strategy, spec_generation};

pub(super) struct PodTemplate;

impl Strategy for PodTemplate {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_template_defaults(object.make_at(&["template"]));
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        spec_generation(object, None, |_, _| true);
        drop_disabled_template_fields(object, None, &["template"]);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        drop_disabled_template_fields(object, Some(old), &["template"]);
        spec_generation(object, Some(old), |object, old| {
            !equal_at("io.k8s.api.core.v1.PodTemplateSpec", object, old, &["template"])
        });
    }
}
