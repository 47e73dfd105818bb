//! Statistics of the log, and the bound on its size.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use super::Inner;
use crate::disk::{LogStats, SYNC_BOUNDS};

#[derive(Default)]
pub(crate) struct Counters {
    pub(crate) moves: AtomicU64,
    pub(crate) moved_bytes: AtomicU64,
    pub(crate) failures: AtomicU64,
    pub(crate) full: AtomicBool,
    pub(crate) delay_micros: AtomicU64,
    /// True while the log exceeds its bound: twice the needed bytes, and two segments.
    is_over_bound: AtomicBool,
    /// Bytes of the file that a segment is being rewritten to.
    pub(crate) moving_bytes: AtomicU64,
    syncs: AtomicU64,
    sync_micros: AtomicU64,
    sync_buckets: [AtomicU64; SYNC_BOUNDS.len()],
}

/// The maximum delay of a group of writes, by which rewriting can catch up. A write that arrives just after a group
/// waits for that group's delay and then for its own.
const MAX_DELAY: Duration = Duration::from_millis(16);
/// The bytes of a group above which it gets the full delay.
const SLOWEST: u64 = 1 << 20;

// === impl Counters ===

impl Counters {
    pub(crate) fn record_sync(&self, took: Duration) {
        self.syncs.fetch_add(1, Ordering::Relaxed);
        self.sync_micros.fetch_add(took.as_micros() as u64, Ordering::Relaxed);
        let seconds = took.as_secs_f64();
        for (bound, bucket) in SYNC_BOUNDS.iter().zip(&self.sync_buckets) {
            if seconds <= *bound {
                bucket.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

// === impl Inner ===

impl Inner {
    /// Returns the bound on the bytes of all files.
    fn bound(&self, needed: u64) -> u64 {
        2 * needed + 2 * self.options.max_segment
    }

    /// Returns the bytes that all files occupy, and the bytes that have to be kept.
    fn disk_and_needed(&self) -> (u64, u64) {
        let (needed, allocated) = {
            let table = self.table.read();
            (table.usage().needed(), table.allocated())
        };
        (allocated + self.spares.bytes() + self.counters.moving_bytes.load(Ordering::Relaxed), needed)
    }

    /// Returns the bytes by which the files are below their bound.
    pub(crate) fn slack(&self) -> u64 {
        let (disk, needed) = self.disk_and_needed();
        self.bound(needed).saturating_sub(disk)
    }

    /// Compares the size of the files with its bound, and sets the delay of writes.
    pub(crate) fn assess(&self) {
        let (disk, needed) = self.disk_and_needed();
        let bound = self.bound(needed);
        // The delay starts before the bound is reached, and increases.
        let near = self.options.max_segment / 2;
        let excess = (disk + near).saturating_sub(bound).min(2 * near);
        let delay = MAX_DELAY.as_micros() as u64 * excess / (2 * near).max(1);
        self.counters.delay_micros.store(if self.options.background { delay } else { 0 }, Ordering::Relaxed);
        self.counters.is_over_bound.store(disk > bound + near, Ordering::Relaxed);
    }

    /// Returns the delay of a group of writes, by which segments are rewritten as fast as they are written.
    pub(crate) fn write_delay(&self, bytes: u64) -> Duration {
        let most = self.counters.delay_micros.load(Ordering::Relaxed);
        // A small group hardly changes the distance to the bound.
        Duration::from_micros((most * bytes / SLOWEST).clamp(most / 16, most))
    }

    pub(crate) fn health(&self) -> Result<(), String> {
        self.files.check_in_place().map_err(|displaced| displaced.to_string())?;
        if let Some(why) = self.rewrite_failure.persistent_error() {
            return Err(format!("segments of the store cannot be rewritten: {why}"));
        }
        if self.counters.is_over_bound.load(Ordering::Relaxed) {
            return Err("the store takes more than twice the space of what it keeps".to_owned());
        }
        Ok(())
    }

    pub(crate) fn stats(&self) -> LogStats {
        let counters = &self.counters;
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (segments, usage, allocated) = {
            let table = self.table.read();
            (table.segments.len() as u64, table.usage(), table.allocated())
        };
        let reserve_bytes = self.spares.bytes();
        LogStats {
            segments,
            needed_bytes: usage.needed(),
            dead_bytes: usage.dead(),
            disk_bytes: allocated + reserve_bytes + load(&counters.moving_bytes),
            reserve_bytes,
            moves: load(&counters.moves),
            moved_bytes: load(&counters.moved_bytes),
            sync_buckets: std::array::from_fn(|n| load(&counters.sync_buckets[n])),
            syncs: load(&counters.syncs),
            sync_time: Duration::from_micros(load(&counters.sync_micros)),
            failures: load(&counters.failures),
            full: counters.full.load(Ordering::Relaxed),
            delay: Duration::from_micros(load(&counters.delay_micros)),
        }
    }
}
