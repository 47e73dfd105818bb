//! Writes strings, numbers and times like Go's JSON encoder, directly from the bytes of a message.

use std::fmt::{self, Write};
use std::ops::Range;

use super::scalars;
use crate::json;

/// Appends a string with its quotes. Each byte that is not valid UTF-8 becomes a replacement character.
pub(super) fn put_text(bytes: &[u8], out: &mut Vec<u8>) {
    put_text_of(bytes, 0..bytes.len(), out);
}

/// Like [`put_text`], for a part of a larger buffer: most strings are short, and reading the bytes after them makes it
/// possible to process eight at a time.
#[inline]
pub(super) fn put_text_of(raw: &[u8], range: Range<usize>, out: &mut Vec<u8>) {
    let len = range.len();
    let start = out.len();
    out.reserve(len + 10);
    out.push(b'"');
    let mut left = len;
    let mut special = 0;
    let mut rest = &raw[range.start..];
    while left > 0 {
        let Some((word, after)) = rest.split_first_chunk::<8>() else {
            out.truncate(start);
            return put_text_slowly(&raw[range], out);
        };
        let here = specials(u64::from_le_bytes(*word));
        if left < 8 {
            // Only the bytes of the string count.
            special |= here & ((1 << (8 * left)) - 1);
            out.extend_from_slice(word);
            break;
        }
        special |= here;
        out.extend_from_slice(word);
        rest = after;
        left -= 8;
    }
    out.truncate(start + 1 + len);
    if special != 0 {
        out.truncate(start);
        return json::write_string(&scalars::text(&raw[range]), out);
    }
    out.push(b'"');
}

/// Appends a string at the very end of a buffer.
fn put_text_slowly(bytes: &[u8], out: &mut Vec<u8>) {
    let mut padded = [0; 8];
    let (words, tail) = bytes.as_chunks::<8>();
    padded[..tail.len()].copy_from_slice(tail);
    // Padding looks special, so only the real bytes of the last word count.
    let last = specials(u64::from_le_bytes(padded)) & ((1 << (8 * tail.len())) - 1);
    if last != 0 || words.iter().any(|word| specials(u64::from_le_bytes(*word)) != 0) {
        return json::write_string(&scalars::text(bytes), out);
    }
    out.push(b'"');
    out.extend_from_slice(bytes);
    out.push(b'"');
}

/// Marks the bytes of a word that JSON may need to escape: control characters, quotes, backslashes, the characters of
/// HTML and all beyond ASCII. A byte after a marked one may be marked by mistake.
#[inline]
fn specials(word: u64) -> u64 {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let zero = |x: u64| x.wrapping_sub(ONES) & !x;
    let is = |byte: u8, word: u64| zero(word ^ (u64::from(byte) * ONES));
    // Quote and ampersand differ in one bit, as do the angle brackets.
    let control = word.wrapping_sub(0x20 * ONES) & !word;
    (word | control | is(b'\\', word) | is(b'&', word | (4 * ONES)) | is(b'>', word | (2 * ONES))) & HIGH
}

pub(super) fn put_decimal(n: i64, out: &mut Vec<u8>) {
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

/// Appends the display form of a value, in quotes; it must not contain characters that JSON escapes.
pub(super) fn put_quoted(value: &impl fmt::Display, out: &mut Vec<u8>) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl fmt::Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    out.push(b'"');
    // Writing to a vector cannot fail.
    let _ = write!(Bytes(out), "{value}");
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_strings() {
        for (bytes, want) in [
            (&b""[..], r#""""#),
            (
                b"plain-text.with/all:sorts of things 0123456789 ~",
                r#""plain-text.with/all:sorts of things 0123456789 ~""#,
            ),
            (b"0123456789abcde\"", r#""0123456789abcde\"""#),
            (b"0123456789abcdef\\", r#""0123456789abcdef\\""#),
            (b"<a href=\"x\">&</a>", r#""\u003ca href=\"x\"\u003e\u0026\u003c/a\u003e""#),
            (b"a\n\r\t\x08\x0c\x01\x7f", "\"a\\n\\r\\t\\b\\f\\u0001\x7f\""),
            ("grün \u{2028}\u{2029} ✓".as_bytes(), "\"grün \\u2028\\u2029 ✓\""),
            (b"a\xffb\xe2\x82", "\"a\u{fffd}b\u{fffd}\u{fffd}\""),
        ] {
            let mut out = Vec::new();
            put_text(bytes, &mut out);
            assert_eq!(String::from_utf8(out).as_deref(), Ok(want));
            // In a larger buffer, whose other bytes do not count.
            let mut out = Vec::new();
            let raw = [b"\"<", bytes, b"\"\xff<>&\\\n\0\x01"].concat();
            put_text_of(&raw, 2..2 + bytes.len(), &mut out);
            assert_eq!(String::from_utf8(out).as_deref(), Ok(want));
        }
    }

    #[test]
    fn escapes_every_byte_at_every_position() {
        for b in 0..=255u8 {
            for (len, at) in (1..20).flat_map(|len| (0..len).map(move |at| (len, at))) {
                let mut bytes = vec![b'x'; len];
                bytes[at] = b;
                let mut want = Vec::new();
                json::write_string(&scalars::text(&bytes), &mut want);
                for padding in [0, 20] {
                    let mut out = Vec::new();
                    let raw = [&bytes[..], &vec![0; padding]].concat();
                    put_text_of(&raw, 0..len, &mut out);
                    assert_eq!(out, want, "{b:02x} at {at} of {len}");
                }
            }
        }
    }

    #[test]
    fn writes_decimals() {
        for n in [0, 7, -1, 10, 1234567890, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_decimal(n, &mut out);
            assert_eq!(String::from_utf8(out).ok(), Some(n.to_string()));
        }
    }
}
