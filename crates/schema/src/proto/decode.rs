//! From protobuf to the tree, as the decoded JSON of the same object has it.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{GoDuration, MicroTime, Text, Time};
use smol_str::ToSmolStr;

use super::error::ProtoError;
use super::free;
use super::index::{Index, Stop};
use super::normalize::normalize;
use super::plan::{Absent, Shape, wire_type};
use super::scalars::{self, IntOrString, Or, SchemaOr, shared_text};
use super::wire::{DELIMITED, FIXED64, Reader};
use crate::types::{Message, Ty};
use crate::value::{Object, Value};

/// Messages within messages that are read unless the caller says otherwise. Only schemas of custom resources nest
/// without bound; a property costs one level.
pub const DEPTH: usize = 256;

/// Reads a message without envelope: fields in the order of the schema, zero values as the JSON of the object has them.
/// `apiVersion` and `kind` are the envelope's and not set.
pub fn decode(bytes: &[u8], message: &Message, depth: usize) -> Result<Value, ProtoError> {
    decode_object(bytes, message, "", "", depth)
}

/// Reads the message of an envelope: [`decode`] with `apiVersion` and `kind` set, where the message has them.
pub fn decode_object(
    bytes: &[u8],
    message: &Message,
    api_version: &str,
    kind: &str,
    depth: usize,
) -> Result<Value, ProtoError> {
    let mut root = Object::new();
    for field in message.fields.iter().filter(|field| field.tag == 0) {
        match field.name.as_str() {
            "apiVersion" if !api_version.is_empty() => root.push(field.name.clone(), api_version.into()),
            "kind" if !kind.is_empty() => root.push(field.name.clone(), kind.into()),
            _ => {}
        }
    }
    let read = |bytes: &[u8], root| Decoder { index: Index::new(bytes)? }.message(0..bytes.len(), message, root, depth);
    match read(bytes, root.clone()) {
        Ok(decoded) => Ok(decoded.value),
        Err(Stop::Error(error)) => Err(error),
        Err(Stop::Unordered) => match read(&normalize(bytes, message, depth)?, root) {
            Ok(decoded) => Ok(decoded.value),
            Err(Stop::Error(error)) => Err(error),
            Err(Stop::Unordered) => Err(ProtoError::TooLarge),
        },
    }
}

/// A value and whether it is more than Go's zero value.
struct Decoded {
    value: Value,
    nonzero: bool,
}

impl Decoded {
    /// A value of which `null` is the only zero.
    fn or_null(value: Value) -> Self {
        Self { nonzero: !value.is_null(), value }
    }
}

struct Decoder<'a> {
    index: Index<'a>,
}

impl<'a> Decoder<'a> {
    /// Reads a message into an object that may have members already.
    fn message(
        &mut self,
        range: Range<usize>,
        message: &Message,
        mut object: Object,
        depth: usize,
    ) -> Result<Decoded, Stop> {
        let depth = depth.checked_sub(1).ok_or(ProtoError::TooDeep)?;
        let plan = message.plan();
        let frame = self.index.open(range, message)?;
        let mut nonzero = false;
        let mut todo = frame.found | plan.shown;
        object.reserve(todo.count_ones() as usize);
        while todo != 0 {
            let i = todo.trailing_zeros() as usize;
            todo &= todo - 1;
            let (field, plan) = (&message.fields[i], &plan.fields[i]);
            let decoded = if frame.found >> i & 1 != 0 {
                self.value(self.index.span(frame, i), &field.ty, depth)?
            } else if plan.absent == Absent::ShownZero {
                self.zero(&field.ty, depth)?
            } else {
                Decoded::or_null(Value::Null)
            };
            // Only what JSON shows as `null` reads as absent behind a pointer, whatever the pointer points to.
            let (stays, counts) = match plan.absent {
                Absent::Nothing if plan.omits_zero => (decoded.nonzero, decoded.nonzero),
                Absent::Nothing => (!decoded.value.is_null(), !decoded.value.is_null()),
                Absent::Null => (true, !decoded.value.is_null()),
                Absent::HiddenZero => (decoded.nonzero, decoded.nonzero),
                Absent::ShownZero => (true, decoded.nonzero),
            };
            nonzero |= counts;
            if stays {
                object.push(field.name.clone(), decoded.value);
            }
        }
        self.index.close(frame);
        Ok(Decoded { value: Value::Object(object), nonzero })
    }

    /// A field that the bytes have.
    #[inline]
    fn value(&mut self, range: Range<usize>, ty: &Ty, depth: usize) -> Result<Decoded, Stop> {
        match Shape::of(ty) {
            Shape::List(element) => self.list(range, element, depth),
            Shape::Map(values) => self.map(range, values, depth),
            Shape::One(ty) if wire_type(ty) != DELIMITED => Ok(number(&mut self.reader(range), ty)?),
            Shape::One(ty) => self.delimited(range, ty, depth),
        }
    }

    fn reader(&self, range: Range<usize>) -> Reader<'a> {
        Reader::of_range(self.index.raw, range)
    }

    /// The zero value of a type that Go holds without pointer.
    fn zero(&mut self, ty: &Ty, depth: usize) -> Result<Decoded, Stop> {
        let value = match ty {
            Ty::Bool => Value::Bool(false),
            Ty::Int32 | Ty::Int64 | Ty::Uint32 => Value::Int(0),
            Ty::Double => Value::Float(0.0),
            Ty::String => Value::Str(Text::default()),
            _ => return self.delimited(0..0, ty, depth),
        };
        Ok(Decoded { value, nonzero: false })
    }

    /// `null` for records that pack no numbers at all.
    fn list(&mut self, range: Range<usize>, element: &Ty, depth: usize) -> Result<Decoded, Stop> {
        let mut items = Vec::new();
        let mut reader = self.reader(range);
        while let Some(key) = reader.key("list")? {
            self.items(key.wire, &mut reader, element, &mut items, depth)?;
        }
        Ok(Decoded::or_null(if items.is_empty() { Value::Null } else { Value::List(items) }))
    }

    /// One record of a list: an element, or several numbers packed together.
    #[inline]
    fn items(
        &mut self,
        wire: u8,
        reader: &mut Reader<'a>,
        element: &Ty,
        items: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), Stop> {
        match (wire_type(element), wire) {
            (DELIMITED, _) => items.push(self.delimited(reader.delimited_range()?, element, depth)?.value),
            (_, DELIMITED) => {
                let packed = reader.delimited()?;
                let mut reader = Reader::new(packed);
                while reader.position() < packed.len() {
                    items.push(number(&mut reader, element)?.value);
                }
            }
            _ => items.push(number(reader, element)?.value),
        }
        Ok(())
    }

    fn map(&mut self, range: Range<usize>, values: &Ty, depth: usize) -> Result<Decoded, Stop> {
        let mut object = Object::new();
        let mut last: Option<&[u8]> = None;
        let mut records = self.reader(range);
        while records.key("map")?.is_some() {
            let (name, value) = self.index.entry(records.delimited_range()?, values)?;
            let name = &self.index.raw[name];
            if last.is_some_and(|last| last >= name) {
                return Err(Stop::Unordered);
            }
            last = Some(name);
            let value = match value {
                Some(range) if wire_type(values) == DELIMITED => self.delimited(range, values, depth)?,
                Some(range) => number(&mut self.reader(range), values)?,
                None => self.zero(values, depth)?,
            };
            // An empty list is not nil here, as Go makes one for each entry.
            let empty = value.value.is_null() && matches!(values, Ty::StaticWrappedList(_));
            object.push(shared_text(name), if empty { Value::List(Vec::new()) } else { value.value });
        }
        Ok(Decoded { value: Value::Object(object), nonzero: true })
    }

    /// A value that has a length.
    #[inline]
    fn delimited(&mut self, range: Range<usize>, ty: &Ty, depth: usize) -> Result<Decoded, Stop> {
        match ty {
            Ty::String => {
                let bytes = &self.index.raw[range];
                Ok(Decoded { value: Value::Str(shared_text(bytes)), nonzero: !bytes.is_empty() })
            }
            Ty::Message(message) => self.message(range, message, Object::new(), depth),
            _ => self.special(range, ty, depth),
        }
    }

    /// A value that has a length and is neither text nor message.
    fn special(&mut self, range: Range<usize>, ty: &Ty, depth: usize) -> Result<Decoded, Stop> {
        let bytes = &self.index.raw[range.clone()];
        Ok(match ty {
            Ty::Bytes => Decoded { value: Value::Str(STANDARD.encode(bytes).into()), nonzero: !bytes.is_empty() },
            Ty::Time => Decoded::or_null(match scalars::timestamp(bytes)? {
                Some((seconds, _)) => Value::Str(Time::from_unix(seconds, 0).to_smolstr()),
                None => Value::Null,
            }),
            Ty::MicroTime => Decoded::or_null(match scalars::timestamp(bytes)? {
                Some((seconds, nanos)) => Value::Str(micro_time(seconds, nanos).to_smolstr()),
                None => Value::Null,
            }),
            Ty::Duration => {
                let nanos = scalars::duration(bytes)?;
                Decoded { value: Value::Str(GoDuration(nanos).to_smolstr()), nonzero: nanos != 0 }
            }
            Ty::Quantity => {
                let text = scalars::quantity(bytes)?;
                Decoded { nonzero: text != "0", value: Value::Str(text.into()) }
            }
            Ty::IntOrString => match scalars::int_or_string(bytes)? {
                IntOrString::Int(n) => Decoded { value: Value::Int(n.into()), nonzero: n != 0 },
                IntOrString::Str(text) => Decoded { value: Value::Str(shared_text(text)), nonzero: true },
            },
            Ty::RawExtension | Ty::Json => Decoded::or_null(match scalars::carried(bytes, "RawExtension")? {
                Some(raw) => free::read(raw)?,
                None => Value::Null,
            }),
            Ty::FieldsV1 => Decoded::or_null(match scalars::carried(bytes, "FieldsV1")? {
                Some(raw) => free::carry(raw)?,
                None => Value::Null,
            }),
            Ty::SchemaOrBool(schema) => self.schema_or(range, Or::Bool, schema, depth)?,
            Ty::SchemaOrArray(schema) => self.schema_or(range, Or::Array, schema, depth)?,
            Ty::SchemaOrStrings(schema) => self.schema_or(range, Or::Strings, schema, depth)?,
            Ty::StaticWrappedList(element) => self.wrapped(range, element, depth)?,
            Ty::List(_) | Ty::StaticList(_) | Ty::Map(_) | Ty::StaticMap(_) => return Err(nested().into()),
            Ty::String | Ty::Message(_) => self.delimited(range, ty, depth)?,
            Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double => unreachable!("numbers are not delimited"),
        })
    }

    /// A list in a message of its own, `null` where it has no elements.
    fn wrapped(&mut self, range: Range<usize>, element: &Ty, depth: usize) -> Result<Decoded, Stop> {
        let mut items = Vec::new();
        let mut reader = self.reader(range);
        while let Some(key) = reader.key("items")? {
            if key.tag != 1 {
                reader.skip(key)?;
                continue;
            }
            if key.wire != wire_type(element) && key.wire != DELIMITED {
                return Err(ProtoError::wrong_wire_type(key.wire, "items").into());
            }
            self.items(key.wire, &mut reader, element, &mut items, depth)?;
        }
        Ok(Decoded::or_null(if items.is_empty() { Value::Null } else { Value::List(items) }))
    }

    fn schema_or(&mut self, range: Range<usize>, or: Or, schema: &Message, depth: usize) -> Result<Decoded, Stop> {
        let SchemaOr { allows, schema: records, list } = scalars::schema_or(self.index.raw, range, or)?;
        let value = if list.is_empty() {
            match &records[..] {
                [] if or == Or::Bool => Value::Bool(allows),
                [] => Value::Null,
                [only] => self.message(only.clone(), schema, Object::new(), depth)?.value,
                _ => return Err(Stop::Unordered),
            }
        } else {
            let items = list.into_iter().map(|item| match or {
                Or::Strings => Ok(Value::Str(shared_text(&self.index.raw[item]))),
                _ => self.message(item, schema, Object::new(), depth).map(|decoded| decoded.value),
            });
            Value::List(items.collect::<Result<_, Stop>>()?)
        };
        let nonzero = !matches!(value, Value::Null | Value::Bool(false));
        Ok(Decoded { value, nonzero })
    }
}

/// A value without length.
fn number(reader: &mut Reader<'_>, ty: &Ty) -> Result<Decoded, ProtoError> {
    if wire_type(ty) == FIXED64 {
        let n = finite(f64::from_bits(reader.fixed64()?))?;
        return Ok(Decoded { value: Value::Float(n), nonzero: n != 0.0 });
    }
    let n = match (ty, reader.varint()?) {
        (Ty::Bool, n) => return Ok(Decoded { value: Value::Bool(n != 0), nonzero: n != 0 }),
        (Ty::Int32, n) => i64::from(n as i32),
        (_, n) => n as i64,
    };
    Ok(Decoded { value: Value::Int(n), nonzero: n != 0 })
}

/// A number that JSON can show.
pub(super) fn finite(number: f64) -> Result<f64, ProtoError> {
    if number.is_finite() {
        return Ok(number);
    }
    let text = if number.is_nan() { "NaN" } else { ["-Inf", "+Inf"][usize::from(number > 0.0)] };
    Err(ProtoError::malformed(format!("json: unsupported value: {text}")))
}

/// No message has a list or map right within another: protobuf wraps the inner one ([`Ty::StaticWrappedList`]).
#[cold]
pub(super) fn nested() -> ProtoError {
    ProtoError::malformed("proto: a list or map within a list or map")
}

/// Microseconds of a time; what a hostile client sent beyond a second is cut off.
pub(super) fn micro_time(seconds: i64, nanos: i32) -> MicroTime {
    MicroTime::from_unix(seconds, u32::try_from(nanos).unwrap_or(0))
}
