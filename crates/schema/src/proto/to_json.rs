//! From protobuf straight to JSON, without a tree: what a GET, LIST or WATCH answers from stored bytes.
//!
//! JSON has the fields in the order of the Go struct, protobuf by number. So each message is read twice: once to note
//! where its fields lie, once to write them. Bytes that are well formed but not as the encoder writes them (a field in
//! two places, a map out of order) go through the tree, with the same result.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{GoDuration, Time};

use super::decode::{DEPTH, decode_object, finite, micro_time, nested, wire_type};
use super::error::ProtoError;
use super::free;
use super::plan::{Absent, FieldPlan, Group, Shape, Target};
use super::scalars::{self, IntOrString, Or, SchemaOr};
use super::text::{self, put_decimal, put_text};
use super::wire::{DELIMITED, FIXED64, Key, Reader, VARINT};
use crate::types::{Field, Message, Ty};
use crate::value::Value;

/// What an answer says that the stored bytes do not.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overrides<'a> {
    /// `metadata.resourceVersion`: stored bytes hold it empty, as it is the revision they are stored at.
    pub resource_version: Option<&'a str>,
}

/// Appends the JSON of a message that an envelope holds: what the JSON writer makes of [`decode_object`].
pub fn to_json(
    raw: &[u8],
    message: &Message,
    api_version: &str,
    kind: &str,
    overrides: Overrides<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ProtoError> {
    if u32::try_from(raw.len()).is_err() {
        return Err(ProtoError::TooLarge);
    }
    let start = out.len();
    let mut writer = Writer { raw, spans: Vec::with_capacity(128) };
    let root = Place::Root { api_version, kind, overrides };
    match writer.message(0..raw.len(), message, root, DEPTH, out) {
        Ok(_) => Ok(()),
        Err(Stop::Unordered) => {
            out.truncate(start);
            let value = tree(raw, message, api_version, kind, overrides)?;
            free::write(&value, out);
            Ok(())
        }
        Err(Stop::Error(error)) => {
            out.truncate(start);
            Err(error)
        }
    }
}

/// The tree of the same object, for bytes that are not in the encoder's order.
fn tree(
    raw: &[u8],
    message: &Message,
    api_version: &str,
    kind: &str,
    overrides: Overrides<'_>,
) -> Result<Value, ProtoError> {
    let mut value = decode_object(raw, message, api_version, kind, DEPTH)?;
    let metadata = message.get("metadata").and_then(|field| field.ty.message());
    if let (Some(version), Some(metadata)) = (overrides.resource_version, metadata) {
        let object = value.make_at(&["metadata"]);
        match version {
            "" => drop(object.remove("resourceVersion")),
            version => drop(object.insert("resourceVersion", version)),
        }
        object.sort_by_key(|name| metadata.field(name, 0).map(|(i, _)| i));
        value.make_object().sort_by_key(|name| message.field(name, 0).map(|(i, _)| i));
    }
    Ok(value)
}

/// Why streaming ended early.
enum Stop {
    Error(ProtoError),
    /// The bytes are not in the order in which the encoder writes them.
    Unordered,
}

impl From<ProtoError> for Stop {
    fn from(error: ProtoError) -> Self {
        Self::Error(error)
    }
}

/// What was written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Null,
    /// Go's zero value in another shape.
    Zero,
    Value,
}

impl Shown {
    fn nonzero(nonzero: bool) -> Self {
        if nonzero { Self::Value } else { Self::Zero }
    }
}

/// Which message is being written, as far as it gets more than its bytes say.
#[derive(Clone, Copy)]
enum Place<'o> {
    Root { api_version: &'o str, kind: &'o str, overrides: Overrides<'o> },
    Metadata(Overrides<'o>),
    Inner,
}

/// Where a field lies: the value of a single one, all records of a list or map.
#[derive(Clone, Copy)]
struct Span {
    start: u32,
    end: u32,
}

impl Span {
    const ABSENT: Self = Self { start: u32::MAX, end: 0 };

    fn new(range: Range<usize>) -> Self {
        // Messages longer than 4 GiB were refused.
        Self { start: range.start as u32, end: range.end as u32 }
    }

    fn range(self) -> Option<Range<usize>> {
        (self.start <= self.end).then_some(self.start as usize..self.end as usize)
    }
}

struct Writer<'a> {
    raw: &'a [u8],
    /// For each message that is being written, where its fields lie.
    spans: Vec<Span>,
}

impl<'a> Writer<'a> {
    /// Writes a message and says whether it is more than Go's zero value.
    fn message(
        &mut self,
        range: Range<usize>,
        message: &Message,
        place: Place<'_>,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<Shown, Stop> {
        let depth = depth.checked_sub(1).ok_or(ProtoError::TooDeep)?;
        let plan = message.plan();
        let base = self.spans.len();
        self.spans.resize(base + message.fields.len(), Span::ABSENT);
        self.index(range, message, &plan.root, base)?;
        out.push(b'{');
        let open = out.len();
        let mut nonzero = false;
        for (i, (field, plan)) in message.fields.iter().zip(&plan.fields).enumerate() {
            let span = self.spans[base + i].range();
            if span.is_none()
                && matches!(plan.absent, Absent::Nothing | Absent::HiddenZero)
                && matches!(place, Place::Inner)
            {
                continue;
            }
            let mark = out.len();
            // The first member has no comma before it.
            out.extend_from_slice(&plan.json_key[usize::from(mark == open)..]);
            match self.member(span, field, plan, place, depth, out)? {
                Some(more) => nonzero |= more,
                None => out.truncate(mark),
            }
        }
        out.push(b'}');
        self.spans.truncate(base);
        Ok(Shown::nonzero(nonzero))
    }

    /// Notes where the fields of one level of numbers lie.
    fn index(&mut self, range: Range<usize>, message: &Message, group: &Group, base: usize) -> Result<(), Stop> {
        let mut reader = Reader::of_range(self.raw, range);
        while let Some(key) = reader.key(&message.name)? {
            let Some(entry) = group.find(key.tag) else {
                reader.skip(key)?;
                continue;
            };
            match &entry.target {
                Target::Field(i) => {
                    let (field, plan) = (&message.fields[*i], &message.plan().fields[*i]);
                    let slot = &mut self.spans[base + i];
                    *slot = locate(*slot, key, &mut reader, field, plan)?;
                }
                Target::Group(inner) => {
                    let bytes = scalars::delimited(key, &mut reader, "embedded struct")?;
                    self.index(reader.position() - bytes.len()..reader.position(), message, inner, base)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the value of a field and says whether it is more than zero; `None` where the JSON does not have it.
    fn member(
        &mut self,
        span: Option<Range<usize>>,
        field: &Field,
        plan: &FieldPlan,
        place: Place<'_>,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<Option<bool>, Stop> {
        let inner = match place {
            Place::Inner => Place::Inner,
            Place::Root { api_version, kind, overrides } => match field.name.as_str() {
                "apiVersion" if field.tag == 0 => return Ok(put_given(api_version, out)),
                "kind" if field.tag == 0 => return Ok(put_given(kind, out)),
                "metadata" => Place::Metadata(overrides),
                _ => Place::Inner,
            },
            Place::Metadata(Overrides { resource_version: Some(version) }) if field.name == "resourceVersion" => {
                return Ok(put_given(version, out));
            }
            Place::Metadata(_) => Place::Inner,
        };
        if field.tag == 0 {
            return Ok(None);
        }
        let range = match (span, plan.absent) {
            (Some(range), _) => range,
            // The metadata of an object that has none still gets a version.
            (None, Absent::HiddenZero) if matches!(inner, Place::Metadata(_)) => 0..0,
            (None, Absent::Nothing | Absent::HiddenZero) => return Ok(None),
            (None, Absent::Null) => {
                out.extend_from_slice(b"null");
                return Ok(Some(false));
            }
            (None, Absent::ShownZero) => {
                self.zero(&field.ty, inner, depth, out)?;
                return Ok(Some(false));
            }
        };
        let shown = match Shape::of(&field.ty) {
            Shape::List(element) => {
                let mark = out.len();
                return match (self.list(range, element, depth, out)?, plan.absent) {
                    (true, _) => Ok(Some(true)),
                    // Records that pack no numbers at all make no list.
                    (false, Absent::Nothing) => Ok(None),
                    (false, _) => {
                        out.truncate(mark);
                        out.extend_from_slice(b"null");
                        Ok(Some(false))
                    }
                };
            }
            Shape::Map(values) => {
                self.map(range, values, depth, out)?;
                return Ok(Some(true));
            }
            Shape::One(ty) if wire_type(ty) != DELIMITED => number(&mut Reader::of_range(self.raw, range), ty, out)?,
            Shape::One(Ty::Message(message)) => self.message(range, message, inner, depth, out)?,
            Shape::One(ty) => self.delimited(range, ty, depth, out)?,
        };
        Ok(match plan.absent {
            Absent::Nothing if matches!(field.ty, Ty::Bytes) => {
                (!plan.omits_zero || shown == Shown::Value).then_some(shown == Shown::Value)
            }
            Absent::Nothing => (shown != Shown::Null).then_some(true),
            Absent::Null => Some(shown != Shown::Null),
            Absent::HiddenZero => (shown == Shown::Value).then_some(true),
            Absent::ShownZero => Some(shown == Shown::Value),
        })
    }

    /// The zero value of a type that Go holds without pointer.
    fn zero(&mut self, ty: &Ty, place: Place<'_>, depth: usize, out: &mut Vec<u8>) -> Result<Shown, Stop> {
        match ty {
            Ty::Bool => out.extend_from_slice(b"false"),
            Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double => out.push(b'0'),
            Ty::String => out.extend_from_slice(b"\"\""),
            Ty::Message(message) => return self.message(0..0, message, place, depth, out),
            _ => return self.delimited(0..0, ty, depth, out),
        }
        Ok(Shown::Zero)
    }

    fn list(&mut self, range: Range<usize>, element: &Ty, depth: usize, out: &mut Vec<u8>) -> Result<bool, Stop> {
        out.push(b'[');
        let open = out.len();
        let mut reader = Reader::of_range(self.raw, range);
        while let Some(key) = reader.key("list")? {
            self.items(key, &mut reader, element, open, depth, out)?;
        }
        out.push(b']');
        Ok(out.len() - open > 1)
    }

    /// One record of a list: an element, or several numbers packed together.
    fn items(
        &mut self,
        key: Key,
        reader: &mut Reader<'a>,
        element: &Ty,
        open: usize,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), Stop> {
        let comma = |out: &mut Vec<u8>| {
            if out.len() > open {
                out.push(b',');
            }
        };
        match (wire_type(element), key.wire) {
            (DELIMITED, _) => {
                comma(out);
                let bytes = reader.delimited()?;
                self.delimited(reader.position() - bytes.len()..reader.position(), element, depth, out)?;
            }
            (_, DELIMITED) => {
                let packed = reader.delimited()?;
                let mut reader = Reader::new(packed);
                while reader.position() < packed.len() {
                    comma(out);
                    number(&mut reader, element, out)?;
                }
            }
            _ => {
                comma(out);
                number(reader, element, out)?;
            }
        }
        Ok(())
    }

    fn map(&mut self, range: Range<usize>, values: &Ty, depth: usize, out: &mut Vec<u8>) -> Result<(), Stop> {
        out.push(b'{');
        let open = out.len();
        let mut last: Option<&[u8]> = None;
        let mut records = Reader::of_range(self.raw, range);
        while records.key("map")?.is_some() {
            let entry = records.delimited()?;
            let end = records.position();
            let mut reader = Reader::of_range(self.raw, end - entry.len()..end);
            let (mut name, mut value) = (&[][..], None);
            while let Some(key) = reader.key("map entry")? {
                let start = reader.position();
                match key.tag {
                    1 => name = reader.delimited()?,
                    2 if value.is_some() => return Err(Stop::Unordered),
                    2 if wire_type(values) == DELIMITED => {
                        let bytes = reader.delimited()?;
                        value = Some(reader.position() - bytes.len()..reader.position());
                    }
                    2 => {
                        skip_number(values, &mut reader)?;
                        value = Some(start..reader.position());
                    }
                    _ => reader.skip(key)?,
                }
            }
            if last.is_some_and(|last| last >= name) || std::str::from_utf8(name).is_err() {
                return Err(Stop::Unordered);
            }
            last = Some(name);
            if out.len() > open {
                out.push(b',');
            }
            put_text(name, out);
            out.push(b':');
            let mark = out.len();
            let shown = match value {
                Some(range) if wire_type(values) == DELIMITED => self.delimited(range, values, depth, out)?,
                Some(range) => number(&mut Reader::of_range(self.raw, range), values, out)?,
                None => self.zero(values, Place::Inner, depth, out)?,
            };
            if shown == Shown::Null && matches!(values, Ty::StaticWrappedList(_)) {
                out.truncate(mark);
                out.extend_from_slice(b"[]");
            }
        }
        out.push(b'}');
        Ok(())
    }

    /// A value that has a length.
    fn delimited(&mut self, range: Range<usize>, ty: &Ty, depth: usize, out: &mut Vec<u8>) -> Result<Shown, Stop> {
        let raw = self.raw;
        let bytes = &raw[range.clone()];
        match ty {
            Ty::String => {
                put_text(bytes, out);
                return Ok(Shown::nonzero(!bytes.is_empty()));
            }
            Ty::Bytes => {
                put_base64(bytes, out);
                return Ok(Shown::nonzero(!bytes.is_empty()));
            }
            Ty::Message(message) => return self.message(range, message, Place::Inner, depth, out),
            Ty::Time => {
                if let Some((seconds, _)) = scalars::timestamp(bytes)? {
                    text::put_time(Time::from_unix(seconds, 0), out);
                    return Ok(Shown::Value);
                }
            }
            Ty::MicroTime => {
                if let Some((seconds, nanos)) = scalars::timestamp(bytes)? {
                    text::put_quoted(&micro_time(seconds, nanos), out);
                    return Ok(Shown::Value);
                }
            }
            Ty::Duration => {
                let nanos = scalars::duration(bytes)?;
                text::put_quoted(&GoDuration(nanos), out);
                return Ok(Shown::nonzero(nanos != 0));
            }
            Ty::Quantity => {
                let quantity = scalars::quantity(bytes)?;
                put_text(quantity.as_bytes(), out);
                return Ok(Shown::nonzero(quantity != "0"));
            }
            Ty::IntOrString => match scalars::int_or_string(bytes)? {
                IntOrString::Int(n) => {
                    put_decimal(n.into(), out);
                    return Ok(Shown::nonzero(n != 0));
                }
                IntOrString::Str(text) => {
                    put_text(text, out);
                    return Ok(Shown::Value);
                }
            },
            Ty::RawExtension | Ty::Json => {
                if let Some(raw) = scalars::carried(bytes, "RawExtension")? {
                    free::write(&free::read(raw)?, out);
                    return Ok(Shown::Value);
                }
            }
            Ty::FieldsV1 => {
                if let Some(raw) = scalars::carried(bytes, "FieldsV1")? {
                    free::put_carried(raw, out)?;
                    return Ok(Shown::Value);
                }
            }
            Ty::SchemaOrBool(schema) => return self.schema_or(bytes, Or::Bool, schema, depth, out),
            Ty::SchemaOrArray(schema) => return self.schema_or(bytes, Or::Array, schema, depth, out),
            Ty::SchemaOrStrings(schema) => return self.schema_or(bytes, Or::Strings, schema, depth, out),
            Ty::StaticWrappedList(element) => return self.wrapped(range, element, depth, out),
            Ty::List(_) | Ty::StaticList(_) | Ty::Map(_) | Ty::StaticMap(_) => return Err(nested().into()),
            Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double => unreachable!("numbers are not delimited"),
        }
        out.extend_from_slice(b"null");
        Ok(Shown::Null)
    }

    /// A list in a message of its own, `null` where it has no elements.
    fn wrapped(&mut self, range: Range<usize>, element: &Ty, depth: usize, out: &mut Vec<u8>) -> Result<Shown, Stop> {
        let mark = out.len();
        out.push(b'[');
        let mut reader = Reader::of_range(self.raw, range);
        while let Some(key) = reader.key("items")? {
            if key.tag != 1 {
                reader.skip(key)?;
                continue;
            }
            if key.wire != wire_type(element) && (key.wire != DELIMITED || wire_type(element) == DELIMITED) {
                return Err(ProtoError::wrong_wire_type(key.wire, "items").into());
            }
            self.items(key, &mut reader, element, mark + 1, depth, out)?;
        }
        if out.len() == mark + 1 {
            out.truncate(mark);
            out.extend_from_slice(b"null");
            return Ok(Shown::Null);
        }
        out.push(b']');
        Ok(Shown::Value)
    }

    fn schema_or(
        &mut self,
        bytes: &'a [u8],
        or: Or,
        schema: &Message,
        depth: usize,
        out: &mut Vec<u8>,
    ) -> Result<Shown, Stop> {
        let SchemaOr { allows, schema: records, list } = scalars::schema_or(bytes, or)?;
        if !list.is_empty() {
            out.push(b'[');
            for (i, item) in list.into_iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                match or {
                    Or::Strings => put_text(item, out),
                    _ => self.schema(item, schema, depth, out)?,
                }
            }
            out.push(b']');
            return Ok(Shown::Value);
        }
        match records[..] {
            [] if or == Or::Bool => {
                out.extend_from_slice(if allows { b"true" } else { b"false" });
                Ok(Shown::nonzero(allows))
            }
            [] => {
                out.extend_from_slice(b"null");
                Ok(Shown::Null)
            }
            [only] => {
                self.schema(only, schema, depth, out)?;
                Ok(Shown::Value)
            }
            _ => Err(Stop::Unordered),
        }
    }

    fn schema(&mut self, bytes: &'a [u8], schema: &Message, depth: usize, out: &mut Vec<u8>) -> Result<(), Stop> {
        let mut writer = Writer { raw: bytes, spans: std::mem::take(&mut self.spans) };
        let written = writer.message(0..bytes.len(), schema, Place::Inner, depth, out);
        self.spans = writer.spans;
        written.map(|_| ())
    }
}

/// Extends what is known of a field by one record.
fn locate(before: Span, key: Key, reader: &mut Reader<'_>, field: &Field, plan: &FieldPlan) -> Result<Span, Stop> {
    let wrong = || ProtoError::wrong_wire_type(key.wire, &field.name);
    let shape = Shape::of(&field.ty);
    let element = match shape {
        Shape::List(element) => Some(element),
        _ => None,
    };
    let want = element.map_or(wire_type(&field.ty), wire_type);
    let packed = element.is_some() && key.wire == DELIMITED && want != DELIMITED;
    if want != key.wire && !packed {
        return Err(wrong().into());
    }
    let start = reader.position();
    let value = if key.wire == DELIMITED {
        let bytes = reader.delimited()?;
        reader.position() - bytes.len()..reader.position()
    } else {
        skip_number(element.unwrap_or(&field.ty), reader)?;
        start..reader.position()
    };
    if !matches!(shape, Shape::One(_)) {
        return match before.range() {
            None => Ok(Span::new(key.start..value.end)),
            Some(range) if range.end == key.start => Ok(Span::new(range.start..value.end)),
            Some(_) => Err(Stop::Unordered),
        };
    }
    match (&field.ty, before.range()) {
        (Ty::String, _) if plan.omits_zero && value.is_empty() => Ok(Span::ABSENT),
        // Of these the last record counts; of other messages all records together.
        (Ty::String | Ty::Bytes | Ty::Time | Ty::MicroTime, _) | (_, None) => Ok(Span::new(value)),
        (_, Some(_)) if key.wire != DELIMITED => Ok(Span::new(value)),
        (_, Some(_)) => Err(Stop::Unordered),
    }
}

/// Steps over a number, refusing what reading it would refuse.
fn skip_number(ty: &Ty, reader: &mut Reader<'_>) -> Result<(), ProtoError> {
    match wire_type(ty) {
        VARINT => reader.varint()?,
        _ => reader.fixed64()?,
    };
    Ok(())
}

/// Writes a value without length.
fn number(reader: &mut Reader<'_>, ty: &Ty, out: &mut Vec<u8>) -> Result<Shown, ProtoError> {
    if wire_type(ty) == FIXED64 {
        let n = finite(f64::from_bits(reader.fixed64()?))?;
        free::write(&Value::Float(n), out);
        return Ok(Shown::nonzero(n != 0.0));
    }
    let n = reader.varint()?;
    match ty {
        Ty::Bool => out.extend_from_slice(if n != 0 { b"true" } else { b"false" }),
        Ty::Int32 => {
            put_decimal((n as i32).into(), out);
            return Ok(Shown::nonzero(n as i32 != 0));
        }
        _ => put_decimal(n as i64, out),
    }
    Ok(Shown::nonzero(n != 0))
}

/// A text that the caller gives; none for the empty one.
fn put_given(given: &str, out: &mut Vec<u8>) -> Option<bool> {
    if given.is_empty() {
        return None;
    }
    put_text(given.as_bytes(), out);
    Some(true)
}

fn put_base64(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    match STANDARD.encode_slice(bytes, &mut out[start..]) {
        Ok(n) => out.truncate(start + n),
        Err(_) => unreachable!("the space was computed as base64 defines it"),
    }
    out.push(b'"');
}
