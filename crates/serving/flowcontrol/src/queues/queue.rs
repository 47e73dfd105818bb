//! A queue of waiting requests.

use std::collections::VecDeque;
use std::time::Instant;

use binnacle_meta::Text;

/// A request in a queue.
#[derive(Debug)]
pub(crate) struct QueuedRequest<T> {
    pub(crate) id: u64,
    pub(crate) seats: usize,
    pub(crate) schema: Text,
    pub(crate) flow: Text,
    pub(crate) arrived_at: Instant,
    /// The virtual time of the arrival.
    pub(super) arrived_r: f64,
    pub(super) notifier: T,
}

#[derive(Debug)]
pub(crate) struct Queue<T> {
    pub(crate) waiting: VecDeque<QueuedRequest<T>>,
    pub(crate) running: usize,
    pub(crate) seats: usize,
    /// The virtual start time of the next request.
    pub(crate) next_r: f64,
}

/// The assumed duration of a request until its end.
pub(super) const SERVICE_SECONDS: f64 = 0.003;

impl<T> QueuedRequest<T> {
    /// Returns the work of the request in seat-seconds.
    pub(crate) fn work(&self) -> f64 {
        self.seats as f64 * SERVICE_SECONDS
    }
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self { waiting: VecDeque::new(), running: 0, seats: 0, next_r: 0.0 }
    }

    pub(super) fn is_idle(&self) -> bool {
        self.waiting.is_empty() && self.running == 0
    }

    pub(crate) fn waiting_seats(&self) -> usize {
        self.waiting.iter().map(|waiting| waiting.seats).sum()
    }

    pub(crate) fn waiting_work(&self) -> f64 {
        self.waiting_seats() as f64 * SERVICE_SECONDS
    }

    /// Raises the virtual start time to the arrival of the oldest request, so that an idle queue accumulates no credit.
    pub(super) fn bound(&mut self) {
        if let Some(oldest) = self.waiting.front() {
            self.next_r = self.next_r.max(oldest.arrived_r);
        }
    }
}
