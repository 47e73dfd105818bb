//! The hub's recent events, and the watchers that receive them.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use binnacle_store::{Event, RangeWatchers};
use bytes::Bytes;

use crate::stream::Row;
use crate::watch_limits::WatchLimits;
use crate::watcher::{EndReason, Watcher};

#[derive(Default)]
pub(super) struct State {
    /// All events up to this revision were offered to the watchers. 0 before the hub has started.
    pub(super) position: u64,
    /// The window has all events after this revision.
    pub(super) baseline: u64,
    pub(super) window: VecDeque<Row>,
    window_bytes: usize,
    pub(super) watchers: RangeWatchers<Watcher>,
    /// The watchers that are reading history and have not joined yet.
    pub(super) readers: Vec<Arc<Watcher>>,
    /// The number of times that all watches were ended. Watches of older epochs do not match the current store.
    pub(super) epoch: u64,
    pub(super) closed: bool,
}

// === impl State ===

impl State {
    pub(super) fn push(&mut self, row: Row, limits: &WatchLimits) {
        self.window_bytes += row.events.iter().map(Event::size).sum::<usize>();
        self.window.push_back(row);
        while self.window.len() > limits.window_revisions || self.window_bytes > limits.window_bytes {
            let Some(oldest) = self.window.pop_front() else { break };
            self.window_bytes -= oldest.events.iter().map(Event::size).sum::<usize>();
            self.baseline = oldest.revision;
        }
    }

    /// Returns the newest event in the window.
    pub(super) fn newest(&self) -> Option<Event> {
        self.window.iter().rev().find_map(|row| row.events.last().cloned())
    }

    pub(super) fn remove_reader(&mut self, watcher: &Arc<Watcher>) {
        self.readers.retain(|other| !Arc::ptr_eq(other, watcher));
    }

    pub(super) fn end_all(&mut self, end_reason: EndReason) {
        for watcher in self.watchers.iter() {
            watcher.end(end_reason);
        }
        self.watchers.clear();
        for reader in self.readers.drain(..) {
            reader.end(end_reason);
        }
        self.window.clear();
        self.window_bytes = 0;
    }
}

/// The events of a revision within a range.
pub(super) fn events_in_range(row: &Row, range: &Range<Bytes>) -> Vec<Event> {
    row.events.iter().filter(|event| range.contains(event.key())).cloned().collect()
}
