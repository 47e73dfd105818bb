//! A write that failed: what the client is told, and whether it may have been carried out all the same.

use binnacle_meta::Status;
use binnacle_store::StoreError;

use crate::stored::store_failure;

/// The reason why an object was not written, as far as it is known.
#[derive(Debug)]
pub(crate) struct WriteFailure {
    pub(crate) status: Status,
    /// The store may have written it, or may do so later. What was taken for the object is then not given back: if the
    /// object is there, it uses it. The repair loops find what nobody uses.
    pub(crate) outcome_unknown: bool,
}

impl WriteFailure {
    /// The store failed while it was asked to write.
    pub(crate) fn of_write(error: StoreError) -> Self {
        Self { outcome_unknown: error.leaves_outcome_unknown(), status: store_failure(error) }
    }
}

/// Refused before anything was written.
impl From<Status> for WriteFailure {
    fn from(status: Status) -> Self {
        Self { status, outcome_unknown: false }
    }
}
