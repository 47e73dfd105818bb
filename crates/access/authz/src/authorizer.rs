//! The trait that every authorizer implements.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_request::{BoxFuture, Decision, User};

use crate::{Attributes, Rules};

/// Allows or denies requests, or has no opinion.
pub trait Authorizer: Send + Sync {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>>;

    /// Lists the rules for a user in a namespace, including those for all namespaces.
    fn rules_for<'a>(&'a self, user: &'a User, namespace: &'a str) -> BoxFuture<'a, Rules> {
        let _ = (user, namespace);
        Box::pin(async { Rules::unknown("an authorizer does not support user rule resolution") })
    }
}

impl<A: Authorizer + ?Sized> Authorizer for Arc<A> {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        (**self).authorize(attributes)
    }

    fn rules_for<'a>(&'a self, user: &'a User, namespace: &'a str) -> BoxFuture<'a, Rules> {
        (**self).rules_for(user, namespace)
    }
}

/// The error of an authorizer that could not decide. The request is only allowed if another authorizer allows it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct AuthzError {
    pub message: String,
    /// The reasons of authorizers without an opinion, or of the one that denies.
    pub reason: Text,
    /// True if the request is denied without consulting later authorizers.
    pub denies: bool,
}

impl AuthzError {
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), reason: Text::default(), denies: false }
    }

    /// Returns an error that denies the request without consulting later authorizers.
    pub fn denying(message: impl Into<String>, reason: impl Into<Text>) -> Self {
        Self { message: message.into(), reason: reason.into(), denies: true }
    }
}
