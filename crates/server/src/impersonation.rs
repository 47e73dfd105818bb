//! Acting as somebody else: who is wanted is read from headers, each part of it is authorized, and the request goes on as
//! theirs. First in the constrained ways (KEP-5284), which depend on what is to be done as them, then in the original one,
//! which does not.

mod headers;
mod modes;

use std::sync::Arc;

use binnacle_authn::Recent;
use binnacle_authz::{Attributes, Authorizer};
use binnacle_meta::{Status, Text};
use binnacle_request::{Impersonated, RequestInfo, User};
use http::HeaderMap;
use parking_lot::Mutex;

use modes::{MODES, Mode};

/// How many callers are remembered by the way that worked for them last.
const REMEMBERED: usize = 5_000;

/// Decides who may act as whom.
pub(crate) struct Impersonation {
    authorizer: Arc<dyn Authorizer>,
    /// Who acts as others mostly does so in one way: that is tried first.
    last: Mutex<Recent<Text, Mode>>,
}

impl Impersonation {
    pub(crate) fn new(authorizer: Arc<dyn Authorizer>) -> Self {
        Self { authorizer, last: Mutex::new(Recent::new(REMEMBERED)) }
    }

    /// `None` when the headers, which are then as they were, ask for nobody.
    pub(crate) async fn become_other(
        &self,
        headers: &mut HeaderMap,
        info: &RequestInfo,
        requestor: &User,
    ) -> Result<Option<Impersonated>, Status> {
        let Some(wanted) = headers::wanted(headers)? else { return Ok(None) };
        headers::strip(headers);
        let request = Attributes::of(info, requestor);
        let last = self.last.lock().get(&requestor.name).copied();
        let mut first_error = None;
        for mode in last.into_iter().chain(MODES.into_iter().filter(|mode| Some(*mode) != last)) {
            match mode.check(&*self.authorizer, &wanted, &request).await {
                Ok(Some(user)) => {
                    if last != Some(mode) {
                        self.last.lock().insert(requestor.name.clone(), mode);
                    }
                    return Ok(Some(Impersonated {
                        user: Arc::new(user),
                        constraint: Text::new_static(mode.constraint()),
                    }));
                }
                Ok(None) => {}
                Err(status) => first_error = first_error.or(Some(status)),
            }
        }
        Err(first_error.unwrap_or_else(|| Status::internal("all impersonation modes failed")))
    }
}

#[cfg(test)]
mod tests;
