//! Statistics of a cache.

use std::sync::atomic::AtomicU64;

/// kube-apiserver's histogram bounds for the seconds that reads wait.
pub(crate) const READ_WAITS: [f64; 13] = [0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0, 3.0];

/// The statistics of a cache, for metrics.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStats {
    pub objects: usize,
    /// The approximate memory of the objects, without encodings.
    pub bytes: usize,
    pub watchers: usize,
    pub window_events: usize,
    pub window_bytes: usize,
    pub indexes: usize,
    pub retained_snapshots: usize,
    /// The part of `bytes` for the objects' stored values.
    pub value_bytes: usize,
    /// The maximum number of events in the window.
    pub capacity: usize,
    /// The number of times that the whole range was read, and the number of objects read by that.
    pub initializations: u64,
    pub initial_events: u64,
    /// Items sent to watchers before they had caught up.
    pub initial_items_sent: u64,
    /// Events received from the store, and the number of them passed to watchers.
    pub events_received: u64,
    pub events_dispatched: u64,
    /// Watchers ended because they were too slow.
    pub terminated: u64,
    /// The number of stored values that were not valid objects.
    pub undecodable: u64,
    pub shards: ShardStats,
    pub checks: CheckStats,
}

/// Comparisons of the cache with the store, by result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CheckStats {
    pub successes: u64,
    pub failures: u64,
    /// The number of comparisons that could not be finished.
    pub errors: u64,
}

/// Counts of watchers of shards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShardStats {
    /// The number of current watchers, and of all watchers so far.
    pub watchers: usize,
    pub watched: u64,
    /// The number of objects in events, before and after the change, that belong to other shards.
    pub filtered: u64,
}

/// Counters since the start.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) initializations: AtomicU64,
    pub(crate) initial_events: AtomicU64,
    pub(crate) initial_items_sent: AtomicU64,
    pub(crate) events_received: AtomicU64,
    pub(crate) events_dispatched: AtomicU64,
    pub(crate) terminated: AtomicU64,
    pub(crate) undecodable: AtomicU64,
    pub(crate) checks: CheckCounters,
}

/// The counters of [`CheckStats`].
#[derive(Debug, Default)]
pub(crate) struct CheckCounters {
    pub(crate) successes: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) errors: AtomicU64,
}
