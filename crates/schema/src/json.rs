//! JSON as Go's `encoding/json` and `sigs.k8s.io/json` read and write it.
//!
//! Readers make one pass over the text and do not care how a malformed document should be called; only when one is met,
//! `syntax` goes over it once more, byte by byte as Go's scanner does, to find Go's words for it.

mod cursor;
mod free;
mod splice;
mod syntax;
mod writer;

pub(crate) use cursor::{Cursor, Malformed, go_utf8};
pub(crate) use free::{Report, free_form, kind_of, number, parse_within};
pub use free::{TypeMeta, check_type_meta, json_type, no_type_meta, parse, parse_object, parse_strict, type_meta};
pub use splice::with_text_member;
pub(crate) use writer::{carried, compacted, write_float};
pub use writer::{compact, has_byte, indent, indent_at, to_string, unpack, write, write_pretty, write_string};

use crate::{Limits, TooManyElements};

/// An error of a text that is no readable JSON document; displays itself in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("{message}")]
    Syntax { message: String, offset: usize },
    /// The JSON is well formed and holds another type than was asked for.
    #[error("{0}")]
    Type(String),
    #[error("limit is {limit}")]
    TooLarge { limit: usize },
    #[error(transparent)]
    TooManyElements(#[from] TooManyElements),
}

/// Fails for documents beyond the size limit.
pub(crate) fn check_size(bytes: &[u8], limits: &Limits) -> Result<(), JsonError> {
    if bytes.len() > limits.max_bytes {
        return Err(JsonError::TooLarge { limit: limits.max_bytes });
    }
    Ok(())
}

/// Returns the error for a document that this cursor could not read.
pub(crate) fn refusal(cursor: &Cursor<'_>, bytes: &[u8], limits: &Limits) -> JsonError {
    match cursor.budget.check() {
        Err(error) => error.into(),
        Ok(()) => complaint(bytes, limits),
    }
}

/// Go's complaint about a document that a [`Cursor`] could not read.
pub(crate) fn complaint(bytes: &[u8], limits: &Limits) -> JsonError {
    match syntax::check(bytes, limits.max_depth) {
        Err(error) => error,
        // Both readers accept the same language, which a test holds them to; were they to differ, the document is
        // refused all the same.
        Ok(()) => JsonError::Syntax { message: "invalid JSON input".to_owned(), offset: 0 },
    }
}
