//! CBOR (RFC 8949) as kube-apiserver reads and writes it: an alternative encoding of JSON values. Texts are byte
//! strings, because Go does not check that its strings are UTF-8; tags 21 to 23 name the text encoding of bytes.
//!
//! The well-formedness and depth of a document are checked before it is decoded. No other crate has the error messages
//! of Go's library, and an intermediate tree would double the memory of each document.

mod diagnose;
mod item;
mod untyped;
mod write;

pub use diagnose::diagnose;
pub(crate) use item::{Entries, Head, Major, Reader, unknown_simple};
pub(crate) use untyped::{LaterEncoding, base64_text, duplicate, item_head, read_item, read_text};
pub use untyped::{parse, parse_object};
pub use write::{ARRAY_END, has_whole_floats, open_last_array, write, write_event, write_item, write_sorted};

use crate::TooManyElements;

/// Tag 55799, which marks a document as CBOR (RFC 8949, 3.4.6).
pub const SELF_DESCRIBED: [u8; 3] = [0xd9, 0xd9, 0xf7];

/// The error for bytes that cannot be decoded. Its text is Go's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CborError {
    /// The bytes are not CBOR, or hold a value that JSON does not have.
    #[error("{0}")]
    Document(String),
    /// An item of an unexpected type.
    #[error("{0}")]
    Mismatch(Mismatch),
    #[error("limit is {limit}")]
    TooLarge { limit: usize },
    #[error(transparent)]
    TooManyElements(#[from] TooManyElements),
}

/// An item that does not fit Go's type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    found: &'static str,
    target: String,
    /// The outermost struct around the item, and its field.
    field: Option<String>,
    why: String,
}

impl CborError {
    pub(crate) fn document(why: impl Into<String>) -> Self {
        Self::Document(why.into())
    }

    /// Returns the error for an item of the wrong type. `why` is empty if the types explain it.
    pub(crate) fn mismatch(found: Major, target: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Mismatch(Mismatch { found: found.name(), target: target.into(), field: None, why: why.into() })
    }

    /// Sets the struct field that contains the item, replacing an inner one.
    pub(crate) fn in_field(mut self, name: impl FnOnce() -> String) -> Self {
        if let Self::Mismatch(mismatch) = &mut self {
            mismatch.field = Some(name());
        }
        self
    }
}

impl std::fmt::Display for Mismatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { found, target, field, why } = self;
        match field {
            Some(field) => write!(f, "cbor: cannot unmarshal {found} into Go struct field {field} of type {target}")?,
            None => write!(f, "cbor: cannot unmarshal {found} into Go value of type {target}")?,
        }
        if why.is_empty() { Ok(()) } else { write!(f, " ({why})") }
    }
}
