//! The metrics of the embedded store: its syncs, its segments and their rewriting.

use std::sync::{Arc, Weak};

use binnacle_metrics::{ComputedHistogram, Gauge, IntCounter, Registry, families};
use binnacle_store_embedded::EmbeddedStore;
use binnacle_store_embedded::disk::{LogStats, SYNC_BOUNDS};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, MetricFamily};

families! {
    /// Metrics that are set at each scrape.
    struct Families {
        segments: Gauge = "binnacle_store_segments", "[ALPHA] Files that the log of the store has.";
        needed: Gauge = "binnacle_store_needed_bytes",
            "[ALPHA] Bytes of live objects and of the history that is kept.";
        dead: Gauge = "binnacle_store_dead_bytes", "[ALPHA] Bytes of compacted history that still take space.";
        disk: Gauge = "binnacle_store_disk_bytes", "[ALPHA] Bytes that the files of the store take.";
        reserve: Gauge = "binnacle_store_reserve_bytes", "[ALPHA] Bytes set aside for when the disk is full.";
        full: Gauge = "binnacle_store_full", "[ALPHA] 1 while there is no room for anything but deletions.";
        delay: Gauge = "binnacle_store_write_delay_seconds", "[ALPHA] How long groups of changes are held up.";
        moves: IntCounter = "binnacle_store_moves_total", "[ALPHA] Files rewritten without compacted history.";
        moved: IntCounter = "binnacle_store_moved_bytes_total", "[ALPHA] Bytes copied into rewritten files.";
        failures: IntCounter = "binnacle_store_failures_total",
            "[ALPHA] Failed writes that a new file made up for.";
        syncs: ComputedHistogram = "binnacle_store_sync_duration_seconds" by [],
            "[ALPHA] Time to write a group of changes and make it durable.";
    }
}

/// Registers the metrics of the embedded store. They are exposed as long as the store exists.
pub fn register_embedded(store: &Arc<EmbeddedStore>, registry: &Registry) -> Result<(), prometheus::Error> {
    registry.register(EmbeddedMetrics { store: Arc::downgrade(store), families: Families::build()? })
}

struct EmbeddedMetrics {
    store: Weak<EmbeddedStore>,
    families: Families,
}

impl Collector for EmbeddedMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.families.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(store) = self.store.upgrade() else { return Vec::new() };
        let stats = store.stats();
        let families = &self.families;
        families.segments.set(stats.segments as f64);
        families.needed.set(stats.needed_bytes as f64);
        families.dead.set(stats.dead_bytes as f64);
        families.disk.set(stats.disk_bytes as f64);
        families.reserve.set(stats.reserve_bytes as f64);
        families.full.set(f64::from(u8::from(stats.full)));
        families.delay.set(stats.delay.as_secs_f64());
        for (counter, count) in
            [(&families.moves, stats.moves), (&families.moved, stats.moved_bytes), (&families.failures, stats.failures)]
        {
            counter.set_total(count);
        }
        let mut collected = families.collect();
        let syncs = families.syncs.metric(&[], syncs(&stats));
        collected.push(families.syncs.with(vec![syncs]));
        collected
    }
}

fn syncs(stats: &LogStats) -> Histogram {
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
    histogram
}
