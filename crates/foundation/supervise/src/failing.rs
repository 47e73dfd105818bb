//! Tasks that fail repeatedly.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::{FAMILIES, FIRST_PAUSE, LONGEST_PAUSE, STABLE, message};

/// The number of quick restarts in a row after which a task counts as failing.
const FAILING_AFTER: u32 = 3;

/// The tasks that panicked, until they are stable or end.
static UNSTABLE: Mutex<BTreeMap<u64, UnstableTask>> = Mutex::new(BTreeMap::new());

struct UnstableTask {
    name: &'static str,
    /// The number of consecutive restarts after which the task panicked again within a short time.
    restarts: u32,
    /// The time of the last start, or of the next one.
    started: Instant,
}

fn unstable() -> MutexGuard<'static, BTreeMap<u64, UnstableTask>> {
    UNSTABLE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the names of tasks that are restarted repeatedly and therefore make no progress. A task that has run for a
/// minute is no longer listed.
pub fn failing() -> Vec<&'static str> {
    let often = |task: &&UnstableTask| task.restarts >= FAILING_AFTER && task.started.elapsed() < STABLE;
    let mut names: Vec<_> = unstable().values().filter(often).map(|task| task.name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The number of running tasks of each name.
static RUNNING: Mutex<BTreeMap<&'static str, usize>> = Mutex::new(BTreeMap::new());

fn counts() -> MutexGuard<'static, BTreeMap<&'static str, usize>> {
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the names of the supervised tasks that have not ended, each with the number of its tasks.
pub fn running() -> Vec<(&'static str, usize)> {
    counts().iter().map(|(name, count)| (*name, *count)).collect()
}

/// Tracks the starts of one task until it is dropped.
pub(super) struct TaskStarts {
    id: u64,
    name: &'static str,
    started: Instant,
    pause: Duration,
    restarts: u32,
}

impl TaskStarts {
    pub(super) fn new(name: &'static str) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        *counts().entry(name).or_default() += 1;
        Self { id, name, started: Instant::now(), pause: FIRST_PAUSE, restarts: 0 }
    }

    pub(super) fn begin(&mut self) {
        self.started = Instant::now();
    }

    /// Records a panic; returns the pause before the next start.
    pub(super) fn failed(&mut self, panic: &(dyn Any + Send)) -> Duration {
        if self.started.elapsed() >= STABLE {
            (self.pause, self.restarts) = (FIRST_PAUSE, 0);
        }
        self.restarts += 1;
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        FAMILIES.restarts.with_label_values(&[self.name]).inc();
        tracing::error!(task = self.name, panic = message(panic), ?pause, "task panicked, restarting");
        let task = UnstableTask { name: self.name, restarts: self.restarts, started: Instant::now() + pause };
        unstable().insert(self.id, task);
        pause
    }
}

impl Drop for TaskStarts {
    fn drop(&mut self) {
        let mut counts = counts();
        if let Some(count) = counts.get_mut(self.name) {
            *count -= 1;
            if *count == 0 {
                counts.remove(self.name);
            }
        }
        drop(counts);
        if self.restarts > 0 {
            unstable().remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn counts_running_tasks() {
        let count = || running().iter().find(|(name, _)| *name == "counted").map(|(_, count)| *count);
        let begin = || super::super::supervise("counted", std::future::pending::<()>);
        let (mut one, mut two) = (Box::pin(begin()), Box::pin(begin()));
        let _ = (futures::poll!(&mut one), futures::poll!(&mut two));
        assert_eq!(count(), Some(2));
        drop(one);
        assert_eq!(count(), Some(1));
        drop(two);
        assert_eq!(count(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn reports_failing_tasks_until_they_are_stable() {
        let is_failing = || failing().contains(&"unstable");
        let mut times = 0;
        let task = tokio::spawn(super::super::supervise("unstable", move || {
            times += 1;
            async move {
                if times <= 4 {
                    panic!("on purpose");
                }
                std::future::pending().await
            }
        }));
        assert!(!is_failing());
        // Pauses of 0.1, 0.2, 0.4 and 0.8 s.
        for (passed, want) in [(150, false), (250, true), (400, true), (10_000, true), (60_000, false)] {
            tokio::time::sleep(Duration::from_millis(passed)).await;
            assert_eq!(is_failing(), want, "after {passed} ms more");
        }
        task.abort();
        assert!(task.await.is_err());
        let left: Vec<_> = unstable().values().map(|task| task.name).filter(|name| *name == "unstable").collect();
        assert!(left.is_empty());
    }
}
