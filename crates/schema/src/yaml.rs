//! YAML as `sigs.k8s.io/yaml` sees it: a way to write JSON, by the rules of YAML 1.1 and of Go's `yaml.v2`.
//!
//! The events come from `granit-parser`, the parser inside of `serde-saphyr`; the meaning of scalars, repeated keys,
//! merges and aliases is decided here, because it is kube-apiserver's and not YAML's.

mod compose;
mod decode;
mod key_order;
mod number;
mod plain_json;
mod resolve;
mod write;

pub use write::{to_string, write, write_item};

use crate::findings::Finding;
use crate::{Limits, TooManyElements, Value};

/// An error of a text that is no readable YAML document; displays itself in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum YamlError {
    /// The parser's error, `yaml: line 3: did not find expected key`, or a value that JSON cannot have.
    #[error("{0}")]
    Document(String),
    #[error("limit is {limit}")]
    TooLarge { limit: usize },
    #[error(transparent)]
    TooManyElements(#[from] TooManyElements),
}

/// Reads the first document of a text as JSON would have it: members by ascending name, numbers where JSON can hold
/// them. Keys given twice are one finding, as Go's strict decoder makes one error of them; the last one counts.
///
/// The tree nests no deeper than the limit, and holds no more nodes, aliases expanded.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<(Value, Option<Finding>), YamlError> {
    if bytes.len() > limits.max_bytes {
        return Err(YamlError::TooLarge { limit: limits.max_bytes });
    }
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let what = match error.error_len() {
            None => "incomplete UTF-8 octet sequence",
            Some(_) if matches!(bytes.get(error.valid_up_to()), Some(0xc2..=0xf4)) => "invalid trailing UTF-8 octet",
            Some(_) => "invalid leading UTF-8 octet",
        };
        YamlError::document(what)
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.chars().all(is_allowed) {
        return Err(YamlError::document("control characters are not allowed"));
    }
    if let Some(value) = plain_json::read(text, limits) {
        return Ok((value, None));
    }
    let document = compose::compose(text, limits)?;
    decode::decode(&document, limits)
}

/// Returns true for characters that Go's reader accepts.
fn is_allowed(c: char) -> bool {
    matches!(c, '\t' | '\n' | '\r' | ' '..='~' | '\u{85}' | '\u{a0}'..='\u{d7ff}' | '\u{e000}'..='\u{fffd}' | '\u{10000}'..)
        && c != '\u{feff}'
}

impl YamlError {
    fn document(what: impl std::fmt::Display) -> Self {
        Self::Document(format!("yaml: {what}"))
    }
}
