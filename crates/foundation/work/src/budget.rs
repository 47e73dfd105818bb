//! The work budget of one request.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use binnacle_meta::{Status, Text};

use crate::memory::POOL;

/// The limits of a budget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WorkLimits {
    /// The maximum number of steps. A step takes about ten nanoseconds in a release build.
    pub steps: u64,
    /// The maximum number of bytes allocated in total.
    pub memory: usize,
}

impl WorkLimits {
    /// The limits of a request: about three seconds of processor time. The largest real objects need less than a tenth
    /// of it.
    pub const REQUEST: Self = Self { steps: 300_000_000, memory: 112 << 20 };
    /// The limits of background work on one object, such as its conversion when it is read.
    pub const OBJECT: Self = Self { steps: 100_000_000, memory: 64 << 20 };
    /// No limits. The work still takes turns.
    pub const NONE: Self = Self { steps: u64::MAX, memory: usize::MAX };
}

/// The reason why a budget is exhausted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BudgetError {
    #[error("the request needs more work than the server does for one request: the limit is {0} steps")]
    Steps(u64),
    #[error("the request needs more memory than the server uses for one request: the limit is {0} bytes")]
    Memory(usize),
    #[error("with its defaults, the object is too large to be stored: the limit is {0} bytes of defaults")]
    Defaults(usize),
    #[error("request did not complete within the allotted timeout")]
    Deadline,
    #[error(
        "the memory for large requests is in use: the limit is {0} bytes for all requests of a user; please try again later"
    )]
    Busy(usize),
    #[error("too much work is waiting for a processor; please try again later")]
    Queue,
}

impl From<BudgetError> for Status {
    /// Returns 422 for too many steps, 413 for too much memory or too large an object, 504 after the deadline, and 429
    /// for temporary conditions.
    fn from(exceeded: BudgetError) -> Self {
        match exceeded {
            BudgetError::Steps(_) => Self::too_much_work(exceeded),
            BudgetError::Memory(_) | BudgetError::Defaults(_) => Self::request_entity_too_large(exceeded),
            BudgetError::Deadline => Self::timeout(exceeded, 0),
            BudgetError::Busy(_) | BudgetError::Queue => Self::too_many_requests(exceeded.to_string(), 1),
        }
    }
}

/// The user on whose behalf work is done. Turns and memory are shared fairly among callers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Caller {
    pub name: Text,
    /// True for administrators and components of the cluster, which have a reserved turn and reserved memory.
    pub is_system: bool,
}

impl Default for Caller {
    /// Returns the caller of requests that are not authenticated yet.
    fn default() -> Self {
        Self { name: Text::new_static("system:unauthenticated"), is_system: false }
    }
}

/// Describes the purpose of a budget in the log.
pub trait Describe: Send + Sync {
    fn describe(&self) -> String;
}

/// The work budget of one request. Clones share it.
#[derive(Clone)]
pub struct WorkBudget(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    limits: WorkLimits,
    steps: AtomicU64,
    memory: AtomicUsize,
    /// The maximum of `memory` so far.
    most_memory: AtomicUsize,
    /// The part of `memory` that is taken from the memory pool.
    pooled: AtomicUsize,
    /// The caller to whom that memory is charged.
    pooled_for: OnceLock<Caller>,
    exceeded: OnceLock<BudgetError>,
    deadline: OnceLock<Instant>,
    caller: OnceLock<Caller>,
    /// True once a poll has taken longer than the quantum. From then on, polls wait for a turn first.
    is_heavy: AtomicBool,
    /// The budget that this one is part of.
    parent: Option<WorkBudget>,
    subject: Option<Arc<dyn Describe>>,
}

/// The memory that a request may use without taking it from the memory pool.
const FREE_MEMORY: usize = 1 << 20;

impl WorkBudget {
    pub fn new(limits: WorkLimits) -> Self {
        Self::with(limits, None, None)
    }

    /// Returns the budget of a request, with a description for the log.
    pub fn of(limits: WorkLimits, subject: Arc<dyn Describe>) -> Self {
        Self::with(limits, None, Some(subject))
    }

    /// Returns the budget of a task of the server itself.
    pub fn background(name: &'static str) -> Self {
        Self::background_of(name, Caller { name: Text::new_static(name), is_system: true })
    }

    /// Like [`background`](Self::background), for one of several tasks with the same name, or for work whose amount users
    /// decide. It takes turns as this caller.
    pub fn background_of(name: &'static str, caller: Caller) -> Self {
        let budget = Self::with(WorkLimits::NONE, None, Some(Arc::new(TaskName(name))));
        budget.set_caller(caller);
        budget
    }

    /// Returns a child budget, whose costs are charged to this one, too.
    pub(crate) fn part(&self, limits: WorkLimits) -> Self {
        Self::with(limits, Some(self.clone()), self.0.subject.clone())
    }

    fn with(limits: WorkLimits, parent: Option<Self>, subject: Option<Arc<dyn Describe>>) -> Self {
        Self(Arc::new(Inner {
            limits,
            steps: AtomicU64::new(0),
            memory: AtomicUsize::new(0),
            most_memory: AtomicUsize::new(0),
            pooled: AtomicUsize::new(0),
            pooled_for: OnceLock::new(),
            exceeded: OnceLock::new(),
            deadline: OnceLock::new(),
            caller: OnceLock::new(),
            is_heavy: AtomicBool::new(false),
            parent,
            subject,
        }))
    }

    /// Sets the deadline. Only the first call has an effect.
    pub fn set_deadline(&self, deadline: Instant) {
        let _ = self.0.deadline.set(deadline);
    }

    /// Sets the caller once it is known. Only the first call has an effect.
    pub fn set_caller(&self, caller: Caller) {
        let _ = self.0.caller.set(caller);
    }

    pub fn caller(&self) -> Caller {
        match (self.0.caller.get(), &self.0.parent) {
            (Some(caller), _) => caller.clone(),
            (None, Some(parent)) => parent.caller(),
            (None, None) => Caller::default(),
        }
    }

    /// Returns the number of steps charged.
    pub fn steps(&self) -> u64 {
        self.0.steps.load(Ordering::Relaxed)
    }

    /// Returns the maximum number of bytes charged at the same time.
    pub fn most_memory(&self) -> usize {
        self.0.most_memory.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes charged.
    pub fn memory(&self) -> usize {
        self.0.memory.load(Ordering::Relaxed)
    }

    /// Fails if the budget is exhausted.
    ///
    /// # Errors
    /// The limit that was exceeded.
    pub fn check(&self) -> Result<(), BudgetError> {
        match self.0.exceeded.get() {
            Some(exceeded) => Err(*exceeded),
            None => self.0.parent.as_ref().map_or(Ok(()), Self::check),
        }
    }

    pub(crate) fn exceed(&self, exceeded: BudgetError) -> BudgetError {
        *self.0.exceeded.get_or_init(|| exceeded)
    }

    pub(crate) fn spend_steps(&self, steps: u64) -> Result<(), BudgetError> {
        if let Some(parent) = &self.0.parent {
            parent.spend_steps(steps)?;
        }
        let before = self.0.steps.fetch_add(steps, Ordering::Relaxed);
        if before.saturating_add(steps) > self.0.limits.steps {
            return Err(self.exceed(BudgetError::Steps(self.0.limits.steps)));
        }
        self.check()
    }

    pub(crate) fn spend_memory(&self, bytes: usize) -> Result<(), BudgetError> {
        if let Some(parent) = &self.0.parent {
            parent.spend_memory(bytes)?;
        }
        let total = self.0.memory.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        self.0.most_memory.fetch_max(total, Ordering::Relaxed);
        if total > self.0.limits.memory {
            return Err(self.exceed(BudgetError::Memory(self.0.limits.memory)));
        }
        // Background work reads stored objects, so its memory is not charged to the pool of requests.
        if self.0.parent.is_none() && !self.is_endless() && total > FREE_MEMORY {
            let more = (total - FREE_MEMORY).saturating_sub(self.0.pooled.load(Ordering::Relaxed));
            if more == 0 {
                return self.check();
            }
            let caller = self.0.pooled_for.get_or_init(|| self.caller());
            POOL.reserve(caller, more).map_err(|busy| self.exceed(busy))?;
            self.0.pooled.fetch_add(more, Ordering::Relaxed);
        }
        self.check()
    }

    /// Releases memory that was charged for a part that has ended.
    pub(crate) fn give_back(&self, bytes: usize) {
        self.0.memory.fetch_sub(bytes, Ordering::Relaxed);
        if let Some(parent) = &self.0.parent {
            parent.give_back(bytes);
        }
    }

    /// Returns true for work without limits, which may last as long as the server.
    /// Returns true for work of the server itself, without limits.
    pub fn is_background(&self) -> bool {
        self.is_endless() && self.caller().is_system
    }

    pub(crate) fn is_endless(&self) -> bool {
        self.0.limits == WorkLimits::NONE
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.0.parent.is_none()
    }

    /// Returns true if the deadline has passed.
    pub(crate) fn is_late(&self, now: Instant) -> bool {
        let late = self.0.deadline.get().is_some_and(|deadline| now > *deadline + GRACE);
        late || self.0.parent.as_ref().is_some_and(|parent| parent.is_late(now))
    }

    pub(crate) fn is_heavy(&self) -> bool {
        self.0.is_heavy.load(Ordering::Relaxed)
    }

    /// Marks the work as long. Returns true if it was not marked before.
    pub(crate) fn becomes_heavy(&self) -> bool {
        if let Some(parent) = &self.0.parent {
            parent.becomes_heavy();
        }
        !self.0.is_heavy.swap(true, Ordering::Relaxed)
    }

    /// Work without limits may last as long as the server, so one long step does not make it long.
    pub(crate) fn polled_in_turn(&self) {
        if self.is_endless() {
            self.0.is_heavy.store(false, Ordering::Relaxed);
        }
    }

    /// Returns a budget without limits for the same caller, for a response body, which may be sent for hours.
    #[must_use]
    pub fn streaming(&self) -> Self {
        let budget = Self::with(WorkLimits::NONE, None, self.0.subject.clone());
        budget.set_caller(self.caller());
        budget
    }

    pub(crate) fn describe(&self) -> String {
        self.0.subject.as_ref().map_or_else(|| "unnamed work".to_owned(), |subject| subject.describe())
    }
}

/// If the work is nearly done at its deadline, the deadline of the request itself ends it, with the usual response.
const GRACE: Duration = Duration::from_millis(100);

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(caller) = self.pooled_for.get() {
            POOL.release(caller, *self.pooled.get_mut());
        }
    }
}

/// The subject of a background task.
struct TaskName(&'static str);

impl Describe for TaskName {
    fn describe(&self) -> String {
        format!("task {:?}", self.0)
    }
}
