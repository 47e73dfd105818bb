//! CBOR (RFC 8949) as kube-apiserver reads and writes it: another way to write what JSON says. Texts are byte strings,
//! as Go does not look whether its strings are UTF-8; tags 21 to 23 say how bytes would stand in a text.
//!
//! A document is first checked for its form and depth as a whole, then read. The words of errors are those of Go's
//! library, which no crate has; a tree of items beside ours would cost each document twice its memory.

mod diagnose;
mod free;
mod item;
mod write;

pub use diagnose::diagnose;
pub(crate) use free::{LaterEncoding, base64_text, duplicate, read_item, read_text};
pub use free::{parse, parse_object};
pub(crate) use item::{Entries, Head, Major, Reader, unknown_simple};
pub use write::{ARRAY_END, open_last_array, write, write_event, write_item, write_sorted};

use crate::TooManyElements;

/// Tag 55799 before a document says that it is CBOR (RFC 8949, 3.4.6).
pub const SELF_DESCRIBED: [u8; 3] = [0xd9, 0xd9, 0xf7];

/// Why bytes are no document that can be read; displays itself in Go's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CborError {
    /// The bytes are not CBOR, or hold what JSON cannot say.
    #[error("{0}")]
    Document(String),
    /// An item of another type than was asked for.
    #[error("{0}")]
    Mismatch(Mismatch),
    #[error("limit is {limit}")]
    TooLarge { limit: usize },
    #[error(transparent)]
    TooManyElements(#[from] TooManyElements),
}

/// An item that a type of Go cannot hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    found: &'static str,
    target: String,
    /// The outermost struct on the way, and its field.
    field: Option<String>,
    why: String,
}

impl CborError {
    pub(crate) fn document(why: impl Into<String>) -> Self {
        Self::Document(why.into())
    }

    /// `why` is empty where the types say everything.
    pub(crate) fn mismatch(found: Major, target: impl Into<String>, why: impl Into<String>) -> Self {
        Self::Mismatch(Mismatch { found: found.name(), target: target.into(), field: None, why: why.into() })
    }

    /// The same about a field that a struct has for the item: the outermost one is told.
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
