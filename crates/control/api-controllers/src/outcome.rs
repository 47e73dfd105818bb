//! The result of processing a key of a queue.

use std::time::Duration;

use binnacle_meta::Status;

/// The result of processing a key, which decides when it is processed again.
#[derive(Debug)]
pub(crate) enum Outcome {
    Done,
    /// Processed again after a time, although nothing has failed.
    After(Duration),
    /// Processed again later, after ever longer times up to this one.
    Again(Duration),
    /// Processed again after ever longer times; the reason is logged.
    Failed(Status),
}

impl From<Result<(), Status>> for Outcome {
    fn from(result: Result<(), Status>) -> Self {
        result.map_or_else(Self::Failed, |()| Self::Done)
    }
}
