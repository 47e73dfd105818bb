//! IngressClass: which controller an Ingress is for.

use binnacle_schema::Value;

use crate::prepare::{default_to, first_generation, next_generation};
use crate::{Situation, Strategy};

pub(crate) struct IngressClass;

impl Strategy for IngressClass {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        if let Some(parameters) = object.at_mut(&["spec", "parameters"]).and_then(Value::as_object_mut) {
            default_to(parameters, "scope", "Cluster");
        }
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["spec"]);
    }
}
