//! YAML like `sigs.k8s.io/yaml`: a notation for JSON, by the rules of YAML 1.1 and of Go's `yaml.v2`.
//!
//! The events come from `granit-parser`, the parser inside `serde-saphyr`; scalars, repeated keys, merges and aliases
//! are interpreted here, because kube-apiserver differs from YAML.

mod compose;
mod decode;
mod key_order;
mod number;
mod plain_json;
mod resolve;
mod write;

use std::borrow::Cow;

pub use write::{to_string, write, write_item};

use crate::findings::Finding;
use crate::{Limits, TooManyElements, Value};

/// An error of a text that is not a valid YAML document; its text is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The parser's error, `yaml: line 3: did not find expected key`, or the error of a value that JSON cannot
    /// represent.
    #[error("{0}")]
    Document(String),
    #[error("limit is {limit}")]
    TooLarge { limit: usize },
    #[error(transparent)]
    TooManyElements(#[from] TooManyElements),
}

/// The form of integers that need 64 bits without a sign.
#[derive(Clone, Copy)]
pub(crate) enum LargeIntegers {
    /// Floating point, as in a tree that is read from JSON.
    Rounded,
    /// Their JSON text, for errors that quote it.
    Digits,
}

/// Parses the first document of a text to the tree of the equivalent JSON: members by ascending name, numbers if JSON
/// has them. Repeated keys are one finding, as Go's strict decoder has one error; the last one counts.
///
/// The depth of the tree and its number of nodes, with aliases expanded, are limited.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<(Value, Option<Finding>), YamlError> {
    parse_with(bytes, limits, LargeIntegers::Rounded)
}

/// As [`parse`], with a form of large integers.
pub(crate) fn parse_with(
    bytes: &[u8],
    limits: &Limits,
    large: LargeIntegers,
) -> Result<(Value, Option<Finding>), YamlError> {
    if bytes.len() > limits.max_bytes {
        return Err(YamlError::TooLarge { limit: limits.max_bytes });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let reason = match error.error_len() {
            None => "incomplete UTF-8 octet sequence",
            Some(_) if matches!(bytes.get(error.valid_up_to()), Some(0xc2..=0xf4)) => "invalid trailing UTF-8 octet",
            Some(_) => "invalid leading UTF-8 octet",
        };
        YamlError::document(reason)
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.chars().all(is_allowed) {
        return Err(YamlError::document("control characters are not allowed"));
    }
    if let Some(value) = plain_json::read(text, limits) {
        return Ok((value, None));
    }
    let document = compose::compose(&with_newlines(text), limits)?;
    decode::decode(&document, limits, large)
}

/// Replaces the line breaks of YAML 1.1 that are none in YAML 1.2, the parser's version.
fn with_newlines(text: &str) -> Cow<'_, str> {
    const NEXT_LINE: &str = "\u{85}";
    if !text.contains(NEXT_LINE) {
        return Cow::Borrowed(text);
    }
    // A carriage return before it is a line break of its own.
    Cow::Owned(text.replace("\r\u{85}", "\r\n\n").replace(NEXT_LINE, "\n"))
}

/// Returns true for characters that Go's reader accepts.
fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && c != '\u{feff}'
}

impl YamlError {
    fn document(reason: impl std::fmt::Display) -> Self {
        Self::Document(format!("yaml: {reason}"))
    }
}
