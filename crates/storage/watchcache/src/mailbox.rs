//! The hub's side of a watch: a mailbox for events, with a maximum number and size.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Waker;

use binnacle_store::Revision;
use parking_lot::Mutex;

use crate::bucket::BucketKey;
use crate::entry::{Change, Event};
use crate::selection::Selection;
use crate::snapshot::Cursor;

/// The maximum number of queued events. A reader that is further behind reads the window instead.
const MAX_QUEUE: usize = 1024;
/// The maximum memory of queued events, unless there is only one.
const MAX_QUEUE_BYTES: usize = 8 << 20;
/// The number of events for which an idle watch keeps capacity.
const RETAINED_CAPACITY: usize = 4;

/// The hub's side of a watch.
#[derive(Debug)]
pub(crate) struct Mailbox {
    selection: Arc<Selection>,
    /// Events up to this revision are not delivered.
    pub(crate) from: Revision,
    bucket_key: BucketKey,
    /// The index in the bucket. Accessed under the hub's lock.
    slot: AtomicUsize,
    /// The state that is sent before any event. If this and the queue are both locked, this is locked first.
    pub(crate) initial: Mutex<Option<InitialState>>,
    /// If this and the hub are both locked, the hub is locked first.
    pub(crate) queue: Mutex<Queue>,
}

/// The initial state of a watch.
#[derive(Debug)]
pub(crate) struct InitialState {
    pub(crate) cursor: Cursor,
    pub(crate) mark_end: bool,
}

#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) mode: Mode,
    pub(crate) events: VecDeque<(Change, Arc<Event>)>,
    /// The memory that the events retain.
    bytes: usize,
    pub(crate) waker: Option<Waker>,
    pub(crate) end_reason: Option<EndReason>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Mode {
    /// Events are added to the queue.
    Live,
    /// The queue is empty, and the reader takes its events from the window, starting with this number.
    Behind { next: u64 },
}

/// The reason for the end of a watch.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndReason {
    Gap,
    Closed,
    /// The cache has lost the store for too long to leave watchers without an error.
    Dismissed,
}

// === impl Mailbox ===

impl Mailbox {
    pub(crate) fn new(
        selection: Arc<Selection>,
        from: Revision,
        bucket_key: BucketKey,
        initial: Option<InitialState>,
        mode: Mode,
    ) -> Self {
        let queue = Queue { mode, events: VecDeque::new(), bytes: 0, waker: None, end_reason: None };
        let (initial, queue) = (Mutex::new(initial), Mutex::new(queue));
        Self { selection, from, bucket_key, slot: AtomicUsize::new(0), initial, queue }
    }

    /// Adds an event that the watch selects, without ever waiting for the reader.
    pub(crate) fn offer(&self, event: &Arc<Event>, change: Change) {
        if event.revision() <= self.from {
            return;
        }
        let mut queue = self.queue.lock();
        if queue.end_reason.is_some() {
            return;
        }
        if matches!(queue.mode, Mode::Live) {
            let retained_bytes = event.retained_bytes();
            match queue.events.front() {
                Some((_, front))
                    if queue.events.len() >= MAX_QUEUE || queue.bytes + retained_bytes > MAX_QUEUE_BYTES =>
                {
                    let next = front.sequence;
                    queue.clear();
                    queue.mode = Mode::Behind { next };
                }
                _ => {
                    queue.bytes += retained_bytes;
                    queue.events.push_back((change, Arc::clone(event)));
                }
            }
        }
        let waker = queue.waker.take();
        drop(queue);
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    pub(crate) fn end(&self, end_reason: EndReason) {
        self.end_with(&mut self.queue.lock(), end_reason);
    }

    /// Ends a watch that holds events from before number `first`, and releases them. Returns true if the watch was
    /// ended.
    pub(crate) fn end_if_late(&self, first: u64) -> bool {
        let mut queue = self.queue.lock();
        let late = queue.events.front().is_some_and(|(_, event)| event.sequence < first);
        if late {
            queue.clear();
            self.end_with(&mut queue, EndReason::Gap);
        }
        late
    }

    /// Ends a watch that is still reading its initial state, if that state retains more than `most` of the `written`
    /// bytes. Returns true if the watch is still reading it.
    pub(crate) fn bound_initial(&self, written: u64, most: u64) -> bool {
        let mut initial = self.initial.lock();
        let Some(state) = &*initial else { return false };
        if written.saturating_sub(state.cursor.snapshot().inner.written) <= most {
            return true;
        }
        *initial = None;
        let mut queue = self.queue.lock();
        queue.clear();
        self.end_with(&mut queue, EndReason::Gap);
        false
    }

    fn end_with(&self, queue: &mut Queue, end_reason: EndReason) {
        queue.end_reason = Some(end_reason);
        if let Some(waker) = queue.waker.take() {
            waker.wake();
        }
    }

    pub(crate) fn selection(&self) -> &Arc<Selection> {
        &self.selection
    }

    pub(crate) fn bucket_key(&self) -> &BucketKey {
        &self.bucket_key
    }

    pub(crate) fn slot(&self) -> usize {
        self.slot.load(Ordering::Relaxed)
    }

    pub(crate) fn set_slot(&self, slot: usize) {
        self.slot.store(slot, Ordering::Relaxed);
    }
}

// === impl Queue ===

impl Queue {
    /// Takes the next event. An idle watch only keeps a very small buffer.
    pub(crate) fn pop(&mut self) -> Option<(Change, Arc<Event>)> {
        let (change, event) = self.events.pop_front()?;
        self.bytes = self.bytes.saturating_sub(event.retained_bytes());
        if self.events.is_empty() {
            self.clear();
        }
        Some((change, event))
    }

    fn clear(&mut self) {
        // Events of a quiet resource arrive one by one, and each would cost an allocation.
        if self.events.capacity() > RETAINED_CAPACITY {
            self.events = VecDeque::new();
        } else {
            self.events.clear();
        }
        self.bytes = 0;
    }
}
