//! Definitions of OpenAPI for the kinds of resources that the field tables do not have.

use std::fmt;

use binnacle_schema::Value;

/// The definitions of a resource in documents.
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
