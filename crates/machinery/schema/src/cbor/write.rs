//! Encoding of CBOR as Go encodes it: texts as byte strings, bytes below the tag of base64, floating point numbers in
//! their shortest form.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

use super::SELF_DESCRIBED;
use crate::json;
use crate::{Limits, Message, Object, Ty, Value};

/// Encodes a document. The schema, if any, determines which strings represent bytes.
pub fn write(value: &Value, message: Option<&Message>, out: &mut Vec<u8>) {
    out.extend_from_slice(&SELF_DESCRIBED);
    write_item(value, message, out);
}

/// As [`write`], without the self-description tag, for an item within a document.
pub fn write_item(value: &Value, message: Option<&Message>, out: &mut Vec<u8>) {
    match (value, message) {
        (Value::Object(object), Some(message)) => structure(object, message, out),
        (value, _) => item(value, None, out),
    }
}

/// Encodes a watch event. As in Go, the object in it has a self-description tag of its own.
pub fn write_event(event_type: &str, object: &Value, message: Option<&Message>, out: &mut Vec<u8>) {
    out.extend_from_slice(&SELF_DESCRIBED);
    head(5, 2, out);
    string(b"type", out);
    string(event_type.as_bytes(), out);
    string(b"object", out);
    write(object, message, out);
}

/// Encodes an untyped tree with its members in the order of RFC 8949 (4.2.1), for the store: equal objects have equal
/// bytes.
pub fn write_sorted(value: &Value, out: &mut Vec<u8>) {
    out.extend_from_slice(&SELF_DESCRIBED);
    sorted(value, out);
}

/// The end of an array of indefinite length.
pub const ARRAY_END: u8 = 0xff;

/// Replaces the array `[null]` at the end of a document by an empty array of indefinite length. The caller appends its
/// items and [`ARRAY_END`]. Returns false if there is no such array.
pub fn open_last_array(document: &mut Vec<u8>) -> bool {
    let opened = document.ends_with(&[0x81, 0xf6]);
    if opened {
        document.truncate(document.len() - 2);
        document.push(0x9f);
    }
    opened
}

fn item(value: &Value, ty: Option<&Ty>, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.push(0xf6),
        Value::Bool(b) => out.push(if *b { 0xf5 } else { 0xf4 }),
        Value::Int(n) => match u64::try_from(*n) {
            Ok(n) => head(0, n, out),
            Err(_) => head(1, !*n as u64, out),
        },
        Value::Float(n) => float(*n, out),
        Value::Str(text) => match ty {
            Some(Ty::Bytes) if let Ok(bytes) = BASE64_STANDARD.decode(text.as_bytes()) => {
                out.push(0xd6);
                string(&bytes, out);
            }
            _ => string(text.as_bytes(), out),
        },
        Value::List(items) => {
            let element = ty.and_then(element);
            head(4, items.len() as u64, out);
            items.iter().for_each(|value| item(value, element.as_deref(), out));
        }
        Value::Object(object) => match ty {
            Some(
                Ty::Message(message)
                | Ty::SchemaOrBool(message)
                | Ty::SchemaOrArray(message)
                | Ty::SchemaOrStrings(message),
            ) => structure(object, message, out),
            ty => {
                let values = ty.and_then(Ty::map_value);
                head(5, object.len() as u64, out);
                for (name, value) in object.iter() {
                    string(name.as_bytes(), out);
                    item(value, values, out);
                }
            }
        },
        // Raw values are valid JSON.
        Value::Raw(text) => item(&unpacked(text), None, out),
    }
}

fn element(ty: &Ty) -> Option<std::borrow::Cow<'_, Ty>> {
    use std::borrow::Cow;
    match ty {
        Ty::SchemaOrArray(message) => Some(Cow::Owned(Ty::Message(message.clone()))),
        ty => ty.element().map(Cow::Borrowed),
    }
}

fn unpacked(text: &str) -> Value {
    let limits = Limits { max_bytes: usize::MAX, max_memory: usize::MAX, ..Limits::default() };
    json::parse(text.as_bytes(), &limits).unwrap_or_default()
}

fn structure(object: &Object, message: &Message, out: &mut Vec<u8>) {
    head(5, object.len() as u64, out);
    let mut hint = 0;
    for (name, value) in object.iter() {
        string(name.as_bytes(), out);
        match message.field(name, hint) {
            Some((index, field)) => {
                hint = index + 1;
                item(value, Some(&field.ty), out);
            }
            None => item(value, message.additional.as_deref(), out),
        }
    }
}

fn sorted(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::List(items) => {
            head(4, items.len() as u64, out);
            items.iter().for_each(|value| sorted(value, out));
        }
        Value::Object(object) => {
            let mut members: Vec<_> = object.iter().collect();
            // Sorted by their encoded bytes, which start with the length.
            members.sort_unstable_by_key(|(name, _)| (name.len(), name.as_bytes()));
            head(5, members.len() as u64, out);
            for (name, value) in members {
                string(name.as_bytes(), out);
                sorted(value, out);
            }
        }
        Value::Raw(text) => sorted(&unpacked(text), out),
        plain => item(plain, None, out),
    }
}

/// Returns true if the tree has floating point numbers that JSON represents as integers.
pub fn has_whole_floats(value: &Value) -> bool {
    match value {
        Value::Float(n) => json::integer_of(*n).is_some(),
        Value::List(items) => items.iter().any(has_whole_floats),
        Value::Object(object) => object.iter().any(|(_, value)| has_whole_floats(value)),
        _ => false,
    }
}

fn string(bytes: &[u8], out: &mut Vec<u8>) {
    head(2, bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn head(major: u8, argument: u64, out: &mut Vec<u8>) {
    let initial = major << 5;
    let bytes = argument.to_be_bytes();
    let (info, from) = match argument {
        0..=23 => return out.push(initial | argument as u8),
        24..=0xff => (24, 7),
        0x100..=0xffff => (25, 6),
        0x1_0000..=0xffff_ffff => (26, 4),
        _ => (27, 0),
    };
    out.push(initial | info);
    out.extend_from_slice(&bytes[from..]);
}

/// Encodes a number in the smallest of 2, 4 or 8 bytes that holds it exactly.
fn float(n: f64, out: &mut Vec<u8>) {
    let short = n as f32;
    if f64::from(short).to_bits() != n.to_bits() {
        out.push(0xfb);
        return out.extend_from_slice(&n.to_be_bytes());
    }
    match half(short) {
        Some(half) => {
            out.push(0xf9);
            out.extend_from_slice(&half.to_be_bytes());
        }
        None => {
            out.push(0xfa);
            out.extend_from_slice(&short.to_be_bytes());
        }
    }
}

/// Returns the number in half precision, if that is exact.
fn half(n: f32) -> Option<u16> {
    let bits = n.to_bits();
    let (sign, exponent, fraction) = ((bits >> 16 & 0x8000) as u16, (bits >> 23 & 0xff) as i32 - 127, bits & 0x7f_ffff);
    match exponent {
        -127 if fraction == 0 => Some(sign),
        -14..=15 if fraction & 0x1fff == 0 => Some(sign | ((exponent + 15) as u16) << 10 | (fraction >> 13) as u16),
        -24..=-15 => {
            let (significand, shift) = (fraction | 0x80_0000, (-1 - exponent) as u32);
            (significand.trailing_zeros() >= shift).then(|| sign | (significand >> shift) as u16)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cbor::parse;
    use crate::{Field, value};

    #[test]
    fn encodes_numbers_in_shortest_form() {
        for (n, want) in [
            (Value::Int(23), "17"),
            (Value::Int(24), "1818"),
            (Value::Int(256), "190100"),
            (Value::Int(65536), "1a00010000"),
            (Value::Int(i64::MAX), "1b7fffffffffffffff"),
            (Value::Int(-1), "20"),
            (Value::Int(-500), "3901f3"),
            (Value::Int(i64::MIN), "3b7fffffffffffffff"),
            (Value::Float(0.0), "f90000"),
            (Value::Float(-0.0), "f98000"),
            (Value::Float(1.0), "f93c00"),
            (Value::Float(1.1), "fb3ff199999999999a"),
            (Value::Float(65504.0), "f97bff"),
            (Value::Float(100_000.0), "fa47c35000"),
            (Value::Float(5.960_464_477_539_063e-8), "f90001"),
            (Value::Float(0.000_061_035_156_25), "f90400"),
            (Value::Float(2.980_232_238_769_531_3e-8), "fa33000000"),
            (Value::Float(1e300), "fb7e37e43c8800759c"),
        ] {
            let mut out = Vec::new();
            write_item(&n, None, &mut out);
            let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, want, "{n:?}");
            assert_eq!(parse(&out, &Limits::default()), Ok(n));
        }
    }

    #[test]
    fn encodes_strings_and_bytes() {
        let message = Message::new("x.Thing", vec![Field::new("data", Ty::Bytes), Field::new("name", Ty::String)]);
        let thing = value!({"data": "AQL/", "name": "AQL/", "other": ["a", null]});
        let mut out = Vec::new();
        write(&thing, Some(&message), &mut out);
        assert_eq!(out, b"\xd9\xd9\xf7\xa3\x44data\xd6\x43\x01\x02\xff\x44name\x44AQL/\x45other\x82\x41a\xf6");
        assert_eq!(parse(&out, &Limits::default()), Ok(thing));
    }

    #[test]
    fn writes_lists_and_watch_events() {
        let mut list = Vec::new();
        write(&value!({"kind": "List", "items": [null]}), None, &mut list);
        assert!(open_last_array(&mut list) && !open_last_array(&mut list));
        write_item(&value!({"a": 1i64}), None, &mut list);
        write_item(&value!({}), None, &mut list);
        list.push(ARRAY_END);
        assert_eq!(parse(&list, &Limits::default()), Ok(value!({"kind": "List", "items": [{"a": 1i64}, {}]})));
        let mut event = Vec::new();
        write_event("ADDED", &value!({"kind": "A"}), None, &mut event);
        assert_eq!(event, b"\xd9\xd9\xf7\xa2\x44type\x45ADDED\x46object\xd9\xd9\xf7\xa1\x44kind\x41A");
    }

    #[test]
    fn detects_whole_floats() {
        for (value, want) in [
            (value!({"a": [1i64, {"b": (Value::Float(1.0))}]}), true),
            (value!({"a": [1i64, {"b": (Value::Float(1.5))}]}), false),
            (Value::Float(-0.0), true),
            (Value::Float(1e30), false),
            (Value::Raw("1.0".into()), false),
        ] {
            assert_eq!(has_whole_floats(&value), want, "{value:?}");
        }
    }

    /// Shorter names come first; names of the same length are sorted by their bytes.
    #[test]
    fn sorts_keys_deterministically() {
        let mut out = Vec::new();
        write_sorted(
            &value!({"bb": 1i64, "ab": {"y": true, "x": (Value::Raw("{\"b\":1,\"a\":[]}".into()))}, "c": 2i64}),
            &mut out,
        );
        assert_eq!(out, b"\xd9\xd9\xf7\xa3\x41c\x02\x42ab\xa2\x41x\xa2\x41a\x80\x41b\x01\x41y\xf5\x42bb\x01");
    }
}
