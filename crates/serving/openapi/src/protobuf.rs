//! The protobuf encoding of documents: JSON is transcoded as a stream to gnostic's messages.
//!
//! The messages mirror the documents member by member, so tables of names and numbers suffice; see [`shapes`].

pub(crate) mod shapes;
mod yaml;

use std::fmt;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

/// The members of a message.
pub(crate) struct Shape {
    pub(crate) members: &'static [(&'static str, u32, FieldEncoding)],
    /// The field for members whose name begins with `x-`; 0 for none.
    pub(crate) extensions: u32,
}

/// The encoding of a value as a field.
pub(crate) enum FieldEncoding {
    Text,
    Flag,
    Integer,
    Double,
    /// A message with the value as YAML.
    Any,
    /// A message with a number, a boolean or a string (1, 2, 3).
    Default,
    Message(&'static Shape),
    /// A list with one field per element.
    Repeated(&'static FieldEncoding),
    /// A message with repeated fields of this number: name (1) and value (2).
    Named(u32, &'static FieldEncoding),
    /// A message with only this value, in the field with that number.
    Wrapped(u32, &'static FieldEncoding),
    /// A message with this value (1) or a boolean (2).
    OrFlag(&'static FieldEncoding),
    /// A message with this structure (1) or a reference (2).
    OrReference(&'static Shape),
    /// A parameter of version 2: each location has its own message.
    Parameter,
    /// A parameter of version 2, or a reference to one.
    ParameterOrReference,
}

/// Transcodes a JSON document.
pub(crate) fn transcode(json: &[u8], shape: &'static Shape) -> Result<Vec<u8>, serde_json::Error> {
    struct Document(&'static Shape);
    impl<'de> Visitor<'de> for Document {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a document")
        }

        fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Vec<u8>, A::Error> {
            message(None, members, self.0)
        }
    }
    serde_json::Deserializer::from_slice(json).deserialize_map(Document(shape))
}

/// Transcodes a JSON object to the contents of a message of named values.
pub(crate) fn transcode_members(json: &[u8], kind: &'static FieldEncoding) -> Result<Vec<u8>, serde_json::Error> {
    struct Members(&'static FieldEncoding);
    impl<'de> Visitor<'de> for Members {
        type Value = Vec<u8>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object")
        }

        fn visit_map<A: MapAccess<'de>>(self, members: A) -> Result<Vec<u8>, A::Error> {
            match self.0 {
                FieldEncoding::Named(number, kind) => named(members, *number, kind),
                _ => Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self)),
            }
        }
    }
    serde_json::Deserializer::from_slice(json).deserialize_map(Members(kind))
}

/// Returns the bytes of a field before a message of this length.
pub(crate) fn field_start(number: u32, length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    write_varint(u64::from(number) << 3 | 2, &mut out);
    write_varint(length as u64, &mut out);
    out
}

/// Writes a value to `out` as the field `number`.
struct FieldWriter<'o> {
    number: u32,
    kind: &'static FieldEncoding,
    /// True if zero values are written too: for elements of lists, and in a oneof.
    writes_zero: bool,
    out: &'o mut Vec<u8>,
}

impl<'de> DeserializeSeed<'de> for FieldWriter<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        let mut content = Vec::new();
        match self.kind {
            FieldEncoding::Any => write_any(&Value::deserialize(from)?, &mut content),
            FieldEncoding::Default => match Value::deserialize(from)? {
                Value::Bool(flag) => write_varint_field(2, u64::from(flag), &mut content),
                Value::Number(number) => write_double(1, number.as_f64().unwrap_or_default(), &mut content),
                Value::String(text) => write_bytes(3, text.as_bytes(), &mut content),
                _ => {}
            },
            FieldEncoding::Wrapped(number, kind) => {
                FieldWriter { number: *number, kind, writes_zero: true, out: &mut content }.deserialize(from)?
            }
            FieldEncoding::Parameter => parameter(Value::deserialize(from)?, &mut content).map_err(D::Error::custom)?,
            FieldEncoding::ParameterOrReference => {
                let value = Value::deserialize(from)?;
                let mut inner = Vec::new();
                match value.get("$ref").and_then(Value::as_str) {
                    Some(reference) => {
                        write_bytes(1, reference.as_bytes(), &mut inner);
                        write_bytes(2, &inner, &mut content);
                    }
                    None => {
                        parameter(value, &mut inner).map_err(D::Error::custom)?;
                        write_bytes(1, &inner, &mut content);
                    }
                }
            }
            _ => return from.deserialize_any(self),
        }
        write_bytes(self.number, &content, self.out);
        Ok(())
    }
}

impl<'de> Visitor<'de> for FieldWriter<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let expected = match self.kind {
            FieldEncoding::Text => "a text",
            FieldEncoding::Flag => "a truth value",
            FieldEncoding::Integer | FieldEncoding::Double => "a number",
            FieldEncoding::Repeated(_) => "a list",
            FieldEncoding::OrFlag(_) => "an object or a truth value",
            _ => "an object",
        };
        f.write_str(expected)
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<(), E> {
        match self.kind {
            FieldEncoding::Text if text.is_empty() && !self.writes_zero => {}
            FieldEncoding::Text => write_bytes(self.number, text.as_bytes(), self.out),
            _ => return Err(E::invalid_type(serde::de::Unexpected::Str(text), &self)),
        }
        Ok(())
    }

    fn visit_bool<E: serde::de::Error>(self, flag: bool) -> Result<(), E> {
        match self.kind {
            FieldEncoding::Flag if !flag && !self.writes_zero => {}
            FieldEncoding::Flag => write_varint_field(self.number, u64::from(flag), self.out),
            FieldEncoding::OrFlag(_) => {
                let mut content = Vec::new();
                write_varint_field(2, u64::from(flag), &mut content);
                write_bytes(self.number, &content, self.out);
            }
            _ => return Err(E::invalid_type(serde::de::Unexpected::Bool(flag), &self)),
        }
        Ok(())
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<(), E> {
        match self.kind {
            FieldEncoding::Integer if number == 0 && !self.writes_zero => {}
            // A negative number is encoded as its two's complement.
            FieldEncoding::Integer => {
                write_varint_field(self.number, u64::from_ne_bytes(number.to_ne_bytes()), self.out)
            }
            _ => return self.visit_f64(number as f64),
        }
        Ok(())
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<(), E> {
        match i64::try_from(number) {
            Ok(number) => self.visit_i64(number),
            Err(_) => self.visit_f64(number as f64),
        }
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<(), E> {
        match self.kind {
            FieldEncoding::Double if number == 0.0 && !self.writes_zero => {}
            FieldEncoding::Double => write_double(self.number, number, self.out),
            _ => return Err(E::invalid_type(serde::de::Unexpected::Float(number), &self)),
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<(), A::Error> {
        let FieldEncoding::Repeated(kind) = self.kind else {
            return Err(A::Error::invalid_type(serde::de::Unexpected::Seq, &self));
        };
        let (number, out) = (self.number, self.out);
        while elements.next_element_seed(FieldWriter { number, kind, writes_zero: true, out: &mut *out })?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        let mut content = Vec::new();
        match self.kind {
            FieldEncoding::Message(shape) => content = message(None, members, shape)?,
            FieldEncoding::Named(number, kind) => content = named(members, *number, kind)?,
            FieldEncoding::OrFlag(kind) => {
                FieldWriter { number: 1, kind, writes_zero: true, out: &mut content }.visit_map(members)?
            }
            FieldEncoding::OrReference(shape) => {
                let first = members.next_key::<String>()?;
                if first.as_deref() == Some("$ref") {
                    let mut reference = Vec::new();
                    write_bytes(1, members.next_value::<String>()?.as_bytes(), &mut reference);
                    while members.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                    write_bytes(2, &reference, &mut content);
                } else {
                    write_bytes(1, &message(first, members, shape)?, &mut content);
                }
            }
            _ => return Err(A::Error::invalid_type(serde::de::Unexpected::Map, &self)),
        }
        write_bytes(self.number, &content, self.out);
        Ok(())
    }
}

/// Returns the contents of a message with repeated fields of this number: name (1) and value (2).
fn named<'de, A: MapAccess<'de>>(
    mut members: A,
    number: u32,
    kind: &'static FieldEncoding,
) -> Result<Vec<u8>, A::Error> {
    let mut content = Vec::new();
    while let Some(name) = members.next_key::<String>()? {
        let mut named = Vec::new();
        write_bytes(1, name.as_bytes(), &mut named);
        members.next_value_seed(FieldWriter { number: 2, kind, writes_zero: true, out: &mut named })?;
        write_bytes(number, &named, &mut content);
    }
    Ok(content)
}

/// Returns the contents of a message, sorted by field number. `first` is a member's name that was already read.
fn message<'de, A: MapAccess<'de>>(
    mut first: Option<String>,
    mut members: A,
    shape: &'static Shape,
) -> Result<Vec<u8>, A::Error> {
    let mut fields: Vec<(u32, Vec<u8>)> = Vec::new();
    loop {
        let name = match first.take() {
            Some(name) => name,
            None => match members.next_key::<String>()? {
                Some(name) => name,
                None => break,
            },
        };
        let mut field = Vec::new();
        if let Some((_, number, kind)) = shape.members.iter().find(|(known, _, _)| *known == name) {
            members.next_value_seed(FieldWriter { number: *number, kind, writes_zero: false, out: &mut field })?;
            fields.push((*number, field));
        } else if name.starts_with("x-") && shape.extensions != 0 {
            let (mut named, mut any) = (Vec::new(), Vec::new());
            write_bytes(1, name.as_bytes(), &mut named);
            write_any(&members.next_value()?, &mut any);
            write_bytes(2, &any, &mut named);
            write_bytes(shape.extensions, &named, &mut field);
            fields.push((shape.extensions, field));
        } else {
            return Err(A::Error::unknown_field(&name, &[]));
        }
    }
    fields.sort_by_key(|(number, _)| *number);
    Ok(fields.into_iter().flat_map(|(_, field)| field).collect())
}

/// Writes a body (1) or another parameter (2), which is in a header, form, query or path (1 to 4).
fn parameter(value: Value, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
    let location = value.get("in").and_then(Value::as_str).unwrap_or_default();
    let (number, shape) = match location {
        "header" => (1, &shapes::HEADER_PARAMETER),
        "formData" => (2, &shapes::QUERY_PARAMETER),
        "query" => (3, &shapes::QUERY_PARAMETER),
        "path" => (4, &shapes::HEADER_PARAMETER),
        _ => (0, &shapes::BODY_PARAMETER),
    };
    let Value::Object(members) = value else { return Err(serde_json::Error::custom("a parameter is an object")) };
    let content = message(None, serde::de::value::MapDeserializer::new(members.into_iter()), shape)?;
    if number == 0 {
        write_bytes(1, &content, out);
        return Ok(());
    }
    let mut non_body = Vec::new();
    write_bytes(number, &content, &mut non_body);
    write_bytes(2, &non_body, out);
    Ok(())
}

fn write_any(value: &Value, out: &mut Vec<u8>) {
    write_bytes(2, yaml::text(value).as_bytes(), out);
}

// === The wire ===

fn write_bytes(number: u32, bytes: &[u8], out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | 2, out);
    write_varint(bytes.len() as u64, out);
    out.extend_from_slice(bytes);
}

fn write_varint_field(number: u32, value: u64, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3, out);
    write_varint(value, out);
}

fn write_double(number: u32, value: f64, out: &mut Vec<u8>) {
    write_varint(u64::from(number) << 3 | 1, out);
    out.extend_from_slice(&value.to_le_bytes());
}

fn write_varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Fields are sorted by number, zero values are omitted, and members without a field are encoded as YAML.
    #[test]
    fn transcodes_small_documents() {
        for (shape, json, want) in [
            (&shapes::V3, r#"{"openapi":"3.0.0"}"#, &b"\x0a\x053.0.0"[..]),
            (&shapes::V3, r#"{"info":{"version":"1","title":""},"openapi":"3"}"#, b"\x0a\x013\x12\x03\x32\x011"),
            (&shapes::V2, r#"{"swagger":"","x-a":["b"]}"#, b"\x82\x01\x0d\x0a\x03x-a\x12\x06\x12\x04- b\n"),
            (&shapes::V2, r#"{"security":[{"B":[]}]}"#, b"\x62\x07\x0a\x05\x0a\x01B\x12\x00"),
            (
                &shapes::V2,
                r#"{"paths":{"/":{"parameters":[{"$ref":"r"}]}}}"#,
                b"\x42\x0e\x12\x0c\x0a\x01/\x12\x07\x4a\x05\x12\x03\x0a\x01r",
            ),
            (
                &shapes::V3,
                r#"{"components":{"schemas":{"A":{"default":-1,"not":{"maxItems":3}},"B":{"$ref":"r"}}}}"#,
                b"\x2a\x29\x0a\x27\
                  \x0a\x19\x0a\x01A\x12\x14\x0a\x12\xea\x01\x03\x90\x01\x03\x8a\x02\x09\x09\0\0\0\0\0\0\xf0\xbf\
                  \x0a\x0a\x0a\x01B\x12\x05\x12\x03\x0a\x01r",
            ),
        ] {
            let got = transcode(json.as_bytes(), shape);
            assert_eq!(got.ok().as_deref(), Some(want), "{json}");
        }
    }

    #[test]
    fn rejects_unexpected_members_and_types() {
        for json in [
            "[]",
            r#"{"openapi":3}"#,
            r#"{"openapi":{}}"#,
            r#"{"unknown":1}"#,
            r#"{"paths":{"/":{"get":{"deprecated":"yes"}}}}"#,
            r#"{"paths":{"/":{"parameters":{}}}}"#,
            r#"{"components":{"schemas":{"A":{"maxItems":1.5}}}}"#,
        ] {
            assert!(transcode(json.as_bytes(), &shapes::V3).is_err(), "{json}");
        }
    }
}
