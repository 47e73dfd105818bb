//! etcd's history: events from before the window, read by a separate watch, and the oldest revision that is left.

use std::ops::Range;
use std::sync::Arc;

use binnacle_store::StoreError;
use bytes::Bytes;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};

use super::window::share;
use super::{ASK_AGAIN, FIRST_PAUSE, Hub, LONGEST_PAUSE, QUICK_READ, STATUS_PATIENCE};
use crate::api::{RangeRequest, RangeResponse};
use crate::cluster::Member;
use crate::error::Failure;
use crate::stream::{Ended, EventStream, Heard, Progress, first_key};
use crate::watcher::{Ending, Watcher};

impl Hub {
    /// Sends a watcher the events that it missed, until it can join the hub.
    pub(super) async fn read_history(&self, watcher: &Arc<Watcher>, mut after: u64) {
        let mut pause = FIRST_PAUSE;
        while !self.join(watcher, after) {
            match self.read_some_history(watcher, &mut after).await {
                Ok(()) => pause = FIRST_PAUSE,
                Err(Ended::Compacted(revision)) => {
                    watcher.end(Ending::Compacted(revision));
                    self.moved.notify_waiters();
                    return;
                }
                Err(Ended::Lost(reason)) => {
                    tracing::debug!(reason, range = ?watcher.range.start, "reading etcd's history was interrupted");
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
            }
        }
    }

    /// Reads history until the window has the later events.
    async fn read_some_history(&self, watcher: &Watcher, after: &mut u64) -> Result<(), Ended> {
        let (mut stream, progress, _) = self.open(&watcher.range, *after).await?;
        let mut ask = interval(ASK_AGAIN / 2);
        ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while *after < self.state.lock().floor && !watcher.is_ended() {
            let heard = tokio::select! {
                heard = stream.next() => heard?,
                _ = ask.tick(), if progress == Progress::OnRequest => {
                    stream.request_progress();
                    continue;
                }
            };
            match heard {
                Heard::Rows(rows) => {
                    for row in rows {
                        let share = share(&row, &watcher.range);
                        if !share.is_empty() {
                            watcher.offer_past(row.revision, share).await;
                        }
                        *after = row.revision;
                        watcher.scanned(row.revision);
                    }
                }
                Heard::Progress(revision) => {
                    *after = revision.max(*after);
                    watcher.scanned(revision);
                }
            }
        }
        Ok(())
    }

    /// Opens a watch of a member, whose history is complete.
    pub(super) async fn open(
        &self,
        range: &Range<Bytes>,
        after: u64,
    ) -> Result<(EventStream, Progress, &Member), Ended> {
        self.reachable(after).await?;
        let lost = |failure: Failure| Ended::Lost(failure.into_store_error().to_string());
        let member: &Member = self.cluster.pick();
        let opened = async {
            let status = member.status(STATUS_PATIENCE).await?;
            let progress = Progress::of_version(&status.version);
            Ok((EventStream::open(member, progress, range, after).await?, progress, member))
        };
        opened.await.map_err(|failure| {
            self.cluster.avoid(member);
            lost(failure)
        })
    }

    /// Checks that events after this revision can still be read. etcd would start a watch at the revision of a
    /// compaction itself, but without the deletions of that revision.
    pub(crate) async fn reachable(&self, after: u64) -> Result<(), Ended> {
        let key = first_key(self.watched.start.clone());
        let revision = i64::try_from(after.max(1)).unwrap_or(i64::MAX);
        let request = RangeRequest { key, count_only: true, revision, ..RangeRequest::default() };
        match self.cluster.call::<_, RangeResponse>(QUICK_READ, request).await {
            Ok(_) | Err(Failure::Answered(StoreError::FutureRevision { .. })) => Ok(()),
            Err(Failure::Compacted) => Err(Ended::Compacted(self.compacted().await.map_err(Ended::Lost)?)),
            Err(failure) => Err(Ended::Lost(failure.into_store_error().to_string())),
        }
    }

    /// Returns the revision of the last compaction. etcd reports it only when it refuses a watch.
    pub(crate) async fn compacted(&self) -> Result<u64, String> {
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
        match timeout(STATUS_PATIENCE, stream.next()).await {
            Ok(Err(Ended::Compacted(revision))) => Ok(revision),
            Ok(Err(Ended::Lost(reason))) => Err(reason),
            Ok(Ok(_)) | Err(_) => Err("etcd did not say which revision was compacted".to_owned()),
        }
    }
}
