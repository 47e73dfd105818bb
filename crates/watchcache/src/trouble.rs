//! When the store cannot be followed: why, since when, and what that means for those who wait.

use std::sync::Arc;
use std::time::Duration;

use binnacle_store::StoreError;
use tokio::sync::futures::Notified;
use tokio::time::{Instant, timeout_at};

use crate::cache::Shared;
use crate::error::CacheError;

/// So long the cache serves what it has while an event cannot be read, as the reference: the key may come back.
const GRACE: Duration = Duration::from_secs(30);

/// What keeps a cache from following the store.
#[derive(Clone, Debug)]
pub struct Trouble {
    pub error: Arc<StoreError>,
    /// How long the cache has been without the store.
    pub lasting: Duration,
}

impl Shared {
    /// Waits for a step forward, unless none is to be expected.
    pub(crate) async fn wait(&self, changed: Notified<'_>, deadline: Instant) -> Result<(), CacheError> {
        if self.is_unreadable() {
            return Err(self.not_ready());
        }
        timeout_at(deadline, changed).await.map_err(|_| self.not_ready())
    }

    /// The store cannot be followed for now.
    pub(crate) fn fail(&self, error: StoreError) {
        let mut trouble = self.trouble.lock();
        let since = trouble.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        *trouble = Some((Arc::new(error), since));
    }

    /// The store is followed.
    pub(crate) fn recover(&self) {
        *self.trouble.lock() = None;
    }

    pub(crate) fn is_unreadable(&self) -> bool {
        // Readers ask this all the time: while the store is followed, without a lock.
        self.control.load().is_none() && self.trouble.lock().as_ref().is_some_and(|(error, _)| error.is_unreadable())
    }

    /// Whether that has lasted so long that what the cache still holds is of no use.
    pub(crate) fn is_lost(&self) -> bool {
        let lasting = |since: &Instant| !self.has_begun() || since.elapsed() >= GRACE;
        self.control.load().is_none()
            && self.trouble.lock().as_ref().is_some_and(|(error, since)| error.is_unreadable() && lasting(since))
    }

    pub(crate) fn not_ready(&self) -> CacheError {
        let trouble = self.trouble.lock();
        let described =
            trouble.as_ref().map(|(error, since)| Trouble { error: Arc::clone(error), lasting: since.elapsed() });
        CacheError::NotReady(described)
    }
}
