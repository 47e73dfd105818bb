//! Readiness of an authorizer whose objects are first read from the store.

use std::time::Duration;

use tokio::sync::watch;

/// The maximum time that a request waits for the objects.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Counts the kinds that have not been read yet. They are read when they are requested for the first time.
pub struct Readiness {
    missing: watch::Sender<usize>,
    requested: watch::Sender<bool>,
}

impl Readiness {
    pub fn new(parts: usize) -> Self {
        Self { missing: watch::Sender::new(parts), requested: watch::Sender::new(false) }
    }

    /// Records that a kind was read for the first time.
    pub fn part(&self) {
        self.missing.send_modify(|missing| *missing = missing.saturating_sub(1));
    }

    /// Records that all kinds were read.
    pub fn all(&self) {
        self.missing.send_replace(0);
    }

    pub fn is_ready(&self) -> bool {
        *self.missing.borrow() == 0
    }

    /// Requests that all kinds are read.
    pub fn request(&self) {
        self.requested.send_if_modified(|requested| !std::mem::replace(requested, true));
    }

    pub fn is_requested(&self) -> bool {
        *self.requested.borrow()
    }

    /// Waits until the kinds are requested.
    pub async fn requested(&self) {
        // The sender lives as long as `self`.
        let _ = self.requested.subscribe().wait_for(|requested| *requested).await;
    }

    /// Requests all kinds and waits until they are read, up to a timeout. Returns true if they are.
    pub async fn wait(&self) -> bool {
        if self.is_ready() {
            return true;
        }
        self.request();
        let mut missing = self.missing.subscribe();
        tokio::time::timeout(TIMEOUT, missing.wait_for(|missing| *missing == 0)).await.is_ok_and(|ready| ready.is_ok())
    }
}
