//! Validation of a configuration against the schema, as far as merging requires it.

use std::collections::BTreeSet;

use binnacle_schema::{Object, Ty, Value};

use crate::strategic::go_print;

use super::element::PathElement;
use super::schema_error::SchemaErrors;
use super::shape::{Relation, Shape, ValueShape};

/// Checks types, keys of list maps, duplicates, and that all fields are known.
pub(super) fn validate(shape: Shape<'_>, value: &Value) -> Result<(), SchemaErrors> {
    let mut errors = SchemaErrors::none();
    check(shape, value, &mut Vec::new(), &mut errors);
    errors.into_result()
}

fn check(shape: Shape<'_>, value: &Value, path: &mut Vec<PathElement>, errors: &mut SchemaErrors) {
    match shape {
        _ if value.is_null() => {}
        Shape::Opaque | Shape::Deduced => {}
        Shape::Scalar(ty) => {
            if let Some(message) = wrong_scalar(ty, value) {
                errors.push(path, message);
            }
        }
        Shape::Struct { .. } | Shape::Map { .. } => match value {
            Value::Object(object) => check_members(shape, object, path, errors),
            other => errors.push(path, format!("expected map, got &{{{}}}", go_print(other))),
        },
        Shape::List { element, relation } => match value {
            Value::List(items) => check_items(element, relation, items, path, errors),
            other => errors.push(path, format!("expected list, got &{{{}}}", go_print(other))),
        },
    }
}

fn check_members(shape: Shape<'_>, object: &Object, path: &mut Vec<PathElement>, errors: &mut SchemaErrors) {
    for (name, value) in object.iter() {
        path.push(PathElement::Field(name.clone()));
        match shape.member(name) {
            Some(member) => check(member, value, path, errors),
            None => {
                errors.push(path, "field not declared in schema");
                // As in kube-apiserver, no further errors of these members are reported.
                path.pop();
                return;
            }
        }
        path.pop();
    }
}

fn check_items(
    element: &Ty,
    relation: Relation<'_>,
    items: &[Value],
    path: &mut Vec<PathElement>,
    errors: &mut SchemaErrors,
) {
    let shape = Shape::of_type(element);
    let mut met = BTreeSet::new();
    for (at, item) in (0..).zip(items) {
        let step = match relation {
            Relation::Atomic => PathElement::Index(at),
            _ => match relation.identify(element, item) {
                Ok(step) => {
                    if !met.insert(step.clone()) {
                        errors.push(path, format!("duplicate entries for key {step}"));
                    }
                    step
                }
                // Without a key there is no path for errors below, so as in kube-apiserver none are reported.
                Err(why) => {
                    errors.push(path, format!("element {at}: {why}"));
                    return;
                }
            },
        };
        path.push(step);
        check(shape, item, path, errors);
        path.pop();
    }
}

fn wrong_scalar(ty: &Ty, value: &Value) -> Option<String> {
    let kind = ValueShape::of(value);
    match ty {
        Ty::String | Ty::Bytes | Ty::Duration => (!matches!(value, Value::Str(_)))
            .then(|| format!("expected string, got &value.valueUnstructured{{Value:{}}}", go_syntax(value))),
        Ty::Bool => {
            (!matches!(value, Value::Bool(_))).then(|| format!("expected boolean, got &{{{}}}", go_print(value)))
        }
        Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double => (!matches!(value, Value::Int(_) | Value::Float(_)))
            .then(|| format!("expected numeric (int or float), got {}", crate::strategic::go_type(value))),
        // Its OpenAPI definition has no type.
        Ty::IntOrString => None,
        _ => (kind != ValueShape::Scalar).then(|| format!("expected any scalar, got &{{{}}}", go_print(value))),
    }
}

/// Formats a value as Go's `%#v`.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Null => "interface {}(nil)".to_owned(),
        Value::Str(text) | Value::Raw(text) => binnacle_meta::go_quote(text),
        Value::List(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(object) => {
            let mut members: Vec<(&str, &Value)> = object.iter().map(|(name, value)| (name.as_str(), value)).collect();
            members.sort_by_key(|(name, _)| *name);
            let quoted =
                |(name, value): &(&str, &Value)| format!("{}:{}", binnacle_meta::go_quote(name), go_syntax(value));
            let members: Vec<String> = members.iter().map(quoted).collect();
            format!("map[string]interface {{}}{{{}}}", members.join(", "))
        }
        scalar => go_print(scalar),
    }
}
