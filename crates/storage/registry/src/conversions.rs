//! The conversions that a request still needs.

use binnacle_meta::Text;
use binnacle_request::Deferred;
use binnacle_schema::Value;

/// The conversions of one request, by the text of an object and the target `apiVersion`.
pub(crate) type PendingConversions = Deferred<(String, Text), Value, Conversion>;

/// A conversion that has not been done yet.
#[derive(Debug)]
pub(crate) struct Conversion {
    pub(crate) object: Value,
    pub(crate) api_version: Text,
    /// The length of the object's text.
    pub(crate) bytes: usize,
}
