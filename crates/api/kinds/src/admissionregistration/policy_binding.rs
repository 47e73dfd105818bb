//! ValidatingAdmissionPolicyBinding and MutatingAdmissionPolicyBinding: where a policy applies, and with which
//! parameters.

use binnacle_fields::admissionregistration::v1::{
    MutatingAdmissionPolicyBinding as Mutating, ParamRef, ValidatingAdmissionPolicyBinding as Validating,
    ValidatingAdmissionPolicyBindingSpec as Spec,
};
use binnacle_fields::types::{List, Str};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;
use binnacle_validation::checks::{self, invalid_for, one_of, required_one_of};
use binnacle_validation::{names, repeated, selectors};

use super::matching::{reserved_name, reserved_name_warnings};
use super::{defaults, matching};
use crate::prepare::{count_generation, start_generation};
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
        start_generation(&mut FieldMut::<Mutating>::root(object));
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        count_generation(&mut FieldMut::root(object), FieldRef::root(old), Mutating::SPEC);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(FieldRef::root(object), true)
    }

    fn validate_client_create(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(ctx, FieldRef::<Mutating>::root(object))
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(FieldRef::<Mutating>::root(object))
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
        start_generation(&mut FieldMut::<Validating>::root(object));
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        count_generation(&mut FieldMut::root(object), FieldRef::root(old), Validating::SPEC);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(FieldRef::root(object), false)
    }

    fn validate_client_create(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(ctx, FieldRef::<Validating>::root(object))
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(FieldRef::<Validating>::root(object))
    }
}

fn set_defaults(version: &str, object: &mut Value) {
    // Both kinds of bindings have these fields.
    let mut binding = FieldMut::<Validating>::root(object);
    let Some(mut spec) = binding.structure(Validating::SPEC) else { return };
    if let Some(resources) = spec.structure(Spec::MATCH_RESOURCES) {
        defaults::match_resources(resources);
    }
    // Only the oldest version has a default for missing parameters.
    if version == "v1alpha1"
        && let Some(mut params) = spec.structure(Spec::PARAM_REF)
    {
        params.default_nil(ParamRef::PARAMETER_NOT_FOUND_ACTION, "Deny");
    }
}

/// Validates a binding. The spec of mutating ones has the same fields, except the actions.
fn validate(binding: FieldRef<Validating>, mutating: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = binding.at(Validating::SPEC);
    let policy = spec.at(Spec::POLICY_NAME);
    if policy.is_empty() {
        errors.push(policy.required(""));
    } else {
        checks::subdomain(&policy, policy.str(), &mut errors);
    }
    if let Some(params) = spec.at(Spec::PARAM_REF).set() {
        param_ref(params, &mut errors);
    }
    if let Some(resources) = spec.at(Spec::MATCH_RESOURCES).set() {
        matching::match_resources(resources, &mut errors);
        if mutating {
            matching::mutating_operations(resources, &mut errors);
        }
    }
    if !mutating {
        validation_actions(spec.at(Spec::VALIDATION_ACTIONS), &mut errors);
    }
    errors
}

fn param_ref(params: FieldRef<ParamRef>, errors: &mut FieldErrors) {
    const EITHER: &str = "name and selector are mutually exclusive";
    let (name, selector) = (params.at(ParamRef::NAME), params.at(ParamRef::SELECTOR));
    if !name.is_empty() {
        invalid_for(&name, name.str(), names::path_segment(name.str(), false), errors);
        if selector.is_set() {
            errors.push(name.forbidden(EITHER));
        }
    }
    selectors::validate(selector, false, errors);
    if selector.is_set() && !name.is_empty() {
        errors.push(selector.forbidden(EITHER));
    }
    if !selector.is_set() && name.is_empty() {
        errors.push(params.required("one of name or selector must be specified"));
    }
    let action = params.at(ParamRef::PARAMETER_NOT_FOUND_ACTION);
    required_one_of(&action, action.str(), &["Deny", "Allow"], errors);
}

fn validation_actions(actions: FieldRef<List<Str>>, errors: &mut FieldErrors) {
    let repeated = repeated(actions.list(), Value::as_str);
    for (i, action) in errors.while_room(actions.items().enumerate()) {
        one_of(&action, action.str(), &["Audit", "Deny", "Warn"], errors);
        if repeated[i] {
            errors.push(FieldError::duplicate(&action, action.shown_as_json()));
        }
    }
    if actions.contains("Deny") && actions.contains("Warn") {
        let detail = "must not contain both Deny and Warn (repeating the same validation failure information in the API response and headers serves no purpose)";
        errors.push(actions.invalid(detail));
    }
    if actions.is_empty() {
        errors.push(actions.required("at least one validation action is required"));
    }
}
