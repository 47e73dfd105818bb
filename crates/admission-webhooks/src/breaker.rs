//! The circuit breaker of one backend: after repeated slow failures the backend is not called for a while, so that it
//! does not cost each request the whole timeout.
//!
//! Only failures that cost time count. A backend that refuses connections is called each time, as in kube-apiserver:
//! the refusal is quick, and the first request after the backend's return succeeds.

use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus::IntGauge;

/// The number of consecutive slow failures that shut the breaker.
const PATIENCE: u32 = 5;
/// The first and the longest time for which the breaker is shut; it doubles with each further slow failure.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// The breaker of one backend.
pub(crate) struct Breaker {
    state: Mutex<State>,
    /// The number of shut breakers.
    shut: IntGauge,
}

#[derive(Default)]
struct State {
    in_vain: u32,
    shut: Option<Shut>,
}

struct Shut {
    until: Instant,
    pause: Duration,
    /// The error of the last call.
    why: String,
    /// True during a trial call.
    trying: bool,
}

/// The state of a backend's breaker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Report {
    /// Calls are allowed; `in_vain` is the number of consecutive slow failures.
    Open { in_vain: u32 },
    /// No call is allowed for the time that is left.
    Shut { left: Duration, why: String },
    /// One trial call is running.
    Trying { why: String },
}

/// The permission for one call, whose outcome must be reported.
pub(crate) struct Pass<'a> {
    breaker: &'a Breaker,
    tries: bool,
    told: bool,
}

impl Breaker {
    pub(crate) fn new(shut: IntGauge) -> Self {
        Self { state: Mutex::default(), shut }
    }

    /// Returns the permission for a call, or the error of the last call if the breaker is shut. After its time, one
    /// trial call at a time is allowed.
    pub(crate) fn enter(&self, now: Instant) -> Result<Pass<'_>, String> {
        let mut state = self.state.lock();
        let tries = match &mut state.shut {
            None => false,
            Some(shut) if now >= shut.until && !shut.trying => {
                shut.trying = true;
                true
            }
            Some(shut) => return Err(shut.why.clone()),
        };
        Ok(Pass { breaker: self, tries, told: false })
    }

    pub(crate) fn report(&self, now: Instant) -> Report {
        let state = self.state.lock();
        match &state.shut {
            None => Report::Open { in_vain: state.in_vain },
            Some(Shut { trying: true, why, .. }) => Report::Trying { why: why.clone() },
            Some(Shut { until, why, .. }) => {
                Report::Shut { left: until.saturating_duration_since(now), why: why.clone() }
            }
        }
    }

    fn open(&self, state: &mut State) {
        state.in_vain = 0;
        if state.shut.take().is_some() {
            self.shut.dec();
        }
    }
}

impl Drop for Breaker {
    fn drop(&mut self) {
        let mut state = std::mem::take(&mut *self.state.lock());
        self.open(&mut state);
    }
}

impl Pass<'_> {
    /// Reports a response of any kind, or a quick failure.
    pub(crate) fn was_quick(mut self) {
        self.told = true;
        self.breaker.open(&mut self.breaker.state.lock());
    }

    /// Reports a slow failure.
    pub(crate) fn was_in_vain(mut self, why: &str, now: Instant) {
        self.told = true;
        let mut state = self.breaker.state.lock();
        let in_vain = state.in_vain.saturating_add(1);
        state.in_vain = in_vain;
        match &mut state.shut {
            Some(shut) if self.tries => {
                shut.pause = (shut.pause * 2).min(LONGEST_PAUSE);
                shut.until = now + shut.pause;
                shut.trying = false;
                why.clone_into(&mut shut.why);
            }
            // The call began before the breaker was shut.
            Some(_) => {}
            None if in_vain >= PATIENCE => {
                let (until, pause) = (now + FIRST_PAUSE, FIRST_PAUSE);
                state.shut = Some(Shut { until, pause, why: why.to_owned(), trying: false });
                self.breaker.shut.inc();
            }
            None => {}
        }
    }
}

impl Drop for Pass<'_> {
    /// A cancelled call says nothing about the backend.
    fn drop(&mut self) {
        if self.told || !self.tries {
            return;
        }
        if let Some(shut) = &mut self.breaker.state.lock().shut {
            shut.trying = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shuts_and_opens() {
        let gauge = IntGauge::new("g", "g").unwrap();
        let breaker = Breaker::new(gauge.clone());
        let began = Instant::now();
        let fail = |at: Duration| breaker.enter(began + at).map(|pass| pass.was_in_vain("late", began + at));
        for _ in 1..PATIENCE {
            fail(Duration::ZERO).unwrap();
        }
        assert_eq!(breaker.report(began), Report::Open { in_vain: PATIENCE - 1 });
        // A response in between resets the count.
        breaker.enter(began).unwrap().was_quick();
        for _ in 0..PATIENCE {
            assert_eq!(gauge.get(), 0);
            fail(Duration::ZERO).unwrap();
        }
        assert_eq!(gauge.get(), 1);
        assert_eq!(fail(Duration::ZERO).unwrap_err(), "late");
        assert_eq!(breaker.report(began), Report::Shut { left: FIRST_PAUSE, why: "late".to_owned() });
        // Only one trial call is allowed at a time; when it is cancelled, the next one is.
        let trying = breaker.enter(began + FIRST_PAUSE).unwrap();
        assert!(breaker.enter(began + FIRST_PAUSE).is_err());
        assert_eq!(breaker.report(began + FIRST_PAUSE), Report::Trying { why: "late".to_owned() });
        drop(trying);
        fail(FIRST_PAUSE).unwrap();
        assert!(fail(FIRST_PAUSE * 2).is_err());
        breaker.enter(began + FIRST_PAUSE * 3).unwrap().was_quick();
        assert_eq!(gauge.get(), 0);
        assert!(breaker.enter(began).is_ok());
    }

    #[test]
    fn one_that_is_gone_is_not_shut() {
        let gauge = IntGauge::new("g", "g").unwrap();
        let breaker = Breaker::new(gauge.clone());
        (0..PATIENCE).for_each(|_| breaker.enter(Instant::now()).unwrap().was_in_vain("late", Instant::now()));
        assert_eq!(gauge.get(), 1);
        drop(breaker);
        assert_eq!(gauge.get(), 0);
    }
}
