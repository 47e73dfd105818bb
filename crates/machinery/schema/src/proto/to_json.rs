//! Converts protobuf directly to JSON, without a tree: responses of GET, LIST and WATCH from stored bytes.
//!
//! JSON has the fields in the order of the Go struct, protobuf by number. So each message is read twice: once to record
//! the positions of its fields, and once to write them. Bytes that are well formed but not in the encoder's order (a
//! field in two places, an unsorted map) are normalized first.

use std::ops::Range;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_meta::{GoDuration, Time};

use super::decode::{DEPTH, finite, micro_time, nested};
use super::error::ProtoError;
use super::index::{Index, ReadStop};
use super::normalize::normalize;
use super::raw_json;
use super::scalars::{self, IntOrString, SchemaAlternative, SchemaOr};
use super::text::{put_decimal, put_quoted, put_text, put_text_of};
use super::wire::{DELIMITED, FIXED64, Reader};
use crate::json;
use crate::limits::Budget;
use crate::types::plan::{Absent, FieldPlan, FieldSet, Rule, Shape, wire_type};
use crate::types::{Field, Message, Ty};

/// Fields of a response that the stored bytes do not have.
#[derive(Clone, Copy, Debug, Default)]
pub struct Overrides<'a> {
    /// `metadata.resourceVersion`, which is empty in stored bytes, as it is the revision at which they are stored.
    pub resource_version: Option<&'a str>,
}

/// Appends the JSON of an envelope's message, the same as for the tree of [`super::decode_object`].
pub fn to_json(
    raw: &[u8],
    message: &Message,
    api_version: &str,
    kind: &str,
    overrides: Overrides<'_>,
    out: &mut Vec<u8>,
) -> Result<(), ProtoError> {
    let start = out.len();
    let write = |raw: &[u8], out: &mut Vec<u8>| {
        let scope = MessageScope::Root { api_version, kind, overrides };
        Writer { index: Index::new(raw)?, out }.message(0..raw.len(), message, scope, DEPTH)
    };
    let written = match write(raw, out) {
        Err(ReadStop::Unordered) => {
            let ordered = normalize(raw, message, DEPTH)?;
            out.truncate(start);
            write(&ordered, out)
        }
        written => written,
    };
    match written {
        Ok(_) => Ok(()),
        Err(ReadStop::Unordered) => Err(ProtoError::TooLarge),
        Err(ReadStop::Error(error)) => Err(error),
    }
    .inspect_err(|_| out.truncate(start))
}

/// The class of a value that was written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WrittenValue {
    Null,
    /// Go's zero value, but not `null`.
    Zero,
    Value,
}

impl WrittenValue {
    fn nonzero(nonzero: bool) -> Self {
        if nonzero { Self::Value } else { Self::Zero }
    }
}

/// The kind of the message that is being written, with the values that are not in its bytes.
#[derive(Clone, Copy)]
enum MessageScope<'o> {
    Root {
        api_version: &'o str,
        kind: &'o str,
        overrides: Overrides<'o>,
    },
    /// Metadata with this resourceVersion.
    Metadata(&'o str),
    Inner,
}

/// A value that is written for a field instead of its bytes.
enum FieldOverride<'o> {
    Nothing,
    Text(&'o str),
    Message(&'o Message, MessageScope<'o>),
}

impl<'o> MessageScope<'o> {
    fn field_override(self, field: &'o Field) -> FieldOverride<'o> {
        match (self, field.name.as_str()) {
            (Self::Root { api_version, .. }, "apiVersion") if field.tag == 0 => FieldOverride::Text(api_version),
            (Self::Root { kind, .. }, "kind") if field.tag == 0 => FieldOverride::Text(kind),
            (Self::Root { overrides, .. }, "metadata") => match (overrides.resource_version, field.ty.message()) {
                (Some(version), Some(message)) => FieldOverride::Message(message, Self::Metadata(version)),
                _ => FieldOverride::Nothing,
            },
            (Self::Metadata(version), "resourceVersion") => FieldOverride::Text(version),
            _ => FieldOverride::Nothing,
        }
    }
}

struct Writer<'a, 'o> {
    index: Index<'a>,
    out: &'o mut Vec<u8>,
}

impl<'a> Writer<'a, '_> {
    /// Writes a message; returns true if it is not Go's zero value.
    ///
    /// Each member begins with a comma, and the first comma becomes the brace, so that a member can be truncated if it
    /// must be omitted. Lists and maps are written the same way.
    fn message(
        &mut self,
        range: Range<usize>,
        message: &Message,
        scope: MessageScope<'_>,
        depth: usize,
    ) -> Result<WrittenValue, ReadStop> {
        let depth = depth.checked_sub(1).ok_or(ProtoError::TooDeep)?;
        let plan = message.plan();
        let frame = self.index.open(range, message)?;
        let open = self.out.len();
        let mut nonzero = false;
        let mut todo = frame.found | plan.always_shown;
        if !matches!(scope, MessageScope::Inner) {
            for (i, field) in message.fields.iter().enumerate() {
                todo |= FieldSet::from(!matches!(scope.field_override(field), FieldOverride::Nothing)) << i;
            }
        }
        while todo != 0 {
            let i = todo.trailing_zeros() as usize;
            todo &= todo - 1;
            let (field, plan) = (&message.fields[i], &plan.fields[i]);
            let mark = self.out.len();
            plan.put_key(field, self.out);
            let field_override =
                if matches!(scope, MessageScope::Inner) { FieldOverride::Nothing } else { scope.field_override(field) };
            let range = (frame.found >> i & 1 != 0).then(|| self.index.span(frame, i));
            let written = match (field_override, range) {
                (FieldOverride::Text(text), _) => {
                    put_text(text.as_bytes(), self.out);
                    WrittenValue::nonzero(!text.is_empty())
                }
                (FieldOverride::Message(message, scope), range) => {
                    self.message(range.unwrap_or_default(), message, scope, depth)?
                }
                (_, Some(range)) => self.value(range, field, plan.rule, depth)?,
                (_, None) => self.absent(field, plan, depth)?,
            };
            let stays = match plan.absent {
                Absent::Nothing if plan.omits_zero || field.tag == 0 => written == WrittenValue::Value,
                Absent::Nothing => written != WrittenValue::Null,
                Absent::Null | Absent::ShownZero | Absent::Constant => true,
                Absent::HiddenZero => written == WrittenValue::Value,
            };
            if stays {
                nonzero |= match plan.absent {
                    Absent::Nothing | Absent::Null => written != WrittenValue::Null,
                    Absent::HiddenZero | Absent::ShownZero | Absent::Constant => written == WrittenValue::Value,
                };
            } else {
                self.out.truncate(mark);
            }
        }
        self.index.close(frame);
        self.close(open, b'{', b'}');
        Ok(WrittenValue::nonzero(nonzero))
    }

    /// Replaces the comma before the first member by the opening bracket, and appends the closing one.
    #[inline]
    fn close(&mut self, open: usize, begin: u8, end: u8) {
        match self.out.get_mut(open) {
            Some(comma) => *comma = begin,
            None => self.out.push(begin),
        }
        self.out.push(end);
    }

    fn null(&mut self) -> WrittenValue {
        self.out.extend_from_slice(b"null");
        WrittenValue::Null
    }

    /// Writes a field that is absent in the bytes.
    fn absent(&mut self, field: &Field, plan: &FieldPlan, depth: usize) -> Result<WrittenValue, ReadStop> {
        match plan.absent {
            Absent::ShownZero => self.zero(&field.ty, depth),
            Absent::Constant => {
                put_text(field.constant.as_bytes(), self.out);
                Ok(WrittenValue::Zero)
            }
            _ => Ok(self.null()),
        }
    }

    /// Writes a field that is present in the bytes.
    #[inline]
    fn value(
        &mut self,
        range: Range<usize>,
        field: &Field,
        rule: Rule,
        depth: usize,
    ) -> Result<WrittenValue, ReadStop> {
        match (rule, Shape::of(&field.ty)) {
            // The text is never empty.
            (Rule::OmittedText, _) => {
                put_text_of(self.index.raw, range, self.out);
                Ok(WrittenValue::Value)
            }
            (Rule::Varint | Rule::Fixed64, _) => self.number(&mut self.reader(range), &field.ty),
            (_, Shape::One(ty)) => self.delimited(range, ty, depth),
            (_, Shape::List(element)) => self.list(range, element, depth),
            (_, Shape::Map(values)) => self.map(range, values, depth),
        }
    }

    fn reader(&self, range: Range<usize>) -> Reader<'a> {
        Reader::of_range(self.index.raw, range)
    }

    /// Writes the zero value of a type that is not a pointer in Go.
    fn zero(&mut self, ty: &Ty, depth: usize) -> Result<WrittenValue, ReadStop> {
        match ty {
            Ty::Bool => self.out.extend_from_slice(b"false"),
            Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double => self.out.push(b'0'),
            _ => return self.delimited(0..0, ty, depth),
        }
        Ok(WrittenValue::Zero)
    }

    fn list(&mut self, range: Range<usize>, element: &Ty, depth: usize) -> Result<WrittenValue, ReadStop> {
        let open = self.out.len();
        let mut reader = self.reader(range);
        while let Some(key) = reader.key("list")? {
            self.items(key.wire, &mut reader, element, depth)?;
        }
        // Records without any packed numbers are not a list.
        if self.out.len() == open {
            return Ok(self.null());
        }
        self.close(open, b'[', b']');
        Ok(WrittenValue::Value)
    }

    /// Writes one record of a list: an element, or several packed numbers.
    #[inline]
    fn items(&mut self, wire: u8, reader: &mut Reader<'a>, element: &Ty, depth: usize) -> Result<(), ReadStop> {
        match (wire_type(element), wire) {
            (DELIMITED, _) => {
                self.out.push(b',');
                self.delimited(reader.delimited_range()?, element, depth)?;
            }
            (_, DELIMITED) => {
                let packed = reader.delimited()?;
                let mut reader = Reader::new(packed);
                while reader.position() < packed.len() {
                    self.out.push(b',');
                    self.number(&mut reader, element)?;
                }
            }
            _ => {
                self.out.push(b',');
                self.number(reader, element)?;
            }
        }
        Ok(())
    }

    fn map(&mut self, range: Range<usize>, values: &Ty, depth: usize) -> Result<WrittenValue, ReadStop> {
        let open = self.out.len();
        let mut last: Option<&[u8]> = None;
        let mut records = self.reader(range);
        while records.key("map")?.is_some() {
            let (name, value) = self.index.entry(records.delimited_range()?, values)?;
            let name_bytes = &self.index.raw[name.clone()];
            if last.is_some_and(|last| last >= name_bytes) {
                return Err(ReadStop::Unordered);
            }
            last = Some(name_bytes);
            self.out.push(b',');
            put_text_of(self.index.raw, name, self.out);
            self.out.push(b':');
            let mark = self.out.len();
            let written = match value {
                Some(range) if wire_type(values) == DELIMITED => self.delimited(range, values, depth)?,
                Some(range) => self.number(&mut self.reader(range), values)?,
                None => self.zero(values, depth)?,
            };
            if written == WrittenValue::Null && matches!(values, Ty::StaticWrappedList(_)) {
                self.out.truncate(mark);
                self.out.extend_from_slice(b"[]");
            }
        }
        self.close(open, b'{', b'}');
        Ok(WrittenValue::Value)
    }

    /// Writes a value with a length.
    #[inline]
    fn delimited(&mut self, range: Range<usize>, ty: &Ty, depth: usize) -> Result<WrittenValue, ReadStop> {
        match ty {
            Ty::String => {
                let nonzero = !range.is_empty();
                put_text_of(self.index.raw, range, self.out);
                Ok(WrittenValue::nonzero(nonzero))
            }
            Ty::Message(message) => self.message(range, message, MessageScope::Inner, depth),
            _ => self.special(range, ty, depth),
        }
    }

    /// Writes a value with a length that is neither text nor message.
    fn special(&mut self, range: Range<usize>, ty: &Ty, depth: usize) -> Result<WrittenValue, ReadStop> {
        let bytes = &self.index.raw[range.clone()];
        match ty {
            Ty::Bytes => {
                put_base64(bytes, self.out);
                Ok(WrittenValue::nonzero(!bytes.is_empty()))
            }
            Ty::Time => {
                let Some((seconds, _)) = scalars::timestamp(bytes)? else { return Ok(self.null()) };
                put_quoted(&Time::from_unix(seconds, 0), self.out);
                Ok(WrittenValue::Value)
            }
            Ty::MicroTime => {
                let Some((seconds, nanos)) = scalars::timestamp(bytes)? else { return Ok(self.null()) };
                put_quoted(&micro_time(seconds, nanos), self.out);
                Ok(WrittenValue::Value)
            }
            Ty::Duration => {
                let nanos = scalars::duration(bytes)?;
                put_quoted(&GoDuration(nanos), self.out);
                Ok(WrittenValue::nonzero(nanos != 0))
            }
            Ty::Quantity => {
                let quantity = scalars::quantity(bytes)?;
                put_text(quantity.as_bytes(), self.out);
                Ok(WrittenValue::nonzero(quantity != "0"))
            }
            Ty::IntOrString => match scalars::int_or_string(bytes)? {
                IntOrString::Int(n) => {
                    put_decimal(n.into(), self.out);
                    Ok(WrittenValue::nonzero(n != 0))
                }
                IntOrString::Str(text) => {
                    put_text(text, self.out);
                    Ok(WrittenValue::Value)
                }
            },
            Ty::RawExtension | Ty::Json => {
                let Some(raw) = scalars::carried(bytes, "RawExtension")? else { return Ok(self.null()) };
                let exact = matches!(ty, Ty::RawExtension);
                let mut budget = Budget::unlimited();
                let value =
                    if exact { raw_json::read_exactly(raw, &mut budget)? } else { raw_json::read(raw, &mut budget)? };
                json::write(&value, self.out);
                Ok(if value.is_null() { WrittenValue::Null } else { WrittenValue::Value })
            }
            Ty::FieldsV1 => {
                let Some(raw) = scalars::carried(bytes, "FieldsV1")? else { return Ok(self.null()) };
                Ok(if raw_json::put_carried(raw, self.out)? { WrittenValue::Value } else { WrittenValue::Null })
            }
            Ty::SchemaOrBool(schema) => self.schema_or(range, SchemaAlternative::Bool, schema, depth),
            Ty::SchemaOrArray(schema) => self.schema_or(range, SchemaAlternative::Array, schema, depth),
            Ty::SchemaOrStrings(schema) => self.schema_or(range, SchemaAlternative::Strings, schema, depth),
            Ty::StaticWrappedList(element) => self.wrapped(range, element, depth),
            Ty::List(_) | Ty::ListOf(_) | Ty::StaticList(_) | Ty::Map(_) | Ty::StaticMap(_) => Err(nested().into()),
            Ty::String | Ty::Message(_) => self.delimited(range, ty, depth),
            Ty::Bool | Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::Double => unreachable!("numbers are not delimited"),
        }
    }

    /// Writes a value without length.
    #[inline]
    fn number(&mut self, reader: &mut Reader<'_>, ty: &Ty) -> Result<WrittenValue, ReadStop> {
        if wire_type(ty) == FIXED64 {
            let n = finite(f64::from_bits(reader.fixed64()?))?;
            json::write_float(n, self.out);
            return Ok(WrittenValue::nonzero(n != 0.0));
        }
        let n = match (ty, reader.varint()?) {
            (Ty::Bool, n) => {
                self.out.extend_from_slice(if n != 0 { b"true" } else { b"false" });
                return Ok(WrittenValue::nonzero(n != 0));
            }
            (Ty::Int32, n) => i64::from(n as i32),
            (_, n) => n as i64,
        };
        put_decimal(n, self.out);
        Ok(WrittenValue::nonzero(n != 0))
    }

    /// Writes a list in a message of its own, `null` if it has no elements.
    fn wrapped(&mut self, range: Range<usize>, element: &Ty, depth: usize) -> Result<WrittenValue, ReadStop> {
        let open = self.out.len();
        let mut reader = self.reader(range);
        while let Some(key) = reader.key("items")? {
            if key.tag != 1 {
                reader.skip(key)?;
                continue;
            }
            if key.wire != wire_type(element) && key.wire != DELIMITED {
                return Err(ProtoError::wrong_wire_type(key.wire, "items").into());
            }
            self.items(key.wire, &mut reader, element, depth)?;
        }
        if self.out.len() == open {
            return Ok(self.null());
        }
        self.close(open, b'[', b']');
        Ok(WrittenValue::Value)
    }

    fn schema_or(
        &mut self,
        range: Range<usize>,
        or: SchemaAlternative,
        schema: &Message,
        depth: usize,
    ) -> Result<WrittenValue, ReadStop> {
        let SchemaOr { allows, schema: records, list } = scalars::schema_or(self.index.raw, range, or)?;
        if !list.is_empty() {
            let open = self.out.len();
            for item in list {
                self.out.push(b',');
                match or {
                    SchemaAlternative::Strings => put_text_of(self.index.raw, item, self.out),
                    _ => drop(self.message(item, schema, MessageScope::Inner, depth)?),
                }
            }
            self.close(open, b'[', b']');
            return Ok(WrittenValue::Value);
        }
        match &records[..] {
            [] if or == SchemaAlternative::Bool => {
                self.out.extend_from_slice(if allows { b"true" } else { b"false" });
                Ok(WrittenValue::nonzero(allows))
            }
            [] => Ok(self.null()),
            [only] => {
                self.message(only.clone(), schema, MessageScope::Inner, depth)?;
                Ok(WrittenValue::Value)
            }
            _ => Err(ReadStop::Unordered),
        }
    }
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
