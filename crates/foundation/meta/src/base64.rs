//! Base64 decoding like Go's `encoding/base64`: line breaks are skipped, trailing bits ignored, and errors have an
//! offset.

/// An alphabet and its padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base64 {
    /// `StdEncoding`
    Standard,
    /// `URLEncoding`
    Url,
    /// `RawURLEncoding`
    UrlUnpadded,
}

impl Base64 {
    /// Decodes a text. The error is the offset that Go reports (`illegal base64 data at input byte 3`).
    pub fn decode(self, text: &str) -> Result<Vec<u8>, usize> {
        let bytes = text.as_bytes();
        let mut out = Vec::with_capacity(bytes.len() / 4 * 3);
        let skip = |mut at: usize| {
            while bytes.get(at).is_some_and(|b| matches!(b, b'\r' | b'\n')) {
                at += 1;
            }
            at
        };
        let is_padded = self != Self::UrlUnpadded;
        let mut at = 0;
        loop {
            let mut quad = [0u8; 4];
            let mut filled = 0;
            while filled < 4 {
                let Some(b) = bytes.get(at).copied() else {
                    return match filled {
                        0 => Ok(out),
                        2 | 3 if !is_padded => {
                            push(&mut out, quad, filled);
                            Ok(out)
                        }
                        _ => Err(at - filled),
                    };
                };
                at += 1;
                if matches!(b, b'\r' | b'\n') {
                    continue;
                }
                if let Some(bits) = self.sextet(b) {
                    quad[filled] = bits;
                    filled += 1;
                    continue;
                }
                if b != b'=' || !is_padded || filled < 2 {
                    return Err(at - 1);
                }
                if filled == 2 {
                    at = skip(at);
                    match bytes.get(at) {
                        None => return Err(bytes.len()),
                        Some(b'=') => at += 1,
                        Some(_) => return Err(at - 1),
                    }
                }
                at = skip(at);
                push(&mut out, quad, filled);
                return if at < bytes.len() { Err(at) } else { Ok(out) };
            }
            push(&mut out, quad, 4);
        }
    }

    /// Returns the six bits of a digit, or `None` if it is not in the alphabet.
    pub fn sextet(self, b: u8) -> Option<u8> {
        let [last, but_one] = if self == Self::Standard { *b"/+" } else { *b"_-" };
        Some(match b {
            b'A'..=b'Z' => b - b'A',
            b'a'..=b'z' => b - b'a' + 26,
            b'0'..=b'9' => b - b'0' + 52,
            _ if b == but_one => 62,
            _ if b == last => 63,
            _ => return None,
        })
    }
}

/// Appends the bytes of a quantum of up to four digits.
fn push(out: &mut Vec<u8>, quad: [u8; 4], filled: usize) {
    let word = quad.iter().fold(0u32, |word, bits| word << 6 | u32::from(*bits));
    out.extend_from_slice(&word.to_be_bytes()[1..filled]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_texts_like_go() {
        for (text, standard, unpadded) in [
            ("", Ok(""), Ok("")),
            ("aGVsbG8=", Ok("hello"), Err(7)),
            ("aGVsbG8", Err(4), Ok("hello")),
            ("aGV\nsbG8=\n", Ok("hello"), Err(8)),
            ("a", Err(0), Err(0)),
            ("aGVsb", Err(4), Err(4)),
            ("aA", Err(0), Ok("h")),
            ("aB==", Ok("h"), Err(2)),
            ("aA=\n=", Ok("h"), Err(2)),
            ("aA=", Err(3), Err(2)),
            ("aA=x", Err(2), Err(2)),
            ("aA==x", Err(4), Err(2)),
            ("=", Err(0), Err(0)),
            ("a===", Err(1), Err(1)),
            ("\u{e9}", Err(0), Err(0)),
            ("aGV!", Err(3), Err(3)),
            ("Pz8_", Err(3), Ok("???")),
            ("Pz8/", Ok("???"), Err(3)),
        ] {
            let want = |want: Result<&str, usize>| want.map(|text| text.as_bytes().to_vec());
            assert_eq!(Base64::Standard.decode(text), want(standard), "{text:?}");
            assert_eq!(Base64::UrlUnpadded.decode(text), want(unpadded), "{text:?}");
        }
        assert_eq!(Base64::Url.decode("Pz8_"), Ok(b"???".to_vec()));
        assert_eq!(Base64::Url.decode("aA"), Err(0));
    }
}
