//! A watcher of the hub, with its buffer.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, Waker};

use binnacle_store::{Event, Revision, StoreError, WatchMessage};
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::watch_limits::WatchLimits;

/// The maximum number of events in one message.
const MESSAGE_EVENTS: usize = 1024;

pub(crate) struct Watcher {
    pub(crate) range: Range<Bytes>,
    /// The hub's epoch at the start of the watch.
    pub(crate) epoch: u64,
    limits: WatchLimits,
    /// If this and the hub's state are both locked, the hub's state is locked first.
    buffer: Mutex<Buffer>,
    /// Notified when there is room in the buffer, and when a caller starts to wait for a barrier.
    pub(crate) room: Notify,
    /// The number of callers that are waiting for a barrier.
    pub(crate) barriers: AtomicUsize,
    /// The task that reads history into the buffer.
    pub(crate) catching_up: Mutex<Option<AbortHandle>>,
}

#[derive(Default)]
struct Buffer {
    events: VecDeque<(u64, Vec<Event>)>,
    count: usize,
    bytes: usize,
    /// All events up to this revision are in the buffer or were read from it.
    reached: u64,
    /// True if events after `reached` were dropped because the buffer was full.
    has_dropped: bool,
    /// All events up to this revision were buffered or dropped.
    seen: u64,
    /// The newest event of this watch.
    last_event: u64,
    /// True if the hub offers new events; false while history is being read.
    live: bool,
    progress: Option<u64>,
    end_reason: Option<EndReason>,
    waker: Option<Waker>,
}

/// The reason why a watch ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EndReason {
    Compacted(u64),
    /// The store's data was replaced, for example by a restore from a backup.
    Restored,
    Closed,
}

/// The next step of the reader.
pub(crate) enum Step {
    Deliver(WatchMessage),
    CatchUp,
    End(EndReason),
}

// === impl Watcher ===

impl Watcher {
    pub(crate) fn new(range: Range<Bytes>, after: u64, limits: WatchLimits, epoch: u64) -> Self {
        Self {
            range,
            epoch,
            limits,
            buffer: Mutex::new(Buffer { reached: after, seen: after, ..Buffer::default() }),
            room: Notify::new(),
            barriers: AtomicUsize::new(0),
            catching_up: Mutex::default(),
        }
    }

    /// Adds the events of a revision without waiting. Events that do not fit are read from history later.
    pub(crate) fn offer(&self, revision: u64, share: &dyn Fn() -> Vec<Event>) {
        let mut buffer = self.buffer.lock();
        if revision <= buffer.seen {
            return;
        }
        buffer.seen = revision;
        buffer.last_event = buffer.last_event.max(revision);
        buffer.progress = None;
        if !buffer.has_dropped {
            if buffer.is_full(&self.limits) {
                buffer.has_dropped = true;
            } else {
                buffer.push(revision, share());
            }
        }
        buffer.wake();
    }

    /// Adds the events of a revision from history. Waits for room, unless a caller is waiting for a barrier: that
    /// caller may be the reader itself.
    pub(crate) async fn offer_history(&self, revision: u64, events: Vec<Event>) {
        loop {
            let room = self.room.notified();
            {
                let buffer = self.buffer.lock();
                let waits = buffer.is_full(&self.limits) && !buffer.has_dropped && buffer.end_reason.is_none();
                if !waits || self.barriers.load(Ordering::Acquire) > 0 {
                    break;
                }
            }
            room.await;
        }
        self.offer(revision, &|| events.clone());
    }

    /// Records that there are no further events up to a revision.
    pub(crate) fn advance(&self, revision: u64) {
        let mut buffer = self.buffer.lock();
        buffer.seen = buffer.seen.max(revision);
        if !buffer.has_dropped {
            buffer.reached = buffer.reached.max(revision);
        }
    }

    pub(crate) fn set_live(&self, live: bool) {
        let mut buffer = self.buffer.lock();
        buffer.live = live;
        // Dropped events can be read now, and there may be no later event that wakes the reader.
        if live && buffer.has_dropped {
            buffer.wake();
        }
    }

    /// Returns the revision after which events still have to be read, if some were dropped.
    pub(crate) fn take_dropped(&self) -> Option<u64> {
        let mut buffer = self.buffer.lock();
        if !buffer.has_dropped || !buffer.live {
            return None;
        }
        buffer.has_dropped = false;
        buffer.seen = buffer.reached;
        Some(buffer.reached)
    }

    pub(crate) fn progress(&self, revision: u64) {
        let mut buffer = self.buffer.lock();
        if buffer.events.is_empty() && !buffer.has_dropped && buffer.reached < revision {
            buffer.progress = Some(revision);
            buffer.reached = revision;
            buffer.wake();
        }
    }

    pub(crate) fn end(&self, end_reason: EndReason) {
        let mut buffer = self.buffer.lock();
        buffer.end_reason.get_or_insert(end_reason);
        buffer.wake();
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.buffer.lock().end_reason.is_some()
    }

    pub(crate) fn set_task(&self, task: AbortHandle) {
        if let Some(before) = self.catching_up.lock().replace(task) {
            before.abort();
        }
    }

    pub(crate) fn poll_step(&self, cx: &mut Context<'_>) -> Poll<Step> {
        let mut buffer = self.buffer.lock();
        if let Some(events) = buffer.take() {
            drop(buffer);
            self.room.notify_one();
            return Poll::Ready(Step::Deliver(WatchMessage::Events(events)));
        }
        if let Some(end_reason) = buffer.end_reason {
            return Poll::Ready(Step::End(end_reason));
        }
        if buffer.has_dropped && buffer.live {
            return Poll::Ready(Step::CatchUp);
        }
        if let Some(revision) = buffer.progress.take() {
            return Poll::Ready(Step::Deliver(WatchMessage::Progress(Revision(revision))));
        }
        buffer.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

// === impl Buffer ===

impl Buffer {
    fn is_full(&self, limits: &WatchLimits) -> bool {
        self.count >= limits.buffer_events || self.bytes >= limits.buffer_bytes
    }

    fn push(&mut self, revision: u64, events: Vec<Event>) {
        self.count += events.len();
        self.bytes += events.iter().map(Event::size).sum::<usize>();
        self.reached = revision;
        self.events.push_back((revision, events));
    }

    /// Takes the events of a message, complete revisions only.
    fn take(&mut self) -> Option<Vec<Event>> {
        let (_, mut message) = self.events.pop_front()?;
        while message.len() < MESSAGE_EVENTS
            && let Some((_, events)) = self.events.pop_front()
        {
            message.extend(events);
        }
        self.count -= message.len();
        self.bytes -= message.iter().map(Event::size).sum::<usize>();
        Some(message)
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }
}

// === impl EndReason ===

impl EndReason {
    pub(crate) fn error(self) -> StoreError {
        match self {
            Self::Compacted(revision) => StoreError::Compacted { compacted: Revision(revision) },
            Self::Restored => StoreError::Restored,
            Self::Closed => StoreError::Closed,
        }
    }
}

impl Watcher {
    /// Returns the revision of the newest event, or `None` while history is being read.
    pub(crate) fn last_event(&self) -> Result<Option<u64>, StoreError> {
        let buffer = self.buffer.lock();
        match buffer.end_reason {
            Some(end_reason) => Err(end_reason.error()),
            None => Ok(buffer.live.then_some(buffer.last_event)),
        }
    }
}
