//! The shares of the users of a store, and the turns of those whose writes wait.
//!
//! Turns are deficit round robin: in each round a user may start writes of [`QUANTUM`] bytes, and keeps what it does not use
//! while it has waiting writes.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::StoreError;

/// The cost of a write besides its bytes. A share is 128 small writes: the objects that every cluster has are two shares.
const WRITE: usize = 16 << 10;
/// The maximum cost of the writes of one user in the store. A larger write is carried out alone.
const OF_ONE: usize = 2 << 20;
/// The maximum cost of the writes of all users in the store. The next write of each waits for at most this.
const OF_ALL: usize = 8 << 20;
/// The cost of the writes that a user may start in a turn.
const QUANTUM: usize = 128 << 10;
/// The maximum number of waiting writes of a user. Limits of requests are reached first, unless the store hangs.
const MAX_WAITING: usize = 64 << 10;

/// The shares of all users of a store.
pub struct WriteShares {
    limits: Limits,
    state: Mutex<State>,
}

#[derive(Clone, Copy)]
struct Limits {
    of_one: usize,
    of_all: usize,
}

/// The share of one user. Clones are the same share, and so are all shares with the same name.
#[derive(Clone)]
pub struct WriteShare {
    shares: Arc<WriteShares>,
    name: Arc<str>,
    waits: Arc<WriteWaits>,
}

/// The waits of a user's writes for its share, since the start.
#[derive(Debug, Default)]
pub struct WriteWaits {
    waiting: AtomicUsize,
    writes: AtomicU64,
    nanoseconds: AtomicU64,
}

/// The wait of one write.
struct Wait<'a> {
    waits: &'a WriteWaits,
    began: Instant,
}

#[derive(Default)]
struct State {
    /// The cost of the writes in the store.
    used: usize,
    /// The users that have writes in the store, or waiting ones.
    users: HashMap<Arc<str>, User>,
    /// The users whose next write waits only for its turn.
    turns: VecDeque<Arc<str>>,
}

#[derive(Default)]
struct User {
    /// The cost of the writes in the store.
    used: usize,
    waiting: VecDeque<Waiter>,
    /// The cost of the writes that may start before its turn ends.
    deficit: usize,
    has_turn: bool,
}

struct Waiter {
    cost: usize,
    permit: oneshot::Sender<WritePermit>,
}

/// The right to have a write in the store, until it is dropped.
pub(super) struct WritePermit {
    shares: Arc<WriteShares>,
    name: Arc<str>,
    cost: usize,
}

// === impl WriteShares ===

impl WriteShares {
    pub fn new() -> Arc<Self> {
        Self::with_limits(OF_ONE, OF_ALL)
    }

    fn with_limits(of_one: usize, of_all: usize) -> Arc<Self> {
        Arc::new(Self { limits: Limits { of_one, of_all }, state: Mutex::default() })
    }

    /// Returns the share of the user with this name. Its waits are added to `waits`.
    pub fn share(self: &Arc<Self>, name: Arc<str>, waits: Arc<WriteWaits>) -> WriteShare {
        WriteShare { shares: self.clone(), name, waits }
    }

    /// Starts a write, or returns the receiver of its permit.
    fn enter(self: &Arc<Self>, name: &Arc<str>, cost: usize) -> Result<Entry, StoreError> {
        let mut state = self.state.lock();
        let state = &mut *state;
        let fits_all = state.turns.is_empty() && fits(state.used, cost, self.limits.of_all);
        let user = match state.users.get_mut(name) {
            Some(user) => user,
            None => state.users.entry(name.clone()).or_default(),
        };
        if fits_all && user.waiting.is_empty() && fits(user.used, cost, self.limits.of_one) {
            user.used += cost;
            state.used += cost;
            return Ok(Entry::Started(self.permit(name, cost)));
        }
        if user.waiting.len() >= MAX_WAITING {
            return Err(StoreError::Timeout);
        }
        let (permit, granted) = oneshot::channel();
        user.waiting.push_back(Waiter { cost, permit });
        user.take_turn(name, self.limits, &mut state.turns);
        Ok(Entry::Waits(granted))
    }

    fn permit(self: &Arc<Self>, name: &Arc<str>, cost: usize) -> WritePermit {
        WritePermit { shares: self.clone(), name: name.clone(), cost }
    }

    fn release(self: &Arc<Self>, name: &Arc<str>, cost: usize) {
        let mut granted = Vec::new();
        {
            let mut state = self.state.lock();
            state.release(name, cost, self.limits);
            while let Some((name, waiter)) = state.next(self.limits) {
                granted.push((self.permit(&name, waiter.cost), waiter.permit));
            }
        }
        for (permit, receiver) in granted {
            // The permit of a caller that is gone is dropped, which starts the next write.
            drop(receiver.send(permit));
        }
    }
}

/// Returns true if a write can be added. One that is larger than the limit can be added to none.
fn fits(used: usize, cost: usize, limit: usize) -> bool {
    used == 0 || used + cost <= limit
}

enum Entry {
    Started(WritePermit),
    Waits(oneshot::Receiver<WritePermit>),
}

// === impl State ===

impl State {
    fn release(&mut self, name: &Arc<str>, cost: usize, limits: Limits) {
        self.used -= cost;
        let Some(user) = self.users.get_mut(name) else { return };
        user.used -= cost;
        user.take_turn(name, limits, &mut self.turns);
        self.forget_if_idle(name);
    }

    /// Starts the next waiting write, if one fits.
    fn next(&mut self, limits: Limits) -> Option<(Arc<str>, Waiter)> {
        loop {
            let name = self.turns.front()?.clone();
            let user = self.users.get_mut(&name)?;
            let cost = user.next_cost();
            let Some(cost) = cost.filter(|cost| fits(user.used, *cost, limits.of_one)) else {
                // The share is used up, or nothing waits any more.
                self.turns.pop_front();
                (user.has_turn, user.deficit) = (false, 0);
                self.forget_if_idle(&name);
                continue;
            };
            if !fits(self.used, cost, limits.of_all) {
                return None;
            }
            if user.deficit < cost {
                user.deficit += QUANTUM;
                self.turns.rotate_left(1);
                continue;
            }
            user.deficit -= cost;
            user.used += cost;
            self.used += cost;
            return Some((name, user.waiting.pop_front()?));
        }
    }

    fn forget_if_idle(&mut self, name: &Arc<str>) {
        if self.users.get(name).is_some_and(|user| user.used == 0 && user.waiting.is_empty() && !user.has_turn) {
            self.users.remove(name);
        }
    }
}

// === impl User ===

impl User {
    /// Returns the cost of the next write whose caller still waits.
    fn next_cost(&mut self) -> Option<usize> {
        while self.waiting.front().is_some_and(|waiter| waiter.permit.is_closed()) {
            self.waiting.pop_front();
        }
        self.waiting.front().map(|waiter| waiter.cost)
    }

    /// Gives the user a turn if its next write fits in its share.
    fn take_turn(&mut self, name: &Arc<str>, limits: Limits, turns: &mut VecDeque<Arc<str>>) {
        let fits = self.next_cost().is_some_and(|cost| fits(self.used, cost, limits.of_one));
        if fits && !self.has_turn {
            self.has_turn = true;
            turns.push_back(name.clone());
        }
    }
}

// === impl WriteShare ===

impl WriteShare {
    /// Waits until the user may have a write of this size in the store.
    pub(super) async fn acquire(&self, size: usize) -> Result<WritePermit, StoreError> {
        let granted = match self.shares.enter(&self.name, WRITE + size)? {
            Entry::Started(permit) => return Ok(permit),
            Entry::Waits(granted) => granted,
        };
        let _wait = self.waits.begin();
        // The sender is dropped only with the shares.
        granted.await.map_err(|_| StoreError::Closed)
    }
}

impl Drop for WritePermit {
    fn drop(&mut self) {
        self.shares.release(&self.name, self.cost);
    }
}

// === impl WriteWaits ===

impl WriteWaits {
    fn begin(&self) -> Wait<'_> {
        self.writes.fetch_add(1, Ordering::Relaxed);
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Wait { waits: self, began: Instant::now() }
    }

    /// Returns the number of writes that wait now.
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Returns the number of writes that have waited or wait.
    pub fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Returns the time that writes have waited, in total.
    pub fn time(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds.load(Ordering::Relaxed))
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let waited = u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.waits.nanoseconds.fetch_add(waited, Ordering::Relaxed);
        self.waits.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
