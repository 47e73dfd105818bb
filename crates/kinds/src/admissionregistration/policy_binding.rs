//! ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding: where a policy applies, and with what.

use binnacle_schema::Value;

use super::defaults::match_resources;
use crate::prepare::{default_to, first_generation, next_generation};
use crate::{Situation, Strategy};

pub(crate) struct MutatingAdmissionPolicyBinding;

pub(crate) struct ValidatingAdmissionPolicyBinding;

impl Strategy for MutatingAdmissionPolicyBinding {
    fn set_defaults(&self, version: &str, object: &mut Value) {
        set_defaults(version, object);
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["spec"]);
    }
}

impl Strategy for ValidatingAdmissionPolicyBinding {
    fn set_defaults(&self, version: &str, object: &mut Value) {
        set_defaults(version, object);
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["spec"]);
    }
}

fn set_defaults(version: &str, object: &mut Value) {
    if let Some(resources) = object.at_mut(&["spec", "matchResources"]).and_then(Value::as_object_mut) {
        match_resources(resources);
    }
    // Only the oldest version decides for its clients what missing parameters mean.
    if version == "v1alpha1"
        && let Some(params) = object.at_mut(&["spec", "paramRef"]).and_then(Value::as_object_mut)
    {
        default_to(params, "parameterNotFoundAction", "Deny");
    }
}
