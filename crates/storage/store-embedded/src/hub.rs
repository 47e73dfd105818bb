//! The dispatch of changes to watchers.
//!
//! The committer offers every event to the watchers of its key. It does not wait for a watcher whose buffer is full:
//! the watcher records its revision, and its stream reads the rest from history before it uses the buffer again.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use binnacle_store::{Digest, Event, RangeDigest, RangeWatchers, Revision, WatchMessage};
use bytes::Bytes;
use parking_lot::Mutex;

use crate::options::WatchOptions;
use crate::span::Span;

/// All watchers, by their key ranges.
#[derive(Default)]
pub(crate) struct Hub(pub(crate) RangeWatchers<Watcher>);

pub(crate) struct Watcher {
    pub(crate) range: Range<Bytes>,
    /// Events up to this revision are not delivered.
    after: u64,
    options: WatchOptions,
    /// The newest event of this watch in the store, even if the stream has not delivered it.
    pub(crate) last_event: AtomicU64,
    pub(crate) buffer: Mutex<Buffer>,
}

#[derive(Default)]
pub(crate) struct Buffer {
    events: VecDeque<(u64, Vec<Event>)>,
    count: usize,
    bytes: usize,
    /// The revision after which events are only in history, if the buffer was full.
    behind: Option<u64>,
    /// The newest revision that was buffered, or read from history.
    reached: u64,
    progress: Option<u64>,
    /// True while the stream reads from history.
    pub(crate) is_catching_up: bool,
    pub(crate) closed: bool,
    waker: Option<Waker>,
}

/// The wakers of streams, which are called when no lock is held.
#[derive(Default)]
pub(crate) struct Wakers(Vec<Waker>);

/// The next step of the stream.
pub(crate) enum Step {
    Deliver(WatchMessage),
    CatchUp(Span),
    End,
}

/// The maximum number of events in one message (unless one revision has more).
const MESSAGE_EVENTS: usize = 1024;

// === impl Hub ===

impl Hub {
    /// Offers the events of one revision to the watchers of their keys.
    pub(crate) fn dispatch(&self, revision: u64, events: &[Event], wakers: &mut Wakers) {
        self.0.dispatch(events, |watcher, events| watcher.offer(revision, events, wakers));
    }

    /// Sends progress up to `revision` to watchers without events.
    pub(crate) fn send_progress(&self, revision: u64, wakers: &mut Wakers) {
        for watcher in self.0.iter() {
            watcher.progress(revision, wakers);
        }
    }

    pub(crate) fn close(&mut self, wakers: &mut Wakers) {
        for watcher in self.0.iter() {
            let mut buffer = watcher.buffer.lock();
            buffer.closed = true;
            wakers.0.extend(buffer.waker.take());
        }
        self.0.clear();
    }
}

// === impl Watcher ===

impl Watcher {
    /// Creates a watcher of the events after a revision. Those up to `now` are read from history; the buffer gets the
    /// others.
    pub(crate) fn new(range: Range<Bytes>, after: u64, options: WatchOptions, now: u64) -> Self {
        let buffer = Buffer { reached: after.max(now), ..Buffer::default() };
        Self { range, after, options, last_event: AtomicU64::new(0), buffer: Mutex::new(buffer) }
    }

    fn offer(&self, revision: u64, events: &dyn Fn() -> Vec<Event>, wakers: &mut Wakers) {
        if revision <= self.after {
            return;
        }
        let mut buffer = self.buffer.lock();
        self.last_event.store(revision, Ordering::Release);
        buffer.progress = None;
        wakers.0.extend(buffer.waker.take());
        if buffer.behind.is_some() {
            return;
        }
        if buffer.count >= self.options.buffer_events || buffer.bytes >= self.options.buffer_bytes {
            buffer.behind = Some(buffer.reached);
            return;
        }
        let events = events();
        buffer.count += events.len();
        buffer.bytes += events.iter().map(Event::size).sum::<usize>();
        buffer.reached = revision;
        buffer.events.push_back((revision, events));
    }

    /// Adds the newest event to the digest of the range.
    pub(crate) fn with_last_event(&self, digest: Digest) -> RangeDigest {
        let buffer = self.buffer.lock();
        RangeDigest {
            digest,
            last_event: Revision(self.last_event.load(Ordering::Acquire)),
            has_values: true,
            is_delayed: buffer.behind.is_some() || buffer.is_catching_up,
        }
    }

    fn progress(&self, revision: u64, wakers: &mut Wakers) {
        let mut buffer = self.buffer.lock();
        if buffer.events.is_empty() && buffer.behind.is_none() && buffer.reached < revision {
            buffer.progress = Some(revision);
            buffer.reached = revision;
            wakers.0.extend(buffer.waker.take());
        }
    }

    pub(crate) fn poll_step(&self, cx: &mut Context<'_>) -> Poll<Step> {
        let mut buffer = self.buffer.lock();
        if let Some(events) = buffer.take() {
            return Poll::Ready(Step::Deliver(WatchMessage::Events(events)));
        }
        if buffer.closed {
            return Poll::Ready(Step::End);
        }
        if let Some(behind) = buffer.behind.take() {
            buffer.is_catching_up = true;
            // The events that did not fit end with `last_event`; from now on the buffer is filled again.
            buffer.reached = self.last_event.load(Ordering::Acquire);
            return Poll::Ready(Step::CatchUp(Span::new(behind, buffer.reached)));
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
    /// Takes the events of one message, complete revisions only.
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
}

// === impl Wakers ===

impl Wakers {
    pub(crate) fn wake(self) {
        for waker in self.0 {
            waker.wake();
        }
    }
}
