//! Failures of background work: decides when to retry, when to log, and when the store is unready.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The failures of one kind of background work.
pub(crate) struct BackgroundFailure {
    what: &'static str,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// The time of the first failure, and the last error.
    since: Option<(Instant, String)>,
    failures: u64,
    retry: Option<Instant>,
    told: Option<Instant>,
    untold: u64,
    /// True when a failure was logged, and its end was not yet.
    open: bool,
}

/// The pause after a failure.
const RESPITE: Duration = Duration::from_secs(1);
/// The time after which a failure makes the store unready.
const PATIENCE: Duration = Duration::from_secs(5);
/// The interval at which a lasting failure is logged.
const TELL: Duration = Duration::from_secs(60);

// === impl BackgroundFailure ===

impl BackgroundFailure {
    pub(crate) fn with(what: &'static str) -> Self {
        Self { what, now: Mutex::default() }
    }

    /// Returns true for a while after each failure.
    pub(crate) fn waits(&self) -> bool {
        self.now.lock().retry.is_some_and(|retry| Instant::now() < retry)
    }

    pub(crate) fn happened(&self, error: &io::Error, file: &str) {
        self.happened_at(Instant::now(), error, file);
    }

    fn happened_at(&self, at: Instant, error: &io::Error, file: &str) {
        let mut now = self.now.lock();
        now.failures += 1;
        now.retry = Some(at + RESPITE);
        let since = now.since.as_ref().map_or(at, |(since, _)| *since);
        now.since = Some((since, error.to_string()));
        if now.told.is_some_and(|told| at < told + TELL) {
            now.untold += 1;
            return;
        }
        now.told = Some(at);
        now.open = true;
        let untold = std::mem::take(&mut now.untold);
        tracing::error!(%error, file, untold, "cannot {}", self.what);
    }

    /// Notes a success, or that no work is left.
    pub(crate) fn over(&self) {
        let mut now = self.now.lock();
        let (failures, open) = (now.failures, now.open);
        // Failures that come and go are not logged each time, either.
        *now = Now { told: now.told, untold: now.untold, ..Now::default() };
        drop(now);
        if open {
            tracing::info!(failures, "can {} again", self.what);
        }
    }

    /// Returns the error of failures that last long enough to make the store unready.
    pub(crate) fn lasting(&self) -> Option<String> {
        self.lasting_at(Instant::now())
    }

    fn lasting_at(&self, at: Instant) -> Option<String> {
        let now = self.now.lock();
        let (since, why) = now.since.as_ref()?;
        (at.saturating_duration_since(*since) >= PATIENCE).then(|| why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_last_until_they_are_over() {
        let trouble = BackgroundFailure::with("do it");
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        let error = io::Error::other("no");
        assert_eq!((trouble.waits(), trouble.lasting_at(at(100))), (false, None));
        trouble.happened_at(at(0), &error, "a");
        assert!(trouble.waits());
        assert_eq!(trouble.lasting_at(at(4)), None);
        trouble.happened_at(at(4), &error, "a");
        assert_eq!(trouble.lasting_at(at(6)).as_deref(), Some("no"));
        trouble.over();
        assert_eq!((trouble.waits(), trouble.lasting_at(at(100))), (false, None));
    }

    #[test]
    fn what_repeats_is_told_once_a_minute() {
        let trouble = BackgroundFailure::with("do it");
        let begun = Instant::now();
        for second in 0..150 {
            trouble.happened_at(begun + Duration::from_secs(second), &io::Error::other("no"), "a");
            if second % 10 == 9 {
                trouble.over();
            }
        }
        let now = trouble.now.lock();
        // Logged at 0, 60 and 120 seconds.
        assert_eq!((now.told, now.untold), (Some(begun + Duration::from_secs(120)), 29));
    }
}
