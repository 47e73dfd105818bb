//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy: rules of admission in CEL.

use binnacle_json_path::JsonPath;
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{checks, conditions};

use super::defaults::match_resources;
use super::matching::{reserved_name, reserved_name_warnings};
use super::policy_validation;
use crate::checks::{items, member};
use crate::prepare::{clear_status, default_to, first_generation, next_generation, put_back, put_back_metadata};
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct MutatingAdmissionPolicy;

pub(crate) struct ValidatingAdmissionPolicy;

impl Strategy for MutatingAdmissionPolicy {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_defaults(object);
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["spec"]);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        policy_validation::mutating(object, None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        policy_validation::mutating(object, Some(old))
    }

    fn validate_client_create(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(situation, object)
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(object)
    }
}

impl Strategy for ValidatingAdmissionPolicy {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        set_defaults(object);
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
        next_generation(object, old, &["spec"]);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (status, path) = (member(object, "status"), FieldPath::new("status"));
        for (at, warning) in
            errors.while_room(items(member(status, "typeChecking"), "expressionWarnings", &path.child("typeChecking")))
        {
            checks::required(&at.child("warning"), warning.str_at(&["warning"]), &mut errors);
            field_ref(warning.str_at(&["fieldRef"]).trim(), &at.child("fieldRef"), &mut errors);
        }
        conditions::conditions(status.list_at(&["conditions"]), &path.child("conditions"), &mut errors);
        errors
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        policy_validation::validating(object, None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        policy_validation::validating(object, Some(old))
    }

    fn validate_client_create(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(situation, object)
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(object)
    }
}

/// Validates the path that a warning of type checking is about. Nobody follows it, so it only has to be one.
fn field_ref(text: &str, path: &FieldPath, errors: &mut FieldErrors) {
    checks::required(path, text, errors);
    if let Err(error) = JsonPath::parse(text) {
        errors.push(FieldError::invalid(path, text, format!("invalid JSONPath: {error}")));
    }
}

fn set_defaults(object: &mut Value) {
    let spec = object.make_at(&["spec"]);
    default_to(spec, "failurePolicy", "Fail");
    if let Some(constraints) = spec.get_mut("matchConstraints").and_then(Value::as_object_mut) {
        match_resources(constraints);
    }
}
