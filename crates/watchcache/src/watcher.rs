//! One watch: a mailbox that the hub puts events into, and the reader's side of it.

use std::collections::VecDeque;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use binnacle_store::Revision;
use parking_lot::Mutex;

use crate::entry::{Change, Event, WatchItem};
use crate::error::WatchError;
use crate::hub::Home;
use crate::selection::Selection;
use crate::shared::Shared;
use crate::snapshot::{Cursor, Snapshot};

/// Where a watch begins.
#[derive(Clone, Debug)]
pub enum Start {
    /// With the first event after this revision.
    After(Revision),
    /// With the next event.
    Now,
    /// With the selected objects of a snapshot as ADDED, then the events after it.
    Snapshot {
        snapshot: Snapshot,
        /// Whether [`WatchItem::InitialEventsEnd`] stands between the two.
        mark_end: bool,
    },
}

/// A running watch. Dropping it ends it.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<Shared>,
    mailbox: Arc<Mailbox>,
    initial: Option<Initial>,
    /// Whether it has not reached the present since it began.
    catching_up: bool,
    /// The newest revision handed out, or the one that the watch began after.
    delivered: Revision,
}

#[derive(Debug)]
struct Initial {
    cursor: Cursor,
    mark_end: bool,
}

/// So many events wait for a reader; one that is further behind reads the window instead.
const MAX_QUEUE: usize = 1024;
/// How many events a reader copies out of the window under the hub's lock.
const WINDOW_READ: usize = 256;

impl Watcher {
    pub(crate) fn open(shared: Arc<Shared>, selection: Arc<Selection>, start: Start) -> Result<Self, WatchError> {
        let mut hub = shared.hub.lock();
        let (from, initial) = match start {
            Start::After(revision) => (revision, None),
            Start::Now => (shared.progress().max(hub.window.newest()), None),
            Start::Snapshot { snapshot, mark_end } => {
                let from = snapshot.revision();
                (from, Some(Initial { cursor: snapshot.cursor(Arc::clone(&selection), ""), mark_end }))
            }
        };
        let Some(next) = hub.window.after(from) else {
            return Err(WatchError::Expired { requested: from, oldest: hub.window.oldest() });
        };
        let mode = if next == hub.window.end() { Mode::Live } else { Mode::Behind { next } };
        let catching_up = matches!(mode, Mode::Behind { .. });
        let home = hub.home(&selection);
        let selection = hub.share(&home, selection);
        let queue = Mutex::new(Queue { mode, events: VecDeque::new(), waker: None, ending: None });
        let mailbox = Arc::new(Mailbox { selection, from, home, slot: AtomicUsize::new(0), queue });
        hub.enter(&mailbox);
        drop(hub);
        Ok(Self { shared, mailbox, initial, catching_up, delivered: from })
    }

    /// Waits until there is something to deliver and appends up to `max` items to `out`. What comes after an error is
    /// the same error. Dropping the future loses nothing.
    pub async fn next_batch(&mut self, max: usize, out: &mut Vec<WatchItem>) -> Result<(), WatchError> {
        poll_fn(|cx| self.poll_batch(cx, max, out)).await
    }

    /// As [`Watcher::next_batch`], for streams.
    pub fn poll_batch(
        &mut self,
        cx: &mut Context<'_>,
        max: usize,
        out: &mut Vec<WatchItem>,
    ) -> Poll<Result<(), WatchError>> {
        let max = max.max(1);
        if self.initial.is_some() {
            let before = out.len();
            self.read_initial(max, out);
            if out.len() > before {
                return Poll::Ready(Ok(()));
            }
        }
        loop {
            let mut queue = self.mailbox.queue.lock();
            if !queue.events.is_empty() {
                let count = queue.events.len().min(max);
                for (change, event) in queue.events.drain(..count) {
                    self.delivered = event.revision();
                    out.push(WatchItem::Event { change, event });
                }
                if queue.events.is_empty() {
                    // An idle watch keeps no buffer.
                    queue.events = VecDeque::new();
                }
                return Poll::Ready(Ok(()));
            }
            if let Some(ending) = queue.ending {
                drop(queue);
                return Poll::Ready(Err(self.ended(ending)));
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
                    let was_catching_up = self.catching_up;
                    let read = self.read_window(next, max, out);
                    if was_catching_up {
                        let told = (out.len() - before) as u64;
                        self.shared.counters.told_initially.fetch_add(told, Ordering::Relaxed);
                    }
                    if read {
                        return Poll::Ready(Ok(()));
                    }
                }
            }
        }
    }

    /// The revision up to which the watcher has been told everything: what a bookmark may carry.
    pub fn progress(&self) -> Revision {
        // Read first: what it promises has been put into the mailbox before.
        let known = self.shared.progress();
        if self.initial.is_some() {
            return Revision(0);
        }
        let queue = self.mailbox.queue.lock();
        match (queue.events.front(), queue.mode) {
            (Some((_, event)), _) => Revision(event.revision().0 - 1),
            // The event that it reads next may have the revision of the last one it read.
            (None, Mode::Behind { .. }) if self.delivered > self.mailbox.from => Revision(self.delivered.0 - 1),
            (None, Mode::Behind { .. }) => self.delivered,
            (None, Mode::Live) if queue.ending.is_some() => self.delivered,
            (None, Mode::Live) => known.max(self.delivered),
        }
    }

    /// The revision after which its events come.
    pub fn began(&self) -> Revision {
        self.mailbox.from
    }

    pub fn selection(&self) -> &Arc<Selection> {
        &self.mailbox.selection
    }

    fn read_initial(&mut self, max: usize, out: &mut Vec<WatchItem>) {
        let Some(initial) = &mut self.initial else { return };
        let mut entries = Vec::new();
        let more = initial.cursor.fill(max, &mut entries);
        self.shared.counters.told_initially.fetch_add(entries.len() as u64, Ordering::Relaxed);
        out.extend(entries.into_iter().map(WatchItem::Initial));
        if !more {
            if initial.mark_end {
                out.push(WatchItem::InitialEventsEnd(initial.cursor.snapshot().revision()));
            }
            self.initial = None;
        }
    }

    /// Reads on in the window; returns whether there is something to deliver.
    fn read_window(&mut self, mut next: u64, max: usize, out: &mut Vec<WatchItem>) -> bool {
        let before = out.len();
        let mut events = Vec::new();
        loop {
            {
                let hub = self.shared.hub.lock();
                let mut queue = self.mailbox.queue.lock();
                if queue.ending.is_some() {
                    return out.len() > before;
                }
                queue.mode = Mode::Behind { next };
                if next == hub.window.end() {
                    queue.mode = Mode::Live;
                    self.catching_up = false;
                    return out.len() > before;
                }
                if hub.window.read(next, WINDOW_READ, &mut events).is_none() {
                    self.shared.counters.terminated.fetch_add(1, Ordering::Relaxed);
                    queue.ending = Some(Ending::Gap);
                    return out.len() > before;
                }
            }
            for event in events.drain(..) {
                if out.len() - before >= max {
                    self.mailbox.queue.lock().mode = Mode::Behind { next };
                    return true;
                }
                next = event.sequence + 1;
                let meta = |entry: Option<&Arc<crate::Entry>>| entry.map(|entry| entry.meta.clone());
                let (old, new) = (meta(event.old()), meta(event.new_entry()));
                if event.revision() <= self.mailbox.from {
                    continue;
                }
                if let Some(change) = self.mailbox.selection.change(old.as_ref(), new.as_ref()) {
                    self.delivered = event.revision();
                    out.push(WatchItem::Event { change, event });
                }
            }
        }
    }

    fn ended(&self, ending: Ending) -> WatchError {
        match ending {
            Ending::Closed => WatchError::Closed,
            Ending::Dismissed => WatchError::Dismissed,
            Ending::Gap => {
                let oldest = self.shared.hub.lock().window.oldest();
                WatchError::Expired { requested: self.delivered, oldest }
            }
        }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.shared.hub.lock().leave(&self.mailbox);
    }
}

/// What the hub knows of a watch.
#[derive(Debug)]
pub(crate) struct Mailbox {
    selection: Arc<Selection>,
    /// Events up to this revision are not wanted.
    from: Revision,
    home: Home,
    /// The place in the bucket; read and written under the hub's lock.
    slot: AtomicUsize,
    /// Locked after the hub where both are.
    queue: Mutex<Queue>,
}

#[derive(Debug)]
struct Queue {
    mode: Mode,
    events: VecDeque<(Change, Arc<Event>)>,
    waker: Option<Waker>,
    ending: Option<Ending>,
}

#[derive(Clone, Copy, Debug)]
enum Mode {
    /// Events are put into the queue.
    Live,
    /// The queue is empty, and the reader finds its events in the window from this number on.
    Behind { next: u64 },
}

/// Why a watch does not go on.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    Gap,
    Closed,
    /// The cache has lost the store for longer than watchers should be left without a word.
    Dismissed,
}

impl Mailbox {
    /// Takes an event that is of interest. Never waits for the reader.
    pub(crate) fn offer(&self, event: &Arc<Event>, change: Change) {
        if event.revision() <= self.from {
            return;
        }
        let mut queue = self.queue.lock();
        if matches!(queue.mode, Mode::Live) {
            match queue.events.front() {
                Some((_, front)) if queue.events.len() >= MAX_QUEUE => {
                    queue.mode = Mode::Behind { next: front.sequence };
                    queue.events = VecDeque::new();
                }
                _ => queue.events.push_back((change, Arc::clone(event))),
            }
        }
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn end(&self, ending: Ending) {
        let mut queue = self.queue.lock();
        queue.ending = Some(ending);
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn selection(&self) -> &Arc<Selection> {
        &self.selection
    }

    pub(crate) fn home(&self) -> &Home {
        &self.home
    }

    pub(crate) fn slot(&self) -> usize {
        self.slot.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slot(&self, slot: usize) {
        self.slot.store(slot, Ordering::Relaxed);
    }
}
