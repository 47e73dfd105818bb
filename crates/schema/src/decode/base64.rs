//! Base64 as in Go's `base64.StdEncoding`: line breaks are skipped and spare bits ignored.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;

/// Returns the canonical form of a base64 text, or the offset at which Go reports an error.
pub(super) fn canonical(text: &str) -> Result<Cow<'_, str>, usize> {
    let bytes = text.as_bytes();
    let mut digits = 0usize;
    let mut last = 0;
    for (at, b) in bytes.iter().enumerate() {
        match b {
            b'\r' | b'\n' => return decode(bytes).map(|data| Cow::Owned(BASE64_STANDARD.encode(data))),
            b'=' => break,
            _ => {
                last = sextet(*b).ok_or(at)?;
                digits += 1;
            }
        }
    }
    let spare = match digits % 4 {
        2 => last & 0b1111,
        3 => last & 0b11,
        _ => 0,
    };
    // Most texts are canonical already.
    let padding = &bytes[digits..];
    let plain = matches!((digits % 4, padding), (0, b"") | (2, b"==") | (3, b"="));
    if plain && spare == 0 {
        return Ok(Cow::Borrowed(text));
    }
    decode(bytes).map(|data| Cow::Owned(BASE64_STANDARD.encode(data)))
}

/// Decodes like Go; the error is the offset that Go reports.
fn decode(bytes: &[u8]) -> Result<Vec<u8>, usize> {
    let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
    let is_break = |b: u8| matches!(b, b'\r' | b'\n');
    let mut at = 0;
    loop {
        let mut quad = [0u8; 4];
        let mut filled = 0;
        while filled < 4 {
            let Some(b) = bytes.get(at).copied() else {
                return if filled == 0 { Ok(out) } else { Err(at - filled) };
            };
            at += 1;
            if is_break(b) {
                continue;
            }
            if let Some(bits) = sextet(b) {
                quad[filled] = bits;
                filled += 1;
                continue;
            }
            if b != b'=' || filled < 2 {
                return Err(at - 1);
            }
            if filled == 2 {
                while bytes.get(at).is_some_and(|b| is_break(*b)) {
                    at += 1;
                }
                match bytes.get(at) {
                    None => return Err(bytes.len()),
                    Some(b'=') => at += 1,
                    Some(_) => return Err(at - 1),
                }
            }
            while bytes.get(at).is_some_and(|b| is_break(*b)) {
                at += 1;
            }
            push(&mut out, quad, filled);
            return if at < bytes.len() { Err(at) } else { Ok(out) };
        }
        push(&mut out, quad, 4);
    }
}

fn push(out: &mut Vec<u8>, quad: [u8; 4], filled: usize) {
    let word = quad.iter().fold(0u32, |word, bits| word << 6 | u32::from(*bits));
    out.extend_from_slice(&word.to_be_bytes()[1..filled]);
}

fn sextet(b: u8) -> Option<u8> {
    Some(match b {
        b'A'..=b'Z' => b - b'A',
        b'a'..=b'z' => b - b'a' + 26,
        b'0'..=b'9' => b - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts() {
        for (text, want) in [
            ("", Ok("")),
            ("aGVsbG8=", Ok("aGVsbG8=")),
            ("aGVs", Ok("aGVs")),
            ("aA==", Ok("aA==")),
            ("aB==", Ok("aA==")),
            ("aGV\nsbG8=\n", Ok("aGVsbG8=")),
            ("aA=\n=", Ok("aA==")),
            ("!", Err(0)),
            ("aGV!", Err(3)),
            ("a", Err(0)),
            ("aGVsb", Err(4)),
            ("aA=", Err(3)),
            ("aA=x", Err(2)),
            ("aA==x", Err(4)),
            ("=", Err(0)),
            ("a===", Err(1)),
            ("aGVs\nbG8", Err(5)),
        ] {
            assert_eq!(canonical(text), want.map(Cow::Borrowed), "{text:?}");
        }
    }
}
