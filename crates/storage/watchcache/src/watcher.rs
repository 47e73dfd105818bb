//! The reader's side of a watch.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};

use binnacle_store::Revision;

use crate::entry::WatchItem;
use crate::error::WatchError;
use crate::mailbox::{EndReason, InitialState, Mailbox, Mode};
use crate::selection::Selection;
use crate::shared::Shared;
use crate::snapshot::Snapshot;

/// The start of a watch.
#[derive(Clone, Debug)]
pub enum Start {
    /// Starts with the first event after this revision.
    After(Revision),
    /// Starts with the next event.
    Now,
    /// Starts with the selected objects of a snapshot as ADDED, then sends the events after it.
    Snapshot {
        snapshot: Snapshot,
        /// Whether to send [`WatchItem::InitialEventsEnd`] between the two.
        mark_end: bool,
    },
}

/// A running watch, which ends when it is dropped.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    /// True until the initial state has been sent.
    is_initializing: bool,
    /// True until the watch has reached the newest event.
    is_catching_up: bool,
    /// The newest delivered revision, or the revision after which the watch started.
    delivered: Revision,
}

/// The number of events that a reader copies from the window at once under the hub's lock.
const WINDOW_CHUNK: usize = 256;
/// The memory at which a batch ends, so that a paused reader holds no more than that.
const BATCH_BYTES: usize = 256 << 10;
/// The number of objects of the initial state that are read before their sizes are added up.
const INITIAL_CHUNK: usize = 16;

impl Watcher {
    pub(crate) fn open(shared: Arc<Shared>, selection: Arc<Selection>, start: Start) -> Result<Self, WatchError> {
        let mut hub = shared.hub.lock();
        let (from, initial) = match start {
            Start::After(revision) => (revision, None),
            Start::Now => (shared.progress().max(hub.window.newest()), None),
            Start::Snapshot { snapshot, mark_end } => {
                let from = snapshot.revision();
                (from, Some(InitialState { cursor: snapshot.cursor(Arc::clone(&selection), ""), mark_end }))
            }
        };
        let Some(next) = hub.window.after(from) else {
            return Err(WatchError::Expired { requested: from, oldest: hub.window.oldest() });
        };
        let mode = if next == hub.window.end() { Mode::Live } else { Mode::Behind { next } };
        let is_catching_up = matches!(mode, Mode::Behind { .. });
        let bucket_key = hub.bucket_key(&selection);
        let selection = hub.share_selection(&bucket_key, selection);
        let is_initializing = initial.is_some();
        let mailbox = Arc::new(Mailbox::new(selection, from, bucket_key, initial, mode));
        hub.add(&mailbox);
        drop(hub);
        if is_initializing {
            shared.track_initializing(&mailbox);
        }
        Ok(Self { shared, mailbox, is_initializing, is_catching_up, delivered: from })
    }

    /// Waits for items and appends up to `max` of them to `out`. Once it has returned an error, it returns the same
    /// error again. Cancelling the future loses no item.
    pub async fn next_batch(&mut self, max: usize, out: &mut Vec<WatchItem>) -> Result<(), WatchError> {
        poll_fn(|cx| self.poll_batch(cx, max, out)).await
    }

    /// Polls for items like [`Watcher::next_batch`], for streams.
    pub fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<WatchItem>,
    ) -> Poll<Result<(), WatchError>> {
        let max = max.max(1);
        if self.is_initializing {
            let before = out.len();
            self.read_initial(max, out);
            if out.len() > before {
                return Poll::Ready(Ok(()));
            }
        }
        loop {
            let mut queue = self.mailbox.queue.lock();
            if !queue.events.is_empty() {
                let (end, mut retained_bytes) = (out.len() + max, 0);
                while out.len() < end
                    && retained_bytes < BATCH_BYTES
                    && let Some((change, event)) = queue.pop()
                {
                    retained_bytes += event.retained_bytes();
                    self.delivered = event.revision();
                    out.push(WatchItem::Event { change, event });
                }
                return Poll::Ready(Ok(()));
            }
            if let Some(end_reason) = queue.end_reason {
                drop(queue);
                return Poll::Ready(Err(self.end_error(end_reason)));
            }
            match queue.mode {
                Mode::Live => {
                    match &mut queue.waker {
                        Some(waker) => waker.clone_from(cx.waker()),
                        none => *none = Some(cx.waker().clone()),
                    }
                    return Poll::Pending;
                }
                Mode::Behind { next } => {
                    drop(queue);
                    let before = out.len();
                    let was_catching_up = self.is_catching_up;
                    let read = self.read_window(next, max, out);
                    if was_catching_up {
                        let sent = (out.len() - before) as u64;
                        self.shared.counters.initial_items_sent.fetch_add(sent, Ordering::Relaxed);
                    }
                    if read {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }

    /// Returns the revision up to which the watcher has received everything, for bookmarks.
    pub fn progress(&self) -> Revision {
        // Read first: the events up to it are already in the mailbox.
        let progress = self.shared.progress();
        if self.is_initializing {
            return Revision(0);
        }
        let queue = self.mailbox.queue.lock();
        match (queue.events.front(), queue.mode) {
            (Some((_, event)), _) => Revision(event.revision().0 - 1),
            // The next event may have the same revision as the last delivered one.
            (None, Mode::Behind { .. }) if self.delivered > self.mailbox.from => Revision(self.delivered.0 - 1),
            (None, Mode::Behind { .. }) => self.delivered,
            (None, Mode::Live) if queue.end_reason.is_some() => self.delivered,
            (None, Mode::Live) => progress.max(self.delivered),
        }
    }

    /// Returns the revision after which the events start.
    pub fn start_revision(&self) -> Revision {
        self.mailbox.from
    }

    pub fn selection(&self) -> &Arc<Selection> {
        self.mailbox.selection()
    }

    fn read_initial(&mut self, max: usize, out: &mut Vec<WatchItem>) {
        let mut initial = self.mailbox.initial.lock();
        // The state may have been removed because it retained too much memory; the watch has ended in that case.
        let Some(InitialState { cursor, mark_end }) = &mut *initial else {
            self.is_initializing = false;
            return;
        };
        let (mut entries, mut retained_bytes, mut more) = (Vec::new(), 0, true);
        while more && entries.len() < max && retained_bytes < BATCH_BYTES {
            let before = entries.len();
            more = cursor.fill(INITIAL_CHUNK.min(max - before), &mut entries);
            retained_bytes += entries[before..].iter().map(|entry| entry.size()).sum::<usize>();
        }
        self.shared.counters.initial_items_sent.fetch_add(entries.len() as u64, Ordering::Relaxed);
        out.extend(entries.into_iter().map(WatchItem::Initial));
        if !more {
            if *mark_end {
                out.push(WatchItem::InitialEventsEnd(cursor.snapshot().revision()));
            }
            *initial = None;
            self.is_initializing = false;
        }
    }

    /// Continues reading the window. Returns true if there is something to deliver.
    fn read_window(&mut self, mut next: u64, max: usize, out: &mut Vec<WatchItem>) -> bool {
        let (before, mut retained_bytes) = (out.len(), 0);
        let mut events = Vec::new();
        loop {
            let end;
            {
                let mut hub = self.shared.hub.lock();
                let mut queue = self.mailbox.queue.lock();
                if queue.end_reason.is_some() {
                    return out.len() > before;
                }
                queue.mode = Mode::Behind { next };
                if next == hub.window.end() {
                    queue.mode = Mode::Live;
                    self.is_catching_up = false;
                    return out.len() > before;
                }
                let Some(read) = hub.read(self.mailbox.bucket_key(), next, WINDOW_CHUNK, &mut events) else {
                    self.shared.counters.terminated.fetch_add(1, Ordering::Relaxed);
                    queue.end_reason = Some(EndReason::Gap);
                    return out.len() > before;
                };
                end = read;
            }
            for event in events.drain(..) {
                if out.len() - before >= max || retained_bytes >= BATCH_BYTES {
                    self.mailbox.queue.lock().mode = Mode::Behind { next };
                    return true;
                }
                next = event.sequence + 1;
                if event.revision() <= self.mailbox.from {
                    continue;
                }
                let (old, new) = (event.old().map(|old| &old.meta), event.new_entry().map(|new| &new.meta));
                if let Some(change) = self.mailbox.selection().change(old, new) {
                    retained_bytes += event.retained_bytes();
                    self.delivered = event.revision();
                    out.push(WatchItem::Event { change, event });
                }
            }
            // Beyond events of other buckets.
            next = end;
        }
    }

    fn end_error(&self, end_reason: EndReason) -> WatchError {
        match end_reason {
            EndReason::Closed => WatchError::Closed,
            EndReason::Dismissed => WatchError::Dismissed,
            EndReason::Gap => {
                let oldest = self.shared.hub.lock().window.oldest();
                WatchError::Expired { requested: self.delivered, oldest }
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.hub.lock().remove(&self.mailbox);
    }
}
