//! The shared watch of etcd, and its watchers.
//!
//! The hub has a position: every event up to it was offered to the watchers. It keeps a window of the newest events for
//! watches that start at the revision of a recent list. A watch from an earlier revision reads etcd's history first,
//! and joins the hub when it has caught up.

mod history;
mod window;

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use binnacle_store::{Barrier, Event, Revision, StoreError};
use binnacle_supervise::supervise;
use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::sync::futures::Notified;
use tokio::task::AbortHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, timeout};

use self::window::{State, events_in_range};
use crate::api::{RangeRequest, RangeResponse, path};
use crate::cluster::{Call, Cluster};
use crate::error::Failure;
use crate::metrics::Metrics;
use crate::shared_read::SharedRead;
use crate::stream::{Progress, Row, StreamEnd, StreamMessage, first_key, unsigned};
use crate::watch_limits::WatchLimits;
use crate::watcher::{EndReason, Watcher};

pub(crate) struct Hub {
    pub(crate) cluster: Cluster,
    watched: Range<Bytes>,
    limits: WatchLimits,
    metrics: Metrics,
    state: Mutex<State>,
    /// Notified when the position moves, when a watcher has caught up, and when watches end.
    moved: Notify,
    /// Notified when a caller waits for the position to move, since events alone may not move it.
    progress_wanted: Notify,
    /// Notified when the watched member does not respond, while others may.
    stuck: Notify,
    revision: SharedRead<Result<u64, StoreError>>,
    task: Mutex<Option<AbortHandle>>,
}

/// A read with a small response.
pub(crate) const QUICK_READ: Call = Call { path: path::RANGE, repeatable: true, timeout: Duration::from_secs(2) };

const STATUS_TIMEOUT: Duration = Duration::from_secs(2);
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const MAX_PAUSE: Duration = Duration::from_secs(1);
/// The interval at which progress is sent to watchers without events.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(5);
/// The interval at which progress is requested while a caller waits for it, as in kube-apiserver.
const PROGRESS_REQUEST_INTERVAL: Duration = Duration::from_millis(100);
/// The time after which the hub tries another member if its position has not moved while a caller waits for it.
const STUCK_AFTER: Duration = Duration::from_millis(1500);
/// The timeout of a barrier.
const REACH_TIMEOUT: Duration = Duration::from_secs(30);

// === impl Hub ===

impl Hub {
    pub(crate) fn new(cluster: Cluster, watched: Range<Bytes>, limits: WatchLimits, metrics: Metrics) -> Self {
        Self {
            cluster,
            watched,
            limits,
            metrics,
            state: Mutex::default(),
            moved: Notify::new(),
            progress_wanted: Notify::new(),
            stuck: Notify::new(),
            revision: SharedRead::default(),
            task: Mutex::default(),
        }
    }

    pub(crate) fn moved(&self) -> Notified<'_> {
        self.moved.notified()
    }

    /// Starts to watch etcd, and waits for the initial position.
    pub(crate) async fn wait_started(self: &Arc<Self>) -> Result<(), StoreError> {
        {
            let mut task = self.task.lock();
            if task.is_none() {
                let hub = Arc::clone(self);
                let watching = supervise("etcd watch", move || {
                    let hub = Arc::clone(&hub);
                    async move { hub.run().await }
                });
                *task = Some(tokio::spawn(watching).abort_handle());
            }
        }
        let waiting = async {
            loop {
                let moved = self.moved.notified();
                {
                    let state = self.state.lock();
                    if state.closed {
                        return Err(StoreError::Closed);
                    }
                    if state.position > 0 {
                        return Ok(());
                    }
                }
                moved.await;
            }
        };
        timeout(REACH_TIMEOUT, waiting).await.unwrap_or(Err(StoreError::Timeout))
    }

    pub(crate) fn close(&self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
        let mut state = self.state.lock();
        state.closed = true;
        state.end_all(EndReason::Closed);
        drop(state);
        self.moved.notify_waiters();
    }

    /// Returns a revision that etcd had after the call. Callers that arrive during a request share the next one.
    pub(crate) async fn fresh_revision(&self) -> Result<u64, StoreError> {
        let read = || async {
            let before = self.state.lock().position;
            let revision = self.read_revision().await.map_err(Failure::into_store_error)?;
            if revision < before {
                self.handle_restore(revision);
            }
            Ok(revision)
        };
        self.revision.get(read).await
    }

    async fn read_revision(&self) -> Result<u64, Failure> {
        let key = first_key(self.watched.start.clone());
        let request = RangeRequest { key, count_only: true, ..RangeRequest::default() };
        let answer: RangeResponse = self.cluster.call(QUICK_READ, request).await?;
        Ok(answer.header.map_or(0, |header| unsigned(header.revision)))
    }

    /// Waits until the hub has offered everything up to a revision.
    pub(crate) async fn wait_for(&self, revision: u64) -> Result<(), StoreError> {
        let started = Instant::now();
        loop {
            let moved = self.moved.notified();
            let before = {
                let state = self.state.lock();
                if state.closed {
                    return Err(StoreError::Closed);
                }
                state.position
            };
            if before >= revision {
                return Ok(());
            }
            if started.elapsed() > REACH_TIMEOUT {
                return Err(StoreError::Timeout);
            }
            self.progress_wanted.notify_one();
            let _ = timeout(PROGRESS_REQUEST_INTERVAL, moved).await;
            if started.elapsed() > STUCK_AFTER {
                self.stuck.notify_one();
            }
        }
    }

    /// Returns the barrier of a watcher, or `None` while its `last_event` is not available.
    pub(crate) fn barrier(
        &self,
        last_event: impl FnOnce() -> Result<Option<u64>, StoreError>,
    ) -> Result<Option<Barrier>, StoreError> {
        let state = self.state.lock();
        // A watcher that has just read history may be ahead.
        let barrier = |last: u64| Barrier { current: Revision(state.position.max(last)), last_event: Revision(last) };
        Ok(last_event()?.map(barrier))
    }

    /// Returns the epoch of a watcher that starts now.
    pub(crate) fn epoch(&self) -> u64 {
        self.state.lock().epoch
    }

    /// Sends a watcher the events after `after`: from the window, or from history first.
    pub(crate) fn add(self: &Arc<Self>, watcher: &Arc<Watcher>, after: u64) {
        if !self.join(watcher, after) {
            let (hub, reader) = (Arc::clone(self), Arc::clone(watcher));
            // If history is read again, events that the watcher already has are skipped.
            let reading = supervise("etcd history", move || {
                let (hub, reader) = (Arc::clone(&hub), Arc::clone(&reader));
                async move { hub.read_history(&reader, after).await }
            });
            let task = tokio::spawn(reading);
            watcher.set_task(task.abort_handle());
        }
    }

    /// Sends the omitted events to a watcher that has emptied its buffer.
    pub(crate) fn catch_up(self: &Arc<Self>, watcher: &Arc<Watcher>) {
        self.remove(watcher);
        if let Some(after) = watcher.take_dropped() {
            watcher.set_live(false);
            self.add(watcher, after);
        }
    }

    pub(crate) fn remove(&self, watcher: &Arc<Watcher>) {
        let mut state = self.state.lock();
        state.watchers.remove(&watcher.range, watcher);
        state.remove_reader(watcher);
    }

    /// Adds a watcher that has everything up to `after` to the live watchers. Returns `false` if the window does not
    /// reach back that far, so that the watcher must read history. The watcher may be ahead of the hub, which watches
    /// another member. An ended watcher is ignored.
    fn join(&self, watcher: &Arc<Watcher>, after: u64) -> bool {
        let mut state = self.state.lock();
        if state.closed {
            watcher.end(EndReason::Closed);
            return true;
        }
        if watcher.is_ended() {
            return true;
        }
        if watcher.epoch != state.epoch {
            watcher.end(EndReason::Restored);
            return true;
        }
        state.remove_reader(watcher);
        if after < state.baseline {
            state.readers.push(Arc::clone(watcher));
            return false;
        }
        let first_missed = state.window.partition_point(|row| row.revision <= after);
        for row in state.window.range(first_missed..) {
            let events = events_in_range(row, &watcher.range);
            if !events.is_empty() {
                watcher.offer(row.revision, &|| events.clone());
            }
        }
        watcher.set_live(true);
        let range = watcher.range.clone();
        state.watchers.add(&range, watcher);
        drop(state);
        self.moved.notify_waiters();
        true
    }

    async fn run(&self) {
        let mut pause = FIRST_PAUSE;
        loop {
            let started = Instant::now();
            let ended = match self.resume_position().await {
                Ok(position) => self.watch_etcd(position).await,
                Err(failure) => StreamEnd::Lost(failure.into_store_error().to_string()),
            };
            if started.elapsed() > MAX_PAUSE {
                pause = FIRST_PAUSE;
            }
            match ended {
                StreamEnd::Compacted(revision) => {
                    tracing::warn!(
                        revision,
                        "etcd compacted revisions that were not received yet, restarting all watches"
                    );
                    self.end_watches(EndReason::Compacted(revision));
                }
                StreamEnd::Lost(reason) => {
                    tracing::warn!(reason, "etcd watch ended, switching to the next member");
                    sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
        }
    }

    /// Returns the position from which the hub resumes.
    async fn resume_position(&self) -> Result<u64, Failure> {
        let (position, newest) = {
            let state = self.state.lock();
            (state.position, state.newest())
        };
        let revision = self.read_revision().await?;
        if revision >= position && position > 0 && self.has_event(newest).await? {
            return Ok(position);
        }
        if position > 0 {
            // etcd was restored while the hub was not connected, and events up to the position would be missed.
            self.handle_restore(revision);
        }
        {
            let mut state = self.state.lock();
            state.position = revision;
            state.baseline = revision;
        }
        self.moved.notify_waiters();
        Ok(revision)
    }

    /// Returns false if etcd does not have the newest event: it was restored, and writes have since reached the same
    /// revision. A compacted revision cannot be compared.
    async fn has_event(&self, newest: Option<Event>) -> Result<bool, Failure> {
        let Some(event) = newest else { return Ok(true) };
        let revision = i64::try_from(event.revision().0).unwrap_or(i64::MAX);
        let request = RangeRequest { key: event.key().clone(), revision, ..RangeRequest::default() };
        let answer: RangeResponse = match self.cluster.call(QUICK_READ, request).await {
            Ok(answer) => answer,
            Err(Failure::Compacted) => return Ok(true),
            Err(failure) => return Err(failure),
        };
        Ok(match (&event, answer.kvs.first()) {
            (Event::Put { kv, .. }, Some(found)) => found.mod_revision == revision && found.value == kv.value,
            (Event::Delete { .. }, None) => true,
            (Event::Put { .. }, None) | (Event::Delete { .. }, Some(_)) => false,
        })
    }

    async fn watch_etcd(&self, position: u64) -> StreamEnd {
        let (mut stream, progress, member) = match self.open(&self.watched, position).await {
            Ok(opened) => opened,
            Err(ended) => return ended,
        };
        let mut progress_ticker = interval(PROGRESS_INTERVAL);
        progress_ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut last_message = Instant::now();
        loop {
            tokio::select! {
                biased;
                message = stream.next() => {
                    last_message = Instant::now();
                    match message {
                        Ok(StreamMessage::Rows(rows)) => self.dispatch_rows(rows),
                        Ok(StreamMessage::Progress(revision)) => self.advance(revision),
                        Err(ended) => return ended,
                    }
                }
                () = self.progress_wanted.notified(), if progress == Progress::OnRequest => stream.request_progress(),
                () = self.stuck.notified() => {
                    if last_message.elapsed() > STUCK_AFTER {
                        self.cluster.avoid(member);
                        return StreamEnd::Lost("the member tells nothing while others have news".to_owned());
                    }
                }
                _ = progress_ticker.tick() => self.send_progress(),
            }
            // The store was restored in the meantime.
            if self.state.lock().position == 0 {
                return StreamEnd::Lost("the store went back to an earlier revision".to_owned());
            }
        }
    }

    /// Offers new events to the watchers.
    fn dispatch_rows(&self, rows: Vec<Row>) {
        let mut state = self.state.lock();
        if state.position == 0 {
            return;
        }
        for mut row in rows {
            if row.revision <= state.position {
                continue;
            }
            row.events.retain(|event| self.watched.contains(event.key()));
            for event in &row.events {
                self.metrics.event(event.key());
            }
            if !row.events.is_empty() {
                state.watchers.dispatch(&row.events, |watcher, events| watcher.offer(row.revision, events));
            }
            state.position = row.revision;
            state.push(row, &self.limits);
        }
        drop(state);
        self.moved.notify_waiters();
    }

    fn advance(&self, revision: u64) {
        self.metrics.bookmark();
        let mut state = self.state.lock();
        if state.position > 0 {
            state.position = state.position.max(revision);
        }
        drop(state);
        self.moved.notify_waiters();
    }

    fn send_progress(&self) {
        let state = self.state.lock();
        for watcher in state.watchers.iter() {
            watcher.progress(state.position);
        }
    }

    /// Ends all watches, since events after the position are lost.
    fn end_watches(&self, end_reason: EndReason) {
        let mut state = self.state.lock();
        state.end_all(end_reason);
        state.position = 0;
        state.epoch += 1;
        // No watcher may join before the start of the new window is set.
        state.baseline = u64::MAX;
        drop(state);
        self.moved.notify_waiters();
    }

    fn handle_restore(&self, revision: u64) {
        tracing::error!(revision, "etcd was restored to an earlier revision, restarting all watches");
        self.end_watches(EndReason::Restored);
        self.stuck.notify_one();
    }
}
