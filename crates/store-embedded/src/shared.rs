//! What the committer, readers and watches of one store have in common.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use binnacle_store::{Revision, StoreError};
use parking_lot::{Condvar, Mutex, RwLock};

use crate::committer::Command;
use crate::disk::Disk;
use crate::index::Index;
use crate::lease::Leases;
use crate::options::WatchOptions;
use crate::watch::Hub;

pub(crate) struct Shared {
    /// Written by the committer, after the disk has the change; readers never wait for a disk here.
    pub(crate) state: RwLock<State>,
    /// The newest revision that `state` shows, for those who need nothing else of it.
    pub(crate) revision: AtomicU64,
    pub(crate) queue: Mutex<Queue>,
    pub(crate) work: Condvar,
    /// Why the disk takes no more writes.
    pub(crate) failed: OnceLock<String>,
    pub(crate) watch: WatchOptions,
    /// One compaction at a time.
    pub(crate) compaction: tokio::sync::Mutex<()>,
    /// Gone once the store is closed.
    disk: RwLock<Option<Arc<dyn Disk>>>,
}

pub(crate) struct State {
    pub(crate) index: Index,
    pub(crate) leases: Leases,
    pub(crate) hub: Hub,
    pub(crate) revision: u64,
    pub(crate) compacted: u64,
    pub(crate) closed: bool,
}

#[derive(Default)]
pub(crate) struct Queue {
    pub(crate) commands: VecDeque<Command>,
    pub(crate) closed: bool,
}

// === impl Shared ===

impl Shared {
    pub(crate) fn new(disk: Arc<dyn Disk>, state: State, watch: WatchOptions) -> Self {
        Self {
            revision: AtomicU64::new(state.revision),
            state: RwLock::new(state),
            queue: Mutex::default(),
            work: Condvar::new(),
            failed: OnceLock::new(),
            watch,
            compaction: tokio::sync::Mutex::default(),
            disk: RwLock::new(Some(disk)),
        }
    }

    /// Hands a command to the committer.
    pub(crate) fn submit(&self, command: Command) -> Result<(), StoreError> {
        self.writable()?;
        let mut queue = self.queue.lock();
        if queue.closed {
            return Err(StoreError::Closed);
        }
        queue.commands.push_back(command);
        drop(queue);
        self.work.notify_one();
        Ok(())
    }

    pub(crate) fn disk(&self) -> Result<Arc<dyn Disk>, StoreError> {
        self.disk.read().clone().ok_or(StoreError::Closed)
    }

    pub(crate) fn drop_disk(&self) {
        *self.disk.write() = None;
    }

    pub(crate) fn current(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    /// From now on nothing is written any more.
    pub(crate) fn fail(&self, error: &io::Error) -> StoreError {
        let detail = self.failed.get_or_init(|| error.to_string());
        tracing::error!(error = detail.as_str(), "the store cannot write any more");
        StoreError::Io(detail.clone())
    }

    pub(crate) fn writable(&self) -> Result<(), StoreError> {
        self.failed.get().map_or(Ok(()), |detail| Err(StoreError::Io(detail.clone())))
    }
}

impl State {
    pub(crate) fn open(&self) -> Result<(), StoreError> {
        if self.closed { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// Whether reads at a revision are possible.
    pub(crate) fn readable(&self, revision: u64) -> Result<(), StoreError> {
        self.open()?;
        if revision > self.revision {
            return Err(StoreError::FutureRevision { current: Revision(self.revision) });
        }
        if revision < self.compacted {
            return Err(StoreError::Compacted { compacted: Revision(self.compacted) });
        }
        Ok(())
    }
}

pub(crate) fn read_failed(error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::InvalidData => StoreError::Damaged(error.to_string()),
        _ => StoreError::Io(error.to_string()),
    }
}
