//! Go's unstructured converter (`runtime.DefaultUnstructuredConverter`), applied to a tree: it converts results of
//! strategic merge patches to structs, instead of the JSON decoder. It has its own error texts, accepts whole floating
//! point numbers as integers, and stops at the first value that a field cannot hold, in field order.

use super::{from_value, go, scalar};
use crate::{Message, Object, Ty, Value};

/// Converts the numbers of a tree as the converter does, or returns its error.
pub fn convert_numbers(tree: &mut Value, message: &Message) -> Result<(), String> {
    match tree {
        Value::Object(object) => members(object, message),
        Value::Null => Ok(()),
        other => Err(format!("cannot restore struct from: {}", kind(other))),
    }
}

fn members(object: &mut Object, message: &Message) -> Result<(), String> {
    for field in message.fields.iter() {
        if let Some(value) = object.get_mut(&field.name) {
            convert(value, &field.ty, go::declared(message, field))?;
        }
    }
    Ok(())
}

/// Converts a value of a type, which may be a named type in Go.
fn convert(value: &mut Value, ty: &Ty, name: Option<&str>) -> Result<(), String> {
    if value.is_null() {
        return Ok(());
    }
    if let Some(element) = ty.element() {
        let Value::List(items) = value else { return Err(format!("cannot restore slice from {}", kind(value))) };
        return items.iter_mut().try_for_each(|item| convert(item, element, name.and_then(go::element)));
    }
    if let Some(element) = ty.map_value() {
        let Value::Object(object) = value else { return Err(format!("cannot restore map from {}", kind(value))) };
        return object.iter_mut().try_for_each(|(_, item)| convert(item, element, name.and_then(go::element)));
    }
    match (ty, &mut *value) {
        (Ty::Message(message), _) => convert_numbers(value, message),
        (Ty::String, Value::Str(_)) | (Ty::Bool, Value::Bool(_)) => Ok(()),
        // Go can convert an integer to a text, so the error for integers differs from that for other values.
        (Ty::String, Value::Int(_)) => cannot("int64", name.unwrap_or("string")),
        (Ty::Int32 | Ty::Int64 | Ty::Uint32, Value::Int(number)) => {
            *number = wrapped(*number, ty);
            Ok(())
        }
        (Ty::Int32 | Ty::Int64 | Ty::Uint32, Value::Float(number)) if number.trunc() == *number => {
            *value = Value::Int(wrapped(truncated(*number), ty));
            Ok(())
        }
        // Its own decoder reads the text that Go writes for the number.
        (Ty::IntOrString, Value::Float(number)) if number.trunc() == *number && number.abs() < EXPONENT_FROM => {
            if !(-BEYOND_INTEGERS..BEYOND_INTEGERS).contains(number) {
                return Err(format!("json: cannot unmarshal number {number} into Go value of type int32"));
            }
            *value = Value::Int(truncated(*number));
            Ok(())
        }
        (Ty::Int32, Value::Float(_)) => cannot("float64", name.unwrap_or("int32")),
        (Ty::Int64, Value::Float(_)) => cannot("float64", name.unwrap_or("int64")),
        (Ty::Uint32, Value::Float(_)) => cannot("float64", name.unwrap_or("uint32")),
        (Ty::Double, Value::Int(_) | Value::Float(_)) => Ok(()),
        (Ty::String, _) => unrecognized("string"),
        (Ty::Bool, _) => unrecognized("bool"),
        (Ty::Int32, _) => unrecognized("int32"),
        (Ty::Int64, _) => unrecognized("int64"),
        (Ty::Uint32, _) => unrecognized("uint32"),
        (Ty::Double, _) => unrecognized("float64"),
        (Ty::Bytes, Value::Str(_)) => {
            from_value::check_value(value, ty).map_err(|error| format!("error decoding from json: {error}"))
        }
        (Ty::Bytes, Value::List(items)) => items.iter_mut().try_for_each(|item| match item {
            Value::Null => Ok(()),
            Value::Int(number) => {
                *number &= 0xff;
                Ok(())
            }
            _ => unrecognized("uint8"),
        }),
        (Ty::Bytes, other) => Err(format!("cannot restore slice from {}", kind(other))),
        // Types with their own decoders.
        _ => from_value::check_value(value, ty).map_err(|error| error.to_string()),
    }
}

/// Go writes numbers from here on with an exponent.
const EXPONENT_FROM: f64 = 1e21;
/// The first positive number that is no `i64`.
const BEYOND_INTEGERS: f64 = 9_223_372_036_854_775_808.0;

fn cannot(from: &str, to: &str) -> Result<(), String> {
    // The converter has dereferenced pointers.
    Err(format!("cannot convert {from} to {}", to.trim_start_matches('*')))
}

fn unrecognized(ty: &str) -> Result<(), String> {
    Err(format!("unrecognized type: {ty}"))
}

/// Returns Go's name for the type of a decoded JSON value.
fn kind(value: &Value) -> &'static str {
    match value {
        Value::Int(_) => "int64",
        Value::Float(_) | Value::Raw(_) => "float64",
        Value::List(_) => "slice",
        Value::Object(_) => "map",
        other => scalar::kind_of(other),
    }
}

/// Returns an integer as a narrower type stores it.
fn wrapped(number: i64, ty: &Ty) -> i64 {
    match ty {
        Ty::Int32 => i64::from(number as i32),
        Ty::Uint32 => i64::from(number as u32),
        _ => number,
    }
}

/// Converts a floating point number to an integer. A number out of range becomes the smallest integer, as on amd64.
fn truncated(number: f64) -> i64 {
    if (-BEYOND_INTEGERS..BEYOND_INTEGERS).contains(&number) { number as i64 } else { i64::MIN }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Field, MessageRef, value};

    #[test]
    fn reports_unknown_fields_with_their_path() {
        let inner = Message::new("io.k8s.B", vec![Field::new("n", Ty::Int32)]);
        let inner = Ty::Map(Box::new(Ty::Message(MessageRef::Shared(inner.into()))));
        let message = Message::new("io.k8s.A", vec![Field::new("map", inner)]);
        let read = from_value::converted(value!({"map": {"k": {"x": 1i64}}, "y": 1i64}), &message).unwrap();
        let found: Vec<String> = read.findings.iter().map(ToString::to_string).collect();
        assert_eq!(found, [r#"unknown field "map.x""#, r#"unknown field "y""#]);
    }

    #[test]
    fn errors_match_the_unstructured_converter() {
        let list = |ty: Ty| Ty::List(Box::new(ty));
        let inner = Ty::Message(MessageRef::Shared(Message::new("io.k8s.B", vec![Field::new("n", Ty::Int32)]).into()));
        let fields = [
            ("text", Ty::String),
            ("flag", Ty::Bool),
            ("number", Ty::Int32),
            ("long", Ty::Int64),
            ("either", Ty::IntOrString),
            ("data", Ty::Bytes),
            ("time", Ty::Time),
            ("inner", inner.clone()),
            ("list", list(inner)),
            ("map", Ty::Map(Box::new(Ty::String))),
        ];
        let fields: Vec<Field> = fields.into_iter().map(|(name, ty)| Field::new(name, ty)).collect();
        const NAMED: [(&str, &str); 2] = [("kinds", "[]v1.Kind"), ("kind", "*v1.Kind")];
        let fields = fields.into_iter().chain([Field::new("kinds", list(Ty::String)), Field::new("kind", Ty::String)]);
        let message = Message::new("io.k8s.A", fields.collect::<Vec<_>>()).with_go_types(&NAMED);
        for (given, want) in [
            (value!({"kinds": ["a", 1i64]}), "cannot convert int64 to v1.Kind"),
            (value!({"kind": 1i64}), "cannot convert int64 to v1.Kind"),
            (value!({"kind": true}), "unrecognized type: string"),
            (value!({"text": 1i64}), "cannot convert int64 to string"),
            (value!({"text": true}), "unrecognized type: string"),
            (value!({"text": []}), "unrecognized type: string"),
            (value!({"flag": "x"}), "unrecognized type: bool"),
            (value!({"number": "x"}), "unrecognized type: int32"),
            (value!({"number": 1.5}), "cannot convert float64 to int32"),
            (value!({"data": "%"}), "error decoding from json: illegal base64 data at input byte 0"),
            (value!({"data": {}}), "cannot restore slice from map"),
            (value!({"time": 1i64}), "json: cannot unmarshal number into Go value of type string"),
            (value!({"inner": []}), "cannot restore struct from: slice"),
            (value!({"list": {}}), "cannot restore slice from map"),
            (value!({"list": [1i64]}), "cannot restore struct from: int64"),
            (value!({"map": "x"}), "cannot restore map from string"),
            (value!({"map": {"a": false}}), "unrecognized type: string"),
            // The order of the fields decides.
            (value!({"map": 1i64, "flag": 1i64}), "unrecognized type: bool"),
        ] {
            let mut tree = given.clone();
            assert_eq!(convert_numbers(&mut tree, &message), Err(want.to_owned()), "{given:?}");
        }
        let mut tree =
            value!({"number": 4294967297i64, "long": 3.0, "either": 1.0, "list": [null, {"n": 2.0}], "map": null});
        assert_eq!(convert_numbers(&mut tree, &message), Ok(()));
        assert_eq!(
            tree,
            value!({"number": 1i64, "long": 3i64, "either": 1i64, "list": [null, {"n": 2i64}], "map": null})
        );
    }
}
