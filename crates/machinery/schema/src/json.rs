//! JSON, read and written like Go's `encoding/json` and `sigs.k8s.io/json`.
//!
//! Readers make one pass over the text, without details about errors; only for a malformed document `syntax` scans it
//! again, byte by byte like Go's scanner, to find Go's error.

mod cursor;
mod splice;
mod syntax;
mod untyped;
mod writer;

pub(crate) use cursor::{Cursor, InvalidJson, go_utf8};
pub use splice::with_text_member;
pub use untyped::{
    AnyNumberDocument, TypeMeta, check_type_meta, check_unstructured, interpret, is_type_meta_in_other_case, json_type,
    no_type_meta, parse, parse_as_sent, parse_contents_as_texts, parse_for_test, parse_member_texts, parse_object,
    parse_strict, parse_with_any_number, parse_with_sent_numbers, raw_number, tree_type_meta, type_meta, unpack,
};
pub(crate) use untyped::{Report, free_form, kind_of, number, parse_within, round_digits};
pub(crate) use writer::{carried, compacted, float_literal, integer_of, write_float};
pub use writer::{
    compact, has_byte, indent, indent_at, normalize_numbers, show_floats, to_string, write, write_pretty, write_string,
};

use crate::{Limits, TooManyElements};

/// An error of a text that is not a valid JSON document; its text is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    #[error("{message}")]
    Syntax { message: String, offset: usize },
    /// The JSON is well formed, but has another type than requested.
    #[error("{0}")]
    Type(String),
    /// A number that an `f64` cannot hold, as it was sent.
    #[error("json: cannot unmarshal number {0} into Go value of type float64")]
    Number(String),
    #[error("limit is {limit}")]
    TooLarge { limit: usize },
    #[error(transparent)]
    TooManyElements(#[from] TooManyElements),
}

/// Fails if a document is larger than the limit.
pub(crate) fn check_size(bytes: &[u8], limits: &Limits) -> Result<(), JsonError> {
    if bytes.len() > limits.max_bytes {
        return Err(JsonError::TooLarge { limit: limits.max_bytes });
    }
    Ok(())
}

/// Returns the error for a document that this cursor could not read.
pub(crate) fn read_error(cursor: &Cursor<'_>, bytes: &[u8], limits: &Limits) -> JsonError {
    match cursor.budget.check() {
        Err(error) => error.into(),
        Ok(()) => syntax_error(bytes, limits),
    }
}

/// Returns Go's error for a document that a [`Cursor`] could not read.
pub(crate) fn syntax_error(bytes: &[u8], limits: &Limits) -> JsonError {
    match syntax::check(bytes, limits.max_depth) {
        Err(error) => error,
        // Both readers accept the same texts, which a test checks; if they differed, the document would be refused as
        // well.
        Ok(()) => JsonError::Syntax { message: "invalid JSON input".to_owned(), offset: 0 },
    }
}
