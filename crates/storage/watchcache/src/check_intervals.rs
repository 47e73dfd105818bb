//! The intervals of comparisons between a cache and its store.

use std::time::Duration;

/// How often a cache compares itself with its store.
#[derive(Clone, Copy, Debug)]
pub struct CheckIntervals {
    /// The time between comparisons of digests while objects change. Without changes, it grows to ten times as long.
    pub digests: Duration,
    /// The time after which an event that the engine has counted, but that has not been delivered, is considered lost.
    pub overdue: Duration,
    /// The minimum time between comparisons of all objects; the maximum is 1.5 times as long. `None` means never, for
    /// stores where reads are expensive or return other values each time.
    pub objects: Option<Duration>,
}

impl Default for CheckIntervals {
    /// Returns one second for digests, and kube-apiserver's five minutes for objects.
    fn default() -> Self {
        Self {
            digests: Duration::from_secs(1),
            overdue: Duration::from_secs(2),
            objects: Some(Duration::from_secs(300)),
        }
    }
}
