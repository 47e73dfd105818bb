//! The canonical form of base64 texts.

use std::borrow::Cow;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_meta::Base64;

/// Returns the canonical form of a base64 text, or the offset at which Go reports an error.
pub(super) fn canonical(text: &str) -> Result<Cow<'_, str>, usize> {
    let bytes = text.as_bytes();
    let mut digits = 0usize;
    let mut last = 0;
    for (at, b) in bytes.iter().enumerate() {
        match b {
            b'\r' | b'\n' => return Base64::Standard.decode(text).map(|data| Cow::Owned(BASE64_STANDARD.encode(data))),
            b'=' => break,
            _ => {
                last = Base64::Standard.sextet(*b).ok_or(at)?;
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
    Base64::Standard.decode(text).map(|data| Cow::Owned(BASE64_STANDARD.encode(data)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalizes_base64_like_go() {
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
