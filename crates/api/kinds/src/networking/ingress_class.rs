//! IngressClass: the controller of an Ingress.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{domains, names};

use super::ingress::local_reference;
use crate::checks::{immutable_as, invalid_each, member, present, spec_path};
use crate::prepare::{default_to, first_generation, next_generation};
use crate::{MetadataChecks, Strategy, StrategyContext};

const CONTROLLER_MAX: usize = 250;

pub(crate) struct IngressClass;

impl Strategy for IngressClass {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        if let Some(parameters) = object.at_mut(&["spec", "parameters"]).and_then(Value::as_object_mut) {
            default_to(parameters, "scope", "Cluster");
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["spec"]);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (spec, path) = (member(object, "spec"), spec_path());
        let controller = spec.str_at(&["controller"]);
        let at = path.child("controller");
        if controller.len() > CONTROLLER_MAX {
            errors.push(FieldError::too_long(&at, CONTROLLER_MAX));
        }
        domains::domain_prefixed_path(&at, controller, &mut errors);
        if let Some(parameters) = present(spec, "parameters") {
            validate_parameters(parameters, &path.child("parameters"), &mut errors);
        }
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        const CONTROLLER: &[&str] = &["spec", "controller"];
        let mut errors = FieldErrors::new();
        let shown = || object.str_at(CONTROLLER).into();
        let (new, old) = (object.str_at(CONTROLLER).into(), old.str_at(CONTROLLER).into());
        immutable_as(&spec_path().child("controller"), Some(&new), Some(&old), shown, &mut errors);
        errors.extend(self.validate(situation, object));
        errors
    }
}

fn validate_parameters(parameters: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    local_reference(parameters, path, errors);
    let Some(scope) = present(parameters, "scope").and_then(Value::as_str) else {
        errors.push(FieldError::required(&path.child("scope"), ""));
        return;
    };
    let namespace = present(parameters, "namespace").and_then(Value::as_str);
    let at = path.child("namespace");
    match (scope, namespace) {
        ("Namespace", None) => {
            errors.push(FieldError::required(&at, "`parameters.scope` is set to 'Namespace'"));
        }
        ("Namespace", Some(namespace)) => invalid_each(&at, namespace, &names::dns1123_label(namespace), errors),
        ("Cluster", Some(_)) => errors.push(FieldError::forbidden(&at, "`parameters.scope` is set to 'Cluster'")),
        ("Cluster", None) => {}
        _ => errors.push(FieldError::not_supported(&path.child("scope"), scope, &["Cluster", "Namespace"])),
    }
}
