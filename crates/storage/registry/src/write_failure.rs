//! Failures of writes: the status for the client, and whether the write may have been executed.

use binnacle_meta::Status;
use binnacle_store::StoreError;

use crate::store_failure::store_failure;

/// The reason why an object was not written, or may not have been.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    pub(crate) status: Status,
    /// True if the store may have written the object, or may still write it. Its allocations are then kept, since the
    /// object uses them if it exists; the repair controllers find unused ones.
    pub(crate) outcome_unknown: bool,
}

impl WriteFailure {
    /// Converts the store's error for a write.
    pub(crate) fn of_write(error: StoreError) -> Self {
        Self { outcome_unknown: error.leaves_outcome_unknown(), status: store_failure(error) }
    }
}

/// An error before the write.
impl From<Status> for WriteFailure {
    fn from(status: Status) -> Self {
        Self { status, outcome_unknown: false }
    }
}
