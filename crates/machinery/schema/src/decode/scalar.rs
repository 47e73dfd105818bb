//! Conversion of JSON scalars to the API's scalars, in canonical form.

use std::borrow::Cow;

use ::base64::Engine;
use ::base64::prelude::BASE64_STANDARD;
use binnacle_meta::{GoDuration, MicroTime, Quantity, Text, Time};
use smol_str::ToSmolStr;

use super::{DecodeProblems, base64, go};
use crate::json::float_literal;
use crate::path::Path;
use crate::{Ty, Value};

/// A JSON scalar other than `null`.
#[derive(Clone, Debug)]
pub(super) enum Scalar<'a> {
    Bool(bool),
    Number(Cow<'a, str>),
    Str(Cow<'a, str>),
}

impl Scalar<'_> {
    fn kind(&self) -> &'static str {
        match self {
            Self::Bool(_) => "bool",
            Self::Number(_) => "number",
            Self::Str(_) => "string",
        }
    }
}

/// Converts a scalar to a value of this type. If that fails, reports the error and returns `null`.
pub(super) fn scalar(ty: &Ty, scalar: Scalar<'_>, path: Option<&Path<'_>>, problems: &mut DecodeProblems) -> Value {
    match (ty, scalar) {
        (Ty::String, Scalar::Str(text)) => Value::Str(Text::new(text)),
        (Ty::Bool, Scalar::Bool(b)) => Value::Bool(b),
        (Ty::Int32, Scalar::Number(n)) => integer(&n, "int32", i32::MIN.into()..=i32::MAX.into(), path, problems),
        (Ty::Int64, Scalar::Number(n)) => integer(&n, "int64", i64::MIN..=i64::MAX, path, problems),
        (Ty::Uint32, Scalar::Number(n)) => integer(&n, "uint32", 0..=u32::MAX.into(), path, problems),
        (Ty::Double, Scalar::Number(n)) => match n.parse::<f64>() {
            Ok(number) if number.is_finite() => Value::Float(number),
            _ => saved(path, &format!("number {n}"), "float64", problems),
        },
        (Ty::Bytes, Scalar::Str(text)) => match base64::canonical(&text) {
            Ok(text) => Value::Str(Text::new(text)),
            Err(at) => {
                problems.saved(|| format!("illegal base64 data at input byte {at}"));
                Value::Null
            }
        },
        // Go stores a number beyond the range of floating point as text here.
        (Ty::RawExtension, Scalar::Number(n)) => crate::json::number(&n).unwrap_or_else(|| Value::Raw(Text::new(n))),
        (Ty::Json, Scalar::Number(n)) => crate::json::number(&n).unwrap_or_else(|| overflow(&n, problems)),
        (Ty::RawExtension | Ty::Json, Scalar::Str(text)) => Value::Str(Text::new(text)),
        (Ty::RawExtension | Ty::Json, Scalar::Bool(b)) => Value::Bool(b),
        (Ty::Quantity, Scalar::Str(text) | Scalar::Number(text)) => quantity(&text, problems),
        (Ty::Quantity, Scalar::Bool(b)) => quantity(if b { "true" } else { "false" }, problems),
        (Ty::Time, Scalar::Str(text)) => match Time::parse(&text) {
            Ok(time) if time.is_zero() => Value::Null,
            Ok(time) => canonical_text(&time),
            Err(error) => fatal(error, problems),
        },
        (Ty::MicroTime, Scalar::Str(text)) => match MicroTime::parse(&text) {
            Ok(time) if time.is_zero() => Value::Null,
            Ok(time) => canonical_text(&time),
            Err(error) => fatal(error, problems),
        },
        (Ty::Duration, Scalar::Str(text)) => match GoDuration::parse(&text) {
            Ok(duration) => canonical_text(&duration),
            Err(error) => fatal(error, problems),
        },
        (Ty::IntOrString, Scalar::Str(text)) => Value::Str(Text::new(text)),
        (Ty::IntOrString, Scalar::Number(n)) => match n.parse::<i32>() {
            Ok(number) => Value::Int(number.into()),
            Err(_) => fatal_type(path, &format!("number {n}"), "int32", problems),
        },
        (Ty::SchemaOrBool(_), Scalar::Bool(b)) => Value::Bool(b),
        (Ty::SchemaOrBool(_), _) => fatal("boolean or JSON schema expected", problems),
        // Go ignores values of any other type.
        (Ty::SchemaOrArray(_) | Ty::SchemaOrStrings(_), _) => Value::Null,
        (_, scalar) => mismatch(ty, scalar.kind(), path, problems),
    }
}

/// Reports a value whose JSON type does not suit its field; `kind` is Go's name for the JSON type.
pub(super) fn mismatch(ty: &Ty, kind: &str, path: Option<&Path<'_>>, problems: &mut DecodeProblems) -> Value {
    match ty {
        // These types have their own decoders, and Go stops at their errors.
        Ty::Time | Ty::MicroTime | Ty::Duration => fatal_type(path, kind, "string", problems),
        Ty::IntOrString => fatal_type(path, kind, "int32", problems),
        _ => saved(path, kind, &go::type_at(path, ty), problems),
    }
}

/// Returns the canonical text of a quantity.
pub(super) fn quantity(text: &str, problems: &mut DecodeProblems) -> Value {
    match Quantity::parse(text.trim()) {
        Ok(quantity) => canonical_text(&quantity),
        Err(error) => fatal(error, problems),
    }
}

/// Reports a number out of floating point's range, in JSON that kube-apiserver decodes into its own types.
pub(super) fn overflow(number: &str, problems: &mut DecodeProblems) -> Value {
    fatal(format!("json: cannot unmarshal number {number} into Go value of type float64"), problems)
}

pub(super) fn fatal(error: impl std::fmt::Display, problems: &mut DecodeProblems) -> Value {
    problems.fatal(|| error.to_string());
    Value::Null
}

fn fatal_type(path: Option<&Path<'_>>, value: &str, ty: &str, problems: &mut DecodeProblems) -> Value {
    problems.fatal(|| go::type_error(path, value, ty));
    Value::Null
}

fn saved(path: Option<&Path<'_>>, value: &str, ty: &str, problems: &mut DecodeProblems) -> Value {
    problems.saved(|| go::type_error(path, value, ty));
    Value::Null
}

fn integer(
    literal: &str,
    ty: &str,
    range: std::ops::RangeInclusive<i64>,
    path: Option<&Path<'_>>,
    problems: &mut DecodeProblems,
) -> Value {
    match literal.parse::<i64>() {
        Ok(number) if range.contains(&number) => Value::Int(number),
        _ => saved(path, &format!("number {literal}"), ty, problems),
    }
}

/// Formats a value, which is mostly short enough to need no allocation.
fn canonical_text(value: &impl std::fmt::Display) -> Value {
    Value::Str(value.to_smolstr())
}

/// Converts a list of numbers to bytes.
pub(super) fn byte_list(items: &[Value], path: Option<&Path<'_>>, problems: &mut DecodeProblems) -> Value {
    let mut bytes = Vec::with_capacity(items.len());
    for item in items {
        let byte = match item {
            Value::Null => Some(0),
            item => item.as_i64().and_then(|n| u8::try_from(n).ok()),
        };
        match byte {
            Some(byte) => bytes.push(byte),
            None => {
                let number = match item {
                    Value::Int(n) => format!("number {n}"),
                    Value::Float(n) => format!("number {}", float_literal(*n)),
                    Value::Raw(text) => format!("number {text}"),
                    other => kind_of(other).to_owned(),
                };
                saved(path, &number, "uint8", problems);
            }
        }
    }
    Value::Str(Text::new(BASE64_STANDARD.encode(bytes)))
}

/// Replaces floating point numbers by their JSON text, for a document that an error quotes.
pub fn show_numbers(value: &mut Value) {
    match value {
        Value::Float(n) => *value = Value::Raw(float_literal(*n).into()),
        Value::List(items) => items.iter_mut().for_each(show_numbers),
        Value::Object(members) => members.iter_mut().for_each(|(_, member)| show_numbers(member)),
        _ => {}
    }
}

/// Returns Go's name for the JSON type of a value.
pub(super) fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) | Value::Raw(_) => "number",
        Value::Str(_) => "string",
        Value::List(_) => "array",
        Value::Object(_) => "object",
    }
}
