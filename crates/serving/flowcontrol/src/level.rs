//! A priority level at run time: its queues behind a lock, and the seats that requests hold.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use binnacle_meta::Text;
use binnacle_request::latency::{self, Part};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::current_requests::RequestKind;
use crate::demand::Demand;
use crate::dropped_requests::DroppedRequests;
use crate::limits::Limits;
use crate::metrics::{FlowMetrics, LevelMetrics};
use crate::queues::{Arrival, Execution, Notify, Outcome, Queues};
use crate::ratios::Capacity;
use crate::spec::{LevelSpec, PriorityLevel};

/// A level and its state. It exists after its removal from the configuration until its seats are released.
pub(crate) struct Level {
    pub(crate) name: Text,
    pub(crate) metrics: LevelMetrics,
    state: Mutex<State>,
    /// True if the level rejects requests, because its object was deleted.
    quiescing: AtomicBool,
}

pub(crate) struct State {
    pub(crate) spec: LevelSpec,
    pub(crate) uid: Text,
    pub(crate) queues: Queues<Sender>,
    pub(crate) demand: Demand,
    pub(crate) dropped: DroppedRequests,
    pub(crate) limits: Limits,
}

/// Wakes a waiting request.
pub(crate) struct Sender(oneshot::Sender<()>);

impl Notify for Sender {
    fn notify(self) -> bool {
        self.0.send(()).is_ok()
    }
}

/// A seat, which is released on drop.
pub struct Seat {
    level: Arc<Level>,
    request: SeatRequest,
    began: Instant,
    running: Option<Execution>,
}

/// A request that has released its seat while it waits.
pub struct PausedRequest {
    level: Arc<Level>,
    request: SeatRequest,
}

impl Seat {
    /// Returns true if the level has no limit, so that nobody waits for the seat.
    pub fn is_exempt(&self) -> bool {
        self.level.with(|state| state.spec.exempt)
    }

    /// Releases the seat until [`PausedRequest::resume`].
    pub fn pause(self) -> PausedRequest {
        PausedRequest { level: self.level.clone(), request: self.request.clone() }
    }
}

impl PausedRequest {
    /// Waits for a seat of the same level, at most until the deadline.
    ///
    /// # Errors
    /// Fails if no seat is available in time.
    pub async fn resume(self, deadline: Instant) -> Result<Seat, SeatRejection> {
        self.level.acquire_seat(self.request, deadline).await
    }
}

/// The reason for a rejected request for a seat.
pub struct SeatRejection {
    pub(crate) reason: &'static str,
    /// The delay before the retry, in seconds.
    pub retry_after: u64,
}

/// A request for a seat of a level.
#[derive(Clone)]
pub(crate) struct SeatRequest {
    pub(crate) seats: usize,
    pub(crate) schema: Text,
    pub(crate) flow: Text,
    pub(crate) hash: u64,
    pub(crate) metrics: Arc<FlowMetrics>,
    pub(crate) kind: RequestKind,
}

impl Level {
    pub(crate) fn new(level: &PriorityLevel, metrics: LevelMetrics, now: Instant) -> Arc<Self> {
        let state = State {
            spec: level.spec.clone(),
            uid: level.uid.clone(),
            queues: Queues::new(now),
            demand: Demand::new(now),
            dropped: DroppedRequests::new(now),
            limits: Limits::default(),
        };
        let (state, quiescing) = (Mutex::new(state), AtomicBool::new(false));
        Arc::new(Self { name: level.name.clone(), metrics, state, quiescing })
    }

    pub(crate) fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.state.lock())
    }

    pub(crate) fn quiesce(&self) {
        self.quiescing.store(true, Ordering::Relaxed);
    }

    pub(crate) fn is_quiescing(&self) -> bool {
        self.quiescing.load(Ordering::Relaxed)
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.with(|state| state.queues.waiting == 0 && state.queues.running == 0)
    }

    /// Sets the limits. `total` is the number of seats of all levels.
    pub(crate) fn apply(&self, now: Instant, limits: Limits, total: u32) {
        self.with(|state| {
            state.limits = limits;
            let limit = (!state.spec.exempt).then_some(limits.current as usize);
            state.queues.configure(now, limit, state.spec.queuing);
            // A level without seats is measured against a tenth of all seats.
            let seats = match limits.current {
                0 => (f64::from(total) / 10.0).round().max(1.0),
                seats => f64::from(seats),
            };
            let places = state.spec.queuing.map_or(1, |queuing| queuing.queues * queuing.length_limit.max(1));
            self.metrics.ratios.set_capacity(now, Capacity { seats, places: places as f64 });
            self.metrics.ratios.set_load(now, state.queues.load());
        });
        self.metrics.set_limits(&limits);
    }

    /// Waits for a seat, at most until the deadline.
    pub(crate) async fn acquire_seat(
        self: &Arc<Self>,
        request: SeatRequest,
        deadline: Instant,
    ) -> Result<Seat, SeatRejection> {
        let began = Instant::now();
        let (sender, receiver) = oneshot::channel();
        let SeatRequest { seats, hash, kind, .. } = request;
        let (schema, flow, metrics) = (request.schema.clone(), request.flow.clone(), request.metrics.clone());
        let arrival = Arrival { seats, schema, flow, hash, notifier: Sender(sender) };
        let (waits, outcome) = self.update(began, |state| {
            let outcome = state.queues.arrive(began, arrival);
            if let Some(length) = state.queues.enqueued {
                metrics.observe_queue_length(length);
            }
            (!state.spec.exempt, outcome)
        });
        let waited = |now: Instant, served| {
            if waits {
                let time = now.saturating_duration_since(began);
                metrics.observe_wait(time, served);
                latency::took(Part::QueueWait, time);
            }
        };
        let seat = |running| {
            let began = Instant::now();
            waited(began, true);
            metrics.record_start(began, seats, kind);
            Seat { level: self.clone(), request: request.clone(), began, running: Some(running) }
        };
        let id = match outcome {
            Outcome::Served(running) => return Ok(seat(running)),
            Outcome::Refused(reason) => return Err(self.refuse(&metrics, reason)),
            Outcome::Waits(id) => id,
        };
        let mut entry = QueueEntry { level: self, metrics: &metrics, id, seats, kind, left: false };
        metrics.add_queued(Instant::now(), 1, seats, kind);
        let notified = tokio::time::timeout_at(deadline.into(), receiver).await;
        if let (Ok(Ok(())), Some(running)) = (notified, self.with(|state| state.queues.take_started(id))) {
            entry.leave();
            return Ok(seat(running));
        }
        drop(entry);
        waited(Instant::now(), false);
        Err(self.refuse(&metrics, "time-out"))
    }

    fn refuse(&self, metrics: &FlowMetrics, reason: &'static str) -> SeatRejection {
        metrics.count_rejection(reason);
        let retry_after = self.with(|state| state.dropped.record(Instant::now()));
        SeatRejection { reason, retry_after }
    }

    /// Changes the queues, and records the resulting demand.
    fn update<T>(&self, now: Instant, f: impl FnOnce(&mut State) -> T) -> T {
        self.with(|state| {
            let done = f(state);
            let load = state.queues.load();
            state.demand.set(now, load.demand as f64);
            self.metrics.ratios.set_load(now, load);
            self.metrics.set_virtual_time(state.queues.now_r);
            done
        })
    }

    fn finish(&self, now: Instant, running: Execution) {
        self.update(now, |state| state.queues.finish(now, running));
    }
}

/// An entry in a queue, which is removed on drop.
struct QueueEntry<'a> {
    level: &'a Level,
    metrics: &'a FlowMetrics,
    id: u64,
    seats: usize,
    kind: RequestKind,
    left: bool,
}

impl QueueEntry<'_> {
    fn leave(&mut self) {
        self.left = true;
        self.metrics.add_queued(Instant::now(), -1, self.seats, self.kind);
    }
}

impl Drop for QueueEntry<'_> {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        self.leave();
        let now = Instant::now();
        let gave_up = self.level.update(now, |state| state.queues.give_up(now, self.id));
        // The request was dispatched at the last moment; its seat is released.
        if let Err(Some(running)) = gave_up {
            self.level.finish(now, running);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        if let Some(running) = self.running.take() {
            let now = Instant::now();
            let SeatRequest { metrics, seats, kind, .. } = &self.request;
            metrics.record_end(now, *seats, now.saturating_duration_since(self.began), *kind);
            self.level.finish(now, running);
        }
    }
}
