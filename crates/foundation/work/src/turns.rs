//! Turns on the processors for long computations, shared fairly among callers.
//!
//! A turn lasts one time slice. After that the holder passes it on if a caller waits that has used less time. This is
//! start-time fair queuing: the virtual time of a caller grows by the time that it uses, and the caller with the least
//! virtual time is first. A caller that was idle starts at the current virtual time, so that idle callers cannot
//! accumulate time.

use std::collections::{HashMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{LazyLock, mpsc};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use binnacle_meta::Text;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::budget::{BudgetError, Caller, WorkBudget};
use crate::scope;

/// The time after which a turn is passed on if another caller waits.
pub const SLICE: Duration = Duration::from_millis(2);

/// The maximum number of threads that wait for a turn during a computation. Each is one of the runtime's 512 blocking
/// threads.
const MAX_BLOCKED: usize = 128;
/// Like [`MAX_BLOCKED`], for one caller.
const MAX_BLOCKED_OF_CALLER: usize = 24;

/// The maximum wait of a thread. After that the work continues without a turn, so that an interrupted computation that
/// others depend on cannot block all of them.
const LONGEST_BLOCK: Duration = Duration::from_secs(1);

/// The number of waiting threads, readable without the lock.
pub(crate) static BLOCKED: AtomicUsize = AtomicUsize::new(0);

/// The turns of the process. Users get all processors but one, so that small requests find a free one. One more turn is
/// reserved for callers of the system, so that users cannot block the cluster itself.
pub(crate) static TURNS: LazyLock<Turns> = LazyLock::new(|| {
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    Turns::new(processors.saturating_sub(1).max(1), 1)
});

pub(crate) struct Turns(Mutex<Queues>);

struct Queues {
    free: usize,
    /// The free turns that are reserved for callers of the system.
    reserved: usize,
    callers: HashMap<Text, Queue>,
    /// The current virtual time, in nanoseconds.
    now: u64,
    blocked: usize,
}

/// The waiting computations of one caller.
#[derive(Default)]
struct Queue {
    is_system: bool,
    /// The virtual time of the caller.
    reached: u64,
    waiting: VecDeque<Receiver>,
    blocked: usize,
}

/// How a turn is waited for.
enum Receiver {
    Task(oneshot::Sender<Turn>),
    Thread(mpsc::Sender<Turn>),
}

impl Receiver {
    /// Hands the turn over. If the receiver is gone, the turn is dropped, which gives it to the next one.
    fn send(self, turn: Turn) {
        match self {
            Self::Task(sender) => drop(sender.send(turn)),
            Self::Thread(sender) => drop(sender.send(turn)),
        }
    }
}

/// The right to compute, until it is dropped.
pub(crate) struct Turn {
    turns: &'static Turns,
    caller: Caller,
    is_reserved: bool,
    began: Instant,
}

impl Turns {
    fn new(free: usize, reserved: usize) -> Self {
        Self(Mutex::new(Queues { free, reserved, callers: HashMap::new(), now: 0, blocked: 0 }))
    }

    /// Waits for a turn asynchronously.
    pub(crate) fn acquire(&'static self, caller: &Caller) -> PendingTurn {
        let (sender, receiver) = oneshot::channel();
        self.enqueue(caller, Receiver::Task(sender));
        PendingTurn(receiver)
    }

    fn enqueue(&'static self, caller: &Caller, receiver: Receiver) {
        let mut queues = self.0.lock();
        let now = queues.now;
        let queue = queues.callers.entry(caller.name.clone()).or_default();
        if queue.waiting.is_empty() {
            queue.reached = queue.reached.max(now);
        }
        queue.is_system = caller.is_system;
        queue.waiting.push_back(receiver);
        self.serve(queues);
    }

    /// Returns true if several computations of the caller wait, in which case its next one should wait asynchronously.
    pub(crate) fn is_crowded(&self, caller: &Caller) -> bool {
        const CROWD: usize = 4;
        let queues = self.0.lock();
        queues.blocked >= MAX_BLOCKED / 2
            || queues.callers.get(&caller.name).is_some_and(|queue| queue.blocked >= CROWD)
    }

    /// Waits for a turn, blocking the thread. Returns `None` after [`LONGEST_BLOCK`]: the work then continues without
    /// one.
    ///
    /// # Errors
    /// [`BudgetError::Queue`] if too many threads wait.
    pub(crate) fn acquire_blocking(&'static self, caller: &Caller) -> Result<Option<Turn>, BudgetError> {
        {
            let mut queues = self.0.lock();
            let total = queues.blocked;
            let queue = queues.callers.entry(caller.name.clone()).or_default();
            let of_caller = if caller.is_system { MAX_BLOCKED } else { MAX_BLOCKED_OF_CALLER };
            if queue.blocked >= of_caller || total >= if caller.is_system { 2 * MAX_BLOCKED } else { MAX_BLOCKED } {
                return Err(BudgetError::Queue);
            }
            queue.blocked += 1;
            queues.blocked += 1;
        }
        BLOCKED.fetch_add(1, Ordering::Relaxed);
        let (sender, receiver) = mpsc::channel();
        self.enqueue(caller, Receiver::Thread(sender));
        let turn = receiver.recv_timeout(LONGEST_BLOCK).ok();
        BLOCKED.fetch_sub(1, Ordering::Relaxed);
        let mut queues = self.0.lock();
        queues.blocked -= 1;
        if let Some(queue) = queues.callers.get_mut(&caller.name) {
            queue.blocked -= 1;
        }
        Ok(turn)
    }

    /// Gives free turns to waiting callers.
    fn serve(&'static self, mut queues: parking_lot::MutexGuard<'_, Queues>) {
        let mut granted = Vec::new();
        while let Some(next) = self.grant(&mut queues) {
            granted.push(next);
        }
        queues.tidy();
        drop(queues);
        granted.into_iter().for_each(|(receiver, turn)| receiver.send(turn));
    }

    fn grant(&'static self, queues: &mut Queues) -> Option<(Receiver, Turn)> {
        let free = queues.free;
        if free == 0 && queues.reserved == 0 {
            return None;
        }
        let waiting = queues.callers.iter_mut().filter(|(_, queue)| !queue.waiting.is_empty());
        let may_run = waiting.filter(|(_, queue)| free > 0 || queue.is_system);
        let (name, queue) = may_run.min_by_key(|(_, queue)| queue.reached)?;
        let caller = Caller { name: name.clone(), is_system: queue.is_system };
        let receiver = queue.waiting.pop_front()?;
        queues.now = queues.now.max(queue.reached);
        // A caller of the system uses the reserved turn first.
        let is_reserved = caller.is_system && queues.reserved > 0;
        if is_reserved {
            queues.reserved -= 1;
        } else {
            queues.free -= 1;
        }
        Some((receiver, Turn { turns: self, caller, is_reserved, began: Instant::now() }))
    }
}

impl Queues {
    /// Removes callers that neither wait nor are ahead of the current virtual time.
    fn tidy(&mut self) {
        const FEW: usize = 64;
        if self.callers.len() > FEW {
            let now = self.now;
            self.callers.retain(|_, queue| !queue.waiting.is_empty() || queue.blocked > 0 || queue.reached > now);
        }
    }

    /// Adds used time to the virtual time of a caller. The current virtual time advances by the caller's share, so that
    /// callers that come later are not ahead of those that wait.
    fn account(&mut self, caller: &Text, used: Duration) {
        let (now, used) = (self.now, u64::try_from(used.as_nanos()).unwrap_or(u64::MAX));
        let active = 1 + self.callers.values().filter(|queue| !queue.waiting.is_empty()).count() as u64;
        let queue = self.callers.entry(caller.clone()).or_default();
        queue.reached = queue.reached.max(now).saturating_add(used);
        self.now = now.saturating_add(used / active);
    }

    /// Returns true if a waiting caller has precedence over this one.
    fn is_preceded(&self, turn: &Turn) -> bool {
        let own = self.callers.get(&turn.caller.name).map_or(self.now, |queue| queue.reached);
        self.callers
            .values()
            .any(|queue| !queue.waiting.is_empty() && queue.reached < own && (queue.is_system || !turn.is_reserved))
    }
}

impl Turn {
    /// Passes the turn on if its slice has ended and another caller has precedence. Blocks the thread until the next
    /// turn.
    ///
    /// # Errors
    /// [`BudgetError::Queue`] if too many threads wait.
    pub(crate) fn renew(mut self, now: Instant) -> Result<Option<Self>, BudgetError> {
        if now.saturating_duration_since(self.began) < SLICE {
            return Ok(Some(self));
        }
        let turns = self.turns;
        let preceded = {
            let mut queues = turns.0.lock();
            queues.account(&self.caller.name, now - self.began);
            self.began = now;
            queues.is_preceded(&self)
        };
        if !preceded {
            return Ok(Some(self));
        }
        let caller = self.caller.clone();
        drop(self);
        turns.acquire_blocking(&caller)
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queues = self.turns.0.lock();
        queues.account(&self.caller.name, self.began.elapsed());
        if self.is_reserved {
            queues.reserved += 1;
        } else {
            queues.free += 1;
        }
        self.turns.serve(queues);
    }
}

/// A pending turn.
pub(crate) struct PendingTurn(oneshot::Receiver<Turn>);

impl Future for PendingTurn {
    type Output = Option<Turn>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Turn>> {
        // The sender is only dropped with the queues.
        Pin::new(&mut self.0).poll(cx).map(Result::ok)
    }
}

/// The minimum size of a body chunk that is processed in a turn.
const LARGE_PIECE: usize = 32 << 10;

/// Processes the chunks of a body while it is sent; large ones in turns.
#[derive(Default)]
pub struct PieceTurn(Option<PendingTurn>);

impl PieceTurn {
    /// Processes a chunk of this size: immediately if it is small, otherwise as soon as there is a turn. Poll with the
    /// same closure until it is ready.
    pub fn poll<T>(
        &mut self,
        cx: &mut Context<'_>,
        budget: &WorkBudget,
        bytes: usize,
        work: impl FnOnce() -> T,
    ) -> Poll<T> {
        if bytes < LARGE_PIECE {
            return Poll::Ready(work());
        }
        let waiting = self.0.get_or_insert_with(|| TURNS.acquire(&budget.caller()));
        let turn = ready!(Pin::new(waiting).poll(cx));
        self.0 = None;
        Poll::Ready(scope::away(|| {
            let done = work();
            drop(turn);
            done
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turns(free: usize, reserved: usize) -> &'static Turns {
        // Turns refer to their queues for the lifetime of the process.
        Box::leak(Box::new(Turns::new(free, reserved)))
    }

    fn user(name: &str) -> Caller {
        Caller { name: name.into(), is_system: false }
    }

    fn now(waiting: &mut PendingTurn) -> Option<Turn> {
        waiting.0.try_recv().ok()
    }

    #[test]
    fn schedules_callers_fairly() {
        let turns = turns(1, 0);
        let mut busy: Vec<_> = (0..10).map(|_| turns.acquire(&user("busy"))).collect();
        let first = now(&mut busy[0]).expect("a free turn");
        let mut other = turns.acquire(&user("other"));
        std::thread::sleep(Duration::from_millis(1));
        assert!(now(&mut other).is_none());
        drop(first);
        let turn = now(&mut other).expect("the caller that used less");
        assert!(busy[1..].iter_mut().all(|waiting| now(waiting).is_none()));
        drop(turn);
        assert!(now(&mut busy[1]).is_some());
    }

    #[test]
    fn passes_the_turn_on_after_a_slice() {
        let turns = turns(1, 0);
        let turn = now(&mut turns.acquire(&user("a"))).expect("a free turn");
        let later = turn.began + SLICE;
        let turn = turn.renew(later).expect("few wait").expect("nobody waits");
        let mut other = turns.acquire(&user("b"));
        let holder = std::thread::spawn(move || turn.renew(later + SLICE).map(|turn| turn.is_some()));
        while now(&mut other).is_none() {
            std::thread::yield_now();
        }
        drop(other);
        assert_eq!(holder.join().expect("no panic"), Ok(true));
    }

    #[test]
    fn reserves_a_turn_for_the_system() {
        let turns = turns(1, 1);
        let _user = now(&mut turns.acquire(&user("a"))).expect("a free turn");
        let mut second = turns.acquire(&user("b"));
        assert!(now(&mut second).is_none());
        let system = Caller { name: "root".into(), is_system: true };
        assert!(now(&mut turns.acquire(&system)).is_some_and(|turn| turn.is_reserved));
        assert!(now(&mut second).is_none());
    }

    #[test]
    fn passes_turns_of_cancelled_waiters_on() {
        let turns = turns(1, 0);
        let turn = now(&mut turns.acquire(&user("a"))).expect("a free turn");
        let gone = turns.acquire(&user("a"));
        let mut next = turns.acquire(&user("b"));
        drop(gone);
        drop(turn);
        assert!(now(&mut next).is_some());
        drop(turns.acquire(&user("c")));
        assert!(now(&mut turns.acquire(&user("d"))).is_some());
    }

    #[test]
    fn forgets_idle_callers() {
        let turns = turns(1, 0);
        for n in 0..1000 {
            drop(turns.acquire(&user(&n.to_string())));
        }
        assert!(turns.0.lock().callers.len() < 200);
    }
}
