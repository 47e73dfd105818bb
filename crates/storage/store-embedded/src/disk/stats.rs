//! Statistics of a disk.

use std::time::Duration;

/// The upper bounds of the buckets for the duration of syncs, in seconds.
pub const SYNC_BOUNDS: [f64; 14] =
    [0.0005, 0.001, 0.002, 0.004, 0.008, 0.016, 0.032, 0.064, 0.128, 0.256, 0.512, 1.024, 4.096, 8.192];

/// Statistics of a log.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LogStats {
    pub segments: u64,
    /// The bytes of records that are live or part of the retained history.
    pub needed_bytes: u64,
    /// The bytes of dead records that are still in files.
    pub dead_bytes: u64,
    /// The bytes that all files occupy.
    pub disk_bytes: u64,
    /// The bytes of spare files, which are used when the disk is full.
    pub reserve_bytes: u64,
    /// The number of segments rewritten, and the bytes of records copied for that.
    pub moves: u64,
    pub moved_bytes: u64,
    /// Groups of writes made durable: the number that took at most each of [`SYNC_BOUNDS`], and the total.
    pub sync_buckets: [u64; SYNC_BOUNDS.len()],
    pub syncs: u64,
    pub sync_time: Duration,
    /// Failures of the disk after which the log continued in a new segment.
    pub failures: u64,
    /// True if no further segment can be reserved: only deletions and leases are accepted.
    pub full: bool,
    /// The delay of every group of writes while segments are not rewritten fast enough.
    pub delay: Duration,
}
