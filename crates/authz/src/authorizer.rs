//! The trait that every authorizer implements.

use binnacle_request::{BoxFuture, Decision};

use crate::Attributes;

/// Decides about requests, or leaves that to the next in the list.
pub trait Authorizer: Send + Sync {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>>;
}

/// An authorizer could not tell. The request is not allowed unless another authorizer allows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthzError(pub String);
