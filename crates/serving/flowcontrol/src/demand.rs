//! The demand of a level for seats during a period: maximum, average and deviation, weighted by time.

use std::time::Instant;

/// The weight of past demand, with which a busy level keeps its seats for some minutes.
const SMOOTHING: f64 = 0.977;

#[derive(Debug)]
pub(crate) struct Demand {
    since: Instant,
    current: f64,
    seconds: f64,
    sum: f64,
    squares: f64,
    highest: f64,
}

/// The demand during a period.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct DemandStats {
    pub(crate) highest: f64,
    pub(crate) average: f64,
    pub(crate) deviation: f64,
}

impl Demand {
    pub(crate) fn new(now: Instant) -> Self {
        Self { since: now, current: 0.0, seconds: 0.0, sum: 0.0, squares: 0.0, highest: 0.0 }
    }

    /// Sets the demand from now on.
    pub(crate) fn set(&mut self, now: Instant, demand: f64) {
        self.advance(now);
        self.current = demand;
        self.highest = self.highest.max(demand);
    }

    /// Returns the demand since the last call.
    pub(crate) fn take(&mut self, now: Instant) -> DemandStats {
        self.advance(now);
        let average = if self.seconds > 0.0 { self.sum / self.seconds } else { self.current };
        let variance = if self.seconds > 0.0 { self.squares / self.seconds - average * average } else { 0.0 };
        let stats = DemandStats { highest: self.highest, average, deviation: variance.max(0.0).sqrt() };
        *self = Self { current: self.current, highest: self.current, ..Self::new(now) };
        stats
    }

    fn advance(&mut self, now: Instant) {
        let seconds = now.saturating_duration_since(self.since).as_secs_f64();
        self.since = self.since.max(now);
        self.seconds += seconds;
        self.sum += self.current * seconds;
        self.squares += self.current * self.current * seconds;
    }
}

impl DemandStats {
    /// Returns the smoothed demand, which rises immediately and falls slowly.
    pub(crate) fn smooth(&self, before: f64) -> f64 {
        let envelope = self.average + self.deviation;
        envelope.max(SMOOTHING * before + (1.0 - SMOOTHING) * envelope)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn computes_time_weighted_demand() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let mut demand = Demand::new(start);
        demand.set(at(0), 4.0);
        demand.set(at(5), 0.0);
        let stats = demand.take(at(10));
        assert_eq!(stats, DemandStats { highest: 4.0, average: 2.0, deviation: 2.0 });
        assert_eq!(stats.smooth(0.0), 4.0);
        let later = demand.take(at(20));
        assert_eq!(later, DemandStats::default());
        assert!((later.smooth(4.0) - 3.908).abs() < 1e-9);
    }
}
