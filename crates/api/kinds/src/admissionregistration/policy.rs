//! ValidatingAdmissionPolicy and MutatingAdmissionPolicy: rules of admission in CEL.

use binnacle_fields::admissionregistration::v1::{
    ExpressionWarning, MutatingAdmissionPolicy as Mutating, TypeChecking, ValidatingAdmissionPolicy as Validating,
    ValidatingAdmissionPolicySpec as Spec, ValidatingAdmissionPolicyStatus as Status,
};
use binnacle_fields::types::Str;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_json_path::JsonPath;
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::{checks, conditions};

use super::defaults::match_resources;
use super::matching::{reserved_name, reserved_name_warnings};
use super::policy_validation;
use crate::prepare::{count_generation, keep_metadata, start_generation};
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
        start_generation(&mut FieldMut::<Mutating>::root(object));
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        count_generation(&mut FieldMut::root(object), FieldRef::root(old), Mutating::SPEC);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        policy_validation::mutating(FieldRef::root(object), None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        policy_validation::mutating(FieldRef::root(object), Some(FieldRef::root(old)))
    }

    fn validate_client_create(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(ctx, FieldRef::<Mutating>::root(object))
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(FieldRef::<Mutating>::root(object))
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
        let mut policy = FieldMut::<Validating>::root(object);
        policy.remove(Validating::STATUS);
        start_generation(&mut policy);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::<Validating>::root(object), FieldRef::root(old));
        new.keep(old, Validating::STATUS);
        count_generation(&mut new, old, Validating::SPEC);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::<Validating>::root(object), FieldRef::root(old));
        new.keep(old, Validating::SPEC);
        keep_metadata(&mut new, old);
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let policy = FieldRef::<Validating>::root(object);
        let status = policy.at(Validating::STATUS);
        for warning in errors.while_room(status.at(Status::TYPE_CHECKING).at(TypeChecking::EXPRESSION_WARNINGS).items())
        {
            let text = warning.at(ExpressionWarning::WARNING);
            checks::required(&text, text.str(), &mut errors);
            field_ref(warning.at(ExpressionWarning::FIELD_REF), &mut errors);
        }
        let list = status.at(Status::CONDITIONS);
        conditions::validate(list.items(), &mut errors);
        errors
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        policy_validation::validating(FieldRef::root(object), None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        policy_validation::validating(FieldRef::root(object), Some(FieldRef::root(old)))
    }

    fn validate_client_create(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(ctx, FieldRef::<Validating>::root(object))
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(FieldRef::<Validating>::root(object))
    }
}

/// Validates the path that a warning of type checking is about. It is never evaluated, so it only has to be a valid
/// path.
fn field_ref(field: FieldRef<Str>, errors: &mut FieldErrors) {
    let text = field.str().trim();
    checks::required(&field, text, errors);
    if let Err(error) = JsonPath::parse(text) {
        errors.push(field.invalid_as(text, format!("invalid JSONPath: {error}")));
    }
}

/// Sets the defaults of fields that both kinds of policies have.
fn set_defaults(object: &mut Value) {
    let mut policy = FieldMut::<Validating>::root(object);
    let mut spec = policy.entry(Validating::SPEC);
    spec.default_nil(Spec::FAILURE_POLICY, "Fail");
    if let Some(constraints) = spec.structure(Spec::MATCH_CONSTRAINTS) {
        match_resources(constraints);
    }
}
