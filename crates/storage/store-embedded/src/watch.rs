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
use crate::shared::Shared;
use crate::span::Span;

/// The number of keys that are visited under one lock.
const KEYS_AT_ONCE: usize = 1024;

/// Starts a watch.
pub(crate) fn watch(shared: &Arc<Shared>, range: Range<Bytes>, after: u64) -> Result<Watch, StoreError> {
    // The initial revision of an empty store has no record.
    let first = after.max(FIRST_REVISION);
    let (watcher, now) = {
        let mut state = shared.state.write();
        state.check_open()?;
        if after.saturating_add(1) < state.compacted {
            return Err(StoreError::Compacted { compacted: Revision(state.compacted) });
        }
        let now = state.revision;
        let watcher = Arc::new(Watcher::new(range, first, shared.watch, now));
        state.hub.0.add(&watcher.range, &watcher);
        (watcher, now)
    };
    let mut receiver =
        WatchReceiver { shared: shared.clone(), watcher: watcher.clone(), catching_up: None, ended: false };
    if first < now {
        // The watch receives what changes meanwhile.
        let newest = newest_change(shared, &watcher.range)?;
        if newest > first {
            watcher.last_event.fetch_max(newest, Ordering::AcqRel);
            watcher.buffer.lock().is_catching_up = true;
            receiver.catching_up = Some(Span::new(first, now));
        }
    }
    let messages =
        stream::unfold(receiver, |mut receiver| async move { Some((receiver.next().await?, receiver)) }).boxed();
    Ok(Watch { messages, control: Box::new(EmbeddedWatchControl { shared: shared.clone(), watcher }) })
}

/// Returns the newest revision at which a key of the range changed. Writers do not wait for all of its keys.
fn newest_change(shared: &Shared, range: &Range<Bytes>) -> Result<u64, StoreError> {
    let (mut newest, mut after) = (0, None);
    loop {
        let (mut visited, mut last) = (0, None);
        let walked = shared.state.read().index.range(range, after.as_ref(), &mut |key, entry| {
            newest = newest.max(entry.newest());
            visited += 1;
            if visited < KEYS_AT_ONCE {
                return ControlFlow::Continue(());
            }
            last = Some(key.clone());
            ControlFlow::Break(())
        });
        walked.map_err(|error| read_error(&error))?;
        if last.is_none() {
            return Ok(newest);
        }
        after = last;
    }
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
