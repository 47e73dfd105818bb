//! Failures of the store's watch: the error, its duration, and the effect on waiting readers.

use std::sync::Arc;
use std::time::Duration;

use binnacle_store::StoreError;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, timeout_at};

use crate::error::{CacheError, ReflectorFailure};
use crate::shared::Shared;

/// How long the cache serves its state while an event cannot be read, as in kube-apiserver: the encryption key may be
/// available again soon.
const GRACE_PERIOD: Duration = Duration::from_secs(30);

/// The time after which all objects have been read again, so that the error is certain.
const RELIST_TIME: Duration = Duration::from_secs(1);

impl Shared {
    /// Waits until the cache has advanced. Fails immediately if no progress is expected.
    pub(crate) async fn wait(&self, changed: Notified<'_>, deadline: Instant) -> Result<(), CacheError> {
        if self.is_unavailable() {
            return Err(self.not_ready());
        }
        if timeout_at(deadline, changed).await.is_ok() {
            return Ok(());
        }
        if self.is_unreadable() && !self.is_unavailable() {
            return Err(self.stale_error().await);
        }
        Err(self.not_ready())
    }

    /// Returns the error for a reader if the state is still served, but is older than the requested revision.
    pub(crate) async fn stale_error(&self) -> CacheError {
        match self.store.current_revision().await {
            Ok(requested) => CacheError::TooLargeRevision { requested, current: self.progress() },
            Err(error) => error.into(),
        }
    }

    /// Records that the store currently cannot be watched.
    pub(crate) fn record_failure(&self, error: StoreError) {
        let mut failure = self.failure.lock();
        let since = failure.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        *failure = Some((Arc::new(error), since));
    }

    /// Records that the store is being watched.
    pub(crate) fn recover(&self) {
        *self.failure.lock() = None;
    }

    pub(crate) fn is_unreadable(&self) -> bool {
        // This is called for every read. It takes no lock while the store is being watched.
        self.control.load().is_none() && self.failure.lock().as_ref().is_some_and(|(error, _)| error.is_unreadable())
    }

    /// Returns true if a value has been unreadable for so long that the state is no longer served.
    pub(crate) fn is_unavailable(&self) -> bool {
        let is_over = |since: &Instant| !self.is_initialized() || since.elapsed() >= GRACE_PERIOD;
        self.control.load().is_none()
            && self.failure.lock().as_ref().is_some_and(|(error, since)| error.is_unreadable() && is_over(since))
    }

    pub(crate) fn not_ready(&self) -> CacheError {
        let failure = self.failure.lock();
        let reported = failure.as_ref().and_then(|(error, since)| {
            let mut duration = since.elapsed();
            if self.is_initialized() && error.is_unreadable() {
                // The state was served until the end of this time.
                duration = duration.saturating_sub(GRACE_PERIOD);
                if duration < RELIST_TIME {
                    return None;
                }
            }
            Some(ReflectorFailure { error: Arc::clone(error), duration })
        });
        CacheError::NotReady(reported)
    }
}
