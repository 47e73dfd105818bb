//! Watches: dispatches changes to watchers, and lets a watcher that fell behind catch up.
//!
//! The committer offers every event to the watchers of its key. It does not wait for a watcher whose buffer is full:
//! the watcher records its revision, and its stream reads the rest from history before it uses the buffer again.

use std::collections::VecDeque;
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use binnacle_store::{
    Barrier, Digest, Event, RangeDigest, RangeWatchers, Revision, StoreError, Watch, WatchControl, WatchMessage,
};
use bytes::Bytes;
use futures::future::{BoxFuture, poll_fn, ready};
use futures::{FutureExt, StreamExt, stream};
use parking_lot::Mutex;

use crate::digests;
use crate::history::{self, Span};
use crate::options::WatchOptions;
use crate::record::FIRST_REVISION;
use crate::shared::{Shared, State, read_error};

/// All watchers, by their key ranges.
#[derive(Default)]
pub(crate) struct Hub(RangeWatchers<Watcher>);

pub(crate) struct Watcher {
    range: Range<Bytes>,
    /// Events up to this revision are not delivered.
    after: u64,
    options: WatchOptions,
    /// The newest event of this watch in the store, even if the stream has not delivered it.
    last_event: AtomicU64,
    buffer: Mutex<Buffer>,
}

#[derive(Default)]
struct Buffer {
    events: VecDeque<(u64, Vec<Event>)>,
    count: usize,
    bytes: usize,
    /// The revision after which events are only in history, if the buffer was full.
    behind: Option<u64>,
    /// The newest revision that was buffered, or read from history.
    reached: u64,
    progress: Option<u64>,
    /// True while the stream reads from history.
    is_catching_up: bool,
    closed: bool,
    waker: Option<Waker>,
}

/// The wakers of streams, which are called when no lock is held.
#[derive(Default)]
pub(crate) struct Wakers(Vec<Waker>);

/// The next step of the stream.
enum Step {
    Deliver(WatchMessage),
    CatchUp(Span),
    End,
}

/// The maximum number of events in one message (unless one revision has more).
const MESSAGE_EVENTS: usize = 1024;

/// Starts a watch.
pub(crate) fn watch(shared: &Arc<Shared>, range: Range<Bytes>, after: u64) -> Result<Watch, StoreError> {
    let mut state = shared.state.write();
    state.check_open()?;
    if after.saturating_add(1) < state.compacted {
        return Err(StoreError::Compacted { compacted: Revision(state.compacted) });
    }
    let now = state.revision;
    // The initial revision of an empty store has no record.
    let after = after.max(FIRST_REVISION);
    let newest = if after < now { state.newest_change(&range)? } else { 0 };
    let last_event = if newest > after { newest } else { 0 };
    let watcher = Arc::new(Watcher {
        range,
        after,
        options: shared.watch,
        last_event: AtomicU64::new(last_event),
        buffer: Mutex::new(Buffer { reached: after.max(now), is_catching_up: last_event > 0, ..Buffer::default() }),
    });
    state.hub.0.add(&watcher.range, &watcher);
    drop(state);
    let receiver = WatchReceiver {
        shared: shared.clone(),
        watcher: watcher.clone(),
        catching_up: (last_event > 0).then(|| Span::new(after, now)),
        ended: false,
    };
    let messages =
        stream::unfold(receiver, |mut receiver| async move { Some((receiver.next().await?, receiver)) }).boxed();
    Ok(Watch { messages, control: Box::new(EmbeddedWatchControl { shared: shared.clone(), watcher }) })
}

/// The receiver of a watch, which ends the watch when it is dropped.
struct WatchReceiver {
    shared: Arc<Shared>,
    watcher: Arc<Watcher>,
    /// The revisions to read from history before the buffer is used.
    catching_up: Option<Span>,
    ended: bool,
}

struct EmbeddedWatchControl {
    shared: Arc<Shared>,
    watcher: Arc<Watcher>,
}

// === impl WatchReceiver ===

impl WatchReceiver {
    async fn next(&mut self) -> Option<Result<WatchMessage, StoreError>> {
        if self.ended {
            return None;
        }
        let message = loop {
            if let Some(span) = self.catching_up.take() {
                let (events, rest) = match history::read(&self.shared, &self.watcher.range, span).await {
                    Ok(read) => read,
                    Err(error) => break Err(error),
                };
                let done = span.last;
                self.catching_up = rest;
                self.watcher.buffer.lock().is_catching_up = rest.is_some();
                match (events.is_empty(), rest) {
                    (false, _) => break Ok(WatchMessage::Events(events)),
                    (true, None) => break Ok(WatchMessage::Progress(Revision(done))),
                    (true, Some(_)) => continue,
                }
            }
            match poll_fn(|cx| self.watcher.poll_step(cx)).await {
                Step::Deliver(message) => break Ok(message),
                Step::CatchUp(span) => self.catching_up = Some(span),
                Step::End => break Err(StoreError::Closed),
            }
        };
        self.ended = message.is_err();
        Some(message)
    }
}

impl Drop for WatchReceiver {
    fn drop(&mut self) {
        let mut state = self.shared.state.write();
        state.hub.0.remove(&self.watcher.range, &self.watcher);
        if !state.hub.0.has_watcher(&self.watcher.range) {
            state.digests.remove(&self.watcher.range);
        }
    }
}

// === impl EmbeddedWatchControl ===

impl WatchControl for EmbeddedWatchControl {
    fn barrier(&self) -> BoxFuture<'_, Result<Barrier, StoreError>> {
        ready(self.current_barrier()).boxed()
    }

    fn digest(&self) -> Option<RangeDigest> {
        let found = {
            // Events and digests change together, under this lock.
            let state = self.shared.state.read();
            let digest = state.digests.get(&self.watcher.range);
            digest.map(|digest| self.watcher.with_last_event(digest))
        };
        if found.is_none() {
            digests::count(&self.shared, &self.watcher.range);
        }
        found
    }
}

impl EmbeddedWatchControl {
    /// Returns the barrier. Events reach the watcher before the store's revision advances, so `last_event`, which is
    /// read after the revision, covers `current`.
    fn current_barrier(&self) -> Result<Barrier, StoreError> {
        let current = self.shared.current();
        let last_event = Revision(self.watcher.last_event.load(Ordering::Acquire));
        if self.watcher.buffer.lock().closed {
            return Err(StoreError::Closed);
        }
        Ok(Barrier { current: current.max(last_event), last_event })
    }
}

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
    fn with_last_event(&self, digest: Digest) -> RangeDigest {
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

    fn poll_step(&self, cx: &mut Context<'_>) -> Poll<Step> {
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

// === impl State ===

impl State {
    /// Returns the newest revision at which a key of the range changed.
    fn newest_change(&self, range: &Range<Bytes>) -> Result<u64, StoreError> {
        let mut newest = 0;
        let walked = self.index.range(range, None, &mut |_, entry| {
            newest = newest.max(entry.newest());
            ControlFlow::Continue(())
        });
        walked.map_err(|error| read_error(&error))?;
        Ok(newest)
    }
}
