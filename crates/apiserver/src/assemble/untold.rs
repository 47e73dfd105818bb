//! Writes wait until StorageVersions have the versions in which this server stores.

use binnacle_controlplane::StorageVersions;
use binnacle_endpoints::failure_response;
use binnacle_meta::Status;
use binnacle_request::{BoxFuture, Detour, Preferences, Request, Response};

/// Refuses requests that have to wait.
pub(super) struct Untold(pub(super) StorageVersions);

impl Detour for Untold {
    fn takes(&self, request: &Request) -> bool {
        self.0.refusal(&request.info, &request.user).is_some()
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            // A write that need not wait any more is refused all the same: the client comes back.
            let refusal = self.0.refusal(&request.info, &request.user);
            let refusal = refusal
                .unwrap_or_else(|| Status::service_unavailable("wait for storage version registration to complete"));
            failure_response(&refusal, &Preferences::of(&request.headers, &request.query))
        })
    }
}
