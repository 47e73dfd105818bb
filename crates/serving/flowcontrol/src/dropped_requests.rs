//! The `Retry-After` of rejected requests, which grows with their number.

use std::collections::VecDeque;
use std::time::Instant;

/// The maximum `Retry-After`, in seconds.
const MAX_RETRY_AFTER: u64 = 32;

/// The rejected requests of one level.
#[derive(Debug)]
pub(crate) struct DroppedRequests {
    start: Instant,
    /// Second and count, oldest first.
    history: VecDeque<(u64, u64)>,
    current: (u64, u64),
    retry_after: u64,
    raised_at: Option<u64>,
}

impl DroppedRequests {
    pub(crate) fn new(now: Instant) -> Self {
        Self { start: now, history: VecDeque::new(), current: (0, 0), retry_after: 1, raised_at: None }
    }

    /// Counts a rejected request, and returns its `Retry-After` in seconds.
    pub(crate) fn record(&mut self, now: Instant) -> u64 {
        let second = now.saturating_duration_since(self.start).as_secs();
        if self.current.0 == second {
            self.current.1 += 1;
            return self.retry_after;
        }
        self.history.push_back(self.current);
        self.current = (second, 1);
        self.history.retain(|(then, _)| second - then <= (2 * self.retry_after).min(MAX_RETRY_AFTER));
        self.adjust(second);
        self.retry_after
    }

    /// Adjusts `Retry-After` as TCP does: doubled while many are rejected, decremented while few are.
    fn adjust(&mut self, second: u64) {
        let recent = self.history.iter().filter(|(then, _)| second - then <= self.retry_after);
        let dropped: u64 = recent.map(|(_, count)| count).sum();
        let may_raise = self.raised_at.is_none_or(|raised_at| second - raised_at >= self.retry_after);
        if may_raise && dropped >= 3 * self.retry_after {
            self.retry_after = (2 * self.retry_after).min(MAX_RETRY_AFTER);
            self.raised_at = Some(second);
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
    fn retry_after_grows_and_shrinks_with_rejections() {
        let start = Instant::now();
        let mut dropped = DroppedRequests::new(start);
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
