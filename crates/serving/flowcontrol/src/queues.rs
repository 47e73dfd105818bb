//! Fair queuing for server requests, with the queues of one level. A virtual clock advances at the rate at which each
//! queue with requests is served; the request with the earliest virtual finish time is dispatched next.
//!
//! Nothing here waits or reads a clock.

mod queue;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use binnacle_meta::Text;

use self::queue::{Queue, QueuedRequest, SERVICE_SECONDS};
use crate::ratios::Load;
use crate::shuffle_sharding::deal;
use crate::spec::Queuing;

/// A request that arrives.
#[derive(Debug)]
pub(crate) struct Arrival<T> {
    pub(crate) seats: usize,
    pub(crate) schema: Text,
    pub(crate) flow: Text,
    /// The hash from which the hand of queues of the flow is dealt.
    pub(crate) hash: u64,
    /// Called when the request is dispatched; returns false if the request was dropped.
    pub(crate) notifier: T,
}

/// The receiver of a request's dispatch.
pub(crate) trait Notify {
    fn notify(self) -> bool;
}

/// The result of an arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// The request is executed.
    Served(Execution),
    /// The request waits, with this ID.
    Waits(u64),
    Refused(&'static str),
}

/// An executing request, which is passed to `finish` when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Execution {
    pub(crate) id: u64,
    queue: Option<usize>,
    seats: usize,
    began: Instant,
}

#[derive(Debug)]
pub(crate) struct Queues<T> {
    /// The maximum number of seats in use; `None` if there is none.
    pub(crate) limit: Option<usize>,
    queuing: Option<Queuing>,
    pub(crate) queues: Vec<Queue<T>>,
    /// The queue that was served last.
    last_served: usize,
    dealt: usize,
    next_id: u64,
    pub(crate) now_r: f64,
    synced_at: Instant,
    pub(crate) waiting: usize,
    pub(crate) waiting_seats: usize,
    pub(crate) running: usize,
    pub(crate) seats: usize,
    pub(crate) totals: Totals,
    /// The length of the queue to which the last arrival was added, including itself; `None` if it was not queued.
    pub(crate) enqueued: Option<usize>,
    /// Dispatched requests whose [`Execution`] `take_started` has not returned yet.
    started: Vec<(u64, Execution)>,
}

/// Counts of requests since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) dispatched: u64,
    pub(crate) rejected: u64,
    pub(crate) timed_out: u64,
}

impl<T: Notify> Queues<T> {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            limit: Some(0),
            queuing: None,
            queues: Vec::new(),
            last_served: 0,
            dealt: 0,
            next_id: 0,
            now_r: 0.0,
            synced_at: now,
            waiting: 0,
            waiting_seats: 0,
            running: 0,
            seats: 0,
            totals: Totals::default(),
            enqueued: None,
            started: Vec::new(),
        }
    }

    /// Replaces the settings. Waiting requests remain, also in queues that are no longer used.
    pub(crate) fn configure(&mut self, now: Instant, limit: Option<usize>, queuing: Option<Queuing>) {
        self.sync(now);
        self.limit = limit;
        self.queuing = queuing;
        let queue_count = queuing.map_or(0, |queuing| queuing.queues);
        while self.queues.len() < queue_count {
            self.queues.push(Queue::new());
        }
        self.trim();
        self.dispatch(now);
    }

    /// Returns the number of seats that could be used now.
    pub(crate) fn demand(&self) -> usize {
        self.seats + self.waiting_seats
    }

    pub(crate) fn load(&self) -> Load {
        Load { demand: self.demand(), seats: self.seats, running: self.running, waiting: self.waiting }
    }

    pub(crate) fn arrive(&mut self, now: Instant, arrival: Arrival<T>) -> Outcome {
        self.sync(now);
        let id = self.next_id;
        self.next_id += 1;
        self.enqueued = None;
        let Some(queuing) = self.queuing.filter(|_| self.limit.is_some()) else {
            if !self.has_room(arrival.seats) {
                self.totals.rejected += 1;
                return Outcome::Refused("concurrency-limit");
            }
            return Outcome::Served(self.run(now, id, arrival.seats, None));
        };
        let at = self.shortest(arrival.hash, &queuing);
        let queue = &mut self.queues[at];
        if Some(self.seats) >= self.limit && queue.waiting.len() >= queuing.length_limit {
            self.totals.rejected += 1;
            return Outcome::Refused("queue-full");
        }
        if queue.is_idle() {
            queue.next_r = self.now_r;
        }
        let waiting = QueuedRequest {
            id,
            seats: arrival.seats,
            schema: arrival.schema,
            flow: arrival.flow,
            arrived_at: now,
            arrived_r: self.now_r,
            notifier: arrival.notifier,
        };
        self.waiting += 1;
        self.waiting_seats += waiting.seats;
        queue.waiting.push_back(waiting);
        self.enqueued = Some(queue.waiting.len());
        queue.bound();
        self.dispatch(now);
        // Usually the request is dispatched immediately.
        match self.take_started(id) {
            Some(running) => Outcome::Served(running),
            None => Outcome::Waits(id),
        }
    }

    /// Takes the [`Execution`] of a waiting request that was dispatched.
    pub(crate) fn take_started(&mut self, id: u64) -> Option<Execution> {
        let at = self.started.iter().position(|(started, _)| *started == id)?;
        Some(self.started.swap_remove(at).1)
    }

    /// Removes a request that stops waiting. Returns `Err` if it was already dispatched.
    pub(crate) fn give_up(&mut self, now: Instant, id: u64) -> Result<(), Option<Execution>> {
        self.sync(now);
        for queue in &mut self.queues {
            let Some(at) = queue.waiting.iter().position(|waiting| waiting.id == id) else { continue };
            let waiting = queue.waiting.remove(at).map_or(0, |waiting| waiting.seats);
            queue.bound();
            self.waiting -= 1;
            self.waiting_seats -= waiting;
            self.totals.rejected += 1;
            self.totals.timed_out += 1;
            // The request may have blocked a smaller one.
            self.dispatch(now);
            self.trim();
            return Ok(());
        }
        Err(self.take_started(id))
    }

    /// Ends an executed request.
    pub(crate) fn finish(&mut self, now: Instant, running: Execution) {
        self.sync(now);
        self.running -= 1;
        self.seats -= running.seats;
        if let Some(queue) = running.queue.and_then(|at| self.queues.get_mut(at)) {
            queue.running -= 1;
            queue.seats -= running.seats;
            // Replaces the assumed duration by the actual one.
            let took = now.saturating_duration_since(running.began).as_secs_f64();
            queue.next_r -= running.seats as f64 * (SERVICE_SECONDS - took);
            queue.bound();
        }
        self.dispatch(now);
        self.trim();
    }

    /// Advances the virtual clock to `now`.
    fn sync(&mut self, now: Instant) {
        let passed = now.saturating_duration_since(self.synced_at);
        self.synced_at = self.synced_at.max(now);
        if passed > Duration::ZERO {
            self.now_r += passed.as_secs_f64() * self.rate();
        }
    }

    /// Returns the number of seats for each queue with requests.
    fn rate(&self) -> f64 {
        if self.waiting == 0 && self.running == 0 {
            return 0.0;
        }
        let active = self.queues.iter().filter(|queue| !queue.is_idle()).count();
        if active == 0 {
            return 0.0;
        }
        let queue_count = self.demand().min(self.limit.unwrap_or(usize::MAX));
        queue_count as f64 / active as f64
    }

    /// Returns the shortest of the flow's queues. Ties are not always resolved to the first.
    fn shortest(&mut self, hash: u64, queuing: &Queuing) -> usize {
        let hand: Vec<usize> = deal(hash, queuing.queues, queuing.hand_size).collect();
        let offset = self.dealt % hand.len();
        self.dealt = self.dealt.wrapping_add(1);
        let rotated = hand[offset..].iter().chain(&hand[..offset]).copied();
        rotated.min_by_key(|at| self.queues[*at].waiting_seats()).unwrap_or(0)
    }

    fn has_room(&self, seats: usize) -> bool {
        match self.limit {
            None => true,
            // A request wider than the limit would never fit, so it is executed alone.
            Some(limit) if seats > limit => self.running == 0,
            Some(limit) => self.seats + seats <= limit,
        }
    }

    fn dispatch(&mut self, now: Instant) {
        while self.waiting > 0 && self.limit.is_none_or(|limit| self.seats < limit) && self.dispatch_one(now) {}
    }

    fn dispatch_one(&mut self, now: Instant) -> bool {
        let count = self.queues.len();
        let mut best: Option<(f64, usize)> = None;
        for step in 1..=count {
            let at = (self.last_served + step) % count;
            let queue = &self.queues[at];
            if let Some(oldest) = queue.waiting.front() {
                let finish = queue.next_r + oldest.work();
                if best.is_none_or(|(least, _)| finish < least) {
                    best = Some((finish, at));
                }
            }
        }
        let Some((_, at)) = best else { return false };
        let room = self.queues[at].waiting.front().is_some_and(|oldest| self.has_room(oldest.seats));
        if !room {
            return false;
        }
        let Some(next) = self.queues[at].waiting.pop_front() else { return false };
        self.last_served = at;
        self.waiting -= 1;
        self.waiting_seats -= next.seats;
        let work = next.work();
        let running = self.run(now, next.id, next.seats, Some(at));
        self.started.push((next.id, running));
        if next.notifier.notify() {
            self.queues[at].next_r += work;
        } else {
            // The request was dropped.
            self.take_started(next.id);
            self.undo(running);
        }
        self.queues[at].bound();
        true
    }

    fn run(&mut self, now: Instant, id: u64, seats: usize, queue: Option<usize>) -> Execution {
        self.running += 1;
        self.seats += seats;
        self.totals.dispatched += 1;
        if let Some(queue) = queue.and_then(|at| self.queues.get_mut(at)) {
            queue.running += 1;
            queue.seats += seats;
        }
        Execution { id, queue, seats, began: now }
    }

    fn undo(&mut self, running: Execution) {
        self.running -= 1;
        self.seats -= running.seats;
        self.totals.dispatched -= 1;
        if let Some(queue) = running.queue.and_then(|at| self.queues.get_mut(at)) {
            queue.running -= 1;
            queue.seats -= running.seats;
        }
    }

    /// Drops queues at the end that are no longer used.
    fn trim(&mut self) {
        let queue_count = self.queuing.map_or(0, |queuing| queuing.queues);
        while self.queues.len() > queue_count && self.queues.last().is_some_and(Queue::is_idle) {
            self.queues.pop();
        }
        if self.last_served >= self.queues.len() {
            self.last_served = 0;
        }
    }
}
