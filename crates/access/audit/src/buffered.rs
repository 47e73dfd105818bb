//! A bounded queue that sends events in batches (`batch`). Requests never wait: events that do not fit into the queue
//! are lost, counted and logged.
//!
//! The queue, the batches in flight and the memory of both are bounded, and a hanging webhook delays shutdown by at
//! most [`STOP_GRACE`].

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use binnacle_request::BoxFuture;
use binnacle_supervise::supervise;
use parking_lot::Mutex;
use tokio::sync::mpsc::{self, Receiver, Sender, error::TrySendError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

use crate::metrics::Metrics;
use crate::spill::Spill;
use crate::{Backend, BatchOptions, Event};

const PLUGIN: &str = "buffered";
/// The maximum memory of queued and in-flight events, in KiB. kube-apiserver only bounds the number of queued events,
/// and a single event may take megabytes.
const MAX_MEMORY_KIB: usize = 128 << 10;
/// The maximum number of batches in flight. kube-apiserver has no bound.
const MAX_BATCHES: usize = 64;
/// The time that shutdown waits for the remaining events.
const STOP_GRACE: Duration = Duration::from_secs(10);
const STOPPED: &str = "the server stops";

pub(crate) struct Buffered {
    name: String,
    queue: Mutex<Option<Sender<QueuedEvent>>>,
    memory: Arc<Semaphore>,
    /// The time at which shutdown stops waiting.
    deadline: watch::Sender<Option<Instant>>,
    worker: Mutex<Option<JoinHandle<()>>>,
    metrics: Metrics,
    /// Stores events that do not fit into the queue, and batches that the next backend refuses.
    spill: Arc<OnceLock<Spill>>,
}

/// An event in the queue or in a batch.
struct QueuedEvent {
    event: Arc<Event>,
    /// The share of [`MAX_MEMORY_KIB`] that the event takes.
    _memory: OwnedSemaphorePermit,
}

impl Buffered {
    /// Creates the queue and spawns its worker on the current runtime. If `concurrent`, a batch is sent without waiting
    /// for the previous one.
    pub(crate) fn new(next: Box<dyn Backend>, options: &BatchOptions, concurrent: bool, metrics: Metrics) -> Self {
        let (sender, receiver) = mpsc::channel(options.buffer_size);
        let name = format!("{PLUGIN}<{}>", next.name());
        let (deadline, deadline_seen) = watch::channel(None);
        let spill: Arc<OnceLock<Spill>> = Arc::default();
        let worker = Worker {
            spill: spill.clone(),
            metrics: metrics.clone(),
            queue: receiver,
            next: next.into(),
            max_size: options.max_batch_size,
            max_wait: options.max_batch_wait,
            throttle: options.throttle_enable.then(|| Throttle::new(options.throttle_qps, options.throttle_burst)),
            // At most as many events in flight as in the queue: twice its size bounds all events.
            slots: concurrent.then(|| {
                let batches = options.buffer_size / options.max_batch_size.max(1);
                Arc::new(Semaphore::new(batches.clamp(1, MAX_BATCHES)))
            }),
            deadline: deadline_seen,
        };
        let worker = Arc::new(tokio::sync::Mutex::new(worker));
        let worker = tokio::spawn(supervise("audit queue", move || {
            let worker = worker.clone();
            async move { worker.lock().await.run().await }
        }));
        Self {
            name,
            queue: Mutex::new(Some(sender)),
            memory: Arc::new(Semaphore::new(MAX_MEMORY_KIB)),
            deadline,
            worker: Mutex::new(Some(worker)),
            metrics,
            spill,
        }
    }

    /// Spills events that would be lost otherwise.
    pub(crate) fn with_spill(self, spill: Spill) -> Self {
        // This is the only place that sets it.
        let _ = self.spill.set(spill);
        self
    }

    fn enqueue(&self, events: &[Arc<Event>]) {
        let queue = self.queue.lock();
        for (at, event) in events.iter().enumerate() {
            let reason = match (queue.as_ref(), self.reserve_memory(event)) {
                (Some(queue), Some(memory)) => {
                    match queue.try_send(QueuedEvent { event: event.clone(), _memory: memory }) {
                        Ok(()) => continue,
                        Err(TrySendError::Full(_)) => "audit buffer queue blocked",
                        Err(TrySendError::Closed(_)) => "audit backend shut down",
                    }
                }
                (Some(_), None) => "audit buffer queue blocked",
                (None, _) => "audit backend shut down",
            };
            return spill_or_fail(&self.spill, &self.metrics, reason, &events[at..]);
        }
    }

    /// Reserves the memory of an event; `None` if that much is not left.
    fn reserve_memory(&self, event: &Event) -> Option<OwnedSemaphorePermit> {
        let size = event.memory().div_ceil(1024).min(MAX_MEMORY_KIB);
        self.memory.clone().try_acquire_many_owned(u32::try_from(size).ok()?).ok()
    }
}

impl Backend for Buffered {
    fn process(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, bool> {
        self.enqueue(&events);
        Box::pin(std::future::ready(true))
    }

    fn shutdown(&self) -> BoxFuture<'_, ()> {
        self.queue.lock().take();
        self.deadline.send_replace(Some(Instant::now() + STOP_GRACE));
        let worker = self.worker.lock().take();
        Box::pin(async move {
            if let Some(worker) = worker
                && let Err(error) = worker.await
            {
                tracing::error!("the audit queue panicked: {error}");
            }
            if let Some(spill) = self.spill.get() {
                spill.close().await;
            }
        })
    }

    fn name(&self) -> String {
        self.name.clone()
    }
}

/// Spills events. Events that cannot be spilled are lost, counted and logged.
fn spill_or_fail(spill: &OnceLock<Spill>, metrics: &Metrics, reason: &str, events: &[Arc<Event>]) {
    let lost = spill.get().map_or(events, |spill| spill.store(events));
    if !lost.is_empty() {
        metrics.failed(PLUGIN, reason, lost);
    }
}

struct Worker {
    spill: Arc<OnceLock<Spill>>,
    metrics: Metrics,
    queue: Receiver<QueuedEvent>,
    next: Arc<dyn Backend>,
    max_size: usize,
    max_wait: Duration,
    throttle: Option<Throttle>,
    /// Permits for batches in flight, if a batch does not wait for the previous one.
    slots: Option<Arc<Semaphore>>,
    deadline: watch::Receiver<Option<Instant>>,
}

impl Worker {
    /// Sends batches until the queue is closed and all its events are processed or lost.
    async fn run(&mut self) {
        let mut sending = JoinSet::new();
        while let Some(batch) = self.collect().await {
            let slot = self.wait_for_slot().await;
            while sending.try_join_next().is_some() {}
            let send = self.send(batch);
            match slot {
                Some(slot) => {
                    sending.spawn(async move {
                        send.await;
                        drop(slot);
                    });
                }
                None => send.await,
            }
        }
        while sending.join_next().await.is_some() {}
        self.next.shutdown().await;
    }

    /// Waits until the next batch may be sent; `None` if shutdown stops waiting before that.
    async fn wait_for_slot(&mut self) -> Option<OwnedSemaphorePermit> {
        let deadline = self.deadline.clone();
        let slot = async {
            if let Some(throttle) = &mut self.throttle {
                throttle.wait().await;
            }
            self.slots.clone()?.acquire_owned().await.ok()
        };
        tokio::select! {
            permit = slot => permit,
            () = until_deadline(deadline) => None,
        }
    }

    fn send(&self, batch: Vec<QueuedEvent>) -> impl Future<Output = ()> + Send + use<> {
        let (next, spill, metrics) = (self.next.clone(), self.spill.clone(), self.metrics.clone());
        let deadline = self.deadline.clone();
        async move {
            let events: Vec<Arc<Event>> = batch.iter().map(|queued| queued.event.clone()).collect();
            tokio::select! {
                biased;
                () = until_deadline(deadline) => spill_or_fail(&spill, &metrics, STOPPED, &events),
                is_done = next.process(events.clone()) => if !is_done && spill.get().is_some() {
                    spill_or_fail(&spill, &metrics, "the audit webhook does not answer", &events);
                },
            }
        }
    }

    /// Collects a batch until it has the maximum number of events, or the first of them has waited long enough.
    async fn collect(&mut self) -> Option<Vec<QueuedEvent>> {
        let mut batch = vec![self.queue.recv().await?];
        let deadline = Instant::now() + self.max_wait;
        while batch.len() < self.max_size {
            match tokio::time::timeout_at(deadline, self.queue.recv()).await {
                Ok(Some(event)) => batch.push(event),
                Ok(None) | Err(_) => break,
            }
        }
        Some(batch)
    }
}

/// Waits until shutdown stops waiting for events.
async fn until_deadline(mut deadline: watch::Receiver<Option<Instant>>) {
    let at = deadline.wait_for(Option::is_some).await.map(|at| *at);
    match at {
        Ok(Some(at)) => tokio::time::sleep_until(at).await,
        // The backend was dropped without a shutdown.
        _ => std::future::pending().await,
    }
}

/// A token bucket.
struct Throttle {
    per_second: f64,
    burst: f64,
    tokens: f64,
    filled: Instant,
}

impl Throttle {
    fn new(per_second: f32, burst: usize) -> Self {
        Self { per_second: f64::from(per_second), burst: burst as f64, tokens: burst as f64, filled: Instant::now() }
    }

    /// Waits for a token and takes it.
    async fn wait(&mut self) {
        tokio::time::sleep(self.take(Instant::now())).await;
    }

    /// Takes a token in advance, and returns the time until it is available.
    fn take(&mut self, now: Instant) -> Duration {
        let earned = now.duration_since(self.filled).as_secs_f64() * self.per_second;
        self.tokens = (self.tokens + earned).min(self.burst) - 1.0;
        self.filled = now;
        Duration::from_secs_f64((-self.tokens).max(0.0) / self.per_second.max(1e-6))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;
    use crate::backend::tests::RecordingBackend;
    use crate::event::tests::full_event;
    use crate::spill::{SpillMetrics, SpillOptions};
    use binnacle_metrics::Registry;

    fn options() -> BatchOptions {
        BatchOptions {
            buffer_size: 100,
            max_batch_size: 3,
            max_batch_wait: Duration::from_secs(30),
            throttle_enable: false,
            throttle_qps: 0.0,
            throttle_burst: 0,
        }
    }

    fn event(id: usize) -> Arc<Event> {
        Arc::new(Event { audit_id: id.to_string().into(), ..full_event() })
    }

    #[tokio::test]
    async fn sends_batches_when_full_on_timeout_and_at_shutdown() {
        let seen = Arc::new(RecordingBackend::default());
        let short = BatchOptions { max_batch_wait: Duration::from_millis(20), ..options() };
        for (options, waits) in [(short, true), (options(), false)] {
            seen.batches.lock().clear();
            let backend = Buffered::new(Box::new(seen.clone()), &options, false, Metrics::fresh());
            assert!(backend.process((0..4).map(event).collect()).await);
            while waits && seen.batches.lock().len() < 2 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            backend.shutdown().await;
            assert_eq!(*seen.batches.lock(), [vec!["0", "1", "2"], vec!["3"]]);
        }
        let backend = Buffered::new(Box::new(seen.clone()), &options(), false, Metrics::fresh());
        backend.process(vec![event(4)]).await;
        backend.shutdown().await;
        assert_eq!(seen.batches.lock().last(), Some(&vec!["4".to_owned()]));
        assert_eq!(backend.name(), "buffered<seen>");
    }

    /// A backend that blocks every batch until the semaphore is released.
    struct SlowBackend(Arc<Semaphore>, Arc<AtomicUsize>);

    impl Backend for SlowBackend {
        fn process(&self, events: Vec<Arc<Event>>) -> BoxFuture<'_, bool> {
            Box::pin(async move {
                self.1.fetch_add(events.len(), Ordering::SeqCst);
                drop(self.0.acquire().await);
                true
            })
        }

        fn name(&self) -> String {
            "slow".to_owned()
        }
    }

    #[tokio::test]
    async fn counts_events_that_do_not_fit_without_failing_the_request() {
        let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let metrics = Metrics::fresh();
        let options = BatchOptions { buffer_size: 2, max_batch_size: 1, ..options() };
        let slow = SlowBackend(gate.clone(), started.clone());
        let backend = Buffered::new(Box::new(slow), &options, false, metrics.clone());
        backend.process(vec![event(0)]).await;
        while started.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(backend.process((1..6).map(event).collect()).await);
        assert_eq!(metrics.errors("buffered"), 3);
        gate.add_permits(1);
        backend.shutdown().await;
        assert_eq!(started.load(Ordering::SeqCst), 3);
        assert!(backend.process(vec![event(9)]).await);
        assert_eq!(metrics.errors("buffered"), 4);
    }

    /// The backend never finishes a batch: two batches are in flight, and the queue is full.
    #[tokio::test(start_paused = true)]
    async fn bounds_batches_in_flight_and_the_time_of_shutdown() {
        let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let metrics = Metrics::fresh();
        let options = BatchOptions { buffer_size: 6, max_batch_size: 3, ..options() };
        let slow = SlowBackend(gate.clone(), started.clone());
        let backend = Buffered::new(Box::new(slow), &options, true, metrics.clone());
        for id in 0..100 {
            backend.process(vec![event(id)]).await;
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Two batches are in flight, and a third one waits for a permit.
        assert_eq!((started.load(Ordering::SeqCst), metrics.errors("buffered")), (6, 100 - 6 - 3 - 6));
        let stopped = Instant::now();
        backend.shutdown().await;
        assert_eq!((stopped.elapsed().as_secs(), metrics.errors("buffered")), (STOP_GRACE.as_secs(), 100));
        assert_eq!(started.load(Ordering::SeqCst), 6);
        drop(gate);
    }

    #[tokio::test]
    async fn bounds_memory_of_queued_events() {
        let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let metrics = Metrics::fresh();
        let slow = SlowBackend(gate.clone(), started.clone());
        let backend = Buffered::new(Box::new(slow), &options(), true, metrics.clone());
        let object = bytes::Bytes::from(vec![b' '; 30 << 20]);
        let large = |_| Arc::new(Event { request_object: Some(object.clone()), ..full_event() });
        backend.process((0..6).map(large).collect()).await;
        assert_eq!(metrics.errors("buffered"), 2);
        gate.add_permits(6);
        backend.shutdown().await;
        assert_eq!(started.load(Ordering::SeqCst), 4);
    }

    #[tokio::test]
    async fn spills_events_that_do_not_fit_or_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let options = SpillOptions { directory: directory.path().join("spill"), max_bytes: 1 << 20 };
        let spill = || Spill::open(&options, SpillMetrics::register(&Registry::new()).unwrap()).unwrap();
        let lines = || {
            let files = std::fs::read_dir(&options.directory).unwrap();
            files.map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap().lines().count()).sum::<usize>()
        };
        let (gate, started) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
        let metrics = Metrics::fresh();
        let batch = BatchOptions { buffer_size: 2, max_batch_size: 1, ..super::tests::options() };
        let slow = SlowBackend(gate.clone(), started.clone());
        let backend = Buffered::new(Box::new(slow), &batch, false, metrics.clone()).with_spill(spill());
        backend.process(vec![event(0)]).await;
        while started.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        assert!(backend.process((1..6).map(event).collect()).await);
        gate.add_permits(1);
        backend.shutdown().await;
        assert_eq!((metrics.errors("buffered"), started.load(Ordering::SeqCst), lines()), (0, 3, 3));

        let refusing = Arc::new(RecordingBackend { refuses: true, ..RecordingBackend::default() });
        let backend = Buffered::new(Box::new(refusing), &batch, true, metrics.clone()).with_spill(spill());
        backend.process(vec![event(6)]).await;
        backend.shutdown().await;
        assert_eq!((metrics.errors("buffered"), lines()), (0, 4));
    }

    #[test]
    fn throttle_delays_by_missing_tokens() {
        let began = Instant::now();
        let at = |millis| began + Duration::from_millis(millis);
        let mut throttle = Throttle { per_second: 10.0, burst: 2.0, tokens: 2.0, filled: began };
        for (now, millis) in [(0, 0), (0, 0), (0, 100), (100, 100), (250, 50), (5000, 0), (5000, 0), (5000, 100)] {
            assert_eq!(throttle.take(at(now)).as_millis(), millis, "{now}");
        }
    }
}
