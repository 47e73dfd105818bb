//! Schemas of kinds as data (`types`), objects as [`Value`] trees, and everything derived from these for all kinds:
//! decoding, encoding, defaults, equality.
//!
//! This crate is independent of particular kinds, of storage and of HTTP.

pub mod canonical;
pub mod cbor;
pub mod decode;
pub mod defaults;
mod depth;
mod findings;
mod free_form;
pub mod json;
mod limits;
pub mod nil;
mod path;
pub mod proto;
#[doc(hidden)]
pub mod table;
mod tree_bytes;
mod types;
mod value;
pub mod yaml;
mod zero;

pub use cbor::CborError;
pub use decode::{DecodeError, DecodedObject};
pub use depth::depth;
pub use findings::{Finding, Findings};
pub use free_form::sort_free_form;
pub use json::JsonError;
pub use limits::{Limits, TooManyElements};
pub use types::{EnumValues, Field, ListType, Message, MessageRef, MessageSource, PatchStrategy, Presence, Ty, Union};
pub use value::{Object, Value};
