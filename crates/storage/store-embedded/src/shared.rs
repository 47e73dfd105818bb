//! The state that the committer, the readers and the watches of one store share.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use binnacle_store::{Revision, StoreError};
use bytes::Bytes;
use parking_lot::{Mutex, RwLock};

use crate::command::Command;
use crate::digests::Digests;
use crate::disk::Disk;
use crate::error::no_space;
use crate::hub::Hub;
use crate::index::Index;
use crate::lease::Leases;
use crate::options::{EmbeddedOptions, OnFailure, WatchOptions};
use crate::queue::Queue;

pub(crate) struct Shared {
    /// Written by the committer after the change is durable. Readers never wait for the disk here.
    pub(crate) state: RwLock<State>,
    /// The newest revision of `state`, for readers that need nothing else.
    pub(crate) revision: AtomicU64,
    pub(crate) queue: Queue,
    /// The reason why the disk accepts no more writes.
    pub(crate) failed: OnceLock<String>,
    pub(crate) watch: WatchOptions,
    pub(crate) reserve_prefixes: Vec<Bytes>,
    /// Locked during a compaction: one at a time.
    pub(crate) compaction: Arc<tokio::sync::Mutex<()>>,
    /// The start of the write in progress.
    committing: Mutex<Option<Instant>>,
    pub(crate) on_failure: Option<OnFailure>,
    /// True if closing does not free the index.
    pub(crate) ends_with_process: bool,
    /// The number of groups of writes rejected since the last accepted one.
    pub(crate) refused: AtomicU64,
    /// `None` once the store is closed.
    disk: RwLock<Option<Arc<dyn Disk>>>,
}

pub(crate) struct State {
    pub(crate) index: Index,
    pub(crate) leases: Leases,
    pub(crate) hub: Hub,
    pub(crate) digests: Digests,
    pub(crate) revision: u64,
    pub(crate) compacted: u64,
    pub(crate) closed: bool,
}

/// The maximum size of a value that is accepted on a full disk.
const MAX_RESERVED_VALUE: usize = 16 << 10;
/// A write that takes this long indicates that the disk hangs.
const STUCK_AFTER: Duration = Duration::from_secs(10);

// === impl Shared ===

impl Shared {
    pub(crate) fn new(disk: Arc<dyn Disk>, state: State, options: &EmbeddedOptions) -> Self {
        Self {
            revision: AtomicU64::new(state.revision),
            state: RwLock::new(state),
            queue: Queue::default(),
            failed: OnceLock::new(),
            committing: Mutex::default(),
            watch: options.watch,
            reserve_prefixes: options.reserve_prefixes.clone(),
            compaction: Arc::default(),
            on_failure: options.on_failure.clone(),
            ends_with_process: options.ends_with_process,
            refused: AtomicU64::new(0),
            disk: RwLock::new(Some(disk)),
        }
    }

    /// Adds a command for the committer.
    pub(crate) fn submit(&self, command: Command) -> Result<(), StoreError> {
        self.check_writable()?;
        self.queue.submit(command)
    }

    /// Runs a durable write, and measures its duration for [`check_health`](Self::check_health).
    pub(crate) fn time_write<T>(&self, write: impl FnOnce() -> T) -> T {
        *self.committing.lock() = Some(Instant::now());
        let result = write();
        *self.committing.lock() = None;
        result
    }

    pub(crate) fn check_health(&self) -> Result<(), StoreError> {
        self.state.read().check_open()?;
        self.check_writable()?;
        let stuck = self.committing.lock().is_some_and(|since| since.elapsed() > STUCK_AFTER);
        if stuck { Err(StoreError::Timeout) } else { Ok(()) }
    }

    pub(crate) fn disk(&self) -> Result<Arc<dyn Disk>, StoreError> {
        self.disk.read().clone().ok_or(StoreError::Closed)
    }

    /// Drops the disk, and with it the lock of the directory, after its readers have finished.
    pub(crate) fn drop_disk(&self) {
        let Some(disk) = self.disk.write().take() else { return };
        let started = Instant::now();
        while Arc::strong_count(&disk) > 1 && started.elapsed() < STUCK_AFTER {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    pub(crate) fn current(&self) -> Revision {
        Revision(self.revision.load(Ordering::Acquire))
    }

    /// Records a failure. Nothing is written any more.
    pub(crate) fn fail(&self, error: &io::Error) -> StoreError {
        let first = self.failed.get().is_none();
        let detail = self.failed.get_or_init(|| error.to_string());
        if first {
            tracing::error!(error = detail.as_str(), "the store is no longer writable");
            if let Some(on_failure) = &self.on_failure {
                on_failure(detail);
            }
        }
        StoreError::Io(detail.clone())
    }

    /// Fails while there is no space for a value of this key. `pending` bytes are about to be written before it.
    pub(crate) fn check_room_for(
        &self,
        disk: &dyn Disk,
        key: &[u8],
        value: usize,
        pending: usize,
    ) -> Result<(), StoreError> {
        self.check_room(disk).or_else(|full| {
            let reserved = self.reserve_prefixes.iter().any(|prefix| key.starts_with(prefix));
            let bytes = (pending + key.len() + value) as u64;
            if reserved && value <= MAX_RESERVED_VALUE && disk.has_reserve(bytes) { Ok(()) } else { Err(full) }
        })
    }

    /// Fails while there is no space for writes that need it.
    pub(crate) fn check_room(&self, disk: &dyn Disk) -> Result<(), StoreError> {
        if disk.has_room() { Ok(()) } else { Err(no_space(disk)) }
    }

    /// Fails if the store should not get requests: if [`check_health`](Self::check_health) fails, or if the disk is
    /// full or exceeds its own bounds.
    pub(crate) fn check_readiness(&self) -> Result<(), StoreError> {
        self.check_health()?;
        let disk = self.disk()?;
        self.check_room(&*disk)?;
        disk.health().map_err(StoreError::Io)
    }

    pub(crate) fn check_writable(&self) -> Result<(), StoreError> {
        self.failed.get().map_or(Ok(()), |detail| Err(StoreError::Io(detail.clone())))
    }
}

impl State {
    pub(crate) fn check_open(&self) -> Result<(), StoreError> {
        if self.closed { Err(StoreError::Closed) } else { Ok(()) }
    }

    /// Succeeds if reads at a revision are possible.
    pub(crate) fn check_readable(&self, revision: u64) -> Result<(), StoreError> {
        self.check_open()?;
        if revision > self.revision {
            return Err(StoreError::FutureRevision { current: Revision(self.revision) });
        }
        if revision < self.compacted {
            return Err(StoreError::Compacted { compacted: Revision(self.compacted) });
        }
        Ok(())
    }
}
