//! A kind is data ([`types`]); an object is a [`Value`] tree; everything that can be said of all kinds at once is
//! derived from the two here: decoding, encoding, defaults, equality.
//!
//! Knows nothing of particular kinds, of storage or of HTTP.

pub mod proto;
mod types;
mod value;

pub use types::{EnumValues, Field, ListType, Message, MessageRef, PatchStrategy, Presence, Ty, Union};
pub use value::{Object, Value};
