//! A distribution of values, counted without a lock, for histograms of the metrics.

use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of values up to each of several ascending bounds.
#[derive(Debug)]
pub struct Distribution {
    bounds: &'static [f64],
    /// One for each bound, and one for the values above all bounds.
    counts: Vec<AtomicU64>,
    /// In millionths.
    sum: AtomicU64,
    follower: OnceLock<Follower>,
}

/// Sees each value.
struct Follower(Box<dyn Fn(f64) + Send + Sync>);

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Follower")
    }
}

impl Distribution {
    pub fn new(bounds: &'static [f64]) -> Self {
        let counts = (0..=bounds.len()).map(|_| AtomicU64::new(0)).collect();
        Self { bounds, counts, sum: AtomicU64::new(0), follower: OnceLock::new() }
    }

    /// Lets `follower` see each further value, once and for all.
    pub fn follow(&self, follower: impl Fn(f64) + Send + Sync + 'static) {
        let _ = self.follower.set(Follower(Box::new(follower)));
    }

    pub fn bounds(&self) -> &'static [f64] {
        self.bounds
    }

    pub fn add(&self, value: f64) {
        let at = self.bounds.partition_point(|bound| *bound < value);
        self.counts[at].fetch_add(1, Ordering::Relaxed);
        self.sum.fetch_add((value * 1e6) as u64, Ordering::Relaxed);
        if let Some(Follower(follower)) = self.follower.get() {
            follower(value);
        }
    }

    /// Returns each bound with the number of values up to it, the number of all values, and their sum.
    pub fn cumulative(&self) -> (Vec<(f64, u64)>, u64, f64) {
        let mut count = 0;
        let mut add = |counted: &AtomicU64| {
            count += counted.load(Ordering::Relaxed);
            count
        };
        let buckets = self.bounds.iter().zip(&self.counts).map(|(bound, counted)| (*bound, add(counted))).collect();
        let all = self.counts.last().map_or(0, &mut add);
        (buckets, all, self.sum.load(Ordering::Relaxed) as f64 / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_counted_up_to_their_bounds() {
        let distribution = Distribution::new(&[0.5, 1.0, 2.0]);
        let (sent, seen) = std::sync::mpsc::channel();
        distribution.follow(move |value| sent.send(value).unwrap());
        for value in [0.1, 0.5, 0.6, 1.5, 1.5, 9.0] {
            distribution.add(value);
        }
        let (buckets, all, sum) = distribution.cumulative();
        assert_eq!(buckets, [(0.5, 2), (1.0, 3), (2.0, 5)]);
        assert_eq!(all, 6);
        assert!((sum - 13.2).abs() < 1e-3, "{sum}");
        drop(distribution);
        assert_eq!(seen.iter().sum::<f64>(), 13.2);
    }
}
