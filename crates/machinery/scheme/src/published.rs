//! OpenAPI definitions of kinds that the field tables do not have.

use std::fmt;

use binnacle_schema::Value;

/// The OpenAPI definitions of a resource.
pub trait OpenApiDefinitions: fmt::Debug + Send + Sync + 'static {
    /// Returns the definition of its objects.
    fn object(&self, version: OpenApiVersion) -> Value;

    /// Returns the definition of its lists.
    fn list(&self, version: OpenApiVersion) -> Value;
}

/// A version of OpenAPI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpenApiVersion {
    V2,
    V3,
}
