//! Errors of reads and watches that the cache cannot serve.

use binnacle_store::{Revision, StoreError};

use crate::follow_failure::FollowFailure;

/// A read that the cache cannot answer.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The revision asked for was not reached in time: 504 with the cause `ResourceVersionTooLarge`.
    #[error("Too large resource version: {}, current: {}", requested.0, current.0)]
    TooLargeRevision { requested: Revision, current: Revision },
    /// The cache has not read its range yet, or reads it again; and why that has failed, if it has.
    #[error("storage is (re)initializing")]
    NotReady(Option<FollowFailure>),
    /// The store did not return its revision.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the cache is closed")]
    Closed,
}

/// A watch that cannot begin or go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// Events after `requested` are no longer known, only those after `oldest`: 410 with the reason `Expired`.
    #[error("too old resource version: {} ({})", requested.0, oldest.0)]
    Expired { requested: Revision, oldest: Revision },
    /// The revision from which the watch was to begin was not reached in time.
    #[error("Too large resource version: {}, current: {}", requested.0, current.0)]
    TooLarge { requested: Revision, current: Revision },
    /// The cache has not read its range yet, or reads it again.
    #[error("storage is (re)initializing")]
    NotReady,
    /// The cache has lost the store since the watch began; the client must begin another.
    #[error("the cache has lost the store")]
    Dismissed,
    #[error("the cache is closed")]
    Closed,
}
