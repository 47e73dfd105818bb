//! Everyone who brings no credential at all.

use std::sync::Arc;

use binnacle_request::{BoxFuture, User};

use crate::{Authenticator, AuthnError, Credentials};

/// Says `system:anonymous` of every request; comes last, after all others had no opinion.
pub struct Anonymous {
    user: Arc<User>,
}

impl Anonymous {
    pub fn new() -> Self {
        Self { user: Arc::new(User::new(User::ANONYMOUS, &[User::UNAUTHENTICATED])) }
    }
}

impl Default for Anonymous {
    fn default() -> Self {
        Self::new()
    }
}

impl Authenticator for Anonymous {
    fn authenticate<'a>(&'a self, _: Credentials<'a>) -> BoxFuture<'a, Result<Option<Arc<User>>, AuthnError>> {
        Box::pin(async { Ok(Some(self.user.clone())) })
    }
}
