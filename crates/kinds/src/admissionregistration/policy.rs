//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy: rules of admission in CEL.

use binnacle_schema::Value;

use super::defaults::match_resources;
use crate::prepare::{clear_status, default_to, first_generation, next_generation, put_back, put_back_metadata};
use crate::{Situation, Strategy};

pub(crate) struct MutatingAdmissionPolicy;

pub(crate) struct ValidatingAdmissionPolicy;

impl Strategy for MutatingAdmissionPolicy {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_defaults(object);
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["spec"]);
    }
}

impl Strategy for ValidatingAdmissionPolicy {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_defaults(object);
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        clear_status(object);
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
        next_generation(object, old, &["spec"]);
    }

    fn prepare_for_subresource(&self, _: &str, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }
}

fn set_defaults(object: &mut Value) {
    let spec = object.make_at(&["spec"]);
    default_to(spec, "failurePolicy", "Fail");
    if let Some(constraints) = spec.get_mut("matchConstraints").and_then(Value::as_object_mut) {
        match_resources(constraints);
    }
}
