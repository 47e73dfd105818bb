//! Quantiles of recent durations, in a fixed number of buckets.

use std::time::Duration;

/// The lower bound of the second bucket, in seconds; each bucket is wider than the previous one by the square root of
/// two.
const FIRST_BOUND: f64 = 64e-6;
const BUCKETS: usize = 44;
/// The time in seconds after which a duration has half its weight.
const HALF_LIFE: f64 = 30.0;
/// The weight below which durations are dropped.
const MIN_WEIGHT: f32 = 1e-3;

/// A distribution of durations, in which recent ones have more weight.
#[derive(Clone, Debug)]
pub(crate) struct LatencyHistogram {
    weights: [f32; BUCKETS],
    longest: Option<Duration>,
}

impl Default for LatencyHistogram {
    fn default() -> Self {
        Self { weights: [0.0; BUCKETS], longest: None }
    }
}

impl LatencyHistogram {
    pub(crate) fn add(&mut self, time: Duration) {
        self.weights[bucket(time)] += 1.0;
        self.longest = self.longest.max(Some(time));
    }

    pub(crate) fn age(&mut self, elapsed: Duration) {
        let factor = (-elapsed.as_secs_f64() / HALF_LIFE).exp2() as f32;
        self.weights.iter_mut().for_each(|weight| *weight *= factor);
    }

    /// Returns a quantile in milliseconds, accurate to about a fifth; `None` without recent durations.
    pub(crate) fn quantile(&self, quantile: f32) -> Option<f64> {
        let sum: f32 = self.weights.iter().sum();
        if sum < MIN_WEIGHT {
            return None;
        }
        let mut below = 0.0;
        let at = self.weights.iter().position(|weight| {
            below += weight;
            *weight > 0.0 && below >= sum * quantile
        });
        let at = at.or_else(|| self.weights.iter().rposition(|weight| *weight > 0.0))?;
        let middle = FIRST_BOUND * (at as f64 / 2.0 - 0.25).exp2();
        Some(cap_at_longest(middle * 1e3, self.longest))
    }

    /// Returns the longest duration, in milliseconds.
    pub(crate) fn longest(&self) -> Option<f64> {
        self.longest.map(millis)
    }
}

/// Limits the middle of a bucket to the longest duration.
fn cap_at_longest(middle: f64, longest: Option<Duration>) -> f64 {
    longest.map_or(middle, |longest| middle.min(millis(longest)))
}

fn bucket(time: Duration) -> usize {
    let steps = 2.0 * (time.as_secs_f64() / FIRST_BOUND).log2();
    // A duration of zero gives minus infinity, which the cast converts to zero.
    ((steps.floor() + 1.0).max(0.0) as usize).min(BUCKETS - 1)
}

pub(crate) fn millis(time: Duration) -> f64 {
    // Microseconds are precise enough for display, and short in JSON.
    (time.as_secs_f64() * 1e6).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn computes_quantiles_of_recent_times() {
        let mut times = LatencyHistogram::default();
        assert_eq!((times.quantile(0.5), times.longest()), (None, None));
        (0..99).for_each(|_| times.add(Duration::from_millis(10)));
        times.add(Duration::from_secs(2));
        let near = |found: Option<f64>, want: f64| assert!((found.unwrap() / want - 1.0).abs() < 0.25, "{found:?}");
        near(times.quantile(0.5), 10.0);
        near(times.quantile(0.99), 10.0);
        near(times.quantile(1.0), 2000.0);
        assert_eq!(times.longest(), Some(2000.0));
        times.age(Duration::from_secs(300));
        (0..10).for_each(|_| times.add(Duration::from_millis(100)));
        near(times.quantile(0.5), 100.0);
        times.age(Duration::from_secs(3600));
        assert_eq!(times.quantile(0.5), None);
    }

    #[test]
    fn buckets_extreme_times() {
        for (time, want) in [
            (Duration::ZERO, 0),
            (Duration::from_micros(1), 0),
            (Duration::from_micros(65), 1),
            (Duration::MAX, BUCKETS - 1),
        ] {
            assert_eq!(bucket(time), want, "{time:?}");
        }
    }
}
