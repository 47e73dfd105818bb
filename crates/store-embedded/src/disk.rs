//! Where the log is kept. The engine above knows only this trait, so that a test can stand in for a disk that fails,
//! or loses power, at any point.

use std::io;
use std::ops::ControlFlow;

use bytes::Bytes;

mod fjall;
mod journal;
mod memory;

pub use self::fjall::FjallDisk;
pub(crate) use self::fjall::to_io;
pub use self::memory::MemoryDisk;

/// What is written in one durable step.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// Encoded records by revision, ascending, without a gap to what is there.
    pub records: Vec<(u64, Bytes)>,
    /// Small facts beside the log; `None` removes one.
    pub meta: Vec<(Bytes, Option<Bytes>)>,
}

/// Keeps records by revision and a few facts beside them.
pub trait Disk: Send + Sync + 'static {
    /// Writes all of the batch or nothing of it. When this returns `Ok` it survives a power cut, and
    /// [`acknowledged`](Disk::acknowledged) will not be below its last revision after a crash of the process alone.
    /// After an error the state of the disk is unknown until it has been opened again.
    fn commit(&self, batch: &Batch) -> io::Result<()>;

    /// Forgets records, in the order given: after a crash, what is left of them is a tail of `revisions`.
    /// Needs not be durable when it returns.
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
}

/// Called with each record of a scan.
pub type Visit<'a> = dyn FnMut(u64, Bytes) -> ControlFlow<()> + 'a;
