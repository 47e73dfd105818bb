//! Summaries: quantiles of the durations in the last five hours. The metrics library does not implement them.
//!
//! Durations are counted in buckets whose width is 1/32 of their values, which is also the maximum error of a quantile.
//! kube-apiserver's estimate limits the error in rank instead. Recording takes no lock.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{self, MetricFamily, MetricType};

use crate::{Description, Family};

const QUANTILES: [f64; 3] = [0.5, 0.9, 0.99];
/// The window is divided into this many ages of this length; the oldest age is dropped as a whole.
const AGES: usize = 5;
const AGE: Duration = Duration::from_secs(60 * 60);
/// The binary logarithm of the number of buckets for each power of two.
const STEPS: u32 = 5;
/// Longer durations (more than an hour) go to the last bucket.
const LONGEST_NANOS: u64 = (1 << 42) - 1;
const BUCKETS: usize = bucket(LONGEST_NANOS) + 1;

/// A family of summaries, one per combination of label values. Clones share them.
#[derive(Clone)]
pub struct SummaryVec {
    description: Arc<Description>,
    began: Instant,
    children: Arc<Mutex<BTreeMap<Vec<String>, Arc<Summary>>>>,
}

/// One summary.
pub struct Summary {
    began: Instant,
    /// The number of durations in dropped ages.
    dropped: AtomicU64,
    sum_nanos: AtomicU64,
    /// The index of the current age.
    age: AtomicU64,
    turning: Mutex<()>,
    /// Allocated at the first observation in the age.
    ages: [OnceLock<Box<[AtomicU32]>>; AGES],
}

/// Returns the bucket of a duration: up to `2^STEPS` nanoseconds one bucket each, then by the highest bits.
const fn bucket(nanos: u64) -> usize {
    let bits = u64::BITS - nanos.leading_zeros();
    if bits <= STEPS {
        return nanos as usize;
    }
    let shift = bits - 1 - STEPS;
    let within = (nanos >> shift) as usize & ((1 << STEPS) - 1);
    ((shift as usize + 1) << STEPS) + within
}

/// Returns the middle of a bucket, in nanoseconds.
fn middle(bucket: usize) -> f64 {
    let (power, within) = (bucket >> STEPS, bucket & ((1 << STEPS) - 1));
    match power.checked_sub(1) {
        None => within as f64,
        Some(shift) => {
            let width = (1u64 << shift) as f64;
            ((1 << STEPS) + within) as f64 * width + (width - 1.0) / 2.0
        }
    }
}

impl Summary {
    fn new(began: Instant) -> Self {
        Self {
            began,
            dropped: AtomicU64::new(0),
            sum_nanos: AtomicU64::new(0),
            age: AtomicU64::new(0),
            turning: Mutex::default(),
            ages: Default::default(),
        }
    }

    /// Records a duration that ended at `now`.
    pub fn observe(&self, duration: Duration, now: Instant) {
        let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        self.sum_nanos.fetch_add(nanos, Relaxed);
        let age = self.turn(now);
        let counts = self.ages[age].get_or_init(|| (0..BUCKETS).map(|_| AtomicU32::new(0)).collect());
        counts[bucket(nanos.min(LONGEST_NANOS))].fetch_add(1, Relaxed);
    }

    /// Returns the index of the current age. Clears the counts when a new age begins.
    fn turn(&self, now: Instant) -> usize {
        let age = now.saturating_duration_since(self.began).as_secs() / AGE.as_secs();
        if self.age.load(Relaxed) < age {
            let _turning = self.turning.lock();
            let before = self.age.load(Relaxed);
            for passed in (before + 1..=age).take(AGES) {
                if let Some(counts) = self.ages[slot(passed)].get() {
                    let dropped: u64 = counts.iter().map(|count| u64::from(count.swap(0, Relaxed))).sum();
                    self.dropped.fetch_add(dropped, Relaxed);
                }
            }
            self.age.fetch_max(age, Relaxed);
        }
        slot(age)
    }

    fn read(&self, now: Instant) -> proto::Summary {
        self.turn(now);
        // The lock prevents that counts move to `dropped` meanwhile, so that each is counted exactly once.
        let _turning = self.turning.lock();
        let mut counts = vec![0u64; BUCKETS];
        for age in self.ages.iter().filter_map(OnceLock::get) {
            counts.iter_mut().zip(age).for_each(|(count, more)| *count += u64::from(more.load(Relaxed)));
        }
        let quantiles = QUANTILES.map(|quantile| {
            let mut read = proto::Quantile::default();
            read.set_quantile(quantile);
            read.set_value(at_quantile(&counts, quantile));
            read
        });
        let mut summary = proto::Summary::default();
        summary.set_quantile(quantiles.into());
        summary.set_sample_count(self.dropped.load(Relaxed) + counts.iter().sum::<u64>());
        summary.set_sample_sum(self.sum_nanos.load(Relaxed) as f64 / 1e9);
        summary
    }
}

fn slot(age: u64) -> usize {
    (age % AGES as u64) as usize
}

/// Returns the quantile in seconds; NaN without observations.
fn at_quantile(counts: &[u64], quantile: f64) -> f64 {
    let total: u64 = counts.iter().sum();
    let rank = (total as f64 * quantile).ceil() as u64;
    let mut seen = 0;
    let found = counts.iter().position(|count| {
        seen += count;
        seen >= rank && seen > 0
    });
    found.map_or(f64::NAN, |bucket| middle(bucket) / 1e9)
}

impl SummaryVec {
    pub fn new(description: Arc<Description>) -> Self {
        Self { description, began: Instant::now(), children: Arc::default() }
    }

    /// Returns the summary with these label values, in the order of the labels.
    pub fn with_label_values(&self, values: &[&str]) -> Arc<Summary> {
        self.description.check_values(values.len());
        let values = values.iter().map(|value| (*value).to_owned()).collect();
        self.children.lock().entry(values).or_insert_with(|| Arc::new(Summary::new(self.began))).clone()
    }
}

impl Family for SummaryVec {
    fn reset(&self) {
        self.children.lock().clear();
    }
}

impl Collector for SummaryVec {
    fn desc(&self) -> Vec<&Desc> {
        vec![self.description.desc()]
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let now = Instant::now();
        let children = self.children.lock().clone();
        let metrics = children.iter().map(|(values, summary)| {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let mut metric = self.description.metric(&values);
            metric.set_summary(summary.read(now));
            metric
        });
        vec![self.description.family(MetricType::SUMMARY, metrics.collect())]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_ordered_and_narrow() {
        let mut before = None;
        for nanos in (0..5000).chain((13..42).flat_map(|power| [(1 << power) - 1, 1 << power, (1 << power) + 1])) {
            let found = bucket(nanos);
            assert!(before.is_none_or(|before| before <= found), "{nanos}");
            assert!((middle(found) - nanos as f64).abs() <= nanos as f64 / 32.0, "{nanos}: {}", middle(found));
            before = Some(found);
        }
    }

    fn read(summary: &Summary, now: Instant) -> (u64, Vec<f64>) {
        let summary = summary.read(now);
        (summary.sample_count(), summary.get_quantile().iter().map(proto::Quantile::value).collect())
    }

    #[test]
    fn drops_quantiles_after_five_hours() {
        let began = Instant::now();
        let summary = Summary::new(began);
        for millis in 1..=1000 {
            summary.observe(Duration::from_millis(millis), began);
        }
        let (count, quantiles) = read(&summary, began);
        assert_eq!(count, 1000);
        for (found, want) in quantiles.iter().zip([0.5, 0.9, 0.99]) {
            assert!((found - want).abs() < want / 32.0, "{found} {want}");
        }
        // Older durations are counted in the total, but not in the quantiles.
        let later = began + AGE * 3;
        summary.observe(Duration::from_secs(7), later);
        assert!(read(&summary, later).1[1] < 1.0);
        let later = began + AGE * 5;
        assert!((read(&summary, later).1[0] - 7.0).abs() < 0.3);
        let much_later = began + AGE * 50;
        let (count, quantiles) = read(&summary, much_later);
        assert_eq!(count, 1001);
        assert!(quantiles.iter().all(|quantile| quantile.is_nan()));
    }

    #[test]
    fn formats_summaries_as_text() {
        let registry = crate::Registry::new();
        let description = Description::new("a_summary", "What it is.", &["kind"]).unwrap();
        let family = crate::register_family(&registry, SummaryVec::new(description)).unwrap();
        family.with_label_values(&["x"]).observe(Duration::from_nanos(20), Instant::now());
        let text = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let want = "# HELP a_summary What it is.\n# TYPE a_summary summary\na_summary{kind=\"x\",quantile=\"0.5\"} 0.00000002\n";
        assert!(text.starts_with(want) && text.ends_with("a_summary_count{kind=\"x\"} 1\n"), "{text}");
    }
}
