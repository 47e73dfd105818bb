//! The watch of the source, from the end of a pass until the switch.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_store::{Event, Revision, Store, StoreError, Watch, WatchMessage, prefix_range};
use futures::StreamExt;
use tokio::net::UnixStream;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use super::{Migration, none_if_stopped};
use crate::Error;

/// The reason why the watch ended.
pub(super) enum WatchEnd {
    /// The switch was made, and everything up to this revision is in the target.
    CaughtUp(Revision),
    /// The server that owns the source has stopped.
    SourceGone(String),
}

/// The operator's signal that the source's servers have stopped.
pub(super) struct Switch(watch::Receiver<bool>);

const NOTE_EVERY: Duration = Duration::from_secs(1);
const TICK: Duration = Duration::from_millis(100);

// === impl Switch ===

impl Switch {
    /// Returns a switch that has been made: the source gets no more writes.
    pub(super) fn now() -> Self {
        Self(watch::channel(true).1)
    }

    /// Returns the switch by SIGUSR1, or by the word `switch` on standard input.
    pub(super) fn by_operator() -> Result<Self, Error> {
        let mut user_signal =
            signal(SignalKind::user_defined1()).map_err(|error| Error::context("waiting for signals", error))?;
        let (sender, receiver) = watch::channel(false);
        let sender = Arc::new(sender);
        let typed = Arc::clone(&sender);
        tokio::spawn(async move {
            if user_signal.recv().await.is_some() {
                sender.send_replace(true);
            }
        });
        // Reading from a terminal cannot be cancelled, so the thread ends with the process.
        std::thread::spawn(move || {
            for line in std::io::stdin().lines().map_while(Result::ok) {
                if line.trim() == "switch" {
                    typed.send_replace(true);
                }
            }
        });
        Ok(Self(receiver))
    }

    fn is_made(&self) -> bool {
        *self.0.borrow()
    }
}

impl Migration<'_> {
    /// Copies the changes after `after`. Returns `None` if the source has compacted some of them.
    pub(super) async fn watch_source(
        &mut self,
        source: &dyn Store,
        after: Revision,
        switch: &Switch,
        live: Option<&Path>,
    ) -> Result<Option<WatchEnd>, Error> {
        let (socket, live) = (live, live.is_some());
        let range = prefix_range(self.source_root.as_bytes());
        let mut watch = match source.watch(range, after).await {
            Err(StoreError::Compacted { .. }) => return Ok(None),
            opened => match none_if_stopped(opened.map_err(Into::into), live)? {
                Some(watch) => watch,
                None => return Ok(Some(WatchEnd::SourceGone("its server does not answer".to_owned()))),
            },
        };
        // A server that owns the source ends the migration by stopping; the operator's switch has no effect then.
        let switched = || !live && switch.is_made();
        if !switched() {
            self.progress.say(match live {
                true => "All objects are copied. Watching the source until its server stops.",
                false => {
                    "All objects are copied. Watching the source: stop its servers, then type 'switch' or send SIGUSR1."
                }
            });
        }
        let mut saved = Instant::now();
        let mut reached = after;
        loop {
            if switched() {
                return self.catch_up(source, &mut watch, reached, live).await;
            }
            let message = match tokio::time::timeout(TICK, watch.messages.next()).await {
                Err(_) => {
                    // A broken watch is retried without end, so the socket shows that the server has stopped.
                    if let Some(socket) = socket
                        && UnixStream::connect(socket).await.is_err()
                    {
                        self.reached(reached.0).await?;
                        return Ok(Some(WatchEnd::SourceGone("its socket does not answer".to_owned())));
                    }
                    self.progress.state(|| format!("watching the source: revision {}", reached.0));
                    continue;
                }
                Ok(message) => message.unwrap_or(Err(StoreError::Closed)),
            };
            match message {
                Ok(message) => reached = self.apply(source, message).await?.max(reached),
                Err(StoreError::Compacted { .. }) => return Ok(None),
                Err(error) => {
                    let stopped = none_if_stopped::<()>(Err(error.into()), live)?;
                    debug_assert!(stopped.is_none());
                    self.reached(reached.0).await?;
                    return Ok(Some(WatchEnd::SourceGone("the server ended the watch".to_owned())));
                }
            }
            if saved.elapsed() >= NOTE_EVERY {
                saved = Instant::now();
                self.reached(reached.0).await?;
            }
        }
    }

    /// Reads the watch up to the current revision.
    async fn catch_up(
        &mut self,
        source: &dyn Store,
        watch: &mut Watch,
        mut reached: Revision,
        live: bool,
    ) -> Result<Option<WatchEnd>, Error> {
        let Some(barrier) = none_if_stopped(watch.control.barrier().await.map_err(Into::into), live)? else {
            return Ok(Some(WatchEnd::SourceGone("its server does not answer".to_owned())));
        };
        while reached < barrier.last_event {
            match watch.messages.next().await.unwrap_or(Err(StoreError::Closed)) {
                Ok(message) => reached = self.apply(source, message).await?.max(reached),
                Err(StoreError::Compacted { .. }) => return Ok(None),
                Err(error) => match none_if_stopped::<()>(Err(error.into()), live)? {
                    Some(()) => {}
                    None => return Ok(Some(WatchEnd::SourceGone("the server ended the watch".to_owned()))),
                },
            }
        }
        self.reached(barrier.current.0).await?;
        Ok(Some(WatchEnd::CaughtUp(barrier.current)))
    }

    /// Applies the changes of a message. Returns the newest of their revisions.
    async fn apply(&mut self, source: &dyn Store, message: WatchMessage) -> Result<Revision, Error> {
        match message {
            WatchMessage::Progress(revision) => Ok(revision),
            WatchMessage::Events(events) => {
                let mut newest = Revision(0);
                for event in events {
                    newest = event.revision();
                    match event {
                        Event::Put { kv, .. } => {
                            let key = kv.key.clone();
                            self.copy_key(source, &key, kv).await?;
                        }
                        Event::Delete { key, .. } => self.target.delete(self.key(&key)).await?,
                    }
                }
                self.target.flush().await?;
                Ok(newest)
            }
        }
    }

    /// Returns a key that was written to the source after a revision, if any. Expirations of leases are no writes.
    pub(super) async fn last_change(&mut self, source: &dyn Store, after: Revision) -> Result<Option<String>, Error> {
        let mut watch = source.watch(prefix_range(self.source_root.as_bytes()), after).await?;
        let last = watch.control.barrier().await?.last_event;
        let mut reached = Revision(0);
        while reached < last {
            let message = watch.messages.next().await.unwrap_or(Err(StoreError::Closed))?;
            let WatchMessage::Events(events) = message else { continue };
            for event in events {
                reached = event.revision();
                let expiry = matches!(&event, Event::Delete { previous: Some(kv), .. } if kv.lease.is_some());
                if !expiry {
                    return Ok(Some(String::from_utf8_lossy(event.key()).into_owned()));
                }
                self.target.delete(self.key(event.key())).await?;
            }
        }
        self.target.flush().await?;
        Ok(None)
    }
}
