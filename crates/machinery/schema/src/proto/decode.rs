//! Decodes protobuf to the tree that the same object's JSON decodes to.

use std::ops::Range;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{GoDuration, MicroTime, Text, Time};
use smol_str::ToSmolStr;

use super::error::ProtoError;
use super::index::{Index, ReadStop};
use super::normalize::normalize;
use super::raw_json;
use super::scalars::{self, IntOrString, SchemaAlternative, SchemaOr, shared_text};
use super::wire::{DELIMITED, FIXED64, Reader};
use crate::limits::{Budget, Limits};
use crate::types::plan::{Absent, Rule, Shape, wire_type};
use crate::types::{Field, Message, MessageRef, Ty};
use crate::value::{Object, Value};

/// The default limit of nested messages. Only schemas of custom resources have unlimited nesting; each property takes
/// one level.
pub const DEPTH: usize = 256;

/// Decodes a message without envelope: fields in schema order, zero values as in the object's JSON. `apiVersion` and
/// `kind` are in the envelope, and not set.
pub fn decode(bytes: &[u8], message: &Message, depth: usize) -> Result<Value, ProtoError> {
    decode_object(bytes, message, "", "", depth)
}

/// Like [`decode`], for a client's bytes: the tree takes no more memory than the limit.
pub fn decode_within(bytes: &[u8], message: &Message, limits: &Limits) -> Result<Value, ProtoError> {
    read_object(bytes, message, Object::new(), limits.max_depth, &Budget::new(limits))
}

/// Decodes the message of an envelope: [`decode`] with `apiVersion` and `kind` set, if the message has them.
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
    read_object(bytes, message, root, depth, &Budget::unlimited())
}

/// Reads the members of an object after those in `root`.
fn read_object(
    bytes: &[u8],
    message: &Message,
    root: Object,
    depth: usize,
    budget: &Budget,
) -> Result<Value, ProtoError> {
    let read = |bytes: &[u8], mut root: Object| {
        Decoder { index: Index::new(bytes)?, budget: budget.clone() }.members(
            0..bytes.len(),
            message,
            &mut root,
            depth,
        )?;
        Ok(Value::Object(root))
    };
    match read(bytes, root.clone()) {
        Ok(value) => Ok(value),
        Err(ReadStop::Error(error)) => Err(error),
        Err(ReadStop::Unordered) => match read(&normalize(bytes, message, depth)?, root) {
            Ok(value) => Ok(value),
            Err(ReadStop::Error(error)) => Err(error),
            Err(ReadStop::Unordered) => Err(ProtoError::TooLarge),
        },
    }
}

/// Returns a message with only the fields on these paths, for decoding only them: all others are skipped. Paths
/// traverse lists and maps into their elements. An empty name in a message leaves it without fields.
pub fn narrow(message: &Message, paths: &[&[&str]]) -> Message {
    let narrowed = message.fields.iter().filter_map(|field| {
        let below: Vec<&[&str]> =
            paths.iter().filter(|path| path.first() == Some(&field.name.as_str())).map(|path| &path[1..]).collect();
        let is_whole = below.iter().any(|path| path.is_empty());
        if below.is_empty() {
            return None;
        }
        let ty = if is_whole { None } else { narrow_type(&field.ty, &below) };
        Some(Field { ty: ty.unwrap_or_else(|| field.ty.clone()), ..field.clone() })
    });
    Message::new(message.name.clone(), narrowed.collect::<Vec<_>>())
}

/// Returns the narrowed type of a message, or of lists and maps of messages; `None` for all others.
fn narrow_type(ty: &Ty, paths: &[&[&str]]) -> Option<Ty> {
    match ty {
        Ty::Message(inner) => Some(Ty::Message(MessageRef::Shared(Arc::new(narrow(inner, paths))))),
        Ty::List(element) => Some(Ty::List(Box::new(narrow_type(element, paths)?))),
        Ty::StaticList(element) => Some(Ty::List(Box::new(narrow_type(element, paths)?))),
        Ty::Map(values) => Some(Ty::Map(Box::new(narrow_type(values, paths)?))),
        Ty::StaticMap(values) => Some(Ty::Map(Box::new(narrow_type(values, paths)?))),
        _ => None,
    }
}

/// A decoder that builds values in place, in slots that start as `null`, because moving them would be expensive. All
/// methods return true if the value is not Go's zero value.
struct Decoder<'a> {
    index: Index<'a>,
    budget: Budget,
}

impl<'a> Decoder<'a> {
    fn message(
        &mut self,
        range: Range<usize>,
        message: &Message,
        out: &mut Value,
        depth: usize,
    ) -> Result<bool, ReadStop> {
        self.budget.message(message)?;
        *out = Value::Object(Object::new());
        match out {
            Value::Object(object) => self.members(range, message, object, depth),
            _ => unreachable!("was made an object above"),
        }
    }

    /// Appends the members of a message.
    fn members(
        &mut self,
        range: Range<usize>,
        message: &Message,
        object: &mut Object,
        depth: usize,
    ) -> Result<bool, ReadStop> {
        let depth = depth.checked_sub(1).ok_or(ProtoError::TooDeep)?;
        let plan = message.plan();
        let frame = self.index.open(range, message)?;
        let mut nonzero = false;
        let mut todo = frame.found | plan.always_shown;
        object.reserve(todo.count_ones() as usize);
        while todo != 0 {
            let i = todo.trailing_zeros() as usize;
            todo &= todo - 1;
            let (field, plan) = (&message.fields[i], &plan.fields[i]);
            object.push_filled(field.name.clone(), |out| {
                let more = if frame.found >> i & 1 != 0 {
                    self.value(self.index.span(frame, i), &field.ty, plan.rule, out, depth)?
                } else if plan.absent == Absent::ShownZero {
                    self.zero(&field.ty, out, depth)?
                } else {
                    if plan.absent == Absent::Constant {
                        *out = Value::Str(Text::new_static(field.constant));
                    }
                    false
                };
                // Behind a pointer, only a JSON `null` counts as absent, for any type.
                let (stays, counts) = match plan.absent {
                    Absent::Nothing if plan.omits_zero => (more, more),
                    Absent::Nothing => (!out.is_null(), !out.is_null()),
                    Absent::Null => (true, !out.is_null()),
                    Absent::HiddenZero => (more, more),
                    Absent::ShownZero | Absent::Constant => (true, more),
                };
                nonzero |= counts;
                Ok::<_, ReadStop>(stays)
            })?;
        }
        self.index.close(frame);
        Ok(nonzero)
    }

    /// Reads a field that is present in the bytes.
    #[inline]
    fn value(
        &mut self,
        range: Range<usize>,
        ty: &Ty,
        rule: Rule,
        out: &mut Value,
        depth: usize,
    ) -> Result<bool, ReadStop> {
        match (rule, Shape::of(ty)) {
            (Rule::OmittedText, _) => {
                *out = Value::Str(shared_text(&self.index.raw[range]));
                // The text is never empty.
                Ok(true)
            }
            (Rule::Varint | Rule::Fixed64, _) => Ok(number(&mut self.reader(range), ty, out)?),
            (_, Shape::One(ty)) => self.delimited(range, ty, out, depth),
            (_, Shape::List(element)) => self.list(range, element, out, depth),
            (_, Shape::Map(values)) => self.map(range, values, out, depth),
        }
    }

    fn reader(&self, range: Range<usize>) -> Reader<'a> {
        Reader::of_range(self.index.raw, range)
    }

    /// Sets the zero value of a type that is not a pointer in Go.
    fn zero(&mut self, ty: &Ty, out: &mut Value, depth: usize) -> Result<bool, ReadStop> {
        *out = match ty {
            Ty::Bool => Value::Bool(false),
            Ty::Int32 | Ty::Int64 | Ty::Uint32 => Value::Int(0),
            Ty::Double => Value::Float(0.0),
            Ty::String => Value::Str(Text::default()),
            _ => return self.delimited(0..0, ty, out, depth),
        };
        Ok(false)
    }

    /// Reads a list; the result is `null` if its records contain no packed numbers.
    fn list(&mut self, range: Range<usize>, element: &Ty, out: &mut Value, depth: usize) -> Result<bool, ReadStop> {
        let mut items = Vec::new();
        let mut reader = self.reader(range);
        while let Some(key) = reader.key("list")? {
            self.items(key.wire, &mut reader, element, &mut items, depth)?;
        }
        Ok(put_items(items, out))
    }

    /// Reads one record of a list: an element, or several packed numbers.
    #[inline]
    fn items(
        &mut self,
        wire: u8,
        reader: &mut Reader<'a>,
        element: &Ty,
        items: &mut Vec<Value>,
        depth: usize,
    ) -> Result<(), ReadStop> {
        match (wire_type(element), wire) {
            (DELIMITED, _) => {
                self.budget.element()?;
                let range = reader.delimited_range()?;
                self.delimited(range, element, next(items), depth)?;
            }
            (_, DELIMITED) => {
                let packed = reader.delimited()?;
                let mut reader = Reader::new(packed);
                while reader.position() < packed.len() {
                    self.budget.element()?;
                    number(&mut reader, element, next(items))?;
                }
            }
            _ => {
                self.budget.element()?;
                number(reader, element, next(items))?;
            }
        }
        Ok(())
    }

    fn map(&mut self, range: Range<usize>, values: &Ty, out: &mut Value, depth: usize) -> Result<bool, ReadStop> {
        let mut object = Object::new();
        let mut last: Option<&[u8]> = None;
        let mut records = self.reader(range);
        while records.key("map")?.is_some() {
            self.budget.member(object.len())?;
            let (name, value) = self.index.entry(records.delimited_range()?, values)?;
            let name = &self.index.raw[name];
            if last.is_some_and(|last| last >= name) {
                return Err(ReadStop::Unordered);
            }
            last = Some(name);
            object.push_filled(shared_text(name), |out| {
                match value {
                    Some(range) if wire_type(values) == DELIMITED => self.delimited(range, values, out, depth)?,
                    Some(range) => number(&mut self.reader(range), values, out)?,
                    None => self.zero(values, out, depth)?,
                };
                // An empty list is not nil here, as Go creates one for each entry.
                if out.is_null() && matches!(values, Ty::StaticWrappedList(_)) {
                    *out = Value::List(Vec::new());
                }
                Ok::<_, ReadStop>(true)
            })?;
        }
        *out = Value::Object(object);
        Ok(true)
    }

    /// Reads a value with a length.
    #[inline]
    fn delimited(&mut self, range: Range<usize>, ty: &Ty, out: &mut Value, depth: usize) -> Result<bool, ReadStop> {
        match ty {
            Ty::String => {
                let bytes = &self.index.raw[range];
                *out = Value::Str(shared_text(bytes));
                Ok(!bytes.is_empty())
            }
            Ty::Message(message) => self.message(range, message, out, depth),
            _ => self.special(range, ty, out, depth),
        }
    }

    /// Reads a value with a length that is neither text nor message.
    fn special(&mut self, range: Range<usize>, ty: &Ty, out: &mut Value, depth: usize) -> Result<bool, ReadStop> {
        let bytes = &self.index.raw[range.clone()];
        let nonzero = match ty {
            Ty::Bytes => {
                *out = Value::Str(STANDARD.encode(bytes).into());
                !bytes.is_empty()
            }
            Ty::Time => match scalars::timestamp(bytes)? {
                Some((seconds, _)) => put_shown(Time::from_unix(seconds, 0), out),
                None => false,
            },
            Ty::MicroTime => match scalars::timestamp(bytes)? {
                Some((seconds, nanos)) => put_shown(micro_time(seconds, nanos), out),
                None => false,
            },
            Ty::Duration => {
                let nanos = scalars::duration(bytes)?;
                put_shown(GoDuration(nanos), out) && nanos != 0
            }
            Ty::Quantity => {
                let text = scalars::quantity(bytes)?;
                let nonzero = text != "0";
                *out = Value::Str(text.into());
                nonzero
            }
            Ty::IntOrString => match scalars::int_or_string(bytes)? {
                IntOrString::Int(n) => {
                    *out = Value::Int(n.into());
                    n != 0
                }
                IntOrString::Str(text) => {
                    *out = Value::Str(shared_text(text));
                    true
                }
            },
            Ty::RawExtension | Ty::Json | Ty::FieldsV1 => {
                if let Some(raw) = scalars::carried(bytes, "RawExtension")? {
                    *out = match ty {
                        Ty::FieldsV1 => raw_json::carry(raw)?,
                        Ty::RawExtension => raw_json::read_exactly(raw, &mut self.budget)?,
                        _ => raw_json::read(raw, &mut self.budget)?,
                    };
                }
                !out.is_null()
            }
            Ty::SchemaOrBool(schema) => self.schema_or(range, SchemaAlternative::Bool, schema, out, depth)?,
            Ty::SchemaOrArray(schema) => self.schema_or(range, SchemaAlternative::Array, schema, out, depth)?,
            Ty::SchemaOrStrings(schema) => self.schema_or(range, SchemaAlternative::Strings, schema, out, depth)?,
            Ty::StaticWrappedList(element) => self.wrapped(range, element, out, depth)?,
            Ty::List(_) | Ty::ListOf(_) | Ty::StaticList(_) | Ty::Map(_) | Ty::StaticMap(_) => {
                return Err(nested().into());
            }
            Ty::String | Ty::Message(_) => self.delimited(range, ty, out, depth)?,
            Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double => unreachable!("numbers are not delimited"),
        };
        Ok(nonzero)
    }

    /// Reads a list in a message of its own; the result is `null` if it has no elements.
    fn wrapped(&mut self, range: Range<usize>, element: &Ty, out: &mut Value, depth: usize) -> Result<bool, ReadStop> {
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
        Ok(put_items(items, out))
    }

    fn schema_or(
        &mut self,
        range: Range<usize>,
        or: SchemaAlternative,
        schema: &Message,
        out: &mut Value,
        depth: usize,
    ) -> Result<bool, ReadStop> {
        let SchemaOr { allows, schema: records, list } = scalars::schema_or(self.index.raw, range, or)?;
        if !list.is_empty() {
            let mut items = Vec::with_capacity(list.len());
            for item in list {
                self.budget.element()?;
                match or {
                    SchemaAlternative::Strings => *next(&mut items) = Value::Str(shared_text(&self.index.raw[item])),
                    _ => drop(self.message(item, schema, next(&mut items), depth)?),
                }
            }
            return Ok(put_items(items, out));
        }
        match &records[..] {
            [] if or == SchemaAlternative::Bool => {
                *out = Value::Bool(allows);
                Ok(allows)
            }
            [] => Ok(false),
            [only] => {
                self.message(only.clone(), schema, out, depth)?;
                Ok(true)
            }
            _ => Err(ReadStop::Unordered),
        }
    }
}

/// Appends an item and returns a reference to it.
fn next(items: &mut Vec<Value>) -> &mut Value {
    items.push(Value::Null);
    match items.last_mut() {
        Some(item) => item,
        None => unreachable!("was pushed above"),
    }
}

/// Sets a list, or `null` for an empty one.
fn put_items(items: Vec<Value>, out: &mut Value) -> bool {
    let some = !items.is_empty();
    if some {
        *out = Value::List(items);
    }
    some
}

fn put_shown(value: impl std::fmt::Display, out: &mut Value) -> bool {
    *out = Value::Str(value.to_smolstr());
    true
}

/// Reads a value without length.
fn number(reader: &mut Reader<'_>, ty: &Ty, out: &mut Value) -> Result<bool, ProtoError> {
    if wire_type(ty) == FIXED64 {
        let n = finite(f64::from_bits(reader.fixed64()?))?;
        *out = Value::Float(n);
        return Ok(n != 0.0);
    }
    let n = match (ty, reader.varint()?) {
        (Ty::Bool, n) => {
            *out = Value::Bool(n != 0);
            return Ok(n != 0);
        }
        (Ty::Int32, n) => i64::from(n as i32),
        (_, n) => n as i64,
    };
    *out = Value::Int(n);
    Ok(n != 0)
}

/// Fails for a number that JSON cannot represent.
pub(super) fn finite(number: f64) -> Result<f64, ProtoError> {
    if number.is_finite() {
        return Ok(number);
    }
    let text = if number.is_nan() { "NaN" } else { ["-Inf", "+Inf"][usize::from(number > 0.0)] };
    Err(ProtoError::malformed(format!("json: unsupported value: {text}")))
}

/// Returns the error for a list or map directly in another: protobuf wraps the inner one ([`Ty::StaticWrappedList`]).
#[cold]
pub(super) fn nested() -> ProtoError {
    ProtoError::malformed("proto: a list or map within a list or map")
}

/// Returns a time in microseconds; a hostile client's nanoseconds beyond a second are cut off.
pub(super) fn micro_time(seconds: i64, nanos: i32) -> MicroTime {
    MicroTime::from_unix(seconds, u32::try_from(nanos).unwrap_or(0))
}
