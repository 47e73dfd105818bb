//! The disk, which keeps records. The engine above knows only this trait, so that a test can stand in for a disk that
//! fails, or loses power, at any point.

use std::io;
use std::ops::ControlFlow;

use bytes::Bytes;

mod memory;

pub use self::memory::MemoryDisk;
pub use crate::log::{LogDisk, LogOptions, LogStats, SYNC_BOUNDS};

/// The records and facts that are written in one durable step.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Encoded records by revision, ascending, following the existing ones without a gap.
    pub records: Vec<(u64, Bytes)>,
    /// Small facts beside the log; `None` removes one.
    pub meta: Vec<(Bytes, Option<Bytes>)>,
}

/// Keeps records by revision and a few facts beside them.
pub trait Disk: Send + Sync + 'static {
    /// Shows all records in order, once, before anything else is read: later reads rely on it.
    fn load(&self, visit: &mut Visit<'_>) -> io::Result<()> {
        self.scan(0, u64::MAX, visit)
    }

    /// Makes the disk ready for writing. Until then nothing on it is changed.
    fn start(&self) -> io::Result<()> {
        Ok(())
    }

    /// Writes all of the batch or nothing of it. When this returns `Ok` it survives a power cut, and
    /// [`acknowledged`](Disk::acknowledged) will not be below its last revision after a crash of the process alone.
    /// After an error that may pass (`files::may_pass`) nothing of it is there, as far as this process goes, and
    /// another batch may be written in its place. After another error the state of the disk is unknown until it has been
    /// opened again.
    fn commit(&self, batch: &Batch) -> io::Result<()>;

    /// Forgets records, which ascend. After a crash some of them may be there again, but of each key only those that a
    /// newer record marks as forgotten.
    fn erase(&self, revisions: &[u64]) -> io::Result<()>;

    /// The record of one revision, if there is one.
    fn read(&self, revision: u64) -> io::Result<Option<Bytes>>;

    /// Shows the records of `first..=last` in order until the visitor breaks off.
    fn scan(&self, first: u64, last: u64, visit: &mut Visit<'_>) -> io::Result<()>;

    /// All facts beside the log.
    fn meta(&self) -> io::Result<Vec<(Bytes, Bytes)>>;

    /// A revision that is known to have been durable, kept apart from the log: a log that ends before it has lost
    /// something. 0 when nothing is known.
    fn acknowledged(&self) -> io::Result<u64>;

    /// Returns false when the disk is so full that only writes that free room may be made.
    fn has_room(&self) -> bool {
        true
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// Fails when the disk does not keep within its own bounds.
    fn health(&self) -> Result<(), String> {
        Ok(())
    }

    fn stats(&self) -> LogStats {
        LogStats::default()
    }
}

/// Called with each record of a scan.
pub type Visit<'a> = dyn FnMut(u64, Bytes) -> ControlFlow<()> + 'a;
