//! Validation of ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

use binnacle_cel::Type;
use binnacle_fields::admissionregistration::v1::{
    ApplyConfiguration, AuditAnnotation, MatchResources, MutatingAdmissionPolicy, MutatingAdmissionPolicySpec,
    Mutation, ParamKind, ValidatingAdmissionPolicy, ValidatingAdmissionPolicySpec, Validation, Variable,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{List, Str};
use binnacle_fields::{FieldRef, Message};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::checks::{invalid_for, one_of, required_one_of};
use binnacle_validation::names;

use super::matching::{failure_policy, match_conditions, match_resources, mutating_operations};
use crate::checks::repeated;
use crate::expressions::{Compiler, OptionalVariables};
use crate::internal;
use crate::prepare::semantically_equal;

const AUDIT_ANNOTATIONS_MAX: usize = 20;
const VALUE_EXPRESSION_MAX: usize = 5 * 1024;
const AUTHORIZED: OptionalVariables = OptionalVariables { params: false, authorizer: true, patch_types: false };

/// Validates a ValidatingAdmissionPolicy.
pub(super) fn validating(
    policy: FieldRef<ValidatingAdmissionPolicy>,
    old: Option<FieldRef<ValidatingAdmissionPolicy>>,
) -> FieldErrors {
    use ValidatingAdmissionPolicySpec as Spec;
    let mut errors = FieldErrors::new();
    let compiler = shared(policy, old, false, &mut errors);
    let spec = policy.at(ValidatingAdmissionPolicy::SPEC);
    let (validations, annotations) = (spec.at(Spec::VALIDATIONS), spec.at(Spec::AUDIT_ANNOTATIONS));
    if validations.is_empty() && annotations.is_empty() {
        let detail = "validations or auditAnnotations must contain at least one item";
        errors.push(validations.required(detail));
        errors.push(annotations.required(detail));
        return errors;
    }
    for validation in errors.while_room(validations.items()) {
        validate_validation(validation, &compiler, &mut errors);
    }
    let name = policy.at(ValidatingAdmissionPolicy::METADATA).at(ObjectMeta::NAME).str();
    audit_annotations(annotations, &compiler, name, &mut errors);
    errors
}

/// Validates a MutatingAdmissionPolicy.
pub(super) fn mutating(
    policy: FieldRef<MutatingAdmissionPolicy>,
    old: Option<FieldRef<MutatingAdmissionPolicy>>,
) -> FieldErrors {
    use MutatingAdmissionPolicySpec as Spec;
    let mut errors = FieldErrors::new();
    let compiler = shared(policy.cast(), old.map(|old| old.cast()), true, &mut errors);
    let spec = policy.at(MutatingAdmissionPolicy::SPEC);
    let mutations = spec.at(Spec::MUTATIONS);
    if mutations.is_empty() {
        errors.push(mutations.required("mutations must contain at least one item"));
    }
    for mutation in errors.while_room(mutations.items()) {
        validate_mutation(mutation, &compiler, &mut errors);
    }
    let policy = spec.at(Spec::REINVOCATION_POLICY);
    required_one_of(&policy, policy.str(), &["IfNeeded", "Never"], &mut errors);
    errors
}

/// Validates the fields of the spec that both kinds of policy have, and adds the variables to the compiler.
fn shared(
    policy: FieldRef<ValidatingAdmissionPolicy>,
    old: Option<FieldRef<ValidatingAdmissionPolicy>>,
    mutating: bool,
    errors: &mut FieldErrors,
) -> Compiler {
    use ValidatingAdmissionPolicySpec as Spec;
    let spec = policy.at(ValidatingAdmissionPolicy::SPEC);
    let old_object = old.map(|old| old.value());
    let kind = spec.at(Spec::PARAM_KIND);
    // Match conditions are evaluated before variables exist.
    let plain = Compiler::new(kind.is_set(), false, old_object);
    let failures = spec.at(Spec::FAILURE_POLICY);
    if failures.is_set() {
        failure_policy(failures, errors);
    } else {
        errors.push(failures.required(""));
    }
    if kind.is_set() {
        param_kind(kind, errors);
    }
    let constraints = spec.at(Spec::MATCH_CONSTRAINTS);
    if constraints.is_set() {
        match_resources(constraints, errors);
        let rules = constraints.at(MatchResources::RESOURCE_RULES);
        if rules.is_empty() {
            errors.push(rules.required(""));
        }
        if mutating {
            mutating_operations(constraints, errors);
        }
    } else {
        errors.push(constraints.required(""));
    }
    let conditions = spec.at(Spec::MATCH_CONDITIONS);
    let same_context = old.is_some_and(|old| {
        let old = old.at(ValidatingAdmissionPolicy::SPEC);
        semantically_equal(kind.get(), old.at(Spec::PARAM_KIND).get())
            && semantically_equal(conditions.get(), old.at(Spec::MATCH_CONDITIONS).get())
    });
    if !same_context {
        match_conditions(conditions, &plain, errors);
    }
    // Mutations can always refer to `variables`, even if none are declared.
    let variables = spec.at(Spec::VARIABLES);
    let mut compiler = Compiler::new(kind.is_set(), mutating || !variables.is_empty(), old_object);
    for variable in errors.while_room(variables.items()) {
        validate_variable(variable, &mut compiler, errors);
    }
    compiler
}

fn param_kind(param_kind: FieldRef<ParamKind>, errors: &mut FieldErrors) {
    let api_version = param_kind.at(ParamKind::API_VERSION);
    let text = api_version.str();
    if text.is_empty() {
        errors.push(api_version.required(""));
    } else if text.matches('/').count() > 1 {
        errors.push(api_version.invalid(format!("unexpected GroupVersion string: {text}")));
    } else {
        let (group, version) = text.split_once('/').unwrap_or(("", text));
        if !group.is_empty() {
            joined(api_version, group, "", &names::dns1123_subdomain(group), errors);
        }
        if version.is_empty() {
            errors.push(api_version.invalid("version must be specified"));
        } else {
            joined(api_version, version, "", &names::dns1035_label(version), errors);
        }
    }
    let kind = param_kind.at(ParamKind::KIND);
    if kind.is_empty() {
        errors.push(kind.required(""));
    } else {
        let intro = "may have mixed case, but should otherwise match: ";
        joined(kind, kind.str(), intro, &names::dns1035_label(&kind.str().to_lowercase()), errors);
    }
}

/// Reports all messages as one error.
fn joined(field: FieldRef<Str>, value: &str, intro: &str, messages: &[String], errors: &mut FieldErrors) {
    if !messages.is_empty() {
        errors.push(field.invalid_as(value, format!("{intro}{}", messages.join(","))));
    }
}

fn validate_variable(variable: FieldRef<Variable>, compiler: &mut Compiler, errors: &mut FieldErrors) {
    let name = variable.at(Variable::NAME);
    if is_blank(name) {
        errors.push(name.required("name is not specified"));
    } else if !is_cel_identifier(name.str()) {
        errors.push(name.invalid("must be a valid CEL identifier"));
    }
    let expression = variable.at(Variable::EXPRESSION);
    if is_blank(expression) {
        errors.push(expression.required("expression is not specified"));
    } else {
        compiler.variable(&expression, name.str(), expression.str(), AUTHORIZED, errors);
    }
}

fn is_blank(field: FieldRef<Str>) -> bool {
    field.str().trim().is_empty()
}

fn is_cel_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !binnacle_cel::is_keyword(name)
}

fn validate_validation(validation: FieldRef<Validation>, compiler: &Compiler, errors: &mut FieldErrors) {
    let expression = validation.at(Validation::EXPRESSION);
    if is_blank(expression) {
        errors.push(expression.required("expression is not specified"));
    } else {
        compiler.check(&expression, expression.str(), expression.str(), AUTHORIZED, &[Type::Bool], errors);
    }
    let message_expression = validation.at(Validation::MESSAGE_EXPRESSION);
    if !message_expression.is_empty() && is_blank(message_expression) {
        errors.push(message_expression.invalid("must be non-empty if specified"));
    } else if !message_expression.is_empty() {
        let text = message_expression.str();
        compiler.check(&message_expression, text, text, OptionalVariables::default(), &[Type::String], errors);
    }
    let message = validation.at(Validation::MESSAGE);
    if !message.is_empty() && is_blank(message) {
        errors.push(message.invalid("must be non-empty if specified"));
    } else if message.str().trim().contains(['\n', '\r']) {
        errors.push(message.invalid("must not contain line breaks"));
    }
    let reason = validation.at(Validation::REASON);
    if let Some(text) = reason.get_str() {
        one_of(&reason, text, &["Forbidden", "Invalid", "RequestEntityTooLarge"], errors);
    }
}

fn audit_annotations(
    annotations: FieldRef<List<AuditAnnotation>>,
    compiler: &Compiler,
    policy: &str,
    errors: &mut FieldErrors,
) {
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        let internal = |annotation| internal::internal(AuditAnnotation::DEFINITION, Some(annotation));
        let shown = Value::List(annotations.list().iter().map(internal).collect());
        let detail = format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations");
        errors.push(annotations.invalid_as(&shown, detail));
    }
    let repeated = repeated(annotations, AuditAnnotation::KEY);
    for (i, annotation) in errors.while_room(annotations.items().enumerate()) {
        let key = annotation.at(AuditAnnotation::KEY);
        if policy.is_empty() {
            errors.push(key.invalid("requires metadata.name be non-empty"));
        } else {
            let name = format!("{policy}/{}", key.str());
            invalid_for(&key, &name, names::label_key(&name), errors);
        }
        let written = annotation.at(AuditAnnotation::VALUE_EXPRESSION);
        let expression = written.str().trim();
        if expression.is_empty() {
            errors.push(written.required("valueExpression is not specified"));
        } else if expression.len() > VALUE_EXPRESSION_MAX {
            errors.push(written.required(format!("must not exceed {VALUE_EXPRESSION_MAX} bytes in length")));
        } else {
            compiler.check(&written, written.str(), expression, AUTHORIZED, &[Type::String, Type::Null], errors);
        }
        if repeated[i] {
            errors.push(key.duplicate());
        }
    }
}

fn validate_mutation(mutation: FieldRef<Mutation>, compiler: &Compiler, errors: &mut FieldErrors) {
    let kind = mutation.at(Mutation::PATCH_TYPE);
    // Both kinds of patches consist of an expression.
    let (patch, configuration) = (mutation.at(Mutation::JSON_PATCH).cast(), mutation.at(Mutation::APPLY_CONFIGURATION));
    let (own, other, other_name, result) = match kind.str() {
        "JSONPatch" => {
            let result = Type::list(Type::object("JSONPatch"));
            (patch, configuration, Mutation::APPLY_CONFIGURATION.name(), result)
        }
        "ApplyConfiguration" => (configuration, patch, Mutation::JSON_PATCH.name(), Type::object("Object")),
        text => return required_one_of(&kind, text, &["ApplyConfiguration", "JSONPatch"], errors),
    };
    if own.is_set() {
        let expression = own.at(ApplyConfiguration::EXPRESSION);
        let text = expression.str().trim();
        if text.is_empty() {
            errors.push(expression.required(""));
        } else {
            let uses = OptionalVariables { patch_types: true, ..AUTHORIZED };
            compiler.check(&expression, text, text, uses, &[result], errors);
        }
    } else {
        errors.push(own.required(format!("must be specified when patchType is {}", kind.str())));
    }
    if other.is_set() {
        let detail = format!("must not be specified when patchType is {}", kind.str());
        errors.push(other.invalid_as(&format!("{{{other_name}}}"), detail));
    }
}
