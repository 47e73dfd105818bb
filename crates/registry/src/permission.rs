//! The right to create, in the two ways in which writes have it: from the start, or asked for when nothing is found.

use std::fmt::Debug;

use binnacle_meta::Status;
use binnacle_request::{BoxFuture, CreatePermit};

/// Gives the permit without which nothing is created.
///
/// A `POST` brings it along. An update or an apply was allowed as such; the authorizers are asked for `create` when the
/// object turns out to be absent, after the rules of its kind and before validating admission, as in kube-apiserver.
pub trait CreateGate: Debug + Send + Sync {
    /// Errors: 403 when the caller may not create the object, 500 when that cannot be told.
    fn permit(&self) -> BoxFuture<'_, Result<CreatePermit, Status>>;
}

impl CreateGate for CreatePermit {
    fn permit(&self) -> BoxFuture<'_, Result<CreatePermit, Status>> {
        Box::pin(async { Ok(self.clone()) })
    }
}
