//! Supervised tasks, which run as long as the server. Without supervision the panic of a task would stop its work
//! unnoticed. A supervised task is restarted after a pause, and restarts are counted.

mod failing;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;
use std::time::Duration;

use self::failing::TaskStarts;
pub use self::failing::{failing, running};

use binnacle_metrics::{IntCounterVec, Registry, families};
use binnacle_work::WorkBudget;
use futures::FutureExt;

/// The initial and the maximum pause before a restart. The pause doubles with each restart.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// The time after which a running task counts as stable, so that its next pause is the initial one.
const STABLE: Duration = Duration::from_secs(60);

families! {
    struct Families {
        restarts: IntCounterVec = "binnacle_task_restarts_total" by ["task"],
            "[ALPHA] Counter of tasks of the server that panicked and were restarted, by name.";
    }
}

static FAMILIES: LazyLock<Families> = LazyLock::new(|| {
    // The label is a valid constant.
    Families::build().unwrap_or_else(|error| panic!("a metric without fault: {error}"))
});

/// Registers the counter of restarts.
pub fn register(registry: &Registry) -> Result<(), prometheus::Error> {
    FAMILIES.register_in(registry)
}

/// Returns the number of restarts of tasks with this name.
pub fn restarts(name: &str) -> u64 {
    FAMILIES.restarts.with_label_values(&[name]).get()
}

/// Runs a task until it returns. After a panic it is restarted with a new future from `begin`.
///
/// A restart must be safe with the state that the task shares: after a panic locks are released, and everything else
/// stays as it was.
pub async fn supervise<F, T>(name: &'static str, mut begin: F)
where
    F: FnMut() -> T,
    T: Future<Output = ()>,
{
    let mut starts = TaskStarts::new(name);
    loop {
        starts.begin();
        // `begin` may panic, too.
        let task = AssertUnwindSafe(WorkBudget::background(name).run(Box::pin(async { begin().await })));
        let Err(panic) = task.catch_unwind().await else { return };
        tokio::time::sleep(starts.failed(&*panic)).await;
    }
}

/// Runs a closure on this thread until it returns. After a panic it is restarted after a `pause`.
pub fn supervise_blocking(name: &'static str, mut work: impl FnMut(), mut pause: impl FnMut(Duration)) {
    let mut starts = TaskStarts::new(name);
    loop {
        starts.begin();
        let Err(panic) = catch_unwind(AssertUnwindSafe(&mut work)) else { return };
        pause(starts.failed(&*panic));
    }
}

fn message(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::Instant;

    #[tokio::test(start_paused = true)]
    async fn restarts_a_panicked_task_with_growing_pauses() {
        let started = Instant::now();
        let mut times = 0;
        supervise("of a test", || {
            times += 1;
            let now = times;
            async move { assert_eq!(now, 12, "not yet") }
        })
        .await;
        assert_eq!((times, restarts("of a test")), (12, 11));
        // 0.1 s, doubled eight times, and then the maximum.
        let pauses = started.elapsed();
        assert!((100.0..130.0).contains(&pauses.as_secs_f64()), "{pauses:?}");
        let registry = Registry::new();
        register(&registry).unwrap();
        assert_eq!(registry.gather().len(), 1);
    }

    #[test]
    fn restarts_panicked_blocking_work() {
        let (mut times, mut pauses) = (0, Vec::new());
        let work = || {
            times += 1;
            assert_eq!(times, 3, "not yet");
        };
        supervise_blocking("work of a test", work, |pause| pauses.push(pause.as_millis()));
        assert_eq!((pauses, restarts("work of a test")), (vec![100, 200], 2));
    }
}
