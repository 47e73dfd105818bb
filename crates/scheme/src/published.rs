//! How the kinds of resources stand in documents of OpenAPI where the field tables do not know them.

use std::fmt;

use binnacle_schema::Value;

/// The definitions that documents show of a resource.
pub trait Published: fmt::Debug + Send + Sync + 'static {
    /// The definition of its objects.
    fn object(&self, version: OpenApiVersion) -> Value;

    /// The definition of lists of them.
    fn list(&self, version: OpenApiVersion) -> Value;
}

/// A version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApiVersion {
    V2,
    V3,
}
