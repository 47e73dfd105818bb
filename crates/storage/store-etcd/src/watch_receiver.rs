//! The reader's side of a watch: its events, and its control.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use binnacle_store::{Barrier, StoreError, WatchControl, WatchMessage};
use futures::FutureExt;
use futures::future::BoxFuture;

use crate::hub::Hub;
use crate::watcher::{Step, Watcher};

/// The receiver of a watch, which ends the watch when it is dropped.
pub(crate) struct WatchReceiver {
    pub(crate) hub: Arc<Hub>,
    pub(crate) watcher: Arc<Watcher>,
    pub(crate) ended: bool,
}

impl WatchReceiver {
    pub(crate) async fn next(&mut self) -> Option<Result<WatchMessage, StoreError>> {
        if self.ended {
            return None;
        }
        loop {
            match poll_fn(|cx| self.watcher.poll_step(cx)).await {
                Step::Deliver(message) => return Some(Ok(message)),
                Step::CatchUp => self.hub.catch_up(&self.watcher),
                Step::End(end_reason) => {
                    self.ended = true;
                    return Some(Err(end_reason.error()));
                }
            }
        }
    }
}

impl Drop for WatchReceiver {
    fn drop(&mut self) {
        self.hub.remove(&self.watcher);
        if let Some(task) = self.watcher.catching_up.lock().take() {
            task.abort();
        }
    }
}

/// The control of a watch.
pub(crate) struct Control {
    pub(crate) hub: Arc<Hub>,
    pub(crate) watcher: Arc<Watcher>,
}

impl WatchControl for Control {
    fn barrier(&self) -> BoxFuture<'_, Result<Barrier, StoreError>> {
        async {
            let current = self.hub.fresh_revision().await?;
            self.hub.wait_for(current).await?;
            let _waiting = BarrierWait::new(&self.watcher);
            loop {
                let moved = self.hub.moved();
                if let Some(barrier) = self.hub.barrier(|| self.watcher.last_event())? {
                    return Ok(barrier);
                }
                moved.await;
            }
        }
        .boxed()
    }
}

/// A caller that is waiting for a barrier.
struct BarrierWait<'a>(&'a Watcher);

impl<'a> BarrierWait<'a> {
    fn new(watcher: &'a Watcher) -> Self {
        watcher.barriers.fetch_add(1, Ordering::AcqRel);
        watcher.room.notify_one();
        Self(watcher)
    }
}

impl Drop for BarrierWait<'_> {
    fn drop(&mut self) {
        self.0.barriers.fetch_sub(1, Ordering::AcqRel);
    }
}
