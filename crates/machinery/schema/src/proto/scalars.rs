//! Small messages that are single values in the API: times, quantities, numbers or strings, raw JSON.

use std::borrow::Cow;
use std::ops::Range;

use binnacle_meta::{Quantity, Text};

use super::error::ProtoError;
use super::wire::{DELIMITED, Key, Reader, VARINT};

/// Reads the records of a small message; `read` returns true if it has read the record of a known number.
fn records<'a>(
    bytes: &'a [u8],
    name: &str,
    mut read: impl FnMut(Key, &mut Reader<'a>) -> Result<bool, ProtoError>,
) -> Result<(), ProtoError> {
    let mut reader = Reader::new(bytes);
    while let Some(key) = reader.key(name)? {
        if !read(key, &mut reader)? {
            reader.skip(key)?;
        }
    }
    Ok(())
}

fn varint(key: Key, reader: &mut Reader<'_>, field: &str) -> Result<u64, ProtoError> {
    if key.wire != VARINT {
        return Err(ProtoError::wrong_wire_type(key.wire, field));
    }
    reader.varint()
}

pub(super) fn delimited<'a>(key: Key, reader: &mut Reader<'a>, field: &str) -> Result<&'a [u8], ProtoError> {
    if key.wire != DELIMITED {
        return Err(ProtoError::wrong_wire_type(key.wire, field));
    }
    reader.delimited()
}

/// Reads the seconds and nanoseconds of a `Timestamp`; `None` for Go's zero time.
pub(super) fn timestamp(bytes: &[u8]) -> Result<Option<(i64, i32)>, ProtoError> {
    /// Seconds from 1970 to Go's zero time, 0001-01-01T00:00:00Z.
    const ZERO: i64 = -62_135_596_800;
    let (mut seconds, mut nanos) = (0, 0);
    records(bytes, "Timestamp", |key, reader| {
        match key.tag {
            1 => seconds = varint(key, reader, "seconds")? as i64,
            2 => nanos = varint(key, reader, "nanos")? as i32,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok((!bytes.is_empty() && (seconds, nanos) != (ZERO, 0)).then_some((seconds, nanos)))
}

/// Reads the nanoseconds of a `Duration`.
pub(super) fn duration(bytes: &[u8]) -> Result<i64, ProtoError> {
    let mut nanos = 0;
    records(bytes, "Duration", |key, reader| {
        if key.tag == 1 {
            nanos = varint(key, reader, "duration")? as i64;
        }
        Ok(key.tag == 1)
    })?;
    Ok(nanos)
}

/// Reads the canonical text of a `Quantity`.
pub(super) fn quantity(bytes: &[u8]) -> Result<Cow<'_, str>, ProtoError> {
    let mut text = None;
    records(bytes, "Quantity", |key, reader| {
        if key.tag == 1 {
            text = Some(delimited(key, reader, "string_")?);
        }
        Ok(key.tag == 1)
    })?;
    let Some(text) = text else { return Ok(Cow::Borrowed("0")) };
    let text = self::text(text);
    if is_plain_quantity(text.as_bytes()) {
        return Ok(text);
    }
    let quantity = Quantity::parse(&text).map_err(|error| ProtoError::malformed(error.to_string()))?;
    Ok(Cow::Owned(quantity.to_string()))
}

/// Returns true for up to three digits with a common suffix: such a text is canonical.
fn is_plain_quantity(text: &[u8]) -> bool {
    let digits = text.iter().take_while(|b| b.is_ascii_digit()).count();
    match text.first() {
        Some(b'0') => text.len() == 1,
        _ => (1..=3).contains(&digits) && matches!(&text[digits..], b"" | b"m" | b"M" | b"G" | b"Ki" | b"Mi" | b"Gi"),
    }
}

/// A decoded `IntOrString`.
pub(super) enum IntOrString<'a> {
    Int(i32),
    Str(&'a [u8]),
}

pub(super) fn int_or_string(bytes: &[u8]) -> Result<IntOrString<'_>, ProtoError> {
    let (mut kind, mut int, mut str) = (0i64, 0, &[][..]);
    records(bytes, "IntOrString", |key, reader| {
        match key.tag {
            1 => kind = varint(key, reader, "type")? as i64,
            2 => int = varint(key, reader, "intVal")? as i32,
            3 => str = delimited(key, reader, "strVal")?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    match kind {
        0 => Ok(IntOrString::Int(int)),
        1 => Ok(IntOrString::Str(str)),
        _ => Err(ProtoError::malformed("impossible IntOrString.Type")),
    }
}

/// Returns the bytes in a `RawExtension`, `JSON` or `FieldsV1`; `None` if empty.
pub(super) fn carried<'a>(bytes: &'a [u8], name: &str) -> Result<Option<&'a [u8]>, ProtoError> {
    let mut raw = None;
    records(bytes, name, |key, reader| {
        if key.tag == 1 {
            raw = Some(delimited(key, reader, "raw")?);
        }
        Ok(key.tag == 1)
    })?;
    Ok(raw.filter(|raw| !raw.is_empty()))
}

/// A `JSONSchemaPropsOr...`: a boolean, one schema, or a list.
#[derive(Default)]
pub(super) struct SchemaOr {
    pub(super) allows: bool,
    /// The records of the schema; several are read as one message.
    pub(super) schema: Vec<Range<usize>>,
    pub(super) list: Vec<Range<usize>>,
}

/// The alternative to a schema in a `JSONSchemaPropsOr...`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SchemaAlternative {
    Bool,
    Array,
    Strings,
}

/// Returns the positions of the parts of a `JSONSchemaPropsOr...`.
pub(super) fn schema_or(raw: &[u8], range: Range<usize>, or: SchemaAlternative) -> Result<SchemaOr, ProtoError> {
    let (name, list) = match or {
        SchemaAlternative::Bool => ("JSONSchemaPropsOrBool", ""),
        SchemaAlternative::Array => ("JSONSchemaPropsOrArray", "jSONSchemas"),
        SchemaAlternative::Strings => ("JSONSchemaPropsOrStringArray", "property"),
    };
    let mut found = SchemaOr::default();
    let mut reader = Reader::of_range(raw, range);
    let part = |key: Key, reader: &mut Reader<'_>, field| {
        let bytes = delimited(key, reader, field)?;
        Ok::<_, ProtoError>(reader.position() - bytes.len()..reader.position())
    };
    while let Some(key) = reader.key(name)? {
        match (key.tag, or) {
            (1, SchemaAlternative::Bool) => found.allows = varint(key, &mut reader, "allows")? != 0,
            (2, SchemaAlternative::Bool) | (1, _) => found.schema.push(part(key, &mut reader, "schema")?),
            (2, _) => found.list.push(part(key, &mut reader, list)?),
            _ => reader.skip(key)?,
        }
    }
    Ok(found)
}

/// Returns text like Go's JSON: each byte that is not valid UTF-8 becomes a replacement character.
pub(super) fn text(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len() + 8);
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                text.extend(chunk.invalid().iter().map(|_| char::REPLACEMENT_CHARACTER));
            }
            Cow::Owned(text)
        }
    }
}

pub(super) fn shared_text(bytes: &[u8]) -> Text {
    Text::from(text(bytes))
}
