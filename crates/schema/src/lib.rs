//! A kind is data ([`types`]); an object is a [`Value`] tree; everything that can be said of all kinds at once is
//! derived from the two here: decoding, encoding, defaults, equality.
//!
//! Knows nothing of particular kinds, of storage or of HTTP.

pub mod canonical;
pub mod cbor;
pub mod decode;
pub mod defaults;
mod findings;
pub mod json;
mod limits;
mod lookup;
pub mod nil;
pub mod proto;
#[doc(hidden)]
pub mod table;
mod types;
mod value;
pub mod yaml;

pub use cbor::CborError;
pub use decode::{DecodeError, Decoded};
pub use findings::{Finding, Findings};
pub use json::JsonError;
pub use limits::{Limits, TooManyElements};
pub use types::{EnumValues, Field, ListType, Message, MessageRef, MessageSource, PatchStrategy, Presence, Ty, Union};
pub use value::{Object, Value};
