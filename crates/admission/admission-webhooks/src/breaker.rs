//! The circuit breaker of a backend: after repeated slow failures the backend is not called for a while, so that not
//! every request has to wait for the timeout.
//!
//! Only slow failures count. As in kube-apiserver, a backend that refuses connections is called every time: it fails
//! fast, and the first request after it is back succeeds.

use binnacle_metrics::IntGauge;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

/// The number of consecutive slow failures that open the breaker.
const MAX_FAILURES: u32 = 5;
/// The time for which the breaker is open at first; it doubles with each further slow failure, up to [`MAX_PAUSE`].
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(16);

/// The circuit breaker of a backend.
pub(crate) struct Breaker {
    state: Mutex<State>,
    /// The number of open breakers.
    open: IntGauge,
}

#[derive(Default)]
struct State {
    failures: u32,
    /// `None` while the breaker is closed.
    opened: Option<OpenState>,
}

/// The state of an open or half-open breaker.
struct OpenState {
    until: Instant,
    pause: Duration,
    /// The error of the last call.
    why: String,
    /// True during a trial call.
    is_half_open: bool,
}

/// The state of a backend's breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Calls are allowed; `failures` is the number of consecutive slow ones.
    Closed { failures: u32 },
    /// No calls are allowed for the remaining time.
    Open { left: Duration, why: String },
    /// A trial call is running.
    HalfOpen { why: String },
}

/// The permission for a call, whose outcome must be reported.
pub(crate) struct CallPermit<'a> {
    breaker: &'a Breaker,
    is_trial: bool,
    is_reported: bool,
}

impl Breaker {
    pub(crate) fn new(open: IntGauge) -> Self {
        Self { state: Mutex::default(), open }
    }

    /// Returns the permission for a call, or the error of the last call if the breaker is open. Once its time is over,
    /// one trial call at a time is allowed.
    pub(crate) fn enter(&self, now: Instant) -> Result<CallPermit<'_>, String> {
        let mut state = self.state.lock();
        let is_trial = match &mut state.opened {
            None => false,
            Some(opened) if now >= opened.until && !opened.is_half_open => {
                opened.is_half_open = true;
                true
            }
            Some(opened) => return Err(opened.why.clone()),
        };
        Ok(CallPermit { breaker: self, is_trial, is_reported: false })
    }

    pub(crate) fn report(&self, now: Instant) -> Report {
        let state = self.state.lock();
        match &state.opened {
            None => Report::Closed { failures: state.failures },
            Some(OpenState { is_half_open: true, why, .. }) => Report::HalfOpen { why: why.clone() },
            Some(OpenState { until, why, .. }) => {
                Report::Open { left: until.saturating_duration_since(now), why: why.clone() }
            }
        }
    }

    fn close(&self, state: &mut State) {
        state.failures = 0;
        if state.opened.take().is_some() {
            self.open.dec();
        }
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        let mut state = std::mem::take(&mut *self.state.lock());
        self.close(&mut state);
    }
}

impl CallPermit<'_> {
    /// Reports any response, or a fast failure.
    pub(crate) fn succeed(mut self) {
        self.is_reported = true;
        self.breaker.close(&mut self.breaker.state.lock());
    }

    /// Reports a slow failure.
    pub(crate) fn fail(mut self, why: &str, now: Instant) {
        self.is_reported = true;
        let mut state = self.breaker.state.lock();
        let failures = state.failures.saturating_add(1);
        state.failures = failures;
        match &mut state.opened {
            Some(opened) if self.is_trial => {
                opened.pause = (opened.pause * 2).min(MAX_PAUSE);
                opened.until = now + opened.pause;
                opened.is_half_open = false;
                why.clone_into(&mut opened.why);
            }
            // The call started before the breaker opened.
            Some(_) => {}
            None if failures >= MAX_FAILURES => {
                let (until, pause) = (now + FIRST_PAUSE, FIRST_PAUSE);
                state.opened = Some(OpenState { until, pause, why: why.to_owned(), is_half_open: false });
                self.breaker.open.inc();
            }
            None => {}
        }
    }
}

impl Drop for CallPermit<'_> {
    /// A canceled call says nothing about the backend.
    fn drop(&mut self) {
        if self.is_reported || !self.is_trial {
            return;
        }
        if let Some(opened) = &mut self.breaker.state.lock().opened {
            opened.is_half_open = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_metrics::Description;

    use super::*;

    #[test]
    fn opens_after_slow_failures_and_closes_after_a_response() {
        let gauge = IntGauge::new(Description::new("g", "g", &[]).unwrap());
        let breaker = Breaker::new(gauge.clone());
        let began = Instant::now();
        let fail = |at: Duration| breaker.enter(began + at).map(|permit| permit.fail("late", began + at));
        for _ in 1..MAX_FAILURES {
            fail(Duration::ZERO).unwrap();
        }
        assert_eq!(breaker.report(began), Report::Closed { failures: MAX_FAILURES - 1 });
        // A response resets the count.
        breaker.enter(began).unwrap().succeed();
        for _ in 0..MAX_FAILURES {
            assert_eq!(gauge.get(), 0);
            fail(Duration::ZERO).unwrap();
        }
        assert_eq!(gauge.get(), 1);
        assert_eq!(fail(Duration::ZERO).unwrap_err(), "late");
        assert_eq!(breaker.report(began), Report::Open { left: FIRST_PAUSE, why: "late".to_owned() });
        // Only one trial call is allowed at a time; the next one is allowed once it is canceled.
        let trial = breaker.enter(began + FIRST_PAUSE).unwrap();
        assert!(breaker.enter(began + FIRST_PAUSE).is_err());
        assert_eq!(breaker.report(began + FIRST_PAUSE), Report::HalfOpen { why: "late".to_owned() });
        drop(trial);
        fail(FIRST_PAUSE).unwrap();
        assert!(fail(FIRST_PAUSE * 2).is_err());
        breaker.enter(began + FIRST_PAUSE * 3).unwrap().succeed();
        assert_eq!(gauge.get(), 0);
        assert!(breaker.enter(began).is_ok());
    }

    #[test]
    fn dropped_breaker_is_not_counted_as_open() {
        let gauge = IntGauge::new(Description::new("g", "g", &[]).unwrap());
        let breaker = Breaker::new(gauge.clone());
        (0..MAX_FAILURES).for_each(|_| breaker.enter(Instant::now()).unwrap().fail("late", Instant::now()));
        assert_eq!(gauge.get(), 1);
        drop(breaker);
        assert_eq!(gauge.get(), 0);
    }
}
