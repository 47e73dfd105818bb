//! Makes writes wait until StorageVersions have this server's storage versions.

use binnacle_controlplane::StorageVersions;
use binnacle_endpoints::failure_response;
use binnacle_meta::Status;
use binnacle_request::{BoxFuture, Interceptor, Preferences, Request, Response};

/// A link that refuses requests that must wait.
pub(super) struct StorageVersionGate(pub(super) StorageVersions);

impl Interceptor for StorageVersionGate {
    fn intercepts(&self, request: &Request) -> bool {
        self.0.refusal(&request.info, &request.user).is_some()
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            // A write whose resource was published meanwhile is refused as well: the client retries.
            let refusal = self.0.refusal(&request.info, &request.user);
            let refusal = refusal
                .unwrap_or_else(|| Status::service_unavailable("wait for storage version registration to complete"));
            failure_response(&refusal, &Preferences::of(&request.headers, &request.query))
        })
    }
}
