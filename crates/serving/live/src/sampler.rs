//! Builds one message per second while a page is open, shared by all pages.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use binnacle_request::BoxFuture;
use binnacle_supervise::supervise;
use bytes::Bytes;
use futures::Stream;
use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use crate::observer::{Observer, epoch_millis};
use crate::snapshot::{Gauges, Snapshot};

/// The limit on open pages.
pub(crate) const MAX_PAGES: usize = 8;
const INTERVAL: Duration = Duration::from_secs(1);
/// The time after which a page must reconnect, so that revoked permissions take effect.
const LIFETIME: Duration = Duration::from_secs(600);

/// The source of the gauges of other components.
pub trait GaugeSource: Send + Sync {
    /// Reads the gauges, in at most about a second.
    fn read(&self) -> BoxFuture<'_, Gauges>;
}

/// Builds the messages. It runs while there is a [`Viewer`].
pub struct Sampler {
    observer: Arc<Observer>,
    source: Arc<dyn GaugeSource>,
    permits: Arc<Semaphore>,
    latest: watch::Sender<Bytes>,
    state: Mutex<SamplingState>,
}

#[derive(Default)]
struct SamplingState {
    viewers: usize,
    task: Option<JoinHandle<()>>,
}

/// An open page.
pub(crate) struct Viewer {
    sampler: Arc<Sampler>,
    messages: watch::Receiver<Bytes>,
    until: Instant,
    _permit: OwnedSemaphorePermit,
}

// === impl Sampler ===

impl Sampler {
    pub fn new(observer: Arc<Observer>, source: Arc<dyn GaugeSource>) -> Arc<Self> {
        let (permits, latest) = (Arc::new(Semaphore::new(MAX_PAGES)), watch::Sender::new(Bytes::new()));
        Arc::new(Self { observer, source, permits, latest, state: Mutex::default() })
    }

    /// Returns the number of further pages that can be opened.
    pub(crate) fn available_pages(&self) -> usize {
        self.permits.available_permits()
    }

    /// Opens a page; `None` if there are too many.
    pub(crate) fn open(self: &Arc<Self>) -> Option<Viewer> {
        let permit = self.permits.clone().try_acquire_owned().ok()?;
        let mut state = self.state.lock();
        state.viewers += 1;
        if state.task.is_none() {
            self.observer.begin();
            let sampler = Arc::downgrade(self);
            state.task = Some(tokio::spawn(supervise("live page", move || {
                let sampler = sampler.clone();
                async move {
                    let mut ticker = interval(INTERVAL);
                    ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
                    loop {
                        ticker.tick().await;
                        let Some(sampler) = sampler.upgrade() else { return };
                        sampler.sample().await;
                    }
                }
            })));
        }
        drop(state);
        let mut messages = self.latest.subscribe();
        if !messages.borrow().is_empty() {
            messages.mark_changed();
        }
        Some(Viewer { sampler: self.clone(), messages, until: Instant::now() + LIFETIME, _permit: permit })
    }

    async fn sample(&self) {
        let gauges = self.source.read().await;
        let pages = self.state.lock().viewers;
        let mut snapshot = Snapshot { at: epoch_millis(SystemTime::now()), pages, gauges, ..Snapshot::default() };
        self.observer.fill(&mut snapshot);
        // All keys are texts, so there is no error.
        if let Ok(message) = serde_json::to_vec(&snapshot) {
            self.latest.send_replace(message.into());
        }
    }

    fn leave(&self) {
        let mut state = self.state.lock();
        state.viewers -= 1;
        if state.viewers == 0 {
            if let Some(task) = state.task.take() {
                task.abort();
            }
            self.observer.end();
            self.latest.send_replace(Bytes::new());
        }
    }
}

// === impl Viewer ===

impl Viewer {
    /// Returns the messages. A slow reader skips outdated ones.
    pub(crate) fn messages(self) -> impl Stream<Item = Bytes> + Send + 'static {
        futures::stream::unfold(self, |mut viewer| async move {
            loop {
                let changed = timeout_at(viewer.until, viewer.messages.changed()).await;
                if !matches!(changed, Ok(Ok(()))) {
                    return None;
                }
                let message = viewer.messages.borrow_and_update().clone();
                if !message.is_empty() {
                    return Some((message, viewer));
                }
            }
        })
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.sampler.leave();
    }
}

#[cfg(test)]
mod tests {
    use std::pin::pin;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::StreamExt;

    use super::*;

    #[derive(Default)]
    struct CountingGauges(AtomicUsize);

    impl GaugeSource for CountingGauges {
        fn read(&self) -> BoxFuture<'_, Gauges> {
            self.0.fetch_add(1, Ordering::Relaxed);
            Box::pin(async { Gauges::default() })
        }
    }

    fn sampler() -> (Arc<Sampler>, Arc<CountingGauges>) {
        let source = Arc::new(CountingGauges::default());
        (Sampler::new(Arc::default(), source.clone()), source)
    }

    #[tokio::test(start_paused = true)]
    async fn reads_gauges_only_while_pages_are_open() {
        let (sampler, source) = sampler();
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(source.0.load(Ordering::Relaxed), 0);
        let mut messages = Box::pin(sampler.open().unwrap().messages());
        for _ in 0..3 {
            assert!(messages.next().await.unwrap().starts_with(b"{\"at\":"));
        }
        // A second page gets the last message immediately and adds no work.
        let mut second = Box::pin(sampler.open().unwrap().messages());
        assert!(second.next().await.is_some());
        assert_eq!(source.0.load(Ordering::Relaxed), 3);
        drop((messages, second));
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(source.0.load(Ordering::Relaxed), 3);
        let mut again = pin!(sampler.open().unwrap().messages());
        assert!(again.next().await.is_some());
        assert_eq!(source.0.load(Ordering::Relaxed), 4);
    }

    #[tokio::test]
    async fn limits_open_pages() {
        let (sampler, _) = sampler();
        let mut open: Vec<_> = (0..MAX_PAGES).map(|_| sampler.open().unwrap()).collect();
        assert!(sampler.open().is_none() && sampler.available_pages() == 0);
        open.pop();
        assert!(sampler.open().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn pages_must_reconnect_after_their_lifetime() {
        let (sampler, _) = sampler();
        let messages = sampler.open().unwrap().messages();
        let count = messages.count().await;
        assert!((590..=601).contains(&count), "{count}");
        assert_eq!(sampler.available_pages(), MAX_PAGES);
    }
}
