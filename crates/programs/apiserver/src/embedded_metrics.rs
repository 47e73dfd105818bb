//! The metrics of the embedded store: its syncs, its segments and their rewriting.

use std::sync::{Arc, Weak};

use binnacle_metrics::Registry;
use binnacle_store_embedded::EmbeddedStore;
use binnacle_store_embedded::disk::{LogStats, SYNC_BOUNDS};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, Metric, MetricFamily, MetricType};
use prometheus::{Gauge, IntCounter, Opts};

const SYNCS: (&str, &str) =
    ("binnacle_store_sync_duration_seconds", "[ALPHA] Time to write a group of changes and make it durable.");

/// Registers the metrics, which are shown as long as the store exists.
pub(crate) fn register(store: &Arc<EmbeddedStore>, registry: &Registry) -> Result<(), prometheus::Error> {
    registry.register(Families::new(store)?)
}

/// A function that reads one value from the statistics.
type Read<T> = fn(&LogStats) -> T;

struct Families {
    store: Weak<EmbeddedStore>,
    /// Set at each scrape.
    gauges: Vec<(Gauge, Read<f64>)>,
    counters: Vec<(IntCounter, Read<u64>)>,
    /// The description of the histogram, whose samples are built by hand.
    syncs: Gauge,
}

// === impl Families ===

impl Families {
    fn new(store: &Arc<EmbeddedStore>) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| Gauge::with_opts(Opts::new(name, format!("[ALPHA] {help}")));
        let counter = |name: &str, help: &str| IntCounter::with_opts(Opts::new(name, format!("[ALPHA] {help}")));
        Ok(Self {
            store: Arc::downgrade(store),
            gauges: vec![
                (gauge("binnacle_store_segments", "Files that the log of the store has.")?, |stats| {
                    stats.segments as f64
                }),
                (
                    gauge("binnacle_store_needed_bytes", "Bytes of live objects and of the history that is kept.")?,
                    |stats| stats.needed_bytes as f64,
                ),
                (gauge("binnacle_store_dead_bytes", "Bytes of compacted history that still take space.")?, |stats| {
                    stats.dead_bytes as f64
                }),
                (gauge("binnacle_store_disk_bytes", "Bytes that the files of the store take.")?, |stats| {
                    stats.disk_bytes as f64
                }),
                (gauge("binnacle_store_reserve_bytes", "Bytes set aside for when the disk is full.")?, |stats| {
                    stats.reserve_bytes as f64
                }),
                (gauge("binnacle_store_full", "1 while there is no room for anything but deletions.")?, |stats| {
                    f64::from(u8::from(stats.full))
                }),
                (gauge("binnacle_store_write_delay_seconds", "How long groups of changes are held up.")?, |stats| {
                    stats.delay.as_secs_f64()
                }),
            ],
            counters: vec![
                (counter("binnacle_store_moves_total", "Files rewritten without compacted history.")?, |stats| {
                    stats.moves
                }),
                (counter("binnacle_store_moved_bytes_total", "Bytes copied into rewritten files.")?, |stats| {
                    stats.moved_bytes
                }),
                (counter("binnacle_store_failures_total", "Failed writes that a new file made up for.")?, |stats| {
                    stats.failures
                }),
            ],
            syncs: Gauge::new(SYNCS.0, SYNCS.1)?,
        })
    }
}

impl Collector for Families {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = self.gauges.iter().flat_map(|(gauge, _)| gauge.desc());
        let counters = self.counters.iter().flat_map(|(counter, _)| counter.desc());
        gauges.chain(counters).chain(self.syncs.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(store) = self.store.upgrade() else { return Vec::new() };
        let stats = store.stats();
        let mut families = Vec::new();
        for (gauge, value) in &self.gauges {
            gauge.set(value(&stats));
            families.extend(gauge.collect());
        }
        for (counter, value) in &self.counters {
            counter.reset();
            counter.inc_by(value(&stats));
            families.extend(counter.collect());
        }
        families.push(syncs(&stats));
        families
    }
}

fn syncs(stats: &LogStats) -> MetricFamily {
    let mut histogram = Histogram::default();
    histogram.set_sample_count(stats.syncs);
    histogram.set_sample_sum(stats.sync_time.as_secs_f64());
    let buckets = SYNC_BOUNDS.iter().zip(stats.sync_buckets).map(|(bound, count)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(*bound);
        bucket.set_cumulative_count(count);
        bucket
    });
    histogram.set_bucket(buckets.collect());
    let mut metric = Metric::default();
    metric.set_histogram(histogram);
    let mut family = MetricFamily::default();
    family.set_name(SYNCS.0.to_owned());
    family.set_help(SYNCS.1.to_owned());
    family.set_field_type(MetricType::HISTOGRAM);
    family.set_metric(vec![metric]);
    family
}
