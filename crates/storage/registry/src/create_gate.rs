//! The permission to create, given with the request or requested when the object does not exist.

use std::fmt::Debug;

use binnacle_meta::Status;
use binnacle_request::{BoxFuture, CreatePermit};

/// Returns the permit that every create needs.
///
/// A `POST` has one. An update or an apply was authorized as such; the authorizers are asked for `create` if the object
/// does not exist, after validation of the object and before validating admission, as in kube-apiserver.
pub trait CreateGate: Debug + Send + Sync {
    /// Errors: 403 if the caller may not create the object, 500 if the authorizers fail.
    fn permit(&self) -> BoxFuture<'_, Result<CreatePermit, Status>>;
}

impl CreateGate for CreatePermit {
    fn permit(&self) -> BoxFuture<'_, Result<CreatePermit, Status>> {
        Box::pin(async { Ok(self.clone()) })
    }
}
