//! IngressClass: the controller of an Ingress.

use binnacle_fields::networking::v1::{self, IngressClassParametersReference as Parameters, IngressClassSpec as Spec};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;
use binnacle_validation::checks::IMMUTABLE;
use binnacle_validation::{checks, domains};

use super::ingress::local_reference;
use crate::prepare::{count_generation, start_generation};
use crate::{Strategy, StrategyContext};

const CONTROLLER_MAX: usize = 250;

pub(crate) struct IngressClass;

impl Strategy for IngressClass {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        if let Some(mut spec) = FieldMut::root(object).structure(v1::IngressClass::SPEC)
            && let Some(mut parameters) = spec.structure(Spec::PARAMETERS)
        {
            parameters.default_nil(Parameters::SCOPE, "Cluster");
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        start_generation(&mut FieldMut::<v1::IngressClass>::root(object));
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        count_generation(&mut FieldMut::root(object), FieldRef::root(old), v1::IngressClass::SPEC);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let class = FieldRef::<v1::IngressClass>::root(object);
        let spec = class.at(v1::IngressClass::SPEC);
        let controller = spec.at(Spec::CONTROLLER);
        if controller.str().len() > CONTROLLER_MAX {
            errors.push(controller.too_long(CONTROLLER_MAX));
        }
        domains::domain_prefixed_path(&controller, controller.str(), &mut errors);
        if let Some(parameters) = spec.at(Spec::PARAMETERS).set() {
            validate_parameters(parameters, &mut errors);
        }
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::<v1::IngressClass>::root(object), FieldRef::<v1::IngressClass>::root(old));
        let spec = new.at(v1::IngressClass::SPEC);
        let controller = spec.at(Spec::CONTROLLER);
        if controller.str() != old.at(v1::IngressClass::SPEC).at(Spec::CONTROLLER).str() {
            errors.push(controller.invalid(IMMUTABLE));
        }
        errors.extend(self.validate_whole_metadata(ctx, object));
        errors.extend(self.validate(ctx, object));
        errors
    }
}

fn validate_parameters(parameters: FieldRef<Parameters>, errors: &mut FieldErrors) {
    // They have the fields of such a reference.
    local_reference(parameters.cast(), errors);
    let (scope, namespace) = (parameters.at(Parameters::SCOPE), parameters.at(Parameters::NAMESPACE));
    if !scope.is_set() {
        errors.push(scope.required(""));
        return;
    }
    match (scope.str(), namespace.get_str()) {
        ("Namespace", None) => errors.push(namespace.required("`parameters.scope` is set to 'Namespace'")),
        ("Namespace", Some(name)) => checks::label(&namespace, name, errors),
        ("Cluster", Some(_)) => errors.push(namespace.forbidden("`parameters.scope` is set to 'Cluster'")),
        ("Cluster", None) => {}
        _ => errors.push(FieldError::not_supported(&scope, scope.str(), &["Cluster", "Namespace"])),
    }
}
