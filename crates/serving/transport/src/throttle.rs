//! Rate limit for log lines, with a count of the suppressed events: clients must not be able to fill the log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Passes one event per interval to the log, and counts the others.
pub struct Throttle {
    interval: Duration,
    start: std::sync::OnceLock<Instant>,
    /// The time after `start` in milliseconds at which the next event passes.
    next: AtomicU64,
    suppressed: AtomicU64,
}

impl Throttle {
    /// Lets one event pass per interval.
    pub const fn every(interval: Duration) -> Self {
        Self { interval, start: std::sync::OnceLock::new(), next: AtomicU64::new(0), suppressed: AtomicU64::new(0) }
    }

    /// Returns the number of events suppressed since the last one that passed; `None` if this event is suppressed.
    pub fn pass(&self) -> Option<u64> {
        let now = self.start.get_or_init(Instant::now).elapsed();
        self.pass_at(now)
    }

    fn pass_at(&self, now: Duration) -> Option<u64> {
        let (at, until) = (now.as_millis() as u64, (now + self.interval).as_millis() as u64);
        let next = self.next.load(Ordering::Relaxed);
        let passes =
            at >= next && self.next.compare_exchange(next, until, Ordering::Relaxed, Ordering::Relaxed).is_ok();
        if passes {
            return Some(self.suppressed.swap(0, Ordering::Relaxed));
        }
        self.suppressed.fetch_add(1, Ordering::Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passes_one_event_per_interval_and_counts_the_others() {
        let throttle = Throttle::every(Duration::from_secs(10));
        let at = |seconds| throttle.pass_at(Duration::from_secs(seconds));
        let passed: Vec<_> = [0, 1, 2, 9, 10, 11, 40].into_iter().map(at).collect();
        assert_eq!(passed, [Some(0), None, None, None, Some(3), None, Some(1)]);
    }
}
