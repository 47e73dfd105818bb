//! Watches: streams of the events of a range. A watch that fell behind reads the rest from history.

use std::future::{poll_fn, ready};
use std::ops::{ControlFlow, Range};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use binnacle_store::{Barrier, RangeDigest, Revision, StoreError, Watch, WatchControl, WatchMessage};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};

use crate::digest_count;
use crate::error::read_error;
use crate::history;
use crate::hub::{Step, Watcher};
use crate::record::FIRST_REVISION;
use crate::shared::{Shared, State};
use crate::span::Span;

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
    let watcher = Arc::new(Watcher::new(range, after, shared.watch, last_event, after.max(now)));
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
            digest_count::count(&self.shared, &self.watcher.range);
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
