//! The trait that every authorizer implements.

use binnacle_request::{BoxFuture, Decision, User};

use crate::{Attributes, Rules};

/// Decides about requests, or leaves that to the next in the list.
pub trait Authorizer: Send + Sync {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>>;

    /// What somebody may do in a namespace (and everywhere).
    fn rules_for<'a>(&'a self, user: &'a User, namespace: &'a str) -> BoxFuture<'a, Rules> {
        let _ = (user, namespace);
        Box::pin(async { Rules::unknown("an authorizer does not support user rule resolution") })
    }
}

/// An authorizer could not tell. The request is not allowed unless another authorizer allows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthzError(pub String);
