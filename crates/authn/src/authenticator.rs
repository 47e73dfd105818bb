//! The trait that every authenticator implements.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_request::{BoxFuture, ConnectionInfo, User};
use http::HeaderMap;

/// What a request brings to prove who sent it.
#[derive(Clone, Copy)]
pub struct Credentials<'a> {
    pub headers: &'a HeaderMap,
    pub connection: &'a ConnectionInfo,
}

/// Finds out who is calling.
pub trait Authenticator: Send + Sync {
    /// `None` when the request carries no credential of this kind; an error when it carries a bad one.
    fn authenticate<'a>(&'a self, credentials: Credentials<'a>)
    -> BoxFuture<'a, Result<Option<Arc<User>>, AuthnError>>;
}

/// Why a credential was not accepted. The caller only ever sees `Unauthorized`; this is for the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct AuthnError(pub String);

/// Adds `system:authenticated`, unless the credential itself already says what the caller is.
pub(crate) fn authenticated(mut user: User) -> Arc<User> {
    if user.name != User::ANONYMOUS && !user.is_in(User::AUTHENTICATED) && !user.is_in(User::UNAUTHENTICATED) {
        user.groups.push(Text::new_static(User::AUTHENTICATED));
    }
    Arc::new(user)
}
