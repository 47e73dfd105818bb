//! Statistics of a cache.

use std::sync::atomic::AtomicU64;

/// The bounds of kube-apiserver for the seconds that reads wait.
pub(crate) const READ_WAITS: [f64; 13] = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0];

/// For metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    pub objects: usize,
    /// About how much memory the objects take, wire forms aside.
    pub bytes: usize,
    pub watchers: usize,
    pub window_events: usize,
    pub window_bytes: usize,
    pub indexes: usize,
    pub retained_snapshots: usize,
    /// The part of `bytes` that the objects' stored forms take.
    pub value_bytes: usize,
    /// The maximum number of events in the window.
    pub capacity: usize,
    /// The number of times that the whole range was read, and the number of objects that this brought.
    pub initializations: u64,
    pub initial_events: u64,
    /// Items that were sent to watchers before they had caught up.
    pub told_initially: u64,
    /// Events that came from the store, and those of them that were handed to the watchers.
    pub events_received: u64,
    pub events_dispatched: u64,
    /// Watchers that did not keep up.
    pub terminated: u64,
    /// The number of values that turned out to be no object.
    pub undecodable: u64,
}

/// Counted since the beginning.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) initializations: AtomicU64,
    pub(crate) initial_events: AtomicU64,
    pub(crate) told_initially: AtomicU64,
    pub(crate) events_received: AtomicU64,
    pub(crate) events_dispatched: AtomicU64,
    pub(crate) terminated: AtomicU64,
    pub(crate) undecodable: AtomicU64,
}
