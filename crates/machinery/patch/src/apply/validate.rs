//! Validation of objects against the schema, to the extent that merging and comparing require.

use std::collections::BTreeSet;

use binnacle_schema::{Message, Object, Ty, Value};

use crate::strategic::go_print;

use super::element::PathElement;
use super::schema_error::SchemaErrors;
use super::shape::{Relation, Shape, ValueShape};

/// Checks types, keys of list maps, duplicates, and that all fields are known.
pub(super) fn validate(shape: Shape<'_>, value: &Value) -> Result<(), SchemaErrors> {
    Validator { duplicates: false, path: Vec::new(), errors: SchemaErrors::none() }.validate(shape, value)
}

/// Like [`validate`], for an object from the store or to be stored. Objects of built-in kinds conform to their schema,
/// except for list elements without keys, which a comparison reports; custom resources may be older than their schema.
pub(super) fn validate_stored(message: &Message, object: &Value) -> Result<(), SchemaErrors> {
    if is_built_in(message) { Ok(()) } else { validate_live(message, object) }
}

/// As [`validate`], for a live object, which may have duplicates.
pub(super) fn validate_live(message: &Message, object: &Value) -> Result<(), SchemaErrors> {
    let walk = Validator { duplicates: true, path: Vec::new(), errors: SchemaErrors::none() };
    walk.validate(Shape::of_message(message), object)
}

/// Like [`validate`], for an object that was converted to another version. Only there are duplicates errors in
/// kube-apiserver. Custom resources are usually converted without changes to their fields, which the other version may lack.
pub(super) fn validate_converted(message: &Message, object: &Value) -> Result<(), SchemaErrors> {
    validate(Shape::of_message(message), object)
}

/// Only messages of built-in kinds have names.
fn is_built_in(message: &Message) -> bool {
    !message.name.is_empty()
}

struct Validator {
    /// True to allow duplicates.
    duplicates: bool,
    path: Vec<PathElement>,
    errors: SchemaErrors,
}

impl Validator {
    fn validate(mut self, shape: Shape<'_>, value: &Value) -> Result<(), SchemaErrors> {
        self.check(shape, value);
        self.errors.into_result()
    }

    fn error(&mut self, message: impl Into<String>) {
        self.errors.push(&self.path, message);
    }

    fn check(&mut self, shape: Shape<'_>, value: &Value) {
        match shape {
            _ if value.is_null() => {}
            Shape::Opaque | Shape::Deduced => {}
            Shape::Untyped { element, .. } => match value {
                Value::Object(object) => self.check_members(shape, object),
                Value::List(items) => self.check_items(element, Relation::Atomic, items),
                _ => {}
            },
            Shape::Scalar(ty) => {
                if let Some(message) = wrong_scalar(ty, value) {
                    self.error(message);
                }
            }
            Shape::Struct { .. } | Shape::Map { .. } => match value {
                Value::Object(object) => self.check_members(shape, object),
                other => self.error(format!("expected map, got &{{{}}}", go_print(other))),
            },
            Shape::List { element, relation } => match value {
                Value::List(items) => self.check_items(element, relation, items),
                other => self.error(format!("expected list, got &{{{}}}", go_print(other))),
            },
        }
    }

    fn check_members(&mut self, shape: Shape<'_>, object: &Object) {
        for (name, value) in object.iter() {
            let member = shape.member(name);
            // Most members are scalars of the right type, which need no path.
            if let Some(Shape::Scalar(ty)) = member
                && (value.is_null() || wrong_scalar(ty, value).is_none())
            {
                continue;
            }
            self.path.push(PathElement::Field(name.clone()));
            match member {
                Some(member) => self.check(member, value),
                None => self.error("field not declared in schema"),
            }
            self.path.pop();
            // As in kube-apiserver, no further errors of these members are reported.
            if member.is_none() {
                return;
            }
        }
    }

    fn check_items(&mut self, element: &Ty, relation: Relation<'_>, items: &[Value]) {
        let shape = Shape::of_type(element);
        let mut met = BTreeSet::new();
        for (at, item) in (0..).zip(items) {
            let step = match relation {
                Relation::Atomic => PathElement::Index(at),
                _ => match relation.identify(element, item) {
                    Ok(step) => {
                        if !self.duplicates && !met.insert(step.clone()) {
                            self.error(format!("duplicate entries for key {step}"));
                        }
                        step
                    }
                    // Without a key there is no path for errors below, so as in kube-apiserver none are reported.
                    Err(why) => return self.error(format!("element {at}: {why}")),
                },
            };
            self.path.push(step);
            self.check(shape, item);
            self.path.pop();
        }
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
