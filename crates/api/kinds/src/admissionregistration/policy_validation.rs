//! Validation of ValidatingAdmissionPolicy and MutatingAdmissionPolicy.

use binnacle_cel::Type;
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{names, repeated};

use super::matching::{failure_policy, match_conditions, match_resources, mutating_operations};
use crate::checks::{invalid_each, items, member, one_of, present, spec_path};
use crate::expressions::{Compiler, Uses};
use crate::internal;
use crate::prepare::semantically_equal;

const AUDIT_ANNOTATIONS_MAX: usize = 20;
const VALUE_EXPRESSION_MAX: usize = 5 * 1024;
const AUTHORIZED: Uses = Uses { params: false, authorizer: true, patch_types: false };

/// Validates a ValidatingAdmissionPolicy.
pub(super) fn validating(policy: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (member(policy, "spec"), spec_path());
    let compiler = shared(spec, old, false, &path, &mut errors);
    if spec.list_at(&["validations"]).is_empty() && spec.list_at(&["auditAnnotations"]).is_empty() {
        for name in ["validations", "auditAnnotations"] {
            let detail = "validations or auditAnnotations must contain at least one item";
            errors.push(FieldError::required(&path.child(name), detail));
        }
        return errors;
    }
    for (at, validation) in errors.while_room(items(spec, "validations", &path)) {
        validate_validation(validation, &compiler, &at, &mut errors);
    }
    audit_annotations(spec, &compiler, policy.str_at(&["metadata", "name"]), &path, &mut errors);
    errors
}

/// Validates a MutatingAdmissionPolicy.
pub(super) fn mutating(policy: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (spec, path) = (member(policy, "spec"), spec_path());
    let compiler = shared(spec, old, true, &path, &mut errors);
    if spec.list_at(&["mutations"]).is_empty() {
        errors.push(FieldError::required(&path.child("mutations"), "mutations must contain at least one item"));
    }
    for (at, mutation) in errors.while_room(items(spec, "mutations", &path)) {
        validate_mutation(mutation, &compiler, &at, &mut errors);
    }
    let (policy, at) = (spec.str_at(&["reinvocationPolicy"]), path.child("reinvocationPolicy"));
    if policy.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        one_of(&at, policy, &["IfNeeded", "Never"], &mut errors);
    }
    errors
}

/// Validates the spec members that both kinds of policy have, and adds the variables to the compiler.
fn shared(spec: &Value, old: Option<&Value>, mutating: bool, path: &FieldPath, errors: &mut FieldErrors) -> Compiler {
    let has_params = present(spec, "paramKind").is_some();
    // Match conditions are evaluated before variables exist.
    let plain = Compiler::new(has_params, false, old);
    match present(spec, "failurePolicy").and_then(Value::as_str) {
        None => errors.push(FieldError::required(&path.child("failurePolicy"), "")),
        Some(policy) => failure_policy(policy, path, errors),
    }
    if let Some(kind) = present(spec, "paramKind") {
        param_kind(kind, &path.child("paramKind"), errors);
    }
    let at = path.child("matchConstraints");
    match present(spec, "matchConstraints") {
        None => errors.push(FieldError::required(&at, "")),
        Some(constraints) => {
            match_resources(constraints, &at, errors);
            if constraints.list_at(&["resourceRules"]).is_empty() {
                errors.push(FieldError::required(&at.child("resourceRules"), ""));
            }
            if mutating {
                mutating_operations(constraints, &at, errors);
            }
        }
    }
    let same = |name| old.is_some_and(|old| semantically_equal(spec.get(name), member(old, "spec").get(name)));
    if !(same("paramKind") && same("matchConditions")) {
        match_conditions(spec, &plain, path, errors);
    }
    // Mutations can always refer to `variables`, even if none are declared.
    let mut compiler = Compiler::new(has_params, mutating || !spec.list_at(&["variables"]).is_empty(), old);
    for (at, variable) in errors.while_room(items(spec, "variables", path)) {
        validate_variable(variable, &mut compiler, &at, errors);
    }
    compiler
}

fn param_kind(kind: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (api_version, at) = (kind.str_at(&["apiVersion"]), path.child("apiVersion"));
    if api_version.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if api_version.matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {api_version}");
        errors.push(FieldError::invalid(&at, api_version, detail));
    } else {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if !group.is_empty() {
            joined(&at, group, "", &names::dns1123_subdomain(group), errors);
        }
        if version.is_empty() {
            errors.push(FieldError::invalid(&at, api_version, "version must be specified"));
        } else {
            joined(&at, version, "", &names::dns1035_label(version), errors);
        }
    }
    let (name, at) = (kind.str_at(&["kind"]), path.child("kind"));
    if name.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        let intro = "may have mixed case, but should otherwise match: ";
        joined(&at, name, intro, &names::dns1035_label(&name.to_lowercase()), errors);
    }
}

/// Reports all messages as one.
fn joined(path: &FieldPath, value: &str, intro: &str, messages: &[String], errors: &mut FieldErrors) {
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path, value, format!("{intro}{}", messages.join(","))));
    }
}

fn validate_variable(variable: &Value, compiler: &mut Compiler, path: &FieldPath, errors: &mut FieldErrors) {
    let name = variable.str_at(&["name"]);
    if name.trim().is_empty() {
        errors.push(FieldError::required(&path.child("name"), "name is not specified"));
    } else if !is_cel_identifier(name) {
        errors.push(FieldError::invalid(&path.child("name"), name, "must be a valid CEL identifier"));
    }
    let (expression, at) = (variable.str_at(&["expression"]), path.child("expression"));
    if expression.trim().is_empty() {
        errors.push(FieldError::required(&at, "expression is not specified"));
    } else {
        compiler.variable(&at, name, expression, AUTHORIZED, errors);
    }
}

fn is_cel_identifier(name: &str) -> bool {
    !name.starts_with(|c: char| c.is_ascii_digit())
        && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
        && !binnacle_cel::is_keyword(name)
}

fn validate_validation(validation: &Value, compiler: &Compiler, path: &FieldPath, errors: &mut FieldErrors) {
    let (expression, at) = (validation.str_at(&["expression"]), path.child("expression"));
    if expression.trim().is_empty() {
        errors.push(FieldError::required(&at, "expression is not specified"));
    } else {
        compiler.check(&at, expression, expression, AUTHORIZED, &[Type::Bool], errors);
    }
    for name in ["messageExpression", "message"] {
        let (text, at) = (validation.str_at(&[name]), path.child(name));
        if !text.is_empty() && text.trim().is_empty() {
            errors.push(FieldError::invalid(&at, text, "must be non-empty if specified"));
        } else if name == "messageExpression" && !text.is_empty() {
            compiler.check(&at, text, text, Uses::default(), &[Type::String], errors);
        } else if name == "message" && text.trim().contains(['\n', '\r']) {
            errors.push(FieldError::invalid(&at, text, "must not contain line breaks"));
        }
    }
    if let Some(reason) = present(validation, "reason").and_then(Value::as_str) {
        let supported = ["Forbidden", "Invalid", "RequestEntityTooLarge"];
        one_of(&path.child("reason"), reason, &supported, errors);
    }
}

fn audit_annotations(spec: &Value, compiler: &Compiler, policy: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let annotations = spec.list_at(&["auditAnnotations"]);
    if annotations.len() > AUDIT_ANNOTATIONS_MAX {
        let shown: Vec<Value> = annotations
            .iter()
            .map(|a| internal::internal("io.k8s.api.admissionregistration.v1.AuditAnnotation", Some(a)))
            .collect();
        let shown = binnacle_validation::metadata::shown(Some(&Value::List(shown)));
        let detail = format!("must not have more than {AUDIT_ANNOTATIONS_MAX} auditAnnotations");
        errors.push(FieldError::invalid(&path.child("auditAnnotations"), shown, detail));
    }
    let repeated = repeated(annotations, |annotation| annotation.str_at(&["key"]));
    for (i, (at, annotation)) in errors.while_room(items(spec, "auditAnnotations", path).enumerate()) {
        let (key, key_path) = (annotation.str_at(&["key"]), at.child("key"));
        if policy.is_empty() {
            errors.push(FieldError::invalid(&key_path, key, "requires metadata.name be non-empty"));
        } else {
            let name = format!("{policy}/{key}");
            invalid_each(&key_path, &name, &names::label_key(&name), errors);
        }
        let (written, at) = (annotation.str_at(&["valueExpression"]), at.child("valueExpression"));
        let expression = written.trim();
        if expression.is_empty() {
            errors.push(FieldError::required(&at, "valueExpression is not specified"));
        } else if expression.len() > VALUE_EXPRESSION_MAX {
            errors.push(FieldError::required(&at, format!("must not exceed {VALUE_EXPRESSION_MAX} bytes in length")));
        } else {
            compiler.check(&at, written, expression, AUTHORIZED, &[Type::String, Type::Null], errors);
        }
        if repeated[i] {
            errors.push(FieldError::duplicate(&key_path, key));
        }
    }
}

fn validate_mutation(mutation: &Value, compiler: &Compiler, path: &FieldPath, errors: &mut FieldErrors) {
    let kind = mutation.str_at(&["patchType"]);
    let (own, other, result) = match kind {
        "" => {
            errors.push(FieldError::required(&path.child("patchType"), ""));
            return;
        }
        "JSONPatch" => ("jsonPatch", "applyConfiguration", Type::list(Type::object("JSONPatch"))),
        "ApplyConfiguration" => ("applyConfiguration", "jsonPatch", Type::object("Object")),
        _ => {
            one_of(&path.child("patchType"), kind, &["ApplyConfiguration", "JSONPatch"], errors);
            return;
        }
    };
    match present(mutation, own) {
        None => {
            let detail = format!("must be specified when patchType is {kind}");
            errors.push(FieldError::required(&path.child(own), detail));
        }
        Some(patch) => {
            let at = path.child(own).child("expression");
            let expression = patch.str_at(&["expression"]).trim();
            if expression.is_empty() {
                errors.push(FieldError::required(&at, ""));
            } else {
                let uses = Uses { patch_types: true, ..AUTHORIZED };
                compiler.check(&at, expression, expression, uses, &[result], errors);
            }
        }
    }
    if present(mutation, other).is_some() {
        let detail = format!("must not be specified when patchType is {kind}");
        errors.push(FieldError::invalid(&path.child(other), &format!("{{{other}}}"), detail));
    }
}
