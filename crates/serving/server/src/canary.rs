//! Supervision of the workers, which are the threads that serve requests: health checks fail while the workers make no
//! progress, and the log describes what they are doing.
//!
//! There are three observations, all from another runtime. A task that runs on the workers every second shows that
//! timers fire and tasks run. The counters of the runtime show that each worker makes progress. The charges of long
//! computations show that none is stuck on a blocking thread while it holds a turn that others wait for; this is less
//! urgent, so it counts only after a longer time.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use binnacle_request::BoxFuture;
use binnacle_work::ThreadActivity;
use parking_lot::Mutex;
use tokio::runtime::Handle;

use crate::health::HealthCheck;

/// The intervals and thresholds of the supervision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CanaryTimes {
    /// The interval between observations.
    pub tick: Duration,
    /// The time without progress after which the server is not ready.
    pub ready: Duration,
    /// The time without progress after which the server is not alive.
    pub alive: Duration,
    /// The time without charges after which a computation on a blocking thread is considered stuck.
    pub computation: Duration,
}

impl Default for CanaryTimes {
    fn default() -> Self {
        let [tick, ready, alive, computation] = [1, 5, 15, 45].map(Duration::from_secs);
        Self { tick, ready, alive, computation }
    }
}

/// The supervision of the workers of one runtime.
pub struct Canary {
    times: CanaryTimes,
    /// The number of runs of the task on the workers.
    beats: AtomicU64,
    /// The time without progress, in milliseconds.
    silent: AtomicU64,
    /// The description of the workers' activity from the report that they make no progress, until they make progress
    /// again.
    reported: Mutex<Option<String>>,
}

/// The health check `ping`, which always passes in kube-apiserver if it is reached.
struct CanaryCheck {
    canary: Arc<Canary>,
    bound: Duration,
}

impl Canary {
    /// Starts the supervision of the workers, from another runtime. It ends when the last reference is dropped.
    pub fn start(workers: &Handle, front: &Handle, times: CanaryTimes) -> Arc<Self> {
        let canary =
            Arc::new(Self { times, beats: AtomicU64::new(0), silent: AtomicU64::new(0), reported: Mutex::default() });
        workers.spawn(beat(Arc::downgrade(&canary), times.tick));
        front.spawn(watch(Arc::downgrade(&canary), workers.clone(), times));
        canary
    }

    /// Returns the time for which the workers have made no progress.
    fn silent(&self) -> Duration {
        Duration::from_millis(self.silent.load(Ordering::Relaxed))
    }

    /// Returns the activity of the workers as of the report that they make no progress; `None` while they do.
    pub fn stuck(&self) -> Option<String> {
        self.reported.lock().clone()
    }

    /// Returns false if the server should be restarted.
    pub fn is_alive(&self) -> bool {
        self.silent() < self.times.alive
    }

    /// Returns the check of `/livez`.
    pub fn alive(self: &Arc<Self>) -> Arc<dyn HealthCheck> {
        Arc::new(CanaryCheck { canary: self.clone(), bound: self.times.alive })
    }

    /// Returns the check of `/readyz`.
    pub fn ready(self: &Arc<Self>) -> Arc<dyn HealthCheck> {
        Arc::new(CanaryCheck { canary: self.clone(), bound: self.times.ready })
    }
}

impl HealthCheck for CanaryCheck {
    fn name(&self) -> &str {
        "ping"
    }

    fn check(&self) -> BoxFuture<'_, Result<(), String>> {
        Box::pin(async {
            let silent = self.canary.silent();
            if silent < self.bound {
                return Ok(());
            }
            Err(format!("the workers have made no progress for {} s", silent.as_secs()))
        })
    }
}

/// Counts its runs on the workers.
async fn beat(canary: Weak<Canary>, tick: Duration) {
    while let Some(canary) = canary.upgrade() {
        canary.beats.fetch_add(1, Ordering::Relaxed);
        drop(canary);
        tokio::time::sleep(tick).await;
    }
}

/// Observes the workers from another runtime.
async fn watch(canary: Weak<Canary>, workers: Handle, times: CanaryTimes) {
    let (mut stalls, mut since) = (Stalls::new(times.computation), None);
    let mut before = Instant::now();
    loop {
        tokio::time::sleep(times.tick).await;
        let Some(canary) = canary.upgrade() else { return };
        let now = Instant::now();
        // If the process was suspended, this task did not run either, so the time does not count.
        let passed = (now - before).min(2 * times.tick);
        before = now;
        let busy = binnacle_work::busy();
        let silent = stalls.observe(passed, observations(&canary, &workers, &busy));
        canary.silent.store(u64::try_from(silent.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        match since {
            None if silent >= times.ready => {
                since = Some(now.checked_sub(silent).unwrap_or(now));
                let doing = describe_computations(&busy, now, times.tick);
                *canary.reported.lock() = Some(doing.clone());
                tracing::error!(seconds = silent.as_secs(), doing, "worker threads make no progress");
            }
            Some(began) if silent < times.ready => {
                since = None;
                *canary.reported.lock() = None;
                tracing::warn!(seconds = (now - began).as_secs(), "worker threads make progress again");
            }
            _ => {}
        }
    }
}

/// A part of the server whose progress is observed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Part {
    Task,
    Worker(usize),
    /// A computation, by its start.
    Computation(Instant),
}

/// The state of a part, which makes no progress while the state stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Progress {
    Count(u64),
    /// The number of times that a worker parked or unparked, and the time that it was busy.
    Worker(u64, Duration),
    Charged(Instant),
}

/// Returns the state of all busy parts.
fn observations(canary: &Canary, workers: &Handle, busy: &[ThreadActivity]) -> Vec<(Part, Progress)> {
    let metrics = workers.metrics();
    let mut parts = vec![(Part::Task, Progress::Count(canary.beats.load(Ordering::Relaxed)))];
    for worker in 0..metrics.num_workers() {
        let parked = metrics.worker_park_unpark_count(worker);
        // An odd number means that the worker is parked.
        if parked.is_multiple_of(2) {
            let worked = metrics.worker_total_busy_duration(worker);
            parts.push((Part::Worker(worker), Progress::Worker(parked, worked)));
        }
    }
    parts.extend(busy.iter().map(|busy| (Part::Computation(busy.since), Progress::Charged(busy.charged))));
    parts
}

/// The time for which each part has made no progress.
#[derive(Debug)]
struct Stalls {
    parts: HashMap<Part, (Progress, Duration)>,
    /// The time after which computations count.
    computation: Duration,
}

impl Stalls {
    fn new(computation: Duration) -> Self {
        Self { parts: HashMap::new(), computation }
    }

    /// Compares the parts with the last observation, and returns the longest time without progress.
    fn observe(&mut self, passed: Duration, parts: Vec<(Part, Progress)>) -> Duration {
        let before = std::mem::take(&mut self.parts);
        let stalled = |part: &Part, progress: &Progress| match before.get(part) {
            Some((same, stalled)) if same == progress => *stalled + passed,
            _ => Duration::ZERO,
        };
        self.parts = parts.into_iter().map(|(part, progress)| (part, (progress, stalled(&part, &progress)))).collect();
        let counted = self.parts.iter().map(|(part, (_, stalled))| match part {
            Part::Computation(_) => stalled.saturating_sub(self.computation),
            Part::Task | Part::Worker(_) => *stalled,
        });
        counted.max().unwrap_or_default()
    }
}

/// Returns a description of the computations that have run for some time, for the log.
fn describe_computations(busy: &[ThreadActivity], now: Instant, least: Duration) -> String {
    const MAX_LISTED: usize = 16;
    let mut text = String::new();
    let long = busy.iter().map(|busy| (busy, now.saturating_duration_since(busy.since)));
    for (busy, time) in long.filter(|(_, time)| *time >= least).take(MAX_LISTED) {
        let separator = if text.is_empty() { "" } else { "; " };
        // Writing to a string cannot fail.
        let _ = write!(text, "{separator}{} for {:.1} s", busy.subject, time.as_secs_f64());
    }
    if text.is_empty() { "work that is not part of a request".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn counts_only_unchanged_parts() {
        let (mut stalls, now) = (Stalls::new(SECOND), Instant::now());
        let task = |count| (Part::Task, Progress::Count(count));
        let worker = |number, worked| (Part::Worker(number), Progress::Worker(2, SECOND * worked));
        let computation = |seconds| (Part::Computation(now), Progress::Charged(now + SECOND * seconds));
        for (parts, want) in [
            (vec![task(1), worker(0, 1), worker(1, 1)], 0),
            // Worker 1 is parked.
            (vec![task(2), worker(0, 1)], 1),
            (vec![task(3), worker(0, 1), worker(1, 1)], 2),
            (vec![task(4), worker(0, 2), worker(1, 1)], 1),
            (vec![task(4), computation(0)], 1),
            (vec![task(5), computation(1)], 0),
            (vec![task(6), computation(1)], 0),
            (vec![task(7), computation(1)], 1),
            (vec![task(8), computation(1)], 2),
            (vec![task(9), computation(2)], 0),
            (vec![task(10)], 0),
        ] {
            assert_eq!(stalls.observe(SECOND, parts.clone()), SECOND * want, "{parts:?}");
        }
    }

    #[test]
    fn names_long_computations() {
        let now = Instant::now() + 10 * SECOND;
        let busy = |seconds: u32, subject: &str| {
            let since = now - SECOND * seconds;
            ThreadActivity { since, charged: since, subject: subject.to_owned() }
        };
        let all = [busy(7, "GET /a by \"jane\""), busy(2, "task \"b\""), busy(0, "GET /short")];
        assert_eq!(describe_computations(&all, now, SECOND), "GET /a by \"jane\" for 7.0 s; task \"b\" for 2.0 s");
        assert_eq!(describe_computations(&all[2..], now, SECOND), "work that is not part of a request");
    }
}
