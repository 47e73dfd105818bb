//! Who set which field: `metadata.managedFields`, and server-side apply (KEP-555), which rests on it.

use binnacle_schema::{Message, Value};

mod compare;
mod element;
mod fields;
mod managed;
mod schema_error;
mod set;
mod shape;
mod track;

pub use element::PathElement;
pub use schema_error::SchemaErrors;
pub use track::{track_update, track_update_converting};

/// One write, as the bookkeeping of field managers needs to know it.
#[derive(Clone, Copy, Debug)]
pub struct Update<'a> {
    /// The schema of the object in the version of the request.
    pub message: &'a Message,
    pub api_version: &'a str,
    pub manager: &'a str,
    /// Empty for the resource itself.
    pub subresource: &'a str,
    /// Unix seconds.
    pub now: i64,
    /// Dotted paths of what this endpoint puts back, so that nobody comes to own it here.
    pub reset: &'a [&'static str],
}

/// An object in the versions that managers have written.
pub trait Versions {
    /// The object in another version, and the schema there; `None` for versions that are no longer served.
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &'static Message)>;
}
