//! Errors of reads and watches that the cache cannot serve.

use std::sync::Arc;
use std::time::Duration;

use binnacle_store::{Revision, StoreError};

/// The error of a read that the cache cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum CacheError {
    /// The requested revision was not reached in time: 504 with the cause `ResourceVersionTooLarge`.
    #[error("Too large resource version: {}, current: {}", requested.0, current.0)]
    TooLargeRevision { requested: Revision, current: Revision },
    /// The cache has not read its range yet, or is reading it again; with the failure, if there is one.
    #[error("storage is (re)initializing")]
    NotReady(Option<ReflectorFailure>),
    /// The store did not return its revision.
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("the cache is closed")]
    Closed,
}

/// The error of a watch that cannot start or continue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WatchError {
    /// Only events after `oldest` are available, but those after `requested` are needed: 410 with the reason `Expired`.
    #[error("too old resource version: {} ({})", requested.0, oldest.0)]
    Expired { requested: Revision, oldest: Revision },
    /// The start revision of the watch was not reached in time.
    #[error("Too large resource version: {}, current: {}", requested.0, current.0)]
    TooLarge { requested: Revision, current: Revision },
    /// The cache has not read its range yet, or is reading it again.
    #[error("storage is (re)initializing")]
    NotReady,
    /// The cache has lost the store since the watch started. The client must start another watch.
    #[error("the cache has lost the store")]
    Dismissed,
    #[error("the cache is closed")]
    Closed,
}

/// The error that prevents a cache from watching the store.
#[derive(Clone, Debug)]
pub struct ReflectorFailure {
    pub error: Arc<StoreError>,
    /// How long the cache has not served reads.
    pub duration: Duration,
}
