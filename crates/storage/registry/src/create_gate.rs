//! The permission to create, which is given with the request, or requested if the object does not exist.

use std::fmt::Debug;

use binnacle_meta::Status;
use binnacle_request::{BoxFuture, CreatePermit};

/// A source of the permit that every create needs.
///
/// A `POST` already has one. An update or an apply was authorized as such; the authorizers are queried for `create` if
/// the object does not exist, after the object's validation and before validating admission, as in kube-apiserver.
pub trait CreateGate: Debug + Send + Sync {
    /// Returns the permit.
    ///
    /// # Errors
    ///
    /// 403 if the caller may not create the object, 500 if the authorizers fail.
    fn permit(&self) -> BoxFuture<'_, Result<CreatePermit, Status>>;
}

impl CreateGate for CreatePermit {
    fn permit(&self) -> BoxFuture<'_, Result<CreatePermit, Status>> {
        Box::pin(async { Ok(self.clone()) })
    }
}
