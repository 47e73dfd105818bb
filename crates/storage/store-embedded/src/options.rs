//! The options of opening a store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::log::LogOptions;
use crate::record::FIRST_REVISION;

/// The options of a store. `EmbeddedOptions::new(dir)` has defaults for a server with a small memory budget.
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// The directory of all files, which is created if it does not exist.
    pub dir: PathBuf,
    /// The sizes of the files.
    pub log: LogOptions,
    /// The revision of a new store: its first write gets the next one, and everything up to it counts as compacted.
    /// This is for data from another store, whose revisions clients have seen. It is ignored for an existing store.
    pub first_revision: u64,
    /// Whether to keep neither objects nor keys in memory, but read them from disk each time (from a directory `index`
    /// that each start creates). This is for tools, whose memory must not grow with the store. Such a store stops
    /// counting at one key beyond a read's limit.
    pub lean: bool,
    /// Prefixes of keys for which small values (at most 16 KiB) are accepted on a full disk, as long as the reserve is
    /// large enough for deletions as well. This is for heartbeats, without which clients consider each other dead.
    pub reserve_prefixes: Vec<Bytes>,
    pub watch: WatchOptions,
    /// Called once, with the reason, if the disk failed in a way that does not allow later writes: the process must
    /// end, and the next one must read the disk again.
    pub on_failure: Option<OnFailure>,
    /// Called while the log is read at startup, with the number of bytes read so far and the total.
    pub on_reading: Option<OnReading>,
    /// True if the process ends soon after the store is closed. Closing then leaves the memory of the index to the
    /// operating system, since it takes a second to free a million keys one by one.
    pub ends_with_process: bool,
}

/// The callback for a disk that has failed permanently.
pub type OnFailure = Arc<dyn Fn(&str) + Send + Sync>;

/// The callback for the progress of an opening.
pub type OnReading = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// The buffers of watches, and their progress messages.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// The maximum number of events buffered for a watcher, which reads further events from history.
    pub buffer_events: usize,
    /// The maximum bytes of keys and values buffered for a watcher.
    pub buffer_bytes: usize,
    /// The interval of progress messages for a watch without events.
    pub progress_interval: Duration,
}

// === impl Options ===

impl EmbeddedOptions {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self {
            dir: dir.into(),
            log: LogOptions::default(),
            first_revision: FIRST_REVISION,
            lean: false,
            reserve_prefixes: Vec::new(),
            watch: WatchOptions::default(),
            on_failure: None,
            on_reading: None,
            ends_with_process: false,
        }
    }
}

// === impl WatchOptions ===

impl Default for WatchOptions {
    fn default() -> Self {
        Self { buffer_events: 8192, buffer_bytes: 8 << 20, progress_interval: Duration::from_secs(5) }
    }
}
