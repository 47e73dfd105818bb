//! Tracks what the threads of the runtime do: for the log if they make no progress, and for tests, which fail if a poll
//! blocks a worker for too long.

use std::cell::OnceCell;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinHandle;

use crate::budget::WorkBudget;

/// The current work of a thread.
#[derive(Clone)]
pub(crate) struct ThreadWork {
    budget: WorkBudget,
    since: Instant,
    /// The time of the last charge.
    charged: Instant,
}

type Slot = Arc<Mutex<Option<ThreadWork>>>;

static SLOTS: Mutex<Vec<Weak<Mutex<Option<ThreadWork>>>>> = Mutex::new(Vec::new());

thread_local! {
    static OWN: OnceCell<Slot> = const { OnceCell::new() };
}

/// A computation in progress.
#[derive(Clone, Debug)]
pub struct ThreadActivity {
    pub since: Instant,
    /// The time of its last charge. A computation that is long, but not stuck, charges every few milliseconds.
    pub charged: Instant,
    pub subject: String,
}

/// Returns the computations in progress on all threads, the longest first.
pub fn busy() -> Vec<ThreadActivity> {
    let slots: Vec<Slot> = {
        let mut slots = SLOTS.lock();
        slots.retain(|slot| slot.strong_count() > 0);
        slots.iter().filter_map(Weak::upgrade).collect()
    };
    let doing = slots.iter().filter_map(|slot| slot.lock().clone());
    let mut busy: Vec<ThreadActivity> = doing
        .map(|ThreadWork { budget, since, charged }| ThreadActivity { since, charged, subject: budget.describe() })
        .collect();
    busy.sort_by_key(|busy| busy.since);
    busy
}

/// Records that this thread begins work, for [`busy`]. Returns its previous work.
pub(crate) fn begin(budget: &WorkBudget) -> Option<ThreadWork> {
    let now = Instant::now();
    with_slot(|slot| slot.replace(ThreadWork { budget: budget.clone(), since: now, charged: now })).flatten()
}

/// Records that the work of this thread has ended and the previous work continues.
pub(crate) fn end(before: Option<ThreadWork>) {
    let before = before.map(|doing| ThreadWork { charged: Instant::now(), ..doing });
    with_slot(|slot| *slot = before);
}

/// Records a charge for the work of this thread.
pub(crate) fn charged(now: Instant) {
    with_slot(|slot| {
        if let Some(doing) = slot {
            doing.charged = now;
        }
    });
}

/// A thread that is ending has no slot and does no work.
fn with_slot<T>(change: impl FnOnce(&mut Option<ThreadWork>) -> T) -> Option<T> {
    let changed = OWN.try_with(|own| {
        let slot = own.get_or_init(|| {
            let slot = Slot::default();
            SLOTS.lock().push(Arc::downgrade(&slot));
            slot
        });
        change(&mut slot.lock())
    });
    changed.ok()
}

/// Spawns a task without its own budget, such as a connection. Measures its polls if that is enabled; otherwise the
/// same as [`tokio::spawn`].
pub fn spawn<F>(name: &'static str, task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    spawn_on(&Handle::current(), name, task)
}

/// Like [`spawn`], on another runtime.
pub fn spawn_on<F>(runtime: &Handle, name: &'static str, task: F) -> JoinHandle<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    if is_measured() { runtime.spawn(observed(name, task)) } else { runtime.spawn(task) }
}

/// Runs a task without limits. The work of requests inside it is charged to their own budgets.
fn observed<F: Future>(name: &'static str, task: F) -> impl Future<Output = F::Output> {
    let (budget, mut task) = (WorkBudget::background(name), Box::pin(task));
    poll_fn(move |cx| budget.enter(|| task.as_mut().poll(cx)))
}

/// The longest processor time of one poll on a worker, in nanoseconds.
static LONGEST: AtomicU64 = AtomicU64::new(0);

/// The environment variable with the limit on the processor time of a poll, in milliseconds. If set, release builds
/// measure polls, too.
const VARIABLE: &str = "BINNACLE_MEASURE_POLLS";

/// The limit on the processor time of a poll, which indicates a bug; `None` if polls are not measured. Unoptimized code
/// is about twenty times slower, so this corresponds to 10 ms in a release build.
static MAX_POLL: LazyLock<Option<Duration>> = LazyLock::new(|| {
    let default = cfg!(debug_assertions).then_some(Duration::from_millis(200));
    let configured = std::env::var(VARIABLE).ok().and_then(|value| value.parse().ok());
    configured.map(Duration::from_millis).or(default)
});

/// Returns the longest processor time of a poll on a worker so far; zero if polls are not measured.
pub fn longest_poll() -> Duration {
    Duration::from_nanos(LONGEST.load(Ordering::Relaxed))
}

/// Measures the processor time of a poll until it leaves the worker. Takes two system calls per poll, so it is only
/// enabled in test builds and by the environment variable.
#[derive(Default)]
pub(crate) struct PollTimer {
    began: Option<Duration>,
    /// The last work inside the poll that has its own budget, such as a request on a connection.
    inner: Option<WorkBudget>,
}

impl PollTimer {
    pub(crate) fn start() -> Self {
        Self { began: is_measured().then(processor_time), inner: None }
    }

    /// Records work with its own budget inside the poll.
    pub(crate) fn includes(&mut self, budget: &WorkBudget) {
        if self.began.is_some() {
            self.inner = Some(budget.clone());
        }
    }

    /// Ends the measurement.
    pub(crate) fn stop(&mut self, budget: &WorkBudget) {
        let Some(began) = self.began.take() else { return };
        let used = processor_time().saturating_sub(began);
        LONGEST.fetch_max(u64::try_from(used.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
        if MAX_POLL.is_some_and(|most| used > most) {
            tracing::error!(
                milliseconds = used.as_millis(),
                subject = self.inner.as_ref().unwrap_or(budget).describe(),
                "a worker was kept from other requests"
            );
        }
    }
}

fn is_measured() -> bool {
    MAX_POLL.is_some()
}

/// Returns the processor time of this thread, which excludes the time of other processes.
fn processor_time() -> Duration {
    #[cfg(unix)]
    {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
    }
    #[cfg(not(unix))]
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scope::charge;

    fn doing(subject: &str) -> Option<ThreadActivity> {
        busy().into_iter().find(|busy| busy.subject.contains(subject))
    }

    #[test]
    fn reports_running_work_until_it_ends() {
        let (outer, inner) = (WorkBudget::background("outer of a test"), WorkBudget::background("inner of a test"));
        outer.enter(|| {
            let began = doing("outer of a test").expect("it is busy");
            assert_eq!(began.since, began.charged);
            inner.enter(|| {
                assert!(doing("inner of a test").is_some() && doing("outer of a test").is_none());
            });
            let ended = doing("outer of a test").expect("it goes on");
            assert!(ended.since == began.since && ended.charged > began.charged);
            charge(1 << 20).expect("no limits");
            assert!(doing("outer of a test").is_some_and(|busy| busy.charged > ended.charged));
        });
        assert!(doing("of a test").is_none());
    }

    #[tokio::test]
    async fn measures_polls_of_spawned_tasks() {
        let task = spawn("spawned by a test", async {
            assert!(doing("spawned by a test").is_some());
            let began = processor_time();
            while processor_time() - began < Duration::from_millis(2) {
                std::hint::spin_loop();
            }
        });
        task.await.expect("no panic");
        assert!(longest_poll() >= Duration::from_millis(2));
    }
}
