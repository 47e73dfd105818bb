//! Writes JSON like Go's `json.Encoder`: compact, HTML characters escaped, floating point in Go's shortest form.

use std::borrow::Cow;
use std::io::Write;

use binnacle_meta::ErrorValue;

use crate::{Limits, Object, Value};

use super::{Cursor, InvalidJson, JsonError, check_size, go_utf8, syntax_error};

/// Appends the compact form, without the newline that Go's encoder adds after a document.
pub fn write(value: &Value, out: &mut Vec<u8>) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Int(n) => write_int(*n, out),
        Value::Float(n) => write_float(*n, out),
        Value::Str(text) => write_string(text, out),
        // The text may not be compact; Go's encoder removes whitespace and escapes HTML characters.
        Value::Raw(text) => out.extend_from_slice(compacted(text).as_bytes()),
        Value::List(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write(item, out);
            }
            out.push(b']');
        }
        Value::Object(object) => write_object(object, out),
    }
}

fn write_object(object: &Object, out: &mut Vec<u8>) {
    out.push(b'{');
    for (i, (name, value)) in object.iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_string(name, out);
        out.push(b':');
        write(value, out);
    }
    out.push(b'}');
}

/// Returns the compact form as text.
pub fn to_string(value: &Value) -> String {
    let mut out = Vec::with_capacity(256);
    write(value, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

impl From<&Value> for ErrorValue {
    /// Formats a value for messages: strings and numbers plainly, structures as JSON.
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::raw("null"),
            Value::Str(text) => Self::from(text),
            Value::Int(n) => Self::from(*n),
            Value::Bool(b) => Self::from(*b),
            other => Self::raw(to_string(other)),
        }
    }
}

/// Appends the form for `?pretty=true`: each member on its own line, indented by two spaces.
pub fn write_pretty(value: &Value, out: &mut Vec<u8>) {
    let mut compact = Vec::with_capacity(256);
    write(value, &mut compact);
    indent(&compact, out);
}

/// Appends a well-formed compact document, with line breaks and indentation added.
pub fn indent(compact: &[u8], out: &mut Vec<u8>) {
    indent_at(compact, 0, out);
}

/// Like [`indent`], for a part at this depth of a document. Its first line continues the caller's line.
pub fn indent_at(compact: &[u8], mut depth: usize, out: &mut Vec<u8>) {
    let mut in_string = false;
    let mut bytes = compact.iter().copied().peekable();
    let line = |out: &mut Vec<u8>, depth: usize| {
        out.push(b'\n');
        out.resize(out.len() + 2 * depth, b' ');
    };
    while let Some(b) = bytes.next() {
        if in_string {
            out.push(b);
            match b {
                b'\\' => out.extend(bytes.next()),
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match b {
            b'{' | b'[' => {
                out.push(b);
                // Empty ones stay on one line.
                match bytes.next_if(|next| matches!(next, b'}' | b']')) {
                    Some(close) => out.push(close),
                    None => {
                        depth += 1;
                        line(out, depth);
                    }
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                line(out, depth);
                out.push(b);
            }
            b',' => {
                out.push(b);
                line(out, depth);
            }
            b':' => out.extend_from_slice(b": "),
            b'"' => {
                in_string = true;
                out.push(b);
            }
            _ => out.push(b),
        }
    }
}

/// Returns a document without space between tokens and with HTML characters escaped, otherwise unchanged, as Go's
/// encoder writes the JSON of a type that marshals itself.
pub fn compact(bytes: &[u8], limits: &Limits) -> Result<String, JsonError> {
    check_size(bytes, limits)?;
    let text = go_utf8(bytes);
    let mut cursor = Cursor::new(&text);
    match cursor.skip(limits.max_depth).and_then(|_| cursor.end()) {
        Ok(()) => Ok(compacted(&text).into_owned()),
        Err(InvalidJson) => Err(syntax_error(bytes, limits)),
    }
}

/// Returns schemaless JSON whose text must be preserved, as in a `RawExtension`: the tree that was read from `text`, or
/// the text itself if the tree would be written differently.
pub(crate) fn carried(text: &str, tree: Value) -> Value {
    let is_container = matches!(tree, Value::Object(_) | Value::List(_));
    if is_container && to_string(&tree) != text { Value::Raw(text.into()) } else { tree }
}

/// Returns the integer with the same JSON text as the number; `None` if that text is not a 64-bit integer.
pub(crate) fn integer_of(n: f64) -> Option<i64> {
    let is_integer = n.fract() == 0.0 && n.abs() < 1e19;
    is_integer.then(|| n.to_string().parse().ok()).flatten()
}

/// Replaces the numbers of a tree by those that result from reading its JSON text, at any depth.
pub fn normalize_numbers(value: &mut Value) {
    match value {
        Value::Float(n) => {
            if let Some(integer) = integer_of(*n) {
                *value = Value::Int(integer);
            }
        }
        Value::Object(object) => object.iter_mut().for_each(|(_, member)| normalize_numbers(member)),
        Value::List(items) => items.iter_mut().for_each(normalize_numbers),
        _ => {}
    }
}

/// Replaces floating point numbers by their JSON text, for a tree that is decoded like its JSON text.
pub fn show_floats(value: &mut Value) {
    match value {
        Value::Float(n) => {
            let mut text = Vec::new();
            write_float(*n, &mut text);
            *value = Value::Raw(String::from_utf8_lossy(&text).into());
        }
        Value::Object(object) => object.iter_mut().for_each(|(_, member)| show_floats(member)),
        Value::List(items) => items.iter_mut().for_each(show_floats),
        _ => {}
    }
}

/// Like [`compact`], for a well-formed text.
pub(crate) fn compacted(text: &str) -> Cow<'_, str> {
    if !has_byte(text.as_bytes(), |b| (b <= b' ') | is_html(b)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut in_string = false;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '<' => out.push_str("\\u003c"),
            '>' => out.push_str("\\u003e"),
            '&' => out.push_str("\\u0026"),
            '\u{2028}' => out.push_str("\\u2028"),
            '\u{2029}' => out.push_str("\\u2029"),
            '\\' => {
                out.push(c);
                out.extend(chars.next());
            }
            '"' => {
                in_string = !in_string;
                out.push(c);
            }
            ' ' | '\t' | '\r' | '\n' if !in_string => {}
            _ => out.push(c),
        }
    }
    Cow::Owned(out)
}

/// Appends a string with its quotes.
pub fn write_string(text: &str, out: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    out.reserve(bytes.len() + 2);
    out.push(b'"');
    if has_byte(bytes, is_special) {
        escape(bytes, out)
    } else {
        out.extend_from_slice(bytes)
    }
    out.push(b'"');
}

/// Appends the contents of a string, with its special characters escaped.
fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let mut start = 0;
    for (i, b) in bytes.iter().enumerate() {
        if !SPECIAL[usize::from(*b)] {
            continue;
        }
        let mut next = i + 1;
        let escape: &[u8] = match *b {
            b'"' => b"\\\"",
            b'\\' => b"\\\\",
            b'\n' => b"\\n",
            b'\r' => b"\\r",
            b'\t' => b"\\t",
            0x08 => b"\\b",
            0x0c => b"\\f",
            // The line separators U+2028 and U+2029 end a line in JavaScript.
            0xe2 => match bytes.get(i + 1..i + 3) {
                Some([0x80, last @ (0xa8 | 0xa9)]) => {
                    next = i + 3;
                    if *last == 0xa8 { b"\\u2028" } else { b"\\u2029" }
                }
                _ => continue,
            },
            _ => {
                out.extend_from_slice(&bytes[start..i]);
                out.extend_from_slice(b"\\u00");
                out.extend([HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]);
                start = next;
                continue;
            }
        };
        out.extend_from_slice(&bytes[start..i]);
        out.extend_from_slice(escape);
        start = next;
    }
    out.extend_from_slice(&bytes[start..]);
}

/// [`is_special`] for each byte.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut b = 0;
    while b < special.len() {
        special[b] = is_special(b as u8);
        b += 1;
    }
    special
};

/// Returns true if a byte of a string may need an escape.
const fn is_special(b: u8) -> bool {
    (b < 0x20) | (b == b'"') | (b == b'\\') | is_html(b)
}

/// Returns true for bytes that are special in HTML, and for the first byte of the line separators.
const fn is_html(b: u8) -> bool {
    (b == b'<') | (b == b'>') | (b == b'&') | (b == 0xe2)
}

/// Returns true if `is` holds for one of the bytes. Tests sixteen bytes at a time, which compiles to vector
/// instructions; some bytes at the end are tested twice.
#[inline(always)]
pub fn has_byte(bytes: &[u8], is: impl Fn(u8) -> bool) -> bool {
    let together = |chunk: &[u8]| chunk.iter().fold(false, |found, b| found | is(*b));
    let (chunks, rest) = bytes.as_chunks::<16>();
    if chunks.iter().any(|chunk| together(chunk)) {
        return true;
    }
    if let (Some(first), Some(last)) = (rest.first_chunk::<8>(), rest.last_chunk::<8>()) {
        return together(first) | together(last);
    }
    rest.iter().any(|b| is(*b))
}

fn write_int(n: i64, out: &mut Vec<u8>) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = n.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    if n < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(&digits[at..]);
}

/// Formats a number like in the original JSON, where it had a point or an exponent; otherwise it would be a
/// [`Value::Int`].
pub(crate) fn float_literal(n: f64) -> String {
    let mut text = Vec::new();
    write_float(n, &mut text);
    let text = String::from_utf8(text).unwrap_or_default();
    if text.contains(['.', 'e']) { text } else { format!("{text}.0") }
}

/// Appends a number in Go's form: the shortest digits that read back the same, with an exponent below 1e-6 and from
/// 1e21 on.
pub(crate) fn write_float(n: f64, out: &mut Vec<u8>) {
    let magnitude = n.abs();
    // Writing to a vector cannot fail.
    let _ = if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{n:e}");
        match text.split_once('e') {
            Some((mantissa, exponent)) if !exponent.starts_with('-') => write!(out, "{mantissa}e+{exponent}"),
            _ => write!(out, "{text}"),
        }
    } else {
        write!(out, "{n}")
    };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn predicts_how_written_floats_are_parsed() {
        for (n, want) in [
            (0.0, Some(0)),
            (-0.0, Some(0)),
            (-3.0, Some(-3)),
            (1.5, None),
            (9_007_199_254_740_992.0, Some(9_007_199_254_740_992)),
            (9_223_372_036_854_774_784.0, Some(9_223_372_036_854_775_000)),
            (9_223_372_036_854_775_808.0, None),
            (1e30, None),
            (f64::NAN, None),
        ] {
            assert_eq!(integer_of(n), want, "{n}");
        }
    }

    #[test]
    fn formats_numbers_like_go() {
        for (n, want) in [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (1.5, "1.5"),
            (-2.25, "-2.25"),
            (1e20, "100000000000000000000"),
            (1e21, "1e+21"),
            (1.5e300, "1.5e+300"),
            (0.000001, "0.000001"),
            (0.0000001, "1e-7"),
            (1.25e-9, "1.25e-9"),
            (5e-324, "5e-324"),
            (f64::MAX, "1.7976931348623157e+308"),
            (0.1, "0.1"),
            (123456789.125, "123456789.125"),
        ] {
            let mut out = Vec::new();
            write_float(n, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), want);
        }
        for n in [0, 7, -7, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            write_int(n, &mut out);
            assert_eq!(String::from_utf8_lossy(&out), n.to_string());
        }
    }

    #[test]
    fn escapes_strings_like_go() {
        for (text, want) in [
            ("", r#""""#),
            ("plain é 日", r#""plain é 日""#),
            ("<a>&\"\\", r#""\u003ca\u003e\u0026\"\\""#),
            ("\n\r\t\u{8}\u{c}\u{0}\u{1f}\u{7f}", "\"\\n\\r\\t\\b\\f\\u0000\\u001f\u{7f}\""),
            ("a\u{2028}b\u{2029}c\u{2030}", "\"a\\u2028b\\u2029c\u{2030}\""),
        ] {
            assert_eq!(to_string(&Value::from(text)), want);
        }
    }

    #[test]
    fn writes_indented_json() {
        let value = value!({"a": [], "b": {}, "c": [1i64, {"d": "x:{}"}], "e\"": null});
        let mut out = Vec::new();
        write_pretty(&value, &mut out);
        assert_eq!(
            String::from_utf8_lossy(&out),
            "{\n  \"a\": [],\n  \"b\": {},\n  \"c\": [\n    1,\n    {\n      \"d\": \"x:{}\"\n    }\n  ],\n  \"e\\\"\": null\n}"
        );
    }

    #[test]
    fn compacts_json() {
        let limits = Limits::default();
        assert_eq!(
            compact(b" { \"a <\" : [ 1.0 , \"\\\" \" ] } \n", &limits).as_deref(),
            Ok(r#"{"a \u003c":[1.0,"\" "]}"#)
        );
        assert!(compact(b"{", &limits).is_err());
    }
}
