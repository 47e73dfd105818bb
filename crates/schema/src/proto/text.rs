//! Strings, numbers and times as Go's JSON encoder writes them, straight from the bytes of a message.

use std::fmt::{self, Write};

use binnacle_meta::Time;

use super::scalars;

/// Which bytes of a string do not stand for themselves; those of characters beyond ASCII need a closer look.
const SPECIAL: [bool; 256] = {
    let mut special = [false; 256];
    let mut b = 0;
    while b < 256 {
        special[b] = b < 0x20 || b >= 0x80 || matches!(b as u8, b'"' | b'\\' | b'<' | b'>' | b'&');
        b += 1;
    }
    special
};

/// Appends a string with its quotes. Each byte that is no UTF-8 becomes a replacement character.
pub(super) fn put_text(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    if is_plain(bytes) {
        out.extend_from_slice(bytes);
    } else {
        put_escaped(&scalars::text(bytes), out);
    }
    out.push(b'"');
}

/// Whether every byte stands for itself. Blocks are looked at as a whole, so that this compiles to vector code.
fn is_plain(bytes: &[u8]) -> bool {
    let (blocks, rest) = bytes.as_chunks::<16>();
    let special = |block: &[u8; 16]| {
        block.iter().fold(false, |any, &b| {
            any | (b < 0x20) | (b >= 0x80) | (b == b'"') | (b == b'\\') | (b == b'<') | (b == b'>') | (b == b'&')
        })
    };
    !blocks.iter().any(special) && !rest.iter().any(|b| SPECIAL[usize::from(*b)])
}

fn put_escaped(text: &str, out: &mut Vec<u8>) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    let mut start = 0;
    let mut i = 0;
    while i < bytes.len() {
        let b = bytes[i];
        if !SPECIAL[usize::from(b)] {
            i += 1;
            continue;
        }
        if b >= 0x80 {
            // U+2028 and U+2029 end a line in JavaScript.
            match &bytes[i..] {
                [0xe2, 0x80, last @ (0xa8 | 0xa9), ..] => {
                    out.extend_from_slice(&bytes[start..i]);
                    out.extend_from_slice(if *last == 0xa8 { b"\\u2028" } else { b"\\u2029" });
                    i += 3;
                    start = i;
                }
                _ => i += 1,
            }
            continue;
        }
        out.extend_from_slice(&bytes[start..i]);
        match b {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', b]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            _ => out.extend_from_slice(&[b'\\', b'u', b'0', b'0', HEX[usize::from(b >> 4)], HEX[usize::from(b & 15)]]),
        }
        i += 1;
        start = i;
    }
    out.extend_from_slice(&bytes[start..]);
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

pub(super) fn put_time(time: Time, out: &mut Vec<u8>) {
    put_quoted(&time, out);
}

/// Appends what displays itself without any character that JSON would escape.
pub(super) fn put_quoted(value: &impl fmt::Display, out: &mut Vec<u8>) {
    struct Bytes<'a>(&'a mut Vec<u8>);
    impl fmt::Write for Bytes<'_> {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.extend_from_slice(text.as_bytes());
            Ok(())
        }
    }
    out.push(b'"');
    // A vector takes everything.
    let _ = write!(Bytes(out), "{value}");
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings() {
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
        }
    }

    #[test]
    fn decimals() {
        for n in [0, 7, -1, 10, 1234567890, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            put_decimal(n, &mut out);
            assert_eq!(String::from_utf8(out).ok(), Some(n.to_string()));
        }
    }
}
