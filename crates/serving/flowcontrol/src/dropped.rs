//! The `Retry-After` of rejected requests, which grows with their number.

use std::collections::VecDeque;
use std::time::Instant;

/// The maximum `Retry-After`, in seconds.
const MOST: u64 = 32;

/// The rejected requests of one level.
#[derive(Debug)]
pub(crate) struct Dropped {
    began: Instant,
    /// Second and count, oldest first.
    history: VecDeque<(u64, u64)>,
    current: (u64, u64),
    retry_after: u64,
    raised: Option<u64>,
}

impl Dropped {
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, history: VecDeque::new(), current: (0, 0), retry_after: 1, raised: None }
    }

    /// Counts a rejected request, and returns its `Retry-After` in seconds.
    pub(crate) fn record(&mut self, now: Instant) -> u64 {
        let second = now.saturating_duration_since(self.began).as_secs();
        if self.current.0 == second {
            self.current.1 += 1;
            return self.retry_after;
        }
        self.history.push_back(self.current);
        self.current = (second, 1);
        self.history.retain(|(then, _)| second - then <= (2 * self.retry_after).min(MOST));
        self.adjust(second);
        self.retry_after
    }

    /// Adjusts `Retry-After` as TCP does: doubled while many are rejected, decremented while few are.
    fn adjust(&mut self, second: u64) {
        let lately = self.history.iter().filter(|(then, _)| second - then <= self.retry_after);
        let dropped: u64 = lately.map(|(_, count)| count).sum();
        let settled = self.raised.is_none_or(|raised| second - raised >= self.retry_after);
        if settled && dropped >= 3 * self.retry_after {
            self.retry_after = (2 * self.retry_after).min(MOST);
            self.raised = Some(second);
        } else if dropped < self.retry_after && self.retry_after > 1 {
            self.retry_after -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn later_and_sooner() {
        let start = Instant::now();
        let mut dropped = Dropped::new(start);
        let mut each = |second: u64, times: usize| {
            (0..times).map(|_| dropped.record(start + Duration::from_secs(second))).last().unwrap()
        };
        assert_eq!(each(0, 5), 1);
        assert_eq!(each(1, 10), 2);
        assert_eq!(each(2, 10), 2);
        assert_eq!(each(3, 100), 4);
        for second in 4..60 {
            each(second, 200);
        }
        assert_eq!(each(60, 1), 32);
        assert_eq!(each(120, 1), 31);
    }
}
