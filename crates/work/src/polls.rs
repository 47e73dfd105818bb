//! What the threads that serve requests are doing: for the log when they make no progress, and for tests, which fail
//! when a worker is kept from other tasks for too long.

use std::cell::OnceCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::budget::WorkBudget;

/// The work that a thread does at the moment.
type Slot = Arc<Mutex<Option<(WorkBudget, Instant)>>>;

static SLOTS: Mutex<Vec<std::sync::Weak<Mutex<Option<(WorkBudget, Instant)>>>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: OnceCell<Slot> = const { OnceCell::new() };
}

/// A computation that goes on.
#[derive(Clone, Debug)]
pub struct Busy {
    pub since: Instant,
    pub subject: String,
}

/// Returns the computations of all threads at the moment, the longest first.
pub fn busy() -> Vec<Busy> {
    let slots: Vec<Slot> = {
        let mut slots = SLOTS.lock();
        slots.retain(|slot| slot.strong_count() > 0);
        slots.iter().filter_map(std::sync::Weak::upgrade).collect()
    };
    let mut busy: Vec<Busy> = slots
        .iter()
        .filter_map(|slot| slot.lock().clone())
        .map(|(budget, since)| Busy { since, subject: budget.describe() })
        .collect();
    busy.sort_by_key(|busy| busy.since);
    busy
}

/// Replaces what this thread does, for [`busy`]. Returns what it did before.
pub(crate) fn replace(work: Option<(WorkBudget, Instant)>) -> Option<(WorkBudget, Instant)> {
    // A thread that ends has no slot any more, and does no work.
    OWN.try_with(|own| {
        let slot = own.get_or_init(|| {
            let slot = Slot::default();
            SLOTS.lock().push(Arc::downgrade(&slot));
            slot
        });
        std::mem::replace(&mut *slot.lock(), work)
    })
    .ok()
    .flatten()
}

/// The longest processor time of one poll on a worker, in nanoseconds.
static LONGEST: AtomicU64 = AtomicU64::new(0);

/// The processor time of a poll on a worker from which it is an error of the program. Code that is not optimized takes
/// ten times longer or more.
const MAX_POLL: Duration = Duration::from_millis(if cfg!(debug_assertions) { 100 } else { 10 });

/// Returns the longest processor time that a poll has taken on a worker; zero unless polls are measured.
pub fn longest_poll() -> Duration {
    Duration::from_nanos(LONGEST.load(Ordering::Relaxed))
}

/// Measures the processor time of a poll until it leaves the worker. Only in test builds, or where the environment
/// asks for it: two system calls for each poll.
pub(crate) struct PollTimer(Option<Duration>);

impl PollTimer {
    pub(crate) const fn none() -> Self {
        Self(None)
    }

    pub(crate) fn start() -> Self {
        Self(is_measured().then(processor_time))
    }

    /// Ends the measurement.
    pub(crate) fn stop(&mut self, budget: &WorkBudget) {
        let Some(began) = self.0.take() else { return };
        let used = processor_time().saturating_sub(began);
        LONGEST.fetch_max(u64::try_from(used.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if used > MAX_POLL {
            tracing::error!(
                milliseconds = used.as_millis(),
                subject = budget.describe(),
                "a worker was kept from other requests"
            );
        }
    }
}

fn is_measured() -> bool {
    static ASKED: std::sync::LazyLock<bool> = std::sync::LazyLock::new(|| {
        cfg!(debug_assertions) || std::env::var_os("BINNACLE_MEASURE_POLLS").is_some_and(|value| !value.is_empty())
    });
    *ASKED
}

/// Returns the processor time of this thread: unlike the clock, it does not go on while the machine does other work.
fn processor_time() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
    #[cfg(not(unix))]
    Duration::ZERO
}
