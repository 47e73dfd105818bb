//! The current budget of a thread.

use std::cell::{Cell, RefCell};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use tokio::runtime::{Handle, RuntimeFlavor};

use crate::budget::{BudgetError, WorkBudget, WorkLimits};
use crate::polls::{self, PollTimer, ThreadWork};
use crate::turns::{BLOCKED, PendingTurn, TURNS, Turn};

/// The time after which a poll must leave its worker to other tasks.
pub const QUANTUM: Duration = Duration::from_millis(1);

/// The number of steps after which the clock is read.
const STEPS: u64 = 4096;
/// The number of steps that take a millisecond.
const STEPS_PER_MILLISECOND: u64 = 100_000;
/// The number of bytes after which memory is accounted.
const BYTES: usize = 64 << 10;
/// The number of bytes that are copied, compared or parsed per step.
const BYTES_PER_STEP: usize = 16;

thread_local! {
    static LOCAL: Local = const { Local {
        steps: Cell::new(0),
        bytes: Cell::new(0),
        current: RefCell::new(None),
    } };
}

struct Local {
    /// The steps and bytes that may be used before they are charged to the budget.
    steps: Cell<u64>,
    bytes: Cell<usize>,
    current: RefCell<Option<CurrentWork>>,
}

/// The state of the thread's current poll.
struct CurrentWork {
    budget: WorkBudget,
    /// The values of `Local` when it was last refilled.
    steps: u64,
    bytes: usize,
    /// The start of the poll, or the first time that it was needed.
    began: Option<Instant>,
    turn: Option<Turn>,
    timer: PollTimer,
}

/// Charges steps to the current budget, before they are taken. A step is about ten nanoseconds of work: a visited
/// value, a compared short text, an evaluated rule. Long computations may be interrupted here, to let others have a
/// turn.
///
/// # Errors
/// The exceeded limit. Every further call fails, too.
#[inline]
pub fn charge(steps: u64) -> Result<(), BudgetError> {
    LOCAL.with(|local| match local.steps.get().checked_sub(steps) {
        Some(left) => {
            local.steps.set(left);
            Ok(())
        }
        None => local.refill_steps(steps),
    })
}

/// Charges the steps for bytes that are copied, compared or parsed.
///
/// # Errors
/// Like [`charge`].
#[inline]
pub fn charge_bytes(bytes: usize) -> Result<(), BudgetError> {
    charge(1 + (bytes / BYTES_PER_STEP) as u64)
}

/// Charges bytes to the current budget, before they are allocated.
///
/// # Errors
/// Like [`charge`].
#[inline]
pub fn allocate(bytes: usize) -> Result<(), BudgetError> {
    LOCAL.with(|local| match local.bytes.get().checked_sub(bytes) {
        Some(left) => {
            local.bytes.set(left);
            Ok(())
        }
        None => local.refill_bytes(bytes),
    })
}

/// Exhausts the current budget because of a limit that the caller checks itself. Does not affect work without limits.
pub fn exceed(exceeded: BudgetError) {
    LOCAL.with(|local| {
        if let Some(current) = local.current.borrow_mut().as_mut()
            && !current.budget.is_endless()
        {
            current.budget.exceed(exceeded);
            local.stop(current);
        }
    });
}

/// Charges steps of work that has its own bound and must be completed, such as encoding a stored object.
#[inline]
pub fn pace(steps: u64) {
    // The failure is recorded in the budget.
    let _ = charge(steps);
}

/// Fails if the current budget is exhausted. Call this before using the result of a computation that cannot fail
/// itself.
///
/// # Errors
/// Like [`charge`].
pub fn check() -> Result<(), BudgetError> {
    LOCAL.with(|local| local.current.borrow().as_ref().map_or(Ok(()), |current| current.budget.check()))
}

/// Returns the current budget of the thread.
pub fn current() -> Option<WorkBudget> {
    LOCAL.with(|local| local.current.borrow().as_ref().map(|current| current.budget.clone()))
}

/// The minimum size of an object that is decoded, validated, patched and encoded in turns.
const LARGE: usize = 128 << 10;

/// Announces work on an object of this size. For a large object, waits for a turn.
pub async fn large(bytes: usize) {
    if bytes < LARGE || !current().is_some_and(|budget| budget.becomes_heavy()) {
        return;
    }
    pause().await;
}

/// Ends this poll, so that the next one waits for a turn.
async fn pause() {
    let mut has_paused = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut has_paused, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Makes the next poll of the current work wait for a turn if the caller has much other work waiting.
pub async fn wait_behind_own_work() {
    if BLOCKED.load(Ordering::Relaxed) == 0 {
        return;
    }
    if let Some(budget) = current()
        && TURNS.is_crowded(&budget.caller())
        && budget.becomes_heavy()
    {
        pause().await;
    }
}

/// Runs a part of the current work with its own limits, such as the decoding of one stored object. Its steps are
/// charged to the whole as well, and its memory until it ends. If the part's budget is exhausted, only the part fails,
/// so the caller must check the result.
///
/// # Errors
/// The exceeded limit, regardless of the result of the work.
pub fn limited<T>(limits: WorkLimits, work: impl FnOnce() -> T) -> Result<T, BudgetError> {
    let whole = current().unwrap_or_else(|| WorkBudget::background("work outside of requests"));
    let part = whole.part(limits);
    let done = part.enter(work);
    whole.give_back(part.memory());
    part.check().map(|()| done)
}

/// Does work whose values are dropped when it ends: its memory is charged until then.
pub fn temporary<T>(work: impl FnOnce() -> T) -> T {
    let charged = || LOCAL.with(|local| local.charged_memory());
    let before = charged();
    let done = work();
    if let (Some(budget), Some(before), Some(after)) = (current(), before, charged()) {
        budget.give_back(after.saturating_sub(before));
    }
    done
}

impl Local {
    /// Returns the memory charged to the current budget, including what was not accounted yet; `None` without a budget
    /// or if it is exhausted.
    fn charged_memory(&self) -> Option<usize> {
        self.refill_bytes(0).ok()?;
        Some(self.current.borrow().as_ref()?.budget.memory())
    }

    #[cold]
    fn refill_steps(&self, steps: u64) -> Result<(), BudgetError> {
        let Some(mut current) = self.current.take() else {
            // Without a budget nothing is charged.
            self.steps.set(u64::MAX);
            return Ok(());
        };
        let used = current.steps - self.steps.get();
        let allowed = current.spend(used.saturating_add(steps));
        (current.steps, current.bytes) = match allowed {
            Ok(()) => (STEPS, current.bytes),
            Err(_) => {
                self.bytes.set(0);
                (0, 0)
            }
        };
        self.steps.set(current.steps);
        *self.current.borrow_mut() = Some(current);
        allowed
    }

    #[cold]
    fn refill_bytes(&self, bytes: usize) -> Result<(), BudgetError> {
        // Takes it out, because the thread may have to leave its worker and wait.
        let Some(mut current) = self.current.take() else {
            self.bytes.set(usize::MAX);
            return Ok(());
        };
        let used = current.bytes - self.bytes.get();
        let allowed = current.budget.spend_memory(used.saturating_add(bytes));
        current.bytes = if allowed.is_ok() { BYTES } else { 0 };
        self.bytes.set(current.bytes);
        if allowed.is_err() {
            self.stop(&mut current);
        }
        *self.current.borrow_mut() = Some(current);
        allowed
    }

    /// Makes all further charges fail, of steps and of memory.
    fn stop(&self, current: &mut CurrentWork) {
        // The exceeded limit is recorded in the budget.
        let _ = current.budget.spend_steps(current.steps - self.steps.get());
        let _ = current.budget.spend_memory(current.bytes - self.bytes.get());
        (current.steps, current.bytes) = (0, 0);
        self.steps.set(0);
        self.bytes.set(0);
    }

    /// Sets the current budget. Returns the previous one and its unused allowance.
    fn install(&self, current: Option<CurrentWork>) -> (Option<CurrentWork>, u64, usize) {
        let left = (self.steps.replace(0), self.bytes.replace(0));
        if current.is_none() {
            self.steps.set(u64::MAX);
            self.bytes.set(usize::MAX);
        }
        (self.current.replace(current), left.0, left.1)
    }
}

impl CurrentWork {
    fn new(budget: WorkBudget, turn: Option<Turn>) -> Self {
        let mut timer = PollTimer::start();
        if turn.is_some() {
            timer = PollTimer::default();
        }
        Self { budget, steps: 0, bytes: 0, began: None, turn, timer }
    }

    /// Charges steps to the budget. Leaves the worker or passes the turn on if it is time.
    fn spend(&mut self, steps: u64) -> Result<(), BudgetError> {
        self.budget.spend_steps(steps)?;
        let now = Instant::now();
        polls::charged(now);
        if self.budget.is_late(now) {
            return Err(self.budget.exceed(BudgetError::Deadline));
        }
        match self.turn.take() {
            // A runtime with one thread has no other worker.
            Some(turn) if !is_on_worker() => self.turn = Some(turn),
            Some(turn) => {
                self.turn = away(|| turn.renew(now)).map_err(|full| self.budget.exceed(full))?;
                self.began = Some(now);
            }
            None => {
                let began = *self.began.get_or_insert(now);
                let expected = Duration::from_millis(steps / STEPS_PER_MILLISECOND);
                if now - began + expected >= QUANTUM && is_on_worker() {
                    self.leave_worker()?;
                }
            }
        }
        Ok(())
    }

    /// Hands the other tasks of this worker to another thread, and waits for a turn.
    fn leave_worker(&mut self) -> Result<(), BudgetError> {
        self.timer.stop(&self.budget);
        self.budget.becomes_heavy();
        let caller = self.budget.caller();
        let turn = tokio::task::block_in_place(|| {
            let turn = TURNS.acquire_blocking(&caller);
            // The runtime starts a thread for the worker's tasks, unless this one returns first. It runs blocking work
            // in the order of spawning, so once the second closure runs, the first has started.
            let (started, has_started) = std::sync::mpsc::channel();
            drop(Handle::current().spawn_blocking(move || started.send(())));
            let _ = has_started.recv_timeout(LONGEST_HANDOVER);
            turn
        });
        self.turn = turn.map_err(|full| self.budget.exceed(full))?;
        // Without a turn, try again to get one after some time.
        self.began = Some(Instant::now());
        Ok(())
    }

    /// Charges the steps and bytes used so far.
    fn account(&mut self, steps_left: u64, bytes_left: usize) {
        // The exceeded limit is recorded in the budget.
        let _ = self.budget.spend_steps(self.steps - steps_left);
        let _ = self.budget.spend_memory(self.bytes - bytes_left);
        self.timer.stop(&self.budget);
    }
}

/// The longest wait until another thread runs the worker's tasks, in case none can be started.
const LONGEST_HANDOVER: Duration = Duration::from_millis(100);

impl WorkBudget {
    /// Runs a task with this budget. After a long poll, further polls wait for a turn.
    pub fn run<F: Future + Unpin>(&self, task: F) -> BudgetedFuture<F> {
        BudgetedFuture { budget: self.clone(), task, waiting: None }
    }

    /// Runs a closure with this budget.
    pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
        self.enter_with(None, work)
    }

    fn enter_with<T>(&self, turn: Option<Turn>, work: impl FnOnce() -> T) -> T {
        let _entered = BudgetGuard::new(self, turn);
        work()
    }
}

/// Restores the previous budget when the work ends, including by a panic.
struct BudgetGuard {
    previous: Option<CurrentWork>,
    steps: u64,
    bytes: usize,
    /// The previous work of the thread, if this work was recorded.
    was_busy: Option<Option<ThreadWork>>,
}

impl BudgetGuard {
    fn new(budget: &WorkBudget, turn: Option<Turn>) -> Self {
        let mut current = CurrentWork::new(budget.clone(), turn);
        // A part belongs to the same request.
        let was_busy = budget.is_whole().then(|| polls::begin(budget));
        LOCAL.with(|local| {
            let (mut previous, steps, bytes) = local.install(None);
            if let Some(outer) = &mut previous {
                // A part shares the turn and the time of the whole.
                if current.turn.is_none() {
                    current.turn = outer.turn.take();
                }
                current.began = outer.began;
                current.timer = std::mem::take(&mut outer.timer);
            }
            local.install(Some(current));
            Self { previous, steps, bytes, was_busy }
        })
    }
}

impl Drop for BudgetGuard {
    fn drop(&mut self) {
        if let Some(was_busy) = self.was_busy.take() {
            polls::end(was_busy);
        }
        LOCAL.with(|local| {
            let (current, steps, bytes) = local.install(None);
            if let Some(mut current) = current {
                if let Some(outer) = &mut self.previous {
                    outer.turn = current.turn.take();
                    outer.began = current.began;
                    outer.timer = std::mem::take(&mut current.timer);
                    outer.timer.includes(&current.budget);
                }
                current.account(steps, bytes);
            }
            if let Some(previous) = self.previous.take() {
                local.install(Some(previous));
                local.steps.set(self.steps);
                local.bytes.set(self.bytes);
            }
        });
    }
}

/// A task with a budget.
pub struct BudgetedFuture<F> {
    budget: WorkBudget,
    task: F,
    waiting: Option<PendingTurn>,
}

impl<F: Future + Unpin> Future for BudgetedFuture<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<F::Output> {
        let this = &mut *self;
        if !this.budget.is_heavy() {
            return this.budget.enter(|| Pin::new(&mut this.task).poll(cx));
        }
        let waiting = this.waiting.get_or_insert_with(|| TURNS.acquire(&this.budget.caller()));
        let turn = ready!(Pin::new(waiting).poll(cx));
        this.waiting = None;
        let polled = away(|| this.budget.enter_with(turn, || Pin::new(&mut this.task).poll(cx)));
        this.budget.polled_in_turn();
        polled
    }
}

/// Runs a closure while another thread runs this worker's tasks. A runtime with one thread has no other thread.
pub(crate) fn away<T>(work: impl FnOnce() -> T) -> T {
    if !is_on_worker() {
        return work();
    }
    // The enclosing work does not block the worker any more either.
    LOCAL.with(|local| {
        if let Some(current) = &mut *local.current.borrow_mut() {
            current.timer.stop(&current.budget);
        }
    });
    tokio::task::block_in_place(work)
}

/// Returns true on a thread of a runtime with several threads.
fn is_on_worker() -> bool {
    Handle::try_current().is_ok_and(|handle| handle.runtime_flavor() == RuntimeFlavor::MultiThread)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use crate::budget::Caller;

    const FEW: WorkLimits = WorkLimits { steps: 10_000, memory: 1 << 20 };

    #[test]
    fn fails_every_charge_after_the_limit() {
        assert_eq!(charge(u64::MAX / 2), Ok(()), "without a budget");
        let budget = WorkBudget::new(FEW);
        budget.enter(|| {
            (0..10_000).for_each(|_| assert_eq!(charge(1), Ok(())));
            assert_eq!(allocate(100), Ok(()));
            // Accounted in batches.
            assert_eq!((0..STEPS).find_map(|_| charge(1).err()), Some(BudgetError::Steps(FEW.steps)));
            assert_eq!(allocate(1), Err(BudgetError::Steps(FEW.steps)));
            assert_eq!(check(), Err(BudgetError::Steps(FEW.steps)));
        });
        assert_eq!(budget.enter(|| charge(1)), Err(BudgetError::Steps(FEW.steps)));
        let budget = WorkBudget::new(FEW);
        budget.enter(|| {
            assert_eq!(allocate(FEW.memory + 1), Err(BudgetError::Memory(FEW.memory)));
            assert_eq!(charge(1), Err(BudgetError::Memory(FEW.memory)));
        });
        assert_eq!(charge(1), Ok(()));
    }

    #[test]
    fn limits_a_part_and_charges_the_whole() {
        let budget = WorkBudget::new(WorkLimits { steps: 50_000, memory: 1 << 20 });
        budget.enter(|| {
            assert_eq!(charge(1), Ok(()));
            assert_eq!(limited(FEW, || charge(20_000).is_err()), Err(BudgetError::Steps(FEW.steps)));
            assert_eq!(charge(1), Ok(()));
            assert_eq!(limited(FEW, || charge(9_000)), Ok(Ok(())));
            assert_eq!(charge(30_000), Err(BudgetError::Steps(50_000)));
        });
        let budget = WorkBudget::new(FEW);
        budget.enter(|| {
            // Consecutive parts need their memory one after the other.
            (0..10).for_each(|_| assert_eq!(limited(FEW, || allocate(FEW.memory / 2)), Ok(Ok(()))));
            assert_eq!(limited(FEW, || allocate(FEW.memory + 1).is_err()), Err(BudgetError::Memory(FEW.memory)));
        });
    }

    #[test]
    fn returns_memory_of_temporary_values() {
        let budget = WorkBudget::new(FEW);
        budget.enter(|| {
            assert_eq!(allocate(1000), Ok(()));
            (0..10).for_each(|_| assert_eq!(temporary(|| allocate(FEW.memory / 2)), Ok(())));
            assert_eq!(temporary(|| temporary(|| allocate(FEW.memory / 2))), Ok(()));
        });
        assert_eq!(budget.memory(), 1000);
        assert_eq!(budget.most_memory(), 1000 + FEW.memory / 2);
        budget.enter(|| {
            assert_eq!(temporary(|| allocate(FEW.memory)), Err(BudgetError::Memory(FEW.memory)));
            assert_eq!(allocate(1), Err(BudgetError::Memory(FEW.memory)));
        });
        assert_eq!(temporary(|| allocate(FEW.memory)), Ok(()), "without a budget");
    }

    #[test]
    fn restores_the_budget_after_a_panic() {
        let budget = WorkBudget::new(FEW);
        let work = std::panic::AssertUnwindSafe(|| budget.enter(|| panic!("on purpose")));
        let panic = std::panic::catch_unwind(work);
        assert!(panic.is_err() && current().is_none());
        assert_eq!(charge(u64::MAX / 2), Ok(()));
    }

    #[test]
    fn fails_after_the_deadline() {
        let budget = WorkBudget::new(WorkLimits::REQUEST);
        budget.set_deadline(Instant::now() - Duration::from_secs(1));
        assert_eq!(budget.enter(|| charge(1)), Err(BudgetError::Deadline));
    }

    fn of_user(name: &str) -> WorkBudget {
        let budget = WorkBudget::new(WorkLimits::NONE);
        budget.set_caller(Caller { name: name.into(), is_system: false });
        budget
    }

    /// Computes for about this time, charging each step.
    fn compute(time: Duration) {
        let until = Instant::now() + time;
        while Instant::now() < until {
            charge(100).expect("no limits");
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn long_polls_leave_the_worker() {
        let running = Arc::new(AtomicUsize::new(0));
        let long: Vec<_> = (0..8)
            .map(|n| {
                let (budget, running) = (of_user(&format!("user {}", n % 2)), running.clone());
                tokio::spawn(async move {
                    let task = Box::pin(async {
                        running.fetch_add(1, Ordering::SeqCst);
                        compute(Duration::from_millis(30));
                        running.fetch_sub(1, Ordering::SeqCst);
                    });
                    budget.run(task).await;
                    budget.steps()
                })
            })
            .collect();
        // The only worker runs this task while the others compute.
        let mut met = 0;
        while long.iter().any(|task| !task.is_finished()) {
            met += usize::from(running.load(Ordering::SeqCst) > 0);
            tokio::time::sleep(Duration::from_micros(100)).await;
        }
        for task in long {
            assert!(task.await.expect("no panic") > 0);
        }
        assert!(met > 10, "the worker served others {met} times");
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn large_work_waits_for_its_turn() {
        let budget = of_user("a");
        let task = Box::pin(async {
            large(1).await;
            assert!(!budget.is_heavy());
            large(LARGE).await;
            assert!(budget.is_heavy());
            compute(Duration::from_millis(5));
            tokio::task::yield_now().await;
            large(LARGE).await;
        });
        budget.run(task).await;
    }

    #[tokio::test]
    async fn computes_in_place_on_a_single_threaded_runtime() {
        let budget = of_user("a");
        let task = Box::pin(async {
            large(LARGE).await;
            compute(Duration::from_millis(10));
        });
        budget.run(task).await;
    }
}
