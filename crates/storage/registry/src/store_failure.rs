//! The status for failures of the store and of conversions.

use binnacle_meta::{GroupResource, Status};
use binnacle_scheme::ReadFailure;
use binnacle_store::StoreError;

/// Returns the status for an object that cannot be converted.
pub(crate) fn conversion_failure(failure: ReadFailure) -> Status {
    match failure {
        ReadFailure::TooLarge(why) => Status::request_entity_too_large(why),
        ReadFailure::Invalid(why) => Status::unknown(500, &why),
    }
}

/// Returns the status for a failure of the store, and logs the details.
pub fn store_failure(error: StoreError) -> Status {
    match error {
        StoreError::Compacted { .. } => Status::expired("The resourceVersion for the provided list is too old."),
        StoreError::FutureRevision { current } => Status::too_large_resource_version(0, current.0, 1),
        // The caller has the key.
        StoreError::Transform { why, .. } => Status::internal(why),
        StoreError::Undecodable { why, .. } => Status::unknown(500, &why),
        StoreError::Timeout => {
            Status::timeout("request did not complete within requested timeout - context deadline exceeded", 0)
        }
        StoreError::ReadOnly => Status::read_only(),
        error @ StoreError::QuotaExceeded { .. } => Status::forbidden(&GroupResource::new("", ""), "", error),
        // A retry or another request body does not help: the operator has to free space.
        StoreError::NoSpace(why) => Status::unknown(507, &format!("Insufficient Storage: {why}")),
        other => {
            tracing::error!(error = %other, "storage error");
            Status::internal(other)
        }
    }
}
