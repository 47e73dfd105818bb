//! The disk, which keeps records. The engine uses only this trait, so that a test can replace it by a disk that fails,
//! or loses power, at any point.

use std::io;
use std::ops::ControlFlow;

use bytes::Bytes;

mod memory;
mod stats;

pub use self::memory::MemoryDisk;
pub use self::stats::{LogStats, SYNC_BOUNDS};

/// The records and facts that are written in one durable step.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Encoded records by revision, ascending, directly after the existing ones.
    pub records: Vec<(u64, Bytes)>,
    /// Changes of the small facts beside the log; `None` removes one.
    pub meta: Vec<(Bytes, Option<Bytes>)>,
}

/// A disk, which keeps records by revision and a few facts beside them.
pub trait Disk: Send + Sync + 'static {
    /// Visits all records in order, once, before any other read: later reads rely on it.
    fn load(&self, visit: &mut RecordVisitor<'_>) -> io::Result<()> {
        self.scan(0, u64::MAX, visit)
    }

    /// Returns the approximate bytes of the records that [`load`](Disk::load) visits, before it does.
    fn stored_bytes(&self) -> u64 {
        0
    }

    /// Makes the disk ready for writing. Before this call nothing on it is changed.
    fn start(&self) -> io::Result<()> {
        Ok(())
    }

    /// Writes all of the batch or nothing of it. After `Ok` it survives a power cut, and
    /// [`acknowledged`](Disk::acknowledged) returns at least its last revision after a crash of the process alone.
    /// After an error that may pass (`files::is_transient`) this process reads nothing of it, and another batch may be
    /// written in its place. After another error the state of the disk is unknown until it has been opened again.
    fn commit(&self, batch: &Batch) -> io::Result<()>;

    /// Erases records, given in ascending order. After a crash some of them may exist again, but only those that a
    /// newer record of the same key marks as forgotten.
    fn erase(&self, revisions: &[u64]) -> io::Result<()>;

    /// Reads the record of a revision, if there is one.
    fn read(&self, revision: u64) -> io::Result<Option<Bytes>>;

    /// Visits the records of `first..=last` in order until the visitor breaks off.
    fn scan(&self, first: u64, last: u64, visit: &mut RecordVisitor<'_>) -> io::Result<()>;

    /// Returns all facts beside the log.
    fn meta(&self) -> io::Result<Vec<(Bytes, Bytes)>>;

    /// Returns a revision that is known to be durable, stored apart from the log: a log that ends before it has lost
    /// records. 0 when none is known.
    fn acknowledged(&self) -> io::Result<u64>;

    /// Returns true if all records stay in memory.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Returns false when the disk is so full that only writes that free space are accepted.
    fn has_room(&self) -> bool {
        true
    }

    /// Returns true when even a full disk has this room for writes that must go on, beside what deletions may need.
    fn has_reserve(&self, _bytes: u64) -> bool {
        self.has_room()
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Fails when the files are larger than the disk's own bounds, or not where the next process looks for them.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    fn stats(&self) -> LogStats {
        LogStats::default()
    }
}

/// Called with each record of a scan.
pub type RecordVisitor<'a> = dyn FnMut(u64, Bytes) -> ControlFlow<()> + 'a;
