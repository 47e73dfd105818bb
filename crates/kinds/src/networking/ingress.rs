//! Ingress: HTTP from outside to services.

use binnacle_schema::Value;

use crate::prepare::{clear_status, first_generation, is_set, next_generation, put_back};
use crate::{Situation, Strategy};

/// What named the class before there was a field for it.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(crate) struct Ingress;

impl Strategy for Ingress {
    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        clear_status(object);
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
        next_generation(object, old, &["spec"]);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = object.at(&["metadata", "annotations", CLASS_ANNOTATION]).is_some();
        if old.is_none() && annotated && !is_set(object, &["spec", "ingressClassName"]) {
            return vec![format!(
                "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
            )];
        }
        Vec::new()
    }
}
