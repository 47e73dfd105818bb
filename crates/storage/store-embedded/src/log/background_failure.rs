//! Failures of background work: determines when to retry, when to log, and when the store is unready.

use std::io;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The failures of one kind of background work.
pub(crate) struct BackgroundFailure {
    action: &'static str,
    state: Mutex<FailureState>,
}

#[derive(Default)]
struct FailureState {
    /// The time of the first failure, and the last error.
    since: Option<(Instant, String)>,
    failures: u64,
    retry: Option<Instant>,
    logged_at: Option<Instant>,
    suppressed: u64,
    /// True if a failure was logged, but its end was not logged yet.
    open: bool,
}

/// The pause after a failure.
const RETRY_DELAY: Duration = Duration::from_secs(1);
/// The time after which a failure makes the store unready.
const UNREADY_AFTER: Duration = Duration::from_secs(5);
/// The interval at which a lasting failure is logged.
const LOG_INTERVAL: Duration = Duration::from_secs(60);

// === impl BackgroundFailure ===

impl BackgroundFailure {
    pub(crate) fn new(action: &'static str) -> Self {
        Self { action, state: Mutex::default() }
    }

    /// Returns true for a while after each failure.
    pub(crate) fn is_waiting(&self) -> bool {
        self.state.lock().retry.is_some_and(|retry| Instant::now() < retry)
    }

    pub(crate) fn record(&self, error: &io::Error, file: &str) {
        self.record_at(Instant::now(), error, file);
    }

    fn record_at(&self, at: Instant, error: &io::Error, file: &str) {
        let mut state = self.state.lock();
        state.failures += 1;
        state.retry = Some(at + RETRY_DELAY);
        let since = state.since.as_ref().map_or(at, |(since, _)| *since);
        state.since = Some((since, error.to_string()));
        if state.logged_at.is_some_and(|logged_at| at < logged_at + LOG_INTERVAL) {
            state.suppressed += 1;
            return;
        }
        state.logged_at = Some(at);
        state.open = true;
        let suppressed = std::mem::take(&mut state.suppressed);
        tracing::error!(%error, file, untold = suppressed, "cannot {}", self.action);
    }

    /// Records a success, or that no work is left.
    pub(crate) fn clear(&self) {
        let mut state = self.state.lock();
        let (failures, open) = (state.failures, state.open);
        // Recurring failures are not logged each time, either.
        *state = FailureState { logged_at: state.logged_at, suppressed: state.suppressed, ..FailureState::default() };
        drop(state);
        if open {
            tracing::info!(failures, "can {} again", self.action);
        }
    }

    /// Returns the error of failures that last long enough to make the store unready.
    pub(crate) fn persistent_error(&self) -> Option<String> {
        self.persistent_error_at(Instant::now())
    }

    fn persistent_error_at(&self, at: Instant) -> Option<String> {
        let state = self.state.lock();
        let (since, why) = state.since.as_ref()?;
        (at.saturating_duration_since(*since) >= UNREADY_AFTER).then(|| why.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failure_persists_until_cleared() {
        let failure = BackgroundFailure::new("do it");
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let error = io::Error::other("no");
        assert_eq!((failure.is_waiting(), failure.persistent_error_at(at(100))), (false, None));
        failure.record_at(at(0), &error, "a");
        assert!(failure.is_waiting());
        assert_eq!(failure.persistent_error_at(at(4)), None);
        failure.record_at(at(4), &error, "a");
        assert_eq!(failure.persistent_error_at(at(6)).as_deref(), Some("no"));
        failure.clear();
        assert_eq!((failure.is_waiting(), failure.persistent_error_at(at(100))), (false, None));
    }

    #[test]
    fn logs_repeated_failure_once_a_minute() {
        let failure = BackgroundFailure::new("do it");
        let start = Instant::now();
        for second in 0..150 {
            failure.record_at(start + Duration::from_secs(second), &io::Error::other("no"), "a");
            if second % 10 == 9 {
                failure.clear();
            }
        }
        let state = failure.state.lock();
        // Logged at 0, 60 and 120 seconds.
        assert_eq!((state.logged_at, state.suppressed), (Some(start + Duration::from_secs(120)), 29));
    }
}
