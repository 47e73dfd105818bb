//! The disk, which stores records. The engine only uses this trait, so that a test can replace it with a disk that
//! fails, or loses power, at any point.

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
    /// Encoded records by revision, in ascending order, directly after the existing ones.
    pub records: Vec<(u64, Bytes)>,
    /// Changes of the small facts besides the log. `None` removes a fact.
    pub meta: Vec<(Bytes, Option<Bytes>)>,
}

/// A disk, which stores records by revision and a few facts besides them.
pub trait Disk: Send + Sync + 'static {
    /// Visits all records in order, once, before any other read. Later reads rely on it.
    fn load(&self, visit: &mut RecordVisitor<'_>) -> io::Result<()> {
        self.scan(0, u64::MAX, visit)
    }

    /// Returns the approximate bytes of the records that [`load`](Disk::load) is going to visit.
    fn stored_bytes(&self) -> u64 {
        0
    }

    /// Prepares the disk for writing. Nothing on the disk is changed before this call.
    fn start(&self) -> io::Result<()> {
        Ok(())
    }

    /// Writes the batch completely or not at all. After `Ok` it survives a power failure, and
    /// [`acknowledged`](Disk::acknowledged) returns at least its last revision after a crash of the process alone.
    /// After a transient error (`files::is_transient`), this process reads nothing of it, and another batch may be
    /// written in its place. After another error the state of the disk is unknown until it has been opened again.
    fn commit(&self, batch: &Batch) -> io::Result<()>;

    /// Erases records, given in ascending order. After a crash some of them may exist again, but only those that a
    /// newer record of the same key marks as removed.
    fn erase(&self, revisions: &[u64]) -> io::Result<()>;

    /// Reads the record of a revision, if there is one.
    fn read(&self, revision: u64) -> io::Result<Option<Bytes>>;

    /// Visits the records of `first..=last` in order until the visitor returns `Break`.
    fn scan(&self, first: u64, last: u64, visit: &mut RecordVisitor<'_>) -> io::Result<()>;

    /// Returns all facts besides the log.
    fn meta(&self) -> io::Result<Vec<(Bytes, Bytes)>>;

    /// Returns a revision that is certain to be durable, stored separately from the log: a log that ends before it has
    /// lost records. Returns 0 if there is none.
    fn acknowledged(&self) -> io::Result<u64>;

    /// Returns true if all records stay in memory.
    fn is_in_memory(&self) -> bool {
        false
    }

    /// Returns false if the disk is so full that only writes that free space are accepted.
    fn has_room(&self) -> bool {
        true
    }

    /// Returns true if even a full disk has this much room for essential writes, in addition to the room that deletions
    /// may need.
    fn has_reserve(&self, _bytes: u64) -> bool {
        self.has_room()
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Fails if the files exceed the disk's own bounds, or are not where the next process looks for them.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    fn stats(&self) -> LogStats {
        LogStats::default()
    }
}

/// Called with each record of a scan.
pub type RecordVisitor<'a> = dyn FnMut(u64, Bytes) -> ControlFlow<()> + 'a;
