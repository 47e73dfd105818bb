//! ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding: where a policy applies, and with what.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::shown;
use binnacle_validation::{checks, names, repeated, selectors};

use super::matching::{reserved_name, reserved_name_warnings};
use super::{defaults, matching};
use crate::checks::{invalid_each, member, one_of, present, spec_path, texts};
use crate::prepare::{default_to, first_generation, next_generation};
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct MutatingAdmissionPolicyBinding;

pub(crate) struct ValidatingAdmissionPolicyBinding;

impl Strategy for MutatingAdmissionPolicyBinding {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn set_defaults(&self, version: &str, object: &mut Value) {
        set_defaults(version, object);
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["spec"]);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(object, true)
    }

    fn validate_client_create(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(situation, object)
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(object)
    }
}

impl Strategy for ValidatingAdmissionPolicyBinding {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn set_defaults(&self, version: &str, object: &mut Value) {
        set_defaults(version, object);
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["spec"]);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(object, false)
    }

    fn validate_client_create(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(situation, object)
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(object)
    }
}

fn set_defaults(version: &str, object: &mut Value) {
    if let Some(resources) = object.at_mut(&["spec", "matchResources"]).and_then(Value::as_object_mut) {
        defaults::match_resources(resources);
    }
    // Only the oldest version has a default for missing parameters.
    if version == "v1alpha1"
        && let Some(params) = object.at_mut(&["spec", "paramRef"]).and_then(Value::as_object_mut)
    {
        default_to(params, "parameterNotFoundAction", "Deny");
    }
}

fn validate(binding: &Value, mutating: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (member(binding, "spec"), spec_path());
    let (policy, at) = (spec.str_at(&["policyName"]), path.child("policyName"));
    if policy.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        checks::subdomain(&at, policy, &mut errors);
    }
    if let Some(params) = present(spec, "paramRef") {
        param_ref(params, &path.child("paramRef"), &mut errors);
    }
    if let Some(resources) = present(spec, "matchResources") {
        let at = path.child("matchResources");
        matching::match_resources(resources, &at, &mut errors);
        if mutating {
            matching::mutating_operations(resources, &at, &mut errors);
        }
    }
    if !mutating {
        validation_actions(spec, &path.child("validationActions"), &mut errors);
    }
    errors
}

fn param_ref(params: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const EITHER: &str = "name and selector are mutually exclusive";
    let (name, selector) = (params.str_at(&["name"]), present(params, "selector"));
    if !name.is_empty() {
        invalid_each(&path.child("name"), name, &names::path_segment(name, false), errors);
        if selector.is_some() {
            errors.push(FieldError::forbidden(&path.child("name"), EITHER));
        }
    }
    selectors::label_selector(selector, false, &path.child("selector"), errors);
    if selector.is_some() && !name.is_empty() {
        errors.push(FieldError::forbidden(&path.child("selector"), EITHER));
    }
    if selector.is_none() && name.is_empty() {
        errors.push(FieldError::required(path, "one of name or selector must be specified"));
    }
    let (action, at) = (params.str_at(&["parameterNotFoundAction"]), path.child("parameterNotFoundAction"));
    if action.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        one_of(&at, action, &["Deny", "Allow"], errors);
    }
}

fn validation_actions(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let actions = texts(spec, "validationActions");
    let repeated = repeated(&actions, |action| *action);
    for (i, action) in errors.while_room(actions.iter().enumerate()) {
        one_of(&path.index(i), action, &["Audit", "Deny", "Warn"], errors);
        if repeated[i] {
            errors.push(FieldError::duplicate(&path.index(i), *action));
        }
    }
    if actions.contains(&"Deny") && actions.contains(&"Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(FieldError::invalid(path, shown(spec.get("validationActions")), detail));
    }
    if actions.is_empty() {
        errors.push(FieldError::required(path, "at least one validation action is required"));
    }
}
