//! Work beside the writing that fails: when it is tried again, when it is told, and when the store is not ready for it.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// One kind of work.
pub(crate) struct BackgroundFailure {
    what: &'static str,
    now: Mutex<Now>,
}

#[derive(Default)]
struct Now {
    /// Since when it has been failing, and why.
    since: Option<(Instant, String)>,
    failures: u64,
    retry: Option<Instant>,
    told: Option<Instant>,
    untold: u64,
    /// It was told that it fails, and not yet that it does no more.
    open: bool,
}

/// After a failure.
const RESPITE: Duration = Duration::from_secs(1);
/// A failure that passes within this time makes nothing red.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is told that it still fails.
const TELL: Duration = Duration::from_secs(60);

// === impl BackgroundFailure ===

impl BackgroundFailure {
    pub(crate) fn with(what: &'static str) -> Self {
        Self { what, now: Mutex::default() }
    }

    /// True for a while after each failure.
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

    /// It went well, or there is nothing to be done any more.
    pub(crate) fn over(&self) {
        let mut now = self.now.lock();
        let (failures, open) = (now.failures, now.open);
        // What fails and passes in turn is not told each time, either.
        *now = Now { told: now.told, untold: now.untold, ..Now::default() };
        drop(now);
        if open {
            tracing::info!(failures, "can {} again", self.what);
        }
    }

    /// Why it has been failing for so long that somebody should know.
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
        // Told at 0, 60 and 120 seconds.
        assert_eq!((now.told, now.untold), (Some(begun + Duration::from_secs(120)), 29));
    }
}
