//! Histograms of ratios over time: each nanosecond is counted once, in the bucket of the current ratio.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use binnacle_metrics::{ComputedHistogram, families};
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, MetricFamily};

/// The metric families of all levels. Clones share them.
#[derive(Clone)]
pub(crate) struct Ratios {
    families: Families,
    levels: Arc<Mutex<BTreeMap<String, Arc<LevelRatios>>>>,
}

/// The ratios of one level: demand, seats, executing requests and waiting requests.
pub(crate) struct LevelRatios(Mutex<[Ratio; 4]>);

/// The load of a level: the numerators of its ratios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    /// Seats that could be used.
    pub(crate) demand: usize,
    /// Seats in use.
    pub(crate) seats: usize,
    pub(crate) running: usize,
    pub(crate) waiting: usize,
}

/// The capacity of a level: the denominators of its ratios.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Capacity {
    pub(crate) seats: f64,
    /// The maximum number of waiting requests.
    pub(crate) places: f64,
}

families! {
    #[derive(Clone)]
    struct Families {
        demand: ComputedHistogram = "apiserver_flowcontrol_demand_seats" by ["priority_level"],
            "EXPERIMENTAL: [ALPHA] Observations, at the end of every nanosecond, of (the number of seats each priority level \
             could use) / (nominal number of seats for that level)";
        requests: ComputedHistogram = "apiserver_flowcontrol_priority_level_request_utilization"
            by ["phase", "priority_level"],
            "EXPERIMENTAL: [ALPHA] Observations, at the end of every nanosecond, of number of requests (as a fraction of the \
             relevant limit) waiting or in any stage of execution (but only initial stage for WATCHes)";
        seats: ComputedHistogram = "apiserver_flowcontrol_priority_level_seat_utilization"
            by ["phase", "priority_level"],
            "EXPERIMENTAL: [ALPHA] Observations, at the end of every nanosecond, of utilization of seats for any stage of \
             execution (but only initial stage for WATCHes)";
    }
}

const DEMAND_BOUNDS: [f64; 12] = [0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0];
const REQUEST_BOUNDS: [f64; 10] = [0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0];
const SEAT_BOUNDS: [f64; 13] = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0];

impl Ratios {
    pub(crate) fn new() -> Result<Self, prometheus::Error> {
        Ok(Self { families: Families::build()?, levels: Arc::default() })
    }

    /// Returns the ratios of a level; existing ones continue.
    pub(crate) fn level(&self, name: &str) -> Arc<LevelRatios> {
        self.levels.lock().entry(name.to_owned()).or_insert_with(|| Arc::new(LevelRatios::new(Instant::now()))).clone()
    }
}

impl binnacle_metrics::Family for Ratios {}

impl Collector for Ratios {
    fn desc(&self) -> Vec<&Desc> {
        self.families.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (now, levels) = (Instant::now(), self.levels.lock().clone());
        let Families { demand, requests, seats } = &self.families;
        let (mut of_demand, mut of_requests, mut of_seats) = (Vec::new(), Vec::new(), Vec::new());
        for (name, level) in &levels {
            let mut ratios = level.0.lock();
            let [demanded, used, running, waiting] = ratios.each_mut().map(|ratio| {
                ratio.advance(now);
                ratio.histogram()
            });
            of_demand.push(demand.metric(&[name], demanded));
            of_requests.push(requests.metric(&["executing", name], running));
            of_requests.push(requests.metric(&["waiting", name], waiting));
            of_seats.push(seats.metric(&["executing", name], used));
        }
        vec![demand.with(of_demand), requests.with(of_requests), seats.with(of_seats)]
    }
}

impl LevelRatios {
    fn new(now: Instant) -> Self {
        let bounds: [&'static [f64]; 4] = [&DEMAND_BOUNDS, &SEAT_BOUNDS, &REQUEST_BOUNDS, &REQUEST_BOUNDS];
        Self(Mutex::new(bounds.map(|bounds| Ratio::new(bounds, now))))
    }

    /// Sets the load from now on.
    pub(crate) fn set_load(&self, now: Instant, load: Load) {
        let parts = [load.demand, load.seats, load.running, load.waiting];
        for (ratio, part) in self.0.lock().iter_mut().zip(parts) {
            ratio.set(now, part as f64, ratio.whole);
        }
    }

    /// Sets the capacity from now on.
    pub(crate) fn set_capacity(&self, now: Instant, capacity: Capacity) {
        let wholes = [capacity.seats, capacity.seats, capacity.seats, capacity.places];
        for (ratio, whole) in self.0.lock().iter_mut().zip(wholes) {
            ratio.set(now, ratio.part, whole);
        }
    }
}

/// A ratio, and the time for which it had each value.
pub(crate) struct Ratio {
    part: f64,
    whole: f64,
    since: Instant,
    bounds: &'static [f64],
    /// Nanoseconds by bucket; the last bucket is for ratios above all bounds.
    nanos: Vec<u64>,
    sum: f64,
}

impl Ratio {
    pub(crate) fn new(bounds: &'static [f64], now: Instant) -> Self {
        Self { part: 0.0, whole: 1.0, since: now, bounds, nanos: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    pub(crate) fn add(&mut self, now: Instant, part: f64) {
        self.set(now, self.part + part, self.whole);
    }

    pub(crate) fn set(&mut self, now: Instant, part: f64, whole: f64) {
        self.advance(now);
        (self.part, self.whole) = (part, whole);
    }

    pub(crate) fn advance(&mut self, now: Instant) {
        let passed = u64::try_from(now.saturating_duration_since(self.since).as_nanos()).unwrap_or(u64::MAX);
        self.since = self.since.max(now);
        let ratio = self.part / self.whole;
        let bucket = self.bounds.partition_point(|bound| *bound < ratio);
        self.nanos[bucket] = self.nanos[bucket].saturating_add(passed);
        self.sum += ratio * passed as f64;
    }

    pub(crate) fn histogram(&self) -> Histogram {
        let mut count: u64 = 0;
        let buckets = self.bounds.iter().zip(&self.nanos).map(|(bound, nanos)| {
            count = count.saturating_add(*nanos);
            let mut bucket = Bucket::default();
            bucket.set_upper_bound(*bound);
            bucket.set_cumulative_count(count);
            bucket
        });
        let mut histogram = Histogram::default();
        histogram.set_bucket(buckets.collect());
        histogram.set_sample_count(self.nanos.iter().fold(0, |sum: u64, nanos| sum.saturating_add(*nanos)));
        histogram.set_sample_sum(self.sum);
        histogram
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use prometheus::proto::LabelPair;

    use prometheus::proto::Metric;

    use super::*;

    #[test]
    fn counts_each_nanosecond_once() {
        let start = Instant::now();
        let at = |nanos| start + Duration::from_nanos(nanos);
        let mut ratio = Ratio::new(&[0.0, 0.5, 1.0], start);
        ratio.set(at(10), 1.0, 2.0);
        ratio.set(at(30), 4.0, 2.0);
        // Time does not go backwards.
        ratio.set(at(20), 4.0, 2.0);
        ratio.advance(at(35));
        assert_eq!((&ratio.nanos[..], ratio.sum), (&[10, 20, 0, 5][..], 20.0));
        let histogram = ratio.histogram();
        let counts: Vec<_> = histogram.get_bucket().iter().map(Bucket::cumulative_count).collect();
        assert_eq!((counts, histogram.get_sample_count()), (vec![10, 30, 30], 35));
    }

    #[test]
    fn collects_ratios_of_all_levels() {
        let ratios = Ratios::new().unwrap();
        let level = ratios.level("a");
        ratios.level("b");
        let start = Instant::now();
        level.set_capacity(start, Capacity { seats: 10.0, places: 100.0 });
        level.set_load(start, Load { demand: 15, seats: 10, running: 5, waiting: 3 });
        level.set_load(start + Duration::from_secs(1), Load::default());
        // The ratios of an existing level continue.
        assert!(Arc::ptr_eq(&level, &ratios.level("a")));
        let collected = ratios.collect();
        let labels: Vec<Vec<String>> = collected
            .iter()
            .map(|family| {
                let of = |metric: &Metric| {
                    let labels = metric.get_label().iter();
                    labels.map(LabelPair::value).collect::<Vec<_>>().join(",")
                };
                family.get_metric().iter().map(of).collect()
            })
            .collect();
        assert_eq!(labels[0], ["a", "b"]);
        assert_eq!(labels[1], ["executing,a", "waiting,a", "executing,b", "waiting,b"]);
        assert_eq!(labels[2], ["executing,a", "executing,b"]);
        let sums = |family: usize, metric: usize| {
            collected[family].get_metric()[metric].get_histogram().get_sample_sum() / 1e9
        };
        for (sum, want) in [(sums(0, 0), 1.5), (sums(2, 0), 1.0), (sums(1, 0), 0.5), (sums(1, 1), 0.03)] {
            assert!((sum - want).abs() < 1e-6, "{sum} {want}");
        }
    }
}
