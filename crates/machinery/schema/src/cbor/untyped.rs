//! Decoding of CBOR without a schema, as Go decodes it into `map[string]interface{}`.

use base64::Engine;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use binnacle_meta::{Text, Time, go_quote};

use super::diagnose::hex;
use super::item::invalid_text;
use super::{CborError, Entries, Head, Major, Reader, unknown_simple};
use crate::json::go_utf8;
use crate::limits::Budget;
use crate::{Limits, Object, Value};

/// Go's type of untyped objects.
const MAP: &str = "map[string]interface {}";

/// The text encoding of the bytes below a tag (RFC 8949, 3.4.5.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LaterEncoding {
    Base64Url,
    Base64,
    Base16,
}

impl LaterEncoding {
    pub(crate) fn of_tag(tag: u64) -> Option<Self> {
        match tag {
            21 => Some(Self::Base64Url),
            22 => Some(Self::Base64),
            23 => Some(Self::Base16),
            _ => None,
        }
    }
}

/// Decodes a document. Integers become [`Value::Int`], other numbers [`Value::Float`]; tags without a meaning in JSON
/// are skipped. Members keep their order; a duplicate one is an error.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, CborError> {
    let mut reader = Reader::new(bytes, limits)?;
    read_item(&mut reader, None, &mut Budget::new(limits))
}

/// As [`parse`], for documents that must be a map; null is an empty one.
pub fn parse_object(bytes: &[u8], limits: &Limits) -> Result<Object, CborError> {
    let mut reader = Reader::new(bytes, limits)?;
    let mut ahead = reader.clone();
    let head = ahead.untagged(|_, _| Ok::<_, CborError>(()))?;
    if head.major != Major::Map {
        return ahead.expect_null(head, || MAP.to_owned()).map(|()| Object::new());
    }
    let value = read_item(&mut reader, None, &mut Budget::new(limits))?;
    Ok(value.into_object().unwrap_or_default())
}

/// Decodes the next item and its contents.
pub(crate) fn read_item(
    reader: &mut Reader<'_>,
    later: Option<LaterEncoding>,
    budget: &mut Budget,
) -> Result<Value, CborError> {
    let (mut later, mut time) = (later, None);
    let head = reader.untagged(|_, tag| {
        later = LaterEncoding::of_tag(tag).or(later);
        time = time.or(matches!(tag, 0 | 1).then_some(tag));
        Ok::<_, CborError>(())
    })?;
    if let Some(integer) = head.integer() {
        if time.is_some() {
            return epoch(integer, 0).map(Value::Str);
        }
        let overflow = |_| CborError::mismatch(head.major, "int64", format!("{integer} overflows Go's int64"));
        return i64::try_from(integer).map(Value::Int).map_err(overflow);
    }
    if let Some(number) = head.float() {
        if time.is_none() {
            return Ok(Value::Float(number));
        }
        let nanos = (number.fract() * 1e9) as i64;
        let seconds = number.trunc() as i128 + i128::from(nanos.div_euclid(1_000_000_000));
        return epoch(seconds, nanos.rem_euclid(1_000_000_000) as u32).map(Value::Str);
    }
    Ok(match head.major {
        Major::Bytes => Value::Str(bytes_text(&reader.chunks(head)?, later)),
        Major::Text => {
            let text = utf8(&reader.chunks(head)?)?;
            if time.is_some() { Value::Str(rfc3339(&text)?) } else { Value::Str(text) }
        }
        Major::Array => {
            let mut items = Vec::new();
            let mut entries = reader.entries(head);
            while entries.next(reader)? {
                budget.element()?;
                items.push(read_item(reader, later, budget)?);
            }
            Value::List(items)
        }
        Major::Map => Value::Object(map(reader, reader.entries(head), later, budget)?),
        _ => match head.info {
            20 => Value::Bool(false),
            21 => Value::Bool(true),
            22 => Value::Null,
            _ => return Err(unknown_simple(head.argument)),
        },
    })
}

fn map(
    reader: &mut Reader<'_>,
    mut entries: Entries,
    later: Option<LaterEncoding>,
    budget: &mut Budget,
) -> Result<Object, CborError> {
    budget.object()?;
    let mut object = Object::new();
    let mut index = 0;
    while entries.next(reader)? {
        let key = read_key(reader, later)?;
        budget.member(object.len())?;
        let value = read_item(reader, later, budget)?;
        if object.contains(&key) {
            return Err(duplicate(&key, index));
        }
        object.push(key, value);
        index += 1;
    }
    Ok(object)
}

/// Returns the error for a duplicate key of a map, at the entry of this index.
pub(crate) fn duplicate(key: &str, index: usize) -> CborError {
    let key = go_quote(key);
    CborError::document(format!("cbor: found duplicate map key {key} at map element index {index}"))
}

/// Decodes the key of a map, which is a string, as in JSON.
fn read_key(reader: &mut Reader<'_>, later: Option<LaterEncoding>) -> Result<Text, CborError> {
    read_text(reader, later, || "string".to_owned()).map(Option::unwrap_or_default)
}

/// Decodes a string; `None` for null. `target` names Go's type of the destination.
pub(crate) fn read_text(
    reader: &mut Reader<'_>,
    later: Option<LaterEncoding>,
    target: impl FnOnce() -> String,
) -> Result<Option<Text>, CborError> {
    let (head, later) = item_head(reader, later)?;
    match head.major {
        Major::Bytes => Ok(Some(bytes_text(&reader.chunks(head)?, later))),
        Major::Text => Ok(Some(utf8(&reader.chunks(head)?)?)),
        _ => reader.expect_null(head, target).map(|()| None),
    }
}

/// Reads the head of the next item, and the encoding of the bytes below it.
pub(crate) fn item_head(
    reader: &mut Reader<'_>,
    mut later: Option<LaterEncoding>,
) -> Result<(Head, Option<LaterEncoding>), CborError> {
    let head = reader.untagged(|_, tag| {
        later = LaterEncoding::of_tag(tag).or(later);
        Ok::<_, CborError>(())
    })?;
    Ok((head, later))
}

/// Converts bytes to a text: in the encoding of their tag; without one, as UTF-8, with invalid bytes replaced as in
/// Go's JSON.
fn bytes_text(chunks: &[&[u8]], later: Option<LaterEncoding>) -> Text {
    let bytes = joined(chunks);
    match later {
        None => Text::new(go_utf8(&bytes)),
        Some(LaterEncoding::Base64) => Text::new(BASE64_STANDARD.encode(&*bytes)),
        Some(LaterEncoding::Base64Url) => Text::new(BASE64_URL_SAFE_NO_PAD.encode(&*bytes)),
        Some(LaterEncoding::Base16) => Text::new(hex(&bytes)),
    }
}

/// Returns bytes as base64, which represents them in a tree.
pub(crate) fn base64_text(chunks: &[&[u8]]) -> Text {
    Text::new(BASE64_STANDARD.encode(&*joined(chunks)))
}

fn utf8(chunks: &[&[u8]]) -> Result<Text, CborError> {
    let invalid = |_| invalid_text();
    match chunks {
        [chunk] => std::str::from_utf8(chunk).map(Text::new).map_err(invalid),
        chunks => {
            let texts: Result<Vec<&str>, _> = chunks.iter().map(|chunk| std::str::from_utf8(chunk)).collect();
            Ok(Text::new(texts.map_err(invalid)?.concat()))
        }
    }
}

fn joined<'a>(chunks: &[&'a [u8]]) -> std::borrow::Cow<'a, [u8]> {
    match chunks {
        [chunk] => (*chunk).into(),
        chunks => chunks.concat().into(),
    }
}

/// Normalizes a time given as text to the form in which Go writes it.
fn rfc3339(text: &str) -> Result<Text, CborError> {
    Time::parse(text)
        .map_err(|error| CborError::document(format!("cbor: cannot set {text} for time.Time: {error}")))?;
    let (second, rest) = text.split_at(text.len().min("2006-01-02T15:04:05".len()));
    let zone = rest.find(['Z', '+', '-']).unwrap_or(rest.len());
    let (fraction, zone) = rest.split_at(zone);
    let digits: String = fraction.chars().skip(1).take(9).collect();
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    let zone = if matches!(zone, "+00:00" | "-00:00") { "Z" } else { zone };
    Ok(Text::new(format!("{second}{point}{digits}{zone}")))
}

/// Formats a time given in seconds since 1970.
fn epoch(seconds: i128, nanos: u32) -> Result<Text, CborError> {
    // Year 0 to the end of year 9999.
    const YEARS: std::ops::RangeInclusive<i128> = -62_167_219_200..=253_402_300_799;
    let seconds = i64::try_from(seconds).ok().filter(|seconds| YEARS.contains(&i128::from(*seconds)));
    let Some(seconds) = seconds else {
        return Err(CborError::document(
            "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: \
             Time.MarshalText: year outside of range [0,9999]",
        ));
    };
    let second = Time::from_unix(seconds, 0).to_string();
    let second = second.strip_suffix('Z').unwrap_or(&second);
    let digits = format!("{nanos:09}");
    let digits = digits.trim_end_matches('0');
    let point = if digits.is_empty() { "" } else { "." };
    Ok(Text::new(format!("{second}{point}{digits}Z")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::json;

    fn read(bytes: &[u8]) -> Result<String, String> {
        parse(bytes, &Limits::default()).map(|value| json::to_string(&value)).map_err(|error| error.to_string())
    }

    #[test]
    fn decodes_untyped_items() {
        let overflow = "cbor: cannot unmarshal negative integer into Go value of type int64 \
                        (-9223372036854775809 overflows Go's int64)";
        for (bytes, want) in [
            (&b"\x00"[..], Ok("0")),
            (b"\x1b\x7f\xff\xff\xff\xff\xff\xff\xff", Ok("9223372036854775807")),
            (b"\x3b\x7f\xff\xff\xff\xff\xff\xff\xff", Ok("-9223372036854775808")),
            (b"\x3b\x80\x00\x00\x00\x00\x00\x00\x00", Err(overflow)),
            (b"\xf9\x3e\x00", Ok("1.5")),
            (b"\xfa\x40\x20\x00\x00", Ok("2.5")),
            (b"\xf4", Ok("false")),
            (b"\xf6", Ok("null")),
            (
                b"\xf7",
                Err(
                    "cbor: data item of cbor type primitives is not accepted by protocol: simple value 23 is not recognized",
                ),
            ),
            (b"\xd9\xd9\xf7\xd9\xd9\xf7\x01", Ok("1")),
            (b"\xd9\x04\xd2\x81\x01", Ok("[1]")),
            (b"\x43a\xffb", Ok("\"a\u{fffd}b\"")),
            (b"\x63a\xffb", Err("cbor: invalid UTF-8 string")),
            (b"\x7f\x61a\x60\x62bc\xff", Ok("\"abc\"")),
            (b"\x5f\x41a\x41b\xff", Ok("\"ab\"")),
            (b"\xd6\x42\x01\xff", Ok("\"Af8=\"")),
            // The inner tag overrides the outer one.
            (b"\xd5\x83\x42\x01\xff\xd7\x41\xab\x61t", Ok("[\"Af8\",\"ab\",\"t\"]")),
            (b"\x9f\x01\x9f\xff\x80\xff", Ok("[1,[],[]]")),
            (b"\xbf\x61a\x01\x41b\xa0\xff", Ok("{\"a\":1,\"b\":{}}")),
            (b"\xa2\x61a\x01\x41a\x02", Err("cbor: found duplicate map key \"a\" at map element index 1")),
            (b"\xa1\x01\x02", Err("cbor: cannot unmarshal positive integer into Go value of type string")),
            (b"\xa1\xf5\x02", Err("cbor: cannot unmarshal primitives into Go value of type string")),
            (b"\xa1\xf6\x02", Ok("{\"\":2}")),
            (b"\xc0\x78\x1c2020-01-02T03:04:05.50+02:00", Ok("\"2020-01-02T03:04:05.5+02:00\"")),
            (b"\xc0\x78\x192020-01-02T03:04:05+00:00", Ok("\"2020-01-02T03:04:05Z\"")),
            (
                b"\xc0\x64abcd",
                Err(
                    "cbor: cannot set abcd for time.Time: parsing time \"abcd\" as \"2006-01-02T15:04:05Z07:00\": cannot parse \"abcd\" as \"2006\"",
                ),
            ),
            (b"\xc0\x01", Err("cbor: tag number 0 must be followed by text string, got positive integer")),
            (b"\xc1\x1a\x5f\x5e\x10\x00", Ok("\"2020-09-13T12:26:40Z\"")),
            (b"\xc1\xfb\x41\xd7\xd7\x84\x00\x10\x00\x00", Ok("\"2020-09-13T12:26:40.25Z\"")),
            (
                b"\xc1\x1b\x7f\xff\xff\xff\xff\xff\xff\xff",
                Err(
                    "cbor: decoded time cannot be represented in RFC3339 format with sub-second precision: Time.MarshalText: year outside of range [0,9999]",
                ),
            ),
            (
                b"\xc1\x61a",
                Err("cbor: tag number 1 must be followed by integer or floating-point number, got UTF-8 text string"),
            ),
        ] {
            assert_eq!(read(bytes).as_deref().map_err(String::as_str), want, "{bytes:02x?}");
        }
    }

    #[test]
    fn decodes_only_maps_as_objects() {
        let array = "cbor: cannot unmarshal array into Go value of type map[string]interface {}";
        for (bytes, want) in [
            (&b"\xd9\xd9\xf7\xa1\x61a\x01"[..], Ok(1)),
            (b"\xf6", Ok(0)),
            (b"\x80", Err(array)),
            (b"\xf5", Err("cbor: cannot unmarshal primitives into Go value of type map[string]interface {}")),
        ] {
            let read = parse_object(bytes, &Limits::default());
            assert_eq!(read.map(|object| object.len()).map_err(|error| error.to_string()), want.map_err(str::to_owned));
        }
    }

    #[test]
    fn bounds_memory() {
        let limits = Limits { max_memory: 4096, ..Limits::default() };
        let many = [vec![0x98, 200], vec![0xa0; 200]].concat();
        assert!(matches!(parse(&many, &limits), Err(CborError::TooManyElements(_))));
        assert!(matches!(parse(&many, &Limits { max_bytes: 20, ..limits }), Err(CborError::TooLarge { limit: 20 })));
    }
}
