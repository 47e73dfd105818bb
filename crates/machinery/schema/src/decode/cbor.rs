//! Decoding of CBOR by a schema, as Go's library decodes a document into structs.

use std::collections::HashSet;

use binnacle_meta::Text;

use super::{DecodeError, DecodedObject, base64, from_value, go};
use crate::cbor::{CborError, LaterEncoding, Major, Reader, base64_text, duplicate, item_head, read_item, read_text};
use crate::findings::{Finding, Findings};
use crate::json::TypeMeta;
use crate::limits::Budget;
use crate::path::Path;
use crate::{Limits, Message, Object, Presence, Ty, Value};

/// Decodes a document. Unlike in JSON, duplicate members are errors, and of unknown members only the index of the first
/// is reported.
pub fn cbor(bytes: &[u8], message: &Message, limits: &Limits) -> Result<DecodedObject, DecodeError> {
    let mut walk = Decoder { budget: Budget::new(limits) };
    let mut reader = Reader::new(bytes, limits).map_err(DecodeError::Cbor)?;
    let read = walk.message(&mut reader, message, None, None).map_err(DecodeError::Cbor)?;
    let mut decoded = from_value::value_within(read.value, message, limits)?;
    let mut findings = Findings::default();
    findings.extend(read.unknown.map(Finding::UnknownEntry));
    decoded.findings = findings;
    Ok(decoded)
}

/// Returns the version and kind of a document, which must be well-formed as a whole.
///
/// kube-apiserver puts `unable to determine group/version/kind: ` before the error.
pub fn cbor_type_meta(bytes: &[u8], limits: &Limits) -> Result<TypeMeta, CborError> {
    const TARGET: &str = "v1.TypeMeta";
    let mut reader = Reader::new(bytes, limits)?;
    let mut meta = TypeMeta::default();
    let head = reader.untagged(|_, _| Ok::<_, CborError>(()))?;
    match head.major {
        Major::Map => {}
        Major::Array => return Err(CborError::mismatch(Major::Array, TARGET, NO_ARRAY)),
        _ => return reader.expect_null(head, || TARGET.to_owned()).map(|()| meta),
    }
    let (mut entries, mut keys) = (reader.entries(head), Keys::default());
    while entries.next(&mut reader)? {
        let name = keys.next(&mut reader)?;
        let target = match name.as_deref() {
            Some("apiVersion") => &mut meta.api_version,
            Some("kind") => &mut meta.kind,
            _ => {
                reader.skip()?;
                continue;
            }
        };
        let read = read_text(&mut reader, None, || "string".to_owned());
        let named = |error: CborError| error.in_field(|| format!("{TARGET}.{}", name.unwrap_or_default()));
        *target = read.map_err(named)?.unwrap_or_default();
    }
    Ok(meta)
}

const NO_ARRAY: &str = "cannot decode CBOR array to struct without toarray option";

/// The keys of a map that is decoded into a struct.
#[derive(Default)]
struct Keys {
    seen: HashSet<Text>,
    numbers: HashSet<i128>,
    index: usize,
}

impl Keys {
    /// Reads the next key; `None` for a number, which no struct of the API has as a key.
    fn next(&mut self, reader: &mut Reader<'_>) -> Result<Option<Text>, CborError> {
        let index = self.index;
        self.index += 1;
        match reader.next_major()? {
            Major::Bytes | Major::Text => {
                let key = read_text(reader, None, || "string".to_owned())?.unwrap_or_default();
                if !self.seen.insert(key.clone()) {
                    return Err(duplicate(&key, index));
                }
                Ok(Some(key))
            }
            Major::Unsigned | Major::Negative => {
                let number = reader.head()?.integer().unwrap_or_default();
                if !self.numbers.insert(number) {
                    let why = format!("cbor: found duplicate map key {number} at map element index {index}");
                    return Err(CborError::Document(why));
                }
                Ok(None)
            }
            found => {
                let why = format!("map key is of type {} and cannot be used to match struct field name", found.name());
                Err(CborError::mismatch(found, "string", why))
            }
        }
    }
}

/// A decoded value, and the index of the first unknown entry of a map. The outer map's index takes precedence over
/// inner ones.
struct DecodedItem {
    value: Value,
    unknown: Option<usize>,
}

impl From<Value> for DecodedItem {
    fn from(value: Value) -> Self {
        Self { value, unknown: None }
    }
}

struct Decoder {
    budget: Budget,
}

type PathRef<'p> = Option<&'p Path<'p>>;
type TagEncoding = Option<LaterEncoding>;

impl Decoder {
    /// Decodes a struct.
    fn message(
        &mut self,
        reader: &mut Reader<'_>,
        message: &Message,
        later: TagEncoding,
        path: PathRef<'_>,
    ) -> Result<DecodedItem, CborError> {
        let target = || go::qualified_name(message);
        let (head, later) = item_head(reader, later)?;
        match head.major {
            Major::Map => {}
            Major::Array => return Err(CborError::mismatch(Major::Array, target(), NO_ARRAY)),
            _ => return reader.expect_null(head, target).map(|()| Value::Null.into()),
        }
        self.budget.message(message)?;
        let (mut entries, mut keys) = (reader.entries(head), Keys::default());
        let (mut object, mut unknown, mut hint) = (Object::new(), None, 0);
        let mut below = None;
        while entries.next(reader)? {
            let key = keys.next(reader)?;
            let field_entry = key.as_deref().and_then(|key| message.field(key, hint));
            let (Some(key), Some((index, field))) = (key, field_entry) else {
                unknown = unknown.or(Some(keys.index - 1));
                reader.skip()?;
                continue;
            };
            hint = index + 1;
            self.budget.member(object.len())?;
            let here = Path::field(path, message, field);
            if field.presence == Presence::Optional && reader.skip_nil() {
                object.push(key, Value::Null);
                continue;
            }
            let read = self.value(reader, &field.ty, later, Some(&here));
            let read = read.map_err(|error| error.in_field(|| format!("{}.{}", target(), field.name)))?;
            below = below.or(read.unknown);
            object.push(key, read.value);
        }
        Ok(DecodedItem { value: Value::Object(object), unknown: unknown.or(below) })
    }

    fn value(
        &mut self,
        reader: &mut Reader<'_>,
        ty: &Ty,
        later: TagEncoding,
        path: PathRef<'_>,
    ) -> Result<DecodedItem, CborError> {
        let target = || go::type_at(path, ty);
        match ty {
            Ty::Message(message) => self.message(reader, message, later, path),
            Ty::String | Ty::Time | Ty::MicroTime => {
                // Times are read as strings first.
                let target = || if matches!(ty, Ty::String) { target() } else { "string".to_owned() };
                Ok(read_text(reader, later, target)?.map_or(Value::Null, Value::Str).into())
            }
            Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double => {
                self.scalar(reader, ty, target).map(DecodedItem::from)
            }
            Ty::Bytes => self.bytes(reader, later, target).map(DecodedItem::from),
            Ty::IntOrString => self.int_or_string(reader, later).map(DecodedItem::from),
            Ty::SchemaOrBool(message) | Ty::SchemaOrArray(message) | Ty::SchemaOrStrings(message) => {
                reader.skip_self_described();
                match (reader.next_major()?, ty) {
                    (Major::Map, _) => self.message(reader, message, later, path),
                    (Major::Array, Ty::SchemaOrArray(_)) => {
                        let element = Ty::Message(message.clone());
                        self.list(reader, &element, later, path, target)
                    }
                    _ => read_item(reader, later, &mut self.budget).map(DecodedItem::from),
                }
            }
            // Unlike in JSON, a number is not a quantity here.
            Ty::Quantity => {
                Ok(read_text(reader, later, || "string".to_owned())?.map_or(Value::Null, Value::Str).into())
            }
            Ty::RawExtension => {
                let item = read_item(reader, later, &mut self.budget);
                item.map(DecodedItem::from).map_err(|error| match error {
                    CborError::TooManyElements(error) => error.into(),
                    error => CborError::document(format!(
                        "failed to transcode RawExtension to JSON: failed to parse RawExtension bytes as CBOR: {error}"
                    )),
                })
            }
            Ty::Duration | Ty::Json | Ty::FieldsV1 => read_item(reader, later, &mut self.budget).map(DecodedItem::from),
            ty => match (ty.element(), ty.map_value()) {
                (Some(element), _) => self.list(reader, element, later, path, target),
                (None, Some(value)) => self.map(reader, value, later, path, target),
                (None, None) => read_item(reader, later, &mut self.budget).map(DecodedItem::from),
            },
        }
    }

    fn list(
        &mut self,
        reader: &mut Reader<'_>,
        element: &Ty,
        later: TagEncoding,
        path: PathRef<'_>,
        target: impl Fn() -> String,
    ) -> Result<DecodedItem, CborError> {
        let (head, later) = item_head(reader, later)?;
        if head.major != Major::Array {
            return reader.expect_null(head, target).map(|()| Value::Null.into());
        }
        let (mut items, mut unknown) = (Vec::new(), None);
        let mut entries = reader.entries(head);
        while entries.next(reader)? {
            self.budget.element()?;
            let here = Path::index(path, items.len());
            let read = self.value(reader, element, later, Some(&here))?;
            unknown = unknown.or(read.unknown);
            items.push(read.value);
        }
        Ok(DecodedItem { value: Value::List(items), unknown })
    }

    fn map(
        &mut self,
        reader: &mut Reader<'_>,
        values: &Ty,
        later: TagEncoding,
        path: PathRef<'_>,
        target: impl Fn() -> String,
    ) -> Result<DecodedItem, CborError> {
        let (head, later) = item_head(reader, later)?;
        if head.major != Major::Map {
            return reader.expect_null(head, target).map(|()| Value::Null.into());
        }
        self.budget.object()?;
        let (mut object, mut unknown, mut index) = (Object::new(), None, 0);
        let mut entries = reader.entries(head);
        while entries.next(reader)? {
            let key = read_text(reader, later, || "string".to_owned())?.unwrap_or_default();
            self.budget.member(object.len())?;
            let read = self.value(reader, values, later, Some(&Path::key(path, &key)))?;
            unknown = unknown.or(read.unknown);
            if object.contains(&key) {
                return Err(duplicate(&key, index));
            }
            object.push(key, read.value);
            index += 1;
        }
        Ok(DecodedItem { value: Value::Object(object), unknown })
    }

    fn scalar(&mut self, reader: &mut Reader<'_>, ty: &Ty, target: impl Fn() -> String) -> Result<Value, CborError> {
        let (head, _) = item_head(reader, None)?;
        if let Some(integer) = head.integer() {
            let (least, most) = match ty {
                Ty::Int32 => (i32::MIN.into(), i32::MAX.into()),
                Ty::Int64 => (i64::MIN.into(), i64::MAX.into()),
                Ty::Uint32 if head.major == Major::Unsigned => (0, u32::MAX.into()),
                Ty::Double => return Ok(Value::Float(integer as f64)),
                _ => return Err(head.mismatch(target)),
            };
            let why = || match head.major {
                Major::Negative if i64::try_from(integer).is_err() => format!("{integer} overflows Go's int64"),
                _ => format!("{integer} overflows {}", target()),
            };
            let number = i64::try_from(integer).ok().filter(|_| (least..=most).contains(&integer));
            return number.map(Value::Int).ok_or_else(|| CborError::mismatch(head.major, target(), why()));
        }
        match (head.float(), ty) {
            (Some(number), Ty::Double) => return Ok(Value::Float(number)),
            (Some(_), _) => return Err(head.mismatch(target)),
            (None, _) => {}
        }
        match (head.major, head.info, ty) {
            (Major::Simple, 20 | 21, Ty::Bool) => Ok(Value::Bool(head.info == 21)),
            _ => reader.expect_null(head, target).map(|()| Value::Null),
        }
    }

    /// Decodes bytes; without a tag, they are their JSON text.
    fn bytes(
        &mut self,
        reader: &mut Reader<'_>,
        later: TagEncoding,
        target: impl Fn() -> String,
    ) -> Result<Value, CborError> {
        let mut ahead = reader.clone();
        let (head, later) = item_head(&mut ahead, later)?;
        if head.major == Major::Array {
            return read_item(reader, later, &mut self.budget);
        }
        *reader = ahead;
        if head.major != Major::Bytes {
            return reader.expect_null(head, target).map(|()| Value::Null);
        }
        let chunks = reader.chunks(head)?;
        if later.is_some() {
            return Ok(Value::Str(base64_text(&chunks)));
        }
        let text = String::from_utf8_lossy(&chunks.concat()).into_owned();
        match base64::canonical(&text) {
            Ok(text) => Ok(Value::Str(Text::new(text))),
            Err(at) => Err(CborError::document(format!(
                "cbor: failed to decode base64 from byte string: illegal base64 data at input byte {at}"
            ))),
        }
    }

    fn int_or_string(&mut self, reader: &mut Reader<'_>, later: TagEncoding) -> Result<Value, CborError> {
        let mut ahead = reader.clone();
        if let Ok(text) = read_text(&mut ahead, later, String::new) {
            *reader = ahead;
            return Ok(text.map_or(Value::Null, Value::Str));
        }
        self.scalar(reader, &Ty::Int32, || "int32".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cbor::write_item;
    use crate::{Field, MessageRef, json};

    fn message() -> Message {
        let field = |name: &'static str, ty| Field { presence: Presence::Optional, ..Field::new(name, ty) };
        let meta = Message::new("x.v1.Meta", vec![field("name", Ty::String), field("size", Ty::Int64)]);
        Message::new(
            "x.v1.Thing",
            vec![
                field("meta", Ty::Message(MessageRef::Shared(meta.into()))),
                field("small", Ty::Int32),
                field("unsigned", Ty::Uint32),
                field("share", Ty::Double),
                field("on", Ty::Bool),
                field("raw", Ty::Bytes),
                field("port", Ty::IntOrString),
                field("at", Ty::Time),
                field("amount", Ty::Quantity),
                field("free", Ty::RawExtension),
                field("names", Ty::List(Box::new(Ty::String))),
                field("data", Ty::Map(Box::new(Ty::String))),
            ],
        )
    }

    /// Encodes a JSON document as CBOR; `"#HEX"` is the item with these bytes.
    fn document(text: &str) -> Vec<u8> {
        let tree = json::parse(text.as_bytes(), &Limits::default()).expect("it is JSON");
        let mut out = Vec::new();
        items(&tree, &mut out);
        out
    }

    fn items(tree: &Value, out: &mut Vec<u8>) {
        match tree {
            Value::Str(text) if text.starts_with('#') => {
                let digit = |i: usize| u8::from_str_radix(&text[i..i + 2], 16).expect("hexadecimal");
                out.extend((1..text.len()).step_by(2).map(digit));
            }
            Value::Object(object) => {
                out.push(0xa0 | object.len() as u8);
                for (name, value) in object.iter() {
                    items(&Value::Str(name.clone()), out);
                    items(value, out);
                }
            }
            Value::List(list) => {
                out.push(0x80 | list.len() as u8);
                list.iter().for_each(|value| items(value, out));
            }
            other => write_item(other, None, out),
        }
    }

    #[test]
    fn decodes_typed_messages() {
        let message = message();
        let mismatch = |found: &str, field: &str, ty: &str| {
            Err(format!("cbor: cannot unmarshal {found} into Go struct field v1.Thing.{field} of type {ty}"))
        };
        let unknown = |index: usize| format!("cbor: found unknown field at map element index {index}");
        for (text, want) in [
            (r#"{"meta":{"name":"a","size":3},"on":true,"share":2}"#, Ok((r#"{"meta":{"name":"a","size":3},"share":2,"on":true}"#, None))),
            (r#"{"raw":"AAEC","port":"x"}"#, Ok((r#"{"raw":"AAEC","port":"x"}"#, None))),
            // Bytes below a tag of any encoding are raw.
            (r##"{"raw":"#d7430001ff","port":8}"##, Ok((r#"{"raw":"AAH/","port":8}"#, None))),
            (r##"{"raw":"#830102f6"}"##, Ok((r#"{"raw":"AQIA"}"#, None))),
            (r##"{"raw":"#430001ff"}"##, Err("cbor: failed to decode base64 from byte string: illegal base64 data at input byte 0".into())),
            (r##"{"raw":"#6441414543"}"##, mismatch("UTF-8 text string", "raw", "[]uint8")),
            (r##"{"data":{"a":"#d7430001ff","b":null}}"##, Ok((r#"{"data":{"a":"0001ff","b":""}}"#, None))),
            (r#"{"meta":{"name":"a","x":1},"zzz":1,"y":2}"#, Ok((r#"{"meta":{"name":"a"}}"#, Some(unknown(1))))),
            (r#"{"meta":{"name":"a","x":1}}"#, Ok((r#"{"meta":{"name":"a"}}"#, Some(unknown(1))))),
            (r##"{"#01":1,"#20":2}"##, Ok(("{}", Some(unknown(0))))),
            (r##"{"#01":1,"#1801":2}"##, Err("cbor: found duplicate map key 1 at map element index 1".into())),
            (r##"{"on":true,"#426f6e":true}"##, Err(r#"cbor: found duplicate map key "on" at map element index 1"#.into())),
            (r##"{"data":{"a":"b","#4161":"c"}}"##, Err(r#"cbor: found duplicate map key "a" at map element index 1"#.into())),
            (r##"{"#f5":1}"##, Err("cbor: cannot unmarshal primitives into Go value of type string (map key is of type primitives and cannot be used to match struct field name)".into())),
            // The error names the outermost field and the innermost type.
            (r#"{"meta":{"name":5}}"#, mismatch("positive integer", "meta", "string")),
            (r#"{"meta":{"size":"a"}}"#, mismatch("byte string", "meta", "int64")),
            (r#"{"meta":[1]}"#, Err("cbor: cannot unmarshal array into Go struct field v1.Thing.meta of type v1.Meta (cannot decode CBOR array to struct without toarray option)".into())),
            (r#"{"small":3000000000}"#, Err("cbor: cannot unmarshal positive integer into Go struct field v1.Thing.small of type int32 (3000000000 overflows int32)".into())),
            (r##"{"small":"#3bffffffffffffffff"}"##, Err("cbor: cannot unmarshal negative integer into Go struct field v1.Thing.small of type int32 (-18446744073709551616 overflows Go's int64)".into())),
            (r##"{"on":"#3bffffffffffffffff"}"##, Err("cbor: cannot unmarshal negative integer into Go struct field v1.Thing.on of type bool (-18446744073709551616 overflows Go's int64)".into())),
            (r##"{"on":"#61ff"}"##, Err("cbor: invalid UTF-8 string".into())),
            // All of these fields are pointers.
            (r##"{"on":"#f7","meta":"#f6"}"##, Ok(("{}", None))),
            (r##"{"names":["#f7"]}"##, Err("cbor: data item of cbor type primitives is not accepted by protocol: simple value 23 is not recognized".into())),
            (r#"{"unsigned":-1}"#, mismatch("negative integer", "unsigned", "uint32")),
            (r#"{"small":1.5}"#, mismatch("primitives", "small", "int32")),
            (r#"{"on":1}"#, mismatch("positive integer", "on", "bool")),
            (r#"{"port":[]}"#, mismatch("array", "port", "int32")),
            (r#"{"at":3}"#, mismatch("positive integer", "at", "string")),
            (r#"{"at":"x"}"#, Err(r#"parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006""#.into())),
            (r#"{"amount":"2"}"#, Ok((r#"{"amount":"2"}"#, None))),
            (r#"{"amount":2}"#, mismatch("positive integer", "amount", "string")),
            (r##"{"free":["#f93c00",2.5,"#f98000","#fb4480000000000000"]}"##, Ok((r#"{"free":[1,2.5,0,9.44473296573929e+21]}"#, None))),
            (r##"{"free":"#61ff"}"##, Err("failed to transcode RawExtension to JSON: failed to parse RawExtension bytes as CBOR: cbor: invalid UTF-8 string".into())),
            (r#"{"names":"a"}"#, mismatch("byte string", "names", "[]string")),
            (r#"{"names":[3]}"#, mismatch("positive integer", "names", "string")),
            (r#"{"data":3}"#, mismatch("positive integer", "data", "map[string]string")),
            (r##"{"data":{"#01":"a"}}"##, mismatch("positive integer", "data", "string")),
            (r#"null"#, Ok(("{}", None))),
            (r#"7"#, Err("cbor: cannot unmarshal positive integer into Go value of type v1.Thing".into())),
        ] {
            let read = cbor(&document(text), &message, &Limits::default());
            let read = read.map(|read| (json::to_string(&read.value), read.findings.iter().next().map(ToString::to_string)));
            let read = read.as_ref().map(|(value, finding)| (value.as_str(), finding.clone())).map_err(ToString::to_string);
            assert_eq!(read, want, "{text}");
        }
    }

    #[test]
    fn decodes_type_meta() {
        let into = "into Go value of type v1.TypeMeta";
        for (text, want) in [
            (r#"{"kind":"A","x":[{}],"apiVersion":"v1"}"#, Ok(("v1", "A"))),
            (r#"{"kind":null}"#, Ok(("", ""))),
            ("null", Ok(("", ""))),
            (
                r#"{"kind":3}"#,
                Err("cbor: cannot unmarshal positive integer into Go struct field v1.TypeMeta.kind of type string"
                    .into()),
            ),
            (r##"{"x":1,"#4178":1}"##, Err(r#"cbor: found duplicate map key "x" at map element index 1"#.into())),
            // Other members are not decoded.
            (r##"{"x":{"a":1,"#4161":1}}"##, Ok(("", ""))),
            (
                "[]",
                Err(format!(
                    "cbor: cannot unmarshal array {into} (cannot decode CBOR array to struct without toarray option)"
                )),
            ),
            ("7", Err(format!("cbor: cannot unmarshal positive integer {into}"))),
        ] {
            let meta = cbor_type_meta(&document(text), &Limits::default());
            let meta =
                meta.as_ref().map(|meta| (meta.api_version.as_str(), meta.kind.as_str())).map_err(ToString::to_string);
            assert_eq!(meta, want, "{text}");
        }
    }
}
