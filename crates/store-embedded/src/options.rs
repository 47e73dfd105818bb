//! What can be set when a store is opened.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use crate::log::LogOptions;
use crate::recovery::FIRST_REVISION;

/// How to open a store. `Options::new(dir)` has values that suit a server with a small memory budget.
#[derive(Clone)]
pub struct Options {
    /// The directory that holds everything; it is created when it does not exist.
    pub dir: PathBuf,
    /// How large the files are.
    pub log: LogOptions,
    /// The revision that a store has when it is made: its first write gets the next one, and everything up to it counts
    /// as compacted. For data that comes from elsewhere, where clients have seen revisions already. Means nothing to a
    /// store that is there.
    pub first_revision: u64,
    /// Hold neither objects nor keys in memory, but look for them on disk each time (in a directory `index` that is made
    /// anew): for tools, whose memory must not grow with the store. Such a store counts what a limited range leaves out
    /// only as far as one key.
    pub lean: bool,
    pub watch: WatchOptions,
    /// Called once, with the reason, when the disk failed in a way that no later write may build on: the process is to
    /// end, and the next one to read what the disk has.
    pub on_failure: Option<OnFailure>,
}

/// What is to be done when the disk has failed for good.
pub type OnFailure = Arc<dyn Fn(&str) + Send + Sync>;

/// How watches are fed.
#[derive(Clone, Copy, Debug)]
pub struct WatchOptions {
    /// How many events may wait for a watcher before it has to read them from history instead.
    pub buffer_events: usize,
    /// How many bytes of keys and values may wait for a watcher.
    pub buffer_bytes: usize,
    /// How often a watch without events is told how far it has come.
    pub progress_interval: Duration,
}

// === impl Options ===

impl Options {
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
