//! How reads wait for the cache, and their responses if the cache cannot serve them.

use std::time::Duration;

use binnacle_meta::{GroupResource, Status};
use binnacle_request::{WaitError, waiting, waiting_unless_failed};
use binnacle_store::Revision;
use binnacle_watchcache::{BLOCK_TIMEOUT, CacheError, Snapshot};
use tokio::time::Instant;

use crate::resource::ResourceStore;
use crate::store_failure::store_failure;

/// The `retryAfterSeconds` of a read whose wait timed out.
const RETRY_AFTER_SECONDS: i32 = 1;

impl ResourceStore {
    /// Returns a snapshot at or after a revision that may have been written by another server.
    pub(crate) async fn not_older_than(&self, revision: u64) -> Result<Snapshot, Status> {
        self.wait_for(Revision(revision)).await?.map_err(|error| self.cache_failure(error))
    }

    /// Waits for a revision. If the caller already has too many waiting requests, the wait fails at once as if it had
    /// timed out.
    pub(crate) async fn wait_for(&self, revision: Revision) -> Result<Result<Snapshot, CacheError>, WaitError> {
        match waiting_unless_failed(self.cache.wait_for(revision, deadline())).await {
            Err(WaitError::Crowded) => {
                Ok(Err(CacheError::TooLargeRevision { requested: revision, current: self.cache.progress() }))
            }
            result => result,
        }
    }

    /// Returns true if an unreadable value prevents the initialization of the cache.
    pub(crate) async fn is_unreadable(&self) -> Result<bool, WaitError> {
        if self.cache.is_ready() {
            return Ok(false);
        }
        // This starts the cache if it is not in use yet.
        let _ = waiting(self.cache.ready(deadline())).await?;
        Ok(self.cache.is_unreadable())
    }

    /// Returns true if a webhook converts the objects that are stored in other versions.
    pub(crate) fn has_conversion_webhook(&self) -> bool {
        self.kind.custom.as_ref().is_some_and(|custom| custom.converter().is_some())
    }

    /// Returns true while the cache is initialized through a conversion webhook, which may take long. Cheap reads use
    /// the store in the meantime, as in kube-apiserver (KEP-4568).
    pub(crate) fn waits_for_conversions(&self) -> bool {
        if !self.has_conversion_webhook() || self.cache.is_ready() {
            return false;
        }
        self.cache.start();
        true
    }

    /// Returns the status for a read that the cache cannot serve.
    pub(crate) fn cache_failure(&self, error: CacheError) -> Status {
        match error {
            CacheError::TooLargeRevision { requested, current } => {
                Status::too_large_resource_version(requested.0, current.0, RETRY_AFTER_SECONDS)
            }
            CacheError::Store(error) => store_failure(error),
            // kube-apiserver's response while its cache is (re)initialized. Clients retry after it.
            CacheError::NotReady(Some(failure)) => {
                let resource = GroupResource::new(self.kind.storage.group.clone(), self.kind.plural.clone());
                let why = if self.unsafe_deletion && failure.error.is_unreadable() {
                    Status::store_read_error(&resource).message().to_owned()
                } else {
                    failure.error.to_string()
                };
                let message = format!("storage is (re)initializing: failed to list {}: {why}", self.go_type(""));
                Status::too_many_requests(message, retry_after(failure.duration))
            }
            CacheError::NotReady(None) | CacheError::Closed => {
                Status::too_many_requests("storage is (re)initializing", RETRY_AFTER_SECONDS)
            }
        }
    }
}

/// Returns the deadline of a read that waits for the cache.
pub(crate) fn deadline() -> Instant {
    Instant::now() + BLOCK_TIMEOUT
}

/// Returns the seconds after which clients retry, which increase with the downtime.
fn retry_after(downtime: Duration) -> i32 {
    (0.06 * downtime.as_secs_f64()).exp().clamp(1.0, 30.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retry_after_grows_with_downtime() {
        for (seconds, want) in [(0, 1), (10, 1), (12, 2), (30, 6), (56, 28), (57, 30), (100_000, 30)] {
            assert_eq!(retry_after(Duration::from_secs(seconds)), want, "{seconds}");
        }
    }
}
