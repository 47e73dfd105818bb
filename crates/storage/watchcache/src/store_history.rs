//! Events from the store's history: a watch that starts before the window, for example after a restart of the server,
//! gets them from there. They are prepended to the window once for all watches, within the window's limits.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use binnacle_store::{KeyValue, Revision, StoreError, WatchMessage};
use bytes::Bytes;
use futures::StreamExt;
use tokio::time::Instant;

use crate::entry::{Entry, Event};
use crate::error::WatchError;
use crate::reflector::entry_from_history;
use crate::shared::Shared;

/// The revision of an empty store, which no client of the cache has ever received.
pub(crate) const NOTHING: Revision = Revision(1);

/// The number of events processed before other tasks run.
const YIELD_INTERVAL: usize = 256;
/// The number of attempts. In rare cases the window drops its oldest events for their size while history is read.
const MAX_ATTEMPTS: usize = 3;
/// The time after which a store that does not send its history is given up.
const READ_TIMEOUT: Duration = Duration::from_secs(60);

impl Shared {
    /// Extends the window back to `from` if the store's history reaches that far and the window has room. Fails if the
    /// store does not respond: with "expired", a client would list everything again.
    ///
    /// The number of reads is bounded however many clients resume: each reads twice as far back as requested, since clients
    /// that lost their connections together request slightly different revisions, and unavailable events are not read
    /// again.
    pub(crate) async fn load_history(&self, from: Revision, deadline: Instant) -> Result<(), WatchError> {
        if self.is_decided(from) {
            return Ok(());
        }
        // One at a time: the next caller finds the events that this one has read.
        let turn = tokio::time::timeout_at(deadline, self.history_lock.clone().lock_owned()).await;
        let turn = turn.map_err(|_| WatchError::NotReady)?;
        let Some(shared) = self.weak_self.upgrade() else { return Err(WatchError::NotReady) };
        // In a task, since a read that takes longer than its caller waits would never end otherwise.
        let read = tokio::spawn(async move {
            let _turn = turn;
            shared.extend_window(from).await
        });
        match tokio::time::timeout_at(deadline, read).await {
            Ok(Ok(extended)) => extended,
            // The task panicked, or takes longer.
            Ok(Err(_)) | Err(_) => Err(WatchError::NotReady),
        }
    }

    /// Returns true if the window has all events after `from`, or cannot get them.
    fn is_decided(&self, from: Revision) -> bool {
        self.hub.lock().window.after(from).is_some() || from.0 <= self.unreachable.load(Ordering::Relaxed)
    }

    async fn extend_window(&self, from: Revision) -> Result<(), WatchError> {
        let _pinned = PinnedWindow::of(self);
        for _ in 0..MAX_ATTEMPTS {
            if self.is_decided(from) {
                return Ok(());
            }
            let baseline = {
                let hub = self.hub.lock();
                if hub.window.is_nearly_full() {
                    return Ok(());
                }
                hub.window.oldest()
            };
            let read = tokio::time::timeout(READ_TIMEOUT, self.history_around(from, baseline)).await;
            let history = match read.unwrap_or(Err(StoreError::Timeout)) {
                Ok(history) => history,
                Err(StoreError::Compacted { .. }) => {
                    self.unreachable.fetch_max(from.0, Ordering::Relaxed);
                    return Ok(());
                }
                Err(StoreError::FutureRevision { .. }) => return Ok(()),
                // Unreadable events are not delivered, so the window has a gap at their revision.
                Err(error) if error.is_unreadable() => return Ok(()),
                Err(error) => {
                    tracing::warn!(%error, range = ?self.range.start, "failed to read history for a watch");
                    return Err(WatchError::NotReady);
                }
            };
            let mut hub = self.hub.lock();
            if hub.window.oldest() == baseline {
                if history.is_cut {
                    // The events before do not fit into the window, now or later, so they are not read again.
                    self.unreachable.fetch_max(history.baseline.0 - 1, Ordering::Relaxed);
                }
                hub.window.prepend(history.events, history.baseline);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Reads the events after a revision that is twice as old as `from`, or the oldest that the store has.
    async fn history_around(&self, from: Revision, until: Revision) -> Result<HistoricEvents, StoreError> {
        let age = self.progress().0.saturating_sub(from.0);
        let farther = Revision(from.0.saturating_sub(age)).max(Revision(NOTHING.0 + 1)).min(from);
        match self.history(farther, until).await {
            Err(StoreError::Compacted { compacted }) if farther < compacted && compacted <= from => {
                self.history(compacted, until).await
            }
            read => read,
        }
    }

    /// Reads the events after `from` up to `until`, or the newest of them that fit into the window.
    async fn history(&self, from: Revision, until: Revision) -> Result<HistoricEvents, StoreError> {
        let (room, room_bytes) = self.hub.lock().window.room();
        let mut watch = self.store.watch(self.range.clone(), from).await?;
        // After the last event, nothing is outstanding up to this revision. The window does not start later.
        let last = watch.control.barrier().await?.last_event.min(until);
        let mut history = HistoricEvents { events: VecDeque::new(), baseline: from, is_cut: false };
        let (mut reached, mut bytes, mut processed) = (Revision(0), 0, 0);
        let mut seen: HashMap<Bytes, Arc<Entry>> = HashMap::new();
        let now = Instant::now();
        while reached < last {
            let events = match watch.messages.next().await {
                Some(Ok(WatchMessage::Events(events))) => events,
                Some(Ok(WatchMessage::Progress(_))) => continue,
                Some(Err(error)) => return Err(error),
                None => return Err(StoreError::Closed),
            };
            for event in events {
                let (key, revision, new, old) = match event {
                    binnacle_store::Event::Put { kv, previous } => {
                        (kv.key.clone(), kv.mod_revision, Some(kv), previous)
                    }
                    binnacle_store::Event::Delete { key, revision, previous } => (key, revision, None, previous),
                };
                reached = revision;
                if revision > until {
                    break;
                }
                let remember = |kv: Option<KeyValue>| match kv {
                    Some(kv) => self.entry_of(&seen, &kv),
                    None => Ok(None),
                };
                let (old, new) = (remember(old)?, remember(new)?);
                match &new {
                    Some(entry) => seen.insert(key, Arc::clone(entry)),
                    None => seen.remove(&key),
                };
                // As in the window, no reader has seen an object that never existed in the cache.
                if old.is_none() && new.is_none() {
                    continue;
                }
                let event = Event::new(revision, old, new, now);
                bytes += event.size();
                history.events.push_back(event);
                while history.events.len() > room || bytes > room_bytes {
                    let Some(first) = history.events.pop_front() else { break };
                    bytes -= first.size();
                    history.baseline = first.revision();
                    history.is_cut = true;
                }
                processed += 1;
                if processed % YIELD_INTERVAL == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        // A partial revision is dropped.
        while history.events.front().is_some_and(|event| event.revision() <= history.baseline) {
            history.events.pop_front();
        }
        Ok(history)
    }

    /// Returns the entry of a value: the cache's, an earlier event's, or a new one.
    fn entry_of(&self, seen: &HashMap<Bytes, Arc<Entry>>, kv: &KeyValue) -> Result<Option<Arc<Entry>>, StoreError> {
        let path = kv.key.strip_prefix(self.range.start.as_ref()).and_then(|path| std::str::from_utf8(path).ok());
        let Some(path) = path else { return Ok(None) };
        if let Some(entry) = seen.get(&kv.key).filter(|entry| entry.revision() == kv.mod_revision) {
            return Ok(Some(Arc::clone(entry)));
        }
        match self.get(path).filter(|entry| entry.revision() == kv.mod_revision) {
            Some(entry) => Ok(Some(entry)),
            None => entry_from_history(self, path, kv).map(|entry| Some(Arc::new(entry))),
        }
    }
}

/// While it exists, the window keeps old events: those that are read would not meet the others otherwise.
struct PinnedWindow<'a>(&'a Shared);

impl<'a> PinnedWindow<'a> {
    fn of(shared: &'a Shared) -> Self {
        shared.hub.lock().window.set_pinned(true);
        Self(shared)
    }
}

impl Drop for PinnedWindow<'_> {
    fn drop(&mut self) {
        self.0.hub.lock().window.set_pinned(false);
    }
}

/// Events without a gap after `baseline`.
struct HistoricEvents {
    events: VecDeque<Event>,
    baseline: Revision,
    /// True if older events did not fit.
    is_cut: bool,
}
