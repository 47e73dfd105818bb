//! Client certificates: the common name is the user, the organizations are the groups.

use std::sync::Arc;

use binnacle_request::BoxFuture;

use crate::{Authenticated, Authenticator, AuthnError, Authorities, Credentials};

/// Accepts certificates that chain to one of the authorities of `--client-ca-file`.
pub struct X509 {
    authorities: Arc<Authorities>,
}

impl X509 {
    pub fn new(authorities: Arc<Authorities>) -> Self {
        Self { authorities }
    }
}

impl Authenticator for X509 {
    fn authenticate<'a>(
        &'a self,
        credentials: Credentials<'a>,
    ) -> BoxFuture<'a, Result<Option<Authenticated>, AuthnError>> {
        Box::pin(async move {
            let Some(leaf) = self.authorities.verify(credentials.connection)? else { return Ok(None) };
            Ok(leaf.user.clone()?.map(Authenticated::new))
        })
    }
}
