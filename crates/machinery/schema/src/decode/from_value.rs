//! Decodes a free-form tree, from YAML or a patch, by a schema.

use std::borrow::Cow;

use super::build::{MapBuilder, Slots, finish_struct, is_kept};
use super::scalar::{self, Scalar};
use super::{DecodeError, DecodeProblems, DecodedObject, EmptyFields};
use crate::findings::{Finding, Findings};
use crate::json;
use crate::limits::{Budget, Limits};
use crate::path::Path;
use crate::zero::zero_value;
use crate::{Message, Object, Presence, Ty, Value};

/// Decodes a tree within the limits of request bodies. Its depth must be limited, as it is for every tree from the
/// parsers of this crate.
pub fn value(tree: Value, message: &Message) -> Result<DecodedObject, DecodeError> {
    value_within(tree, message, &Limits::default())
}

/// Decodes a tree like [`value`], within other limits.
pub fn value_within(tree: Value, message: &Message, limits: &Limits) -> Result<DecodedObject, DecodeError> {
    decoded(tree, message, Decoder::new(limits))
}

/// Decodes a tree that has passed [`super::convert_numbers`]: paths of unknown fields do not include map keys, as in
/// Go's converter.
pub fn converted(tree: Value, message: &Message) -> Result<DecodedObject, DecodeError> {
    decoded(tree, message, Decoder { names_keys: false, ..Decoder::new(&Limits::default()) })
}

fn decoded(tree: Value, message: &Message, mut decoder: Decoder) -> Result<DecodedObject, DecodeError> {
    let value = match tree {
        Value::Object(object) => Value::Object(decoder.message(object, message, None)),
        Value::Null => Value::Object(finish_struct(message, &mut Vec::new(), 0)),
        other => {
            let name = super::go::qualified_name(message);
            decoder.problems.saved(|| super::go::type_error(None, scalar::kind_of(&other), &name));
            Value::Null
        }
    };
    decoder.budget.check()?;
    decoder.problems.into_result()?;
    Ok(DecodedObject { value, findings: decoder.findings, empty_fields: decoder.empty_fields })
}

/// Checks a single value. The error is the reason why its type rejects it.
pub(super) fn check_value(value: &Value, ty: &Ty) -> Result<(), DecodeError> {
    binnacle_work::temporary(|| {
        let mut decoder = Decoder::new(&Limits::default());
        decoder.value(value.clone(), ty, None);
        decoder.budget.check()?;
        decoder.problems.into_result()
    })
}

struct Decoder {
    /// Once it is exhausted, nothing more is built, and the result is discarded.
    budget: Budget,
    problems: DecodeProblems,
    findings: Findings,
    empty_fields: EmptyFields,
    /// As in the JSON decoder.
    lenient: u32,
    /// True if paths of unknown fields include map keys.
    names_keys: bool,
    slots: Slots,
}

type PathRef<'p> = Option<&'p Path<'p>>;

impl Decoder {
    fn new(limits: &Limits) -> Self {
        Self {
            budget: Budget::new(limits),
            problems: DecodeProblems::default(),
            findings: Findings::default(),
            empty_fields: EmptyFields::default(),
            lenient: 0,
            names_keys: true,
            slots: Vec::new(),
        }
    }

    fn is_strict(&self) -> bool {
        self.lenient == 0 && !self.findings.is_full()
    }

    fn message(&mut self, object: Object, message: &Message, path: PathRef<'_>) -> Object {
        if self.budget.message(message).is_err() {
            return Object::new();
        }
        let base = self.slots.len();
        let mut hint = 0;
        for (name, value) in object {
            let Some((index, field)) = message.field(&name, hint) else {
                if self.is_strict() {
                    let path = if self.names_keys {
                        Path::member(path, &name)
                    } else {
                        Path::member_without_keys(path, &name)
                    };
                    self.findings.push(Finding::UnknownField(path));
                }
                continue;
            };
            hint = index + 1;
            if value.is_null() {
                if matches!(field.ty, Ty::Duration) && field.presence != Presence::Optional {
                    scalar::scalar(&field.ty, Scalar::Str(Cow::Borrowed("")), None, &mut self.problems);
                }
                continue;
            }
            let here = Path::field(path, message, field);
            let value = self.value(value, &field.ty, Some(&here));
            if is_kept(field, &value) {
                self.slots.push((index, value));
            } else {
                self.empty_fields.note(field, &value, Some(&here));
            }
        }
        finish_struct(message, &mut self.slots, base)
    }

    /// Decodes a value other than `null`.
    fn value(&mut self, value: Value, ty: &Ty, path: PathRef<'_>) -> Value {
        match (value, ty) {
            (Value::Object(object), Ty::Message(message)) => Value::Object(self.message(object, message, path)),
            (value, Ty::FieldsV1) => match value {
                Value::Raw(text) => Value::Raw(text),
                value => Value::Raw(json::to_string(&value).into()),
            },
            (mut value, Ty::RawExtension | Ty::Json) => {
                // Go keeps its JSON text.
                json::round_digits(&mut value);
                json::normalize_numbers(&mut value);
                value
            }
            (
                Value::Object(object),
                Ty::SchemaOrBool(message) | Ty::SchemaOrArray(message) | Ty::SchemaOrStrings(message),
            ) => self.lenient(|decoder| Value::Object(decoder.message(object, message, path))),
            (Value::List(items), Ty::SchemaOrArray(message)) => {
                let element = Ty::Message(message.clone());
                let items = self.lenient(|decoder| decoder.list(items, &element, path));
                if items.is_empty() { Value::Null } else { Value::List(items) }
            }
            (Value::List(items), Ty::SchemaOrStrings(_)) => {
                let items = self.lenient(|decoder| decoder.list(items, &Ty::String, path));
                if items.is_empty() { Value::Null } else { Value::List(items) }
            }
            (Value::List(_), Ty::SchemaOrBool(_)) => {
                scalar::fatal("boolean or JSON schema expected", &mut self.problems)
            }
            (value @ (Value::List(_) | Value::Object(_)), Ty::Quantity) => {
                scalar::quantity(&json::to_string(&value), &mut self.problems)
            }
            (Value::List(items), Ty::Bytes) => scalar::byte_list(&items, path, &mut self.problems),
            (Value::List(items), _) => match ty.element() {
                Some(element) => Value::List(self.list(items, element, path)),
                None => scalar::mismatch(ty, "array", path, &mut self.problems),
            },
            (Value::Object(object), _) => match ty.map_value() {
                Some(element) => Value::Object(self.map(object, element, path)),
                None => scalar::mismatch(ty, "object", path, &mut self.problems),
            },
            (Value::Str(text), Ty::String) => Value::Str(text),
            (Value::Null, _) => Value::Null,
            (Value::Str(text), _) => self.scalar(Scalar::Str(Cow::Borrowed(&text)), ty, path),
            (Value::Bool(b), _) => self.scalar(Scalar::Bool(b), ty, path),
            (Value::Int(n), _) => self.scalar(Scalar::Number(Cow::Owned(n.to_string())), ty, path),
            (Value::Float(n), _) => self.scalar(Scalar::Number(Cow::Owned(crate::json::float_literal(n))), ty, path),
            (Value::Raw(text), _) => self.scalar(Scalar::Number(Cow::Borrowed(&text)), ty, path),
        }
    }

    fn scalar(&mut self, scalar_value: Scalar<'_>, ty: &Ty, path: PathRef<'_>) -> Value {
        scalar::scalar(ty, scalar_value, path, &mut self.problems)
    }

    fn list(&mut self, items: Vec<Value>, element: &Ty, path: PathRef<'_>) -> Vec<Value> {
        let mut items = items;
        for (index, item) in items.iter_mut().enumerate() {
            let scalar_value = std::mem::take(item);
            if self.budget.element().is_err() {
                return Vec::new();
            }
            *item = match scalar_value {
                Value::Null => self.null_element(element),
                scalar_value => self.value(scalar_value, element, Some(&Path::index(path, index))),
            };
        }
        items
    }

    fn map(&mut self, object: Object, element: &Ty, path: PathRef<'_>) -> Object {
        let mut builder = MapBuilder::default();
        for (name, value) in object {
            if self.budget.member(builder.len()).is_err() {
                break;
            }
            let value = match value {
                Value::Null => self.null_element(element),
                value => self.value(value, element, Some(&Path::key(path, &name))),
            };
            builder.push(name, value);
        }
        builder.finish()
    }

    fn null_element(&mut self, element: &Ty) -> Value {
        if element.message().is_some_and(|message| self.budget.message(message).is_err()) {
            return Value::Null;
        }
        if matches!(element, Ty::Duration) {
            return scalar::scalar(element, Scalar::Str(Cow::Borrowed("")), None, &mut self.problems);
        }
        zero_value(element)
    }

    fn lenient<T>(&mut self, read: impl FnOnce(&mut Self) -> T) -> T {
        self.lenient += 1;
        let saved = self.problems.saved.take();
        let result = read(self);
        self.lenient -= 1;
        let inner = std::mem::replace(&mut self.problems.saved, saved);
        if let Some(text) = inner {
            self.problems.fatal(|| text);
        }
        result
    }
}
