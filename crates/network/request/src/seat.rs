//! The seats of requests that execute concurrently.

use std::any::Any;
use std::sync::Arc;

use binnacle_meta::Status;

use crate::BoxFuture;

/// The seat of a request among the requests that execute concurrently.
pub trait RequestSeat: Send + Sync {
    /// Gives the seat back until [`RequestSeat::resume`]. Returns a value to hold during the wait, or `None` if the
    /// request keeps its seat.
    ///
    /// # Errors
    /// [`WaitError::Crowded`] if too many requests of the caller are already waiting.
    fn pause(&self) -> Result<Option<Box<dyn Any + Send>>, WaitError>;

    /// Waits for a seat again.
    ///
    /// # Errors
    /// [`WaitError::Refused`] if no seat becomes available in time.
    fn resume(&self) -> BoxFuture<'_, Result<(), WaitError>>;

    /// Gives the seat back for good.
    fn give_back(&self);

    /// Gives the seat back for good if the request is still being served after some time.
    ///
    /// # Errors
    /// [`WaitError::Crowded`] if too many requests of the caller are already served without a seat.
    fn give_back_later(self: Arc<Self>) -> Result<(), WaitError>;
}

/// The reason why a request cannot wait. The client should retry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WaitError {
    #[error("too many requests of this user are waiting; please try again later")]
    Crowded,
    #[error("Too many requests, please try again later.")]
    Refused {
        /// In seconds.
        retry_after: u32,
    },
}

impl From<WaitError> for Status {
    fn from(error: WaitError) -> Self {
        let seconds = match error {
            WaitError::Crowded => 1,
            WaitError::Refused { retry_after } => retry_after,
        };
        Self::too_many_requests(error.to_string(), i32::try_from(seconds).unwrap_or(i32::MAX))
    }
}
