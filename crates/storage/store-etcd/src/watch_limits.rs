//! Limits on what watches buffer.

/// The limits on buffered events.
#[derive(Clone, Copy, Debug)]
pub struct WatchLimits {
    /// The number of revisions that the hub keeps for watches from a slightly older revision.
    pub window_revisions: usize,
    pub window_bytes: usize,
    /// The number of events that a watcher may buffer before it has to read further events from history.
    pub buffer_events: usize,
    pub buffer_bytes: usize,
}

impl Default for WatchLimits {
    fn default() -> Self {
        Self { window_revisions: 4096, window_bytes: 8 << 20, buffer_events: 8192, buffer_bytes: 8 << 20 }
    }
}
