//! Raw JSON in protobuf: raw extensions, values in schemas, and FieldsV1.

use super::error::ProtoError;
use crate::json::{self, JsonError};
use crate::limits::Budget;
use crate::{Limits, Value};

/// The surrounding message was limited when it was received.
const LIMITS: Limits = Limits { max_bytes: usize::MAX, max_depth: 256, max_yaml_nodes: 0, max_memory: usize::MAX };

impl From<JsonError> for ProtoError {
    fn from(error: JsonError) -> Self {
        match error {
            JsonError::TooManyElements(error) => error.into(),
            other => Self::malformed(other.to_string()),
        }
    }
}

/// Parses raw JSON to a tree.
pub(super) fn read(raw: &[u8], budget: &mut Budget) -> Result<Value, ProtoError> {
    Ok(json::parse_within(raw, &LIMITS, budget)?)
}

/// Parses raw JSON whose exact text must be preserved.
pub(super) fn read_exactly(raw: &[u8], budget: &mut Budget) -> Result<Value, ProtoError> {
    let tree = read(raw, budget)?;
    Ok(match std::str::from_utf8(raw) {
        Ok(text) => json::carried(text, tree),
        Err(_) => tree,
    })
}

/// Returns raw JSON as compact text.
pub(super) fn carry(raw: &[u8]) -> Result<Value, ProtoError> {
    if is_plain_trie(raw)
        && let Ok(text) = std::str::from_utf8(raw)
    {
        return Ok(Value::Raw(text.into()));
    }
    Ok(match json::compact(raw, &LIMITS)? {
        null if null == "null" => Value::Null,
        text => Value::Raw(text.into()),
    })
}

/// Appends the text that [`carry`] would return; returns false for `null`.
pub(super) fn put_carried(raw: &[u8], out: &mut Vec<u8>) -> Result<bool, ProtoError> {
    if is_plain_trie(raw) {
        out.extend_from_slice(raw);
        return Ok(true);
    }
    let text = json::compact(raw, &LIMITS)?;
    out.extend_from_slice(text.as_bytes());
    Ok(text != "null")
}

/// Returns true for objects of objects only, without space or escapes: managed fields as servers write them, which then
/// need no JSON parser.
fn is_plain_trie(raw: &[u8]) -> bool {
    if !is_tame(raw) {
        return false;
    }
    let mut depth = 0usize;
    let mut rest = raw;
    loop {
        let [b'{', after @ ..] = rest else { return false };
        rest = after;
        depth += 1;
        if depth > LIMITS.max_depth {
            return false;
        }
        if let [b'}', ..] = rest {
            // Closes this object, and all parents that end here.
            loop {
                match rest {
                    [b'}', after @ ..] if depth > 0 => {
                        rest = after;
                        depth -= 1;
                    }
                    [b',', b'"', ..] if depth > 0 => {
                        rest = &rest[1..];
                        break;
                    }
                    _ => return depth == 0 && rest.is_empty(),
                }
            }
        }
        let [b'"', after @ ..] = rest else { return false };
        let Some(after) = behind_string(after) else { return false };
        let [b':', after @ ..] = after else { return false };
        rest = after;
    }
}

/// Returns the bytes after the string that begins in `rest`; `None` for escapes other than `\"` and `\\`.
#[inline]
fn behind_string(mut rest: &[u8]) -> Option<&[u8]> {
    loop {
        let at = quote_or_escape(rest)?;
        match &rest[at..] {
            [b'"', after @ ..] => return Some(after),
            [b'\\', b'"' | b'\\', after @ ..] => rest = after,
            _ => return None,
        }
    }
}

/// Returns the next quote or backslash. Names are short: starting a search for long texts would take longer than this.
#[inline]
fn quote_or_escape(bytes: &[u8]) -> Option<usize> {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let is = |byte: u8, word: u64| {
        let word = word ^ (u64::from(byte) * ONES);
        word.wrapping_sub(ONES) & !word & HIGH
    };
    let mut rest = bytes;
    while let Some((word, after)) = rest.split_first_chunk::<8>() {
        let word = u64::from_le_bytes(*word);
        let found = is(b'"', word) | is(b'\\', word);
        if found != 0 {
            // The lowest mark is correct; borrows may affect those above it.
            return Some(bytes.len() - rest.len() + found.trailing_zeros() as usize / 8);
        }
        rest = after;
    }
    let at = rest.iter().position(|b| matches!(b, b'"' | b'\\'))?;
    Some(bytes.len() - rest.len() + at)
}

/// Returns true if no byte is a space, a control character, beyond ASCII, or escaped in HTML. Whole blocks are tested,
/// so that this compiles to vector code.
fn is_tame(raw: &[u8]) -> bool {
    let wild = |b: &u8| (*b <= 0x20) | (*b >= 0x80) | (*b == b'<') | (*b == b'>') | (*b == b'&');
    let (blocks, rest) = raw.as_chunks::<16>();
    !blocks.iter().any(|block| block.iter().fold(false, |any, b| any | wild(b))) && !rest.iter().any(wild)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_raw_json_that_is_already_compact() {
        for (raw, plain) in [
            ("{}", true),
            (r#"{"f:a":{}}"#, true),
            (r#"{"f:a":{".":{},"k:{\"name\":\"x\"}":{}},"f:b":{"f:c":{"f:d":{}}}}"#, true),
            (r#"{"f:a": {}}"#, false),
            (r#"{"f:a<":{}}"#, false),
            (r#"{"f:ü":{}}"#, false),
            (r#"{"f:a":[]}"#, false),
            (r#"{"f:a\n":{}}"#, false),
            ("null", false),
        ] {
            assert_eq!(is_plain_trie(raw.as_bytes()), plain, "{raw}");
            let compact = json::compact(raw.as_bytes(), &LIMITS).expect("every case is JSON");
            let mut out = Vec::new();
            assert_eq!(put_carried(raw.as_bytes(), &mut out), Ok(raw != "null"));
            assert_eq!(String::from_utf8(out).as_deref(), Ok(compact.as_str()));
        }
        let deep = "{\"a\":".repeat(300) + "{}" + &"}".repeat(300);
        for raw in [
            "",
            "{",
            "}",
            "{}}",
            "{},",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":{}",
            "{\"a\":{},}",
            "{\"a\":{},\"b\"}",
            "{\"a\":{}{}}",
            "{,}",
            "{\"a\":{}}{}",
            "{\"a",
            "{\"a\\",
            &deep,
        ] {
            assert!(!is_plain_trie(raw.as_bytes()), "{raw}");
            assert!(carry(raw.as_bytes()).is_err(), "{raw}");
        }
    }
}
