//! etcd's history: events from before the window, which a separate watch reads, and the oldest available revision.

use std::ops::Range;
use std::sync::Arc;

use binnacle_store::StoreError;
use bytes::Bytes;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::window::events_in_range;
use super::{FIRST_PAUSE, Hub, MAX_PAUSE, PROGRESS_REQUEST_INTERVAL, QUICK_READ, STATUS_TIMEOUT};
use crate::api::{RangeRequest, RangeResponse};
use crate::cluster::Member;
use crate::error::Failure;
use crate::stream::{EventStream, Progress, StreamEnd, StreamMessage, first_key};
use crate::watcher::{EndReason, Watcher};

impl Hub {
    /// Sends a watcher the events that it missed, until it can join the hub.
    pub(super) async fn read_history(&self, watcher: &Arc<Watcher>, mut after: u64) {
        let mut pause = FIRST_PAUSE;
        while !self.join(watcher, after) {
            match self.read_until_window(watcher, &mut after).await {
                Ok(()) => pause = FIRST_PAUSE,
                Err(StreamEnd::Compacted(revision)) => {
                    watcher.end(EndReason::Compacted(revision));
                    self.moved.notify_waiters();
                    return;
                }
                Err(StreamEnd::Lost(reason)) => {
                    tracing::debug!(reason, range = ?watcher.range.start, "reading etcd's history was interrupted");
                    sleep(pause).await;
                    pause = (pause * 2).min(MAX_PAUSE);
                }
            }
        }
    }

    /// Reads history until the later events are in the window.
    async fn read_until_window(&self, watcher: &Watcher, after: &mut u64) -> Result<(), StreamEnd> {
        let (mut stream, progress, _) = self.open(&watcher.range, *after).await?;
        let mut progress_ticker = interval(PROGRESS_REQUEST_INTERVAL / 2);
        progress_ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while *after < self.state.lock().baseline && !watcher.is_ended() {
            let message = tokio::select! {
                message = stream.next() => message?,
                _ = progress_ticker.tick(), if progress == Progress::OnRequest => {
                    stream.request_progress();
                    continue;
                }
            };
            match message {
                StreamMessage::Rows(rows) => {
                    for row in rows {
                        let events = events_in_range(&row, &watcher.range);
                        if !events.is_empty() {
                            watcher.offer_history(row.revision, events).await;
                        }
                        *after = row.revision;
                        watcher.advance(row.revision);
                    }
                }
                StreamMessage::Progress(revision) => {
                    *after = revision.max(*after);
                    watcher.advance(revision);
                }
            }
        }
        Ok(())
    }

    /// Opens a watch of a member whose history is complete.
    pub(super) async fn open(
        &self,
        range: &Range<Bytes>,
        after: u64,
    ) -> Result<(EventStream, Progress, &Member), StreamEnd> {
        self.check_reachable(after).await?;
        let lost = |failure: Failure| StreamEnd::Lost(failure.into_store_error().to_string());
        let member: &Member = self.cluster.pick();
        let opened = async {
            let status = member.status(STATUS_TIMEOUT).await?;
            let progress = Progress::of_version(&status.version);
            Ok((EventStream::open(member, progress, range, after).await?, progress, member))
        };
        opened.await.map_err(|failure| {
            self.cluster.avoid(member);
            lost(failure)
        })
    }

    /// Checks that events after this revision can still be read. etcd would start a watch at the compacted revision
    /// itself, but without the deletions of that revision.
    pub(crate) async fn check_reachable(&self, after: u64) -> Result<(), StreamEnd> {
        let key = first_key(self.watched.start.clone());
        let revision = i64::try_from(after.max(1)).unwrap_or(i64::MAX);
        let request = RangeRequest { key, count_only: true, revision, ..RangeRequest::default() };
        match self.cluster.call::<_, RangeResponse>(QUICK_READ, request).await {
            Ok(_) | Err(Failure::Answered(StoreError::FutureRevision { .. })) => Ok(()),
            Err(Failure::Compacted) => {
                Err(StreamEnd::Compacted(self.compacted_revision().await.map_err(StreamEnd::Lost)?))
            }
            Err(failure) => Err(StreamEnd::Lost(failure.into_store_error().to_string())),
        }
    }

    /// Returns the revision of the last compaction. etcd only reports it when it rejects a watch.
    pub(crate) async fn compacted_revision(&self) -> Result<u64, String> {
        let key = first_key(self.watched.start.clone());
        let revision = 1;
        let request = RangeRequest { key: key.clone(), count_only: true, revision, ..RangeRequest::default() };
        match self.cluster.call::<_, RangeResponse>(QUICK_READ, request).await {
            Ok(_) => return Ok(0),
            Err(Failure::Compacted) => {}
            Err(failure) => return Err(failure.into_store_error().to_string()),
        }
        let member = self.cluster.pick();
        let end = [key.as_ref(), b"\0"].concat();
        let opened = EventStream::open(member, Progress::OnRequest, &(key..Bytes::from(end)), 0).await;
        let mut stream = opened.map_err(|failure| failure.into_store_error().to_string())?;
        match timeout(STATUS_TIMEOUT, stream.next()).await {
            Ok(Err(StreamEnd::Compacted(revision))) => Ok(revision),
            Ok(Err(StreamEnd::Lost(reason))) => Err(reason),
            Ok(Ok(_)) | Err(_) => Err("etcd did not say which revision was compacted".to_owned()),
        }
    }
}
