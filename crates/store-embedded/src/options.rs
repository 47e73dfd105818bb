//! The options of opening a store.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::log::LogOptions;
use crate::recovery::FIRST_REVISION;

/// The options of a store. `Options::new(dir)` has values that suit a server with a small memory budget.
#[derive(Clone)]
pub struct EmbeddedOptions {
    /// The directory that holds everything; it is created when it does not exist.
    pub dir: PathBuf,
    /// The sizes of the files.
    pub log: LogOptions,
    /// The revision of a new store: its first write gets the next one, and everything up to it counts as compacted. For
    /// data from elsewhere, of which clients have seen revisions already. An existing store ignores it.
    pub first_revision: u64,
    /// Holds neither objects nor keys in memory, but looks for them on disk each time (in a directory `index` that each
    /// start makes): for tools, whose memory must not grow with the store. Such a store counts the keys beyond a limit
    /// only as far as one.
    pub lean: bool,
    pub watch: WatchOptions,
    /// Called once, with the reason, when the disk failed in a way that no later write may build on: the process must
    /// end, and the next one read what the disk has.
    pub on_failure: Option<OnFailure>,
}

/// The callback for a disk that has failed for good.
pub type OnFailure = Arc<dyn Fn(&str) + Send + Sync>;

/// The buffers of watches, and their progress messages.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// The maximum number of events that wait for a watcher; it reads further ones from history instead.
    pub buffer_events: usize,
    /// The maximum number of bytes of keys and values that wait for a watcher.
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
            watch: WatchOptions::default(),
            on_failure: None,
        }
    }
}

// === impl WatchOptions ===

impl Default for WatchOptions {
    fn default() -> Self {
        Self { buffer_events: 8192, buffer_bytes: 8 << 20, progress_interval: Duration::from_secs(5) }
    }
}
