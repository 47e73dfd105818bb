//! Reaching back: a watch that starts before the window, for example after a restart of the server, gets its events
//! from the store's history. They are prepended to the window, once for all watches, within the window's limits.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use binnacle_store::{KeyValue, Revision, StoreError, WatchMessage};
use bytes::Bytes;
use futures::StreamExt;
use tokio::time::Instant;

use crate::entry::{Entry, Event};
use crate::error::WatchError;
use crate::follower::historic;
use crate::shared::Shared;

/// The number of events processed before other tasks run.
const TURN: usize = 256;
/// The number of attempts: in rare cases the window loses its oldest events while history is read.
const ATTEMPTS: usize = 3;

impl Shared {
    /// Extends the window back to `from`, if the store's history reaches it and the window has room. Fails if the store
    /// does not respond: with "expired" a client would list everything again.
    pub(crate) async fn reach_back(&self, from: Revision, deadline: Instant) -> Result<(), WatchError> {
        if self.reaches(from).is_ok() || from.0 <= self.out_of_reach.load(Ordering::Relaxed) {
            return Ok(());
        }
        // One at a time: the next caller finds the events that this one has read.
        let _turn = tokio::time::timeout_at(deadline, self.reaching.lock()).await.map_err(|_| WatchError::NotReady)?;
        for _ in 0..ATTEMPTS {
            let Err(floor) = self.reaches(from) else { return Ok(()) };
            let past = match tokio::time::timeout_at(deadline, self.past(from, floor)).await {
                Ok(Ok(past)) => past,
                Ok(Err(StoreError::Compacted { .. } | StoreError::FutureRevision { .. })) => return Ok(()),
                // Unreadable events are not delivered: the window has a gap at their revision.
                Ok(Err(error)) if error.is_unreadable() => return Ok(()),
                Ok(Err(error)) => {
                    tracing::warn!(%error, range = ?self.range.start, "cannot read the store's history for a watch");
                    return Err(WatchError::NotReady);
                }
                Err(_) => return Err(WatchError::NotReady),
            };
            let mut hub = self.hub.lock();
            if hub.window.oldest() == floor {
                if past.floor > from {
                    // The events do not fit into the window, now or later: they are not read again.
                    self.out_of_reach.fetch_max(from.0, Ordering::Relaxed);
                }
                hub.window.prepend(past.events, past.floor);
                return Ok(());
            }
        }
        Ok(())
    }

    /// Succeeds if the window has all events after `from`; otherwise returns the revision after which it has them.
    fn reaches(&self, from: Revision) -> Result<(), Revision> {
        let hub = self.hub.lock();
        hub.window.after(from).map(|_| ()).ok_or_else(|| hub.window.oldest())
    }

    /// Reads the events after `from` up to `until`, or the newest of them that fit into the window.
    async fn past(&self, from: Revision, until: Revision) -> Result<Past, StoreError> {
        let (room, room_bytes) = self.hub.lock().window.room();
        let mut watch = self.store.watch(self.range.clone(), from).await?;
        // After the last event, nothing is outstanding up to this revision; the window does not start later.
        let last = watch.control.barrier().await?.last_event.min(until);
        let mut past = Past { events: VecDeque::new(), floor: from };
        let (mut reached, mut bytes, mut looked_at) = (Revision(0), 0, 0);
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
                    Some(kv) => self.remembered(&seen, &kv),
                    None => Ok(None),
                };
                let (old, new) = (remember(old)?, remember(new)?);
                match &new {
                    Some(entry) => seen.insert(key, Arc::clone(entry)),
                    None => seen.remove(&key),
                };
                // As in the window: no reader has seen an object that never existed in the cache.
                if old.is_none() && new.is_none() {
                    continue;
                }
                let event = Event::new(revision, old, new, now);
                bytes += event.size();
                past.events.push_back(event);
                while past.events.len() > room || bytes > room_bytes {
                    let Some(first) = past.events.pop_front() else { break };
                    bytes -= first.size();
                    past.floor = first.revision();
                }
                looked_at += 1;
                if looked_at % TURN == 0 {
                    tokio::task::yield_now().await;
                }
            }
        }
        // A partial revision is dropped.
        while past.events.front().is_some_and(|event| event.revision() <= past.floor) {
            past.events.pop_front();
        }
        Ok(past)
    }

    /// Returns the entry of a value: the cache's, an earlier event's, or a new one.
    fn remembered(&self, seen: &HashMap<Bytes, Arc<Entry>>, kv: &KeyValue) -> Result<Option<Arc<Entry>>, StoreError> {
        let path = kv.key.strip_prefix(self.range.start.as_ref()).and_then(|path| std::str::from_utf8(path).ok());
        let Some(path) = path else { return Ok(None) };
        if let Some(entry) = seen.get(&kv.key).filter(|entry| entry.revision() == kv.mod_revision) {
            return Ok(Some(Arc::clone(entry)));
        }
        match self.get(path).filter(|entry| entry.revision() == kv.mod_revision) {
            Some(entry) => Ok(Some(entry)),
            None => historic(self, path, kv).map(|entry| Some(Arc::new(entry))),
        }
    }
}

/// Events without a gap after `floor`.
struct Past {
    events: VecDeque<Event>,
    floor: Revision,
}
