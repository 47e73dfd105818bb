//! CBOR in the diagnostic notation (RFC 8949, 8), in which Go's errors quote a document.

use super::{Major, Reader};
use crate::{Limits, json};

/// Returns a decoded document in diagnostic notation, or in hexadecimal if that is not possible.
pub fn diagnose(bytes: &[u8]) -> String {
    let limits = Limits { max_bytes: usize::MAX, ..Limits::default() };
    let shown = Reader::new(bytes, &limits).and_then(|mut reader| {
        let mut text = String::new();
        show(&mut reader, &mut text)?;
        Ok(text)
    });
    shown.unwrap_or_else(|_| hex(bytes))
}

pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn show(reader: &mut Reader<'_>, out: &mut String) -> Result<(), super::CborError> {
    let head = reader.head()?;
    if let Some(integer) = head.integer() {
        out.push_str(&integer.to_string());
        return Ok(());
    }
    if let Some(number) = head.float() {
        float(number, out);
        return Ok(());
    }
    let indefinite = head.is_indefinite();
    match head.major {
        Major::Bytes | Major::Text => {
            let shown = |chunk: &[u8]| match (head.major, std::str::from_utf8(chunk)) {
                (Major::Text, Ok(text)) => Ok(quoted(text, '"')),
                (Major::Text, Err(_)) => Err(super::CborError::document("cbor: invalid UTF-8 string")),
                (_, Ok(text)) if !text.is_empty() => Ok(quoted(text, '\'')),
                _ => Ok(format!("h'{}'", hex(chunk))),
            };
            let chunks = reader.chunks(head)?;
            let chunks: Vec<String> = chunks.into_iter().map(shown).collect::<Result<_, _>>()?;
            match (indefinite, &chunks[..]) {
                (true, []) => out.push_str(if head.major == Major::Text { "\"\"_" } else { "''_" }),
                (true, chunks) => {
                    out.push_str("(_ ");
                    out.push_str(&chunks.join(", "));
                    out.push(')');
                }
                (false, chunks) => out.push_str(&chunks.concat()),
            }
        }
        Major::Array | Major::Map => {
            let is_map = head.major == Major::Map;
            out.push(if is_map { '{' } else { '[' });
            out.push_str(if indefinite { "_ " } else { "" });
            let mut entries = reader.entries(head);
            let mut first = true;
            while entries.next(reader)? {
                if !std::mem::take(&mut first) {
                    out.push_str(", ");
                }
                show(reader, out)?;
                if is_map {
                    out.push_str(": ");
                    show(reader, out)?;
                }
            }
            out.push(if is_map { '}' } else { ']' });
        }
        Major::Tag => {
            out.push_str(&head.argument.to_string());
            out.push('(');
            show(reader, out)?;
            out.push(')');
        }
        _ => match head.info {
            20 => out.push_str("false"),
            21 => out.push_str("true"),
            22 => out.push_str("null"),
            23 => out.push_str("undefined"),
            _ => out.push_str(&format!("simple({})", head.argument)),
        },
    }
    Ok(())
}

fn float(number: f64, out: &mut String) {
    let mut text = Vec::new();
    json::write_float(number, &mut text);
    let text = String::from_utf8_lossy(&text);
    match text.split_once('e') {
        _ if text.contains('.') => out.push_str(&text),
        Some((mantissa, exponent)) => out.push_str(&format!("{mantissa}.0e{exponent}")),
        None => out.push_str(&format!("{text}.0")),
    }
}

fn quoted(text: &str, quote: char) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push(quote);
    for c in text.chars() {
        match c {
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            c if c == '\\' || c == quote => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            c => c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
        }
    }
    out.push(quote);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_diagnostic_notation() {
        for (bytes, want) in [
            (&b"\xd9\xd9\xf7\xa2\x41a\x82\x01\x20\x61b\xf6"[..], "55799({'a': [1, -1], \"b\": null})"),
            (b"\x83\xf9\x3e\x00\xf9\x45\x00\xfb\x7e\x37\xe4\x3c\x88\x00\x75\x9c", "[1.5, 5.0, 1.0e+300]"),
            (b"\x83\x41\xff\x40\x60", "[h'ff', h'', \"\"]"),
            (b"\x9f\x5f\xff\x7f\xff\x5f\x41a\x41'\xff\xbf\x01\x02\xff\xff", "[_ ''_, \"\"_, (_ 'a', '\\''), {_ 1: 2}]"),
            (b"\x68x\"\n\xc3\xa9\xe2\x82", "6878220ac3a9e282"),
            (b"\x65x\"\n\xc3\xa9", "\"x\\\"\\n\\u00e9\""),
            (b"\x64\xf0\x9f\x98\x80", "\"\\ud83d\\ude00\""),
            (b"\x84\xf4\xf5\xf7\xf8\x40", "[false, true, undefined, simple(64)]"),
        ] {
            assert_eq!(diagnose(bytes), want);
        }
    }
}
