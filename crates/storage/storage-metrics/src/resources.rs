//! kube-apiserver's metrics of lists, caches and leases, computed at each scrape from the statistics of the resources.

use std::collections::HashSet;
use std::sync::Arc;

use binnacle_metrics::{
    ComputedHistogram, GaugeVec, HistogramVec, IntCounterVec, IntGaugeVec, Registry, families, register_family,
};
use binnacle_registry::{Distribution, Resource, ResourceStore};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, MetricFamily};

/// The metric shows the last digits of resourceVersions, as many as a float can represent.
const VERSION_DIGITS: u64 = 1_000_000_000_000_000;

families! {
    /// Metrics that are set at each scrape.
    struct Families {
        sent: IntCounterVec = "apiserver_watch_events_total" by ["group", "version", "resource"],
            "[ALPHA] Number of events sent in watch clients";
        cached_lists: IntCounterVec = "apiserver_cache_list_total" by ["group", "resource", "index"],
            "[ALPHA] Number of LIST requests served from watch cache";
        cached_fetched: IntCounterVec = "apiserver_cache_list_fetched_objects_total" by ["group", "resource", "index"],
            "[ALPHA] Number of objects read from watch cache in the course of serving a LIST request";
        cached_returned: IntCounterVec = "apiserver_cache_list_returned_objects_total" by ["group", "resource"],
            "[ALPHA] Number of objects returned for a LIST request from watch cache";
        stored_lists: IntCounterVec = "apiserver_storage_list_total" by ["group", "resource"],
            "[ALPHA] Number of LIST requests served from storage";
        stored_fetched: IntCounterVec = "apiserver_storage_list_fetched_objects_total" by ["group", "resource"],
            "[ALPHA] Number of objects read from storage in the course of serving a LIST request";
        stored_evaluated: IntCounterVec = "apiserver_storage_list_evaluated_objects_total" by ["group", "resource"],
            "[ALPHA] Number of objects tested in the course of serving a LIST request from storage";
        stored_returned: IntCounterVec = "apiserver_storage_list_returned_objects_total" by ["group", "resource"],
            "[ALPHA] Number of objects returned for a LIST request from storage";
        consistent: IntCounterVec = "apiserver_watch_cache_consistent_read_total"
            by ["group", "resource", "success", "fallback"],
            "[ALPHA] Counter for consistent reads from cache.";
        initializations: IntCounterVec = "apiserver_watch_cache_initializations_total" by ["group", "resource"],
            "[ALPHA] Counter of watch cache initializations broken by resource type.";
        initial_events: IntCounterVec = "apiserver_init_events_total" by ["group", "resource"],
            "[ALPHA] Counter of init events processed in watch cache broken by resource type.";
        received: IntCounterVec = "apiserver_watch_cache_events_received_total" by ["group", "resource"],
            "[ALPHA] Counter of events received in watch cache broken by resource type.";
        dispatched: IntCounterVec = "apiserver_watch_cache_events_dispatched_total" by ["group", "resource"],
            "[ALPHA] Counter of events dispatched in watch cache broken by resource type.";
        terminated: IntCounterVec = "apiserver_terminated_watchers_total" by ["group", "resource"],
            "[ALPHA] Counter of watchers closed due to unresponsiveness broken by resource type.";
        undecodable: IntCounterVec = "apiserver_storage_decode_errors_total" by ["group", "resource"],
            "[ALPHA] Number of stored object decode errors split by object type";
        checks: IntCounterVec = "apiserver_storage_consistency_checks_total" by ["group", "resource", "status"],
            "[ALPHA] Counter for status of consistency checks between etcd and watch cache";
        version: GaugeVec = "apiserver_watch_cache_resource_version" by ["group", "resource"],
            "[ALPHA] Current resource version of watch cache broken by resource type. This is truncated to the 15 least \
             significant digits.";
        capacity: GaugeVec = "watch_cache_capacity" by ["group", "resource"],
            "[ALPHA] Total capacity of watch cache broken by resource type.";
    }
}

families! {
    /// Watches of shards, and the objects that the shards filtered out.
    struct ShardFamilies {
        watches: IntGaugeVec = "apiserver_watch_shards_total" by ["group", "resource"],
            "[ALPHA] Number of active sharded watch connections broken by resource type.";
        filtered: IntCounterVec = "apiserver_watch_filtered_events_total" by ["group", "resource"],
            "[ALPHA] Counter of events filtered out by shard selector during watch dispatch, broken by resource type.";
    }
}

families! {
    struct HistogramFamilies {
        waits: ComputedHistogram = "apiserver_watch_cache_read_wait_seconds" by ["group", "resource"],
            "[ALPHA] Histogram of time spent waiting for a watch cache to become fresh.";
        sizes: ComputedHistogram = "apiserver_watch_events_sizes" by ["group", "resource", "version"],
            "[ALPHA] Watch event size distribution in bytes";
        watch_lists: ComputedHistogram = "apiserver_watch_list_duration_seconds"
            by ["group", "resource", "scope", "version"],
            "[BETA] Response latency distribution in seconds for watch list requests broken by group, version, resource and \
             scope.";
        leases: ComputedHistogram = "etcd_lease_object_counts" by [],
            "[ALPHA] Number of objects attached to a single etcd lease.";
    }
}

/// Registers the metrics of all resources.
pub fn register_resources(resources: &[Arc<Resource>], registry: &Registry) -> Result<(), prometheus::Error> {
    // One entry for all versions of a resource.
    let mut seen = HashSet::new();
    let distinct = resources.iter().filter(|resource| seen.insert(resource.collection.prefix.clone()));
    let collections = distinct.map(|resource| {
        let name = resource.group_resource();
        LabelledStore {
            group: name.group.to_string(),
            resource: name.resource.to_string(),
            store: resource.collection.clone(),
        }
    });
    let versions = resources.iter().map(|resource| {
        let name = resource.kind();
        let labels = [name.group.to_string(), name.version.to_string(), resource.description.plural.to_string()];
        VersionStats { labels, sent: resource.sent.clone(), watch_lists: resource.watch_lists.clone() }
    });
    let (collections, versions): (Vec<_>, Vec<_>) = (collections.collect(), versions.collect());
    let sharded = collections.first().is_some_and(|labelled| labelled.store.features.enabled("ShardedListAndWatch"));
    let shards = if sharded { Some(ShardFamilies::build()?) } else { None };
    let histograms = HistogramFamilies::build()?;
    let histograms = if registry.has_native_histograms() {
        register_native_histograms(&histograms, &collections, &versions, registry)?;
        None
    } else {
        Some(histograms)
    };
    let families = Families::build()?;
    registry.register_counting(StorageMetrics { collections, versions, families, shards, histograms })
}

/// Makes histograms of the registry observe the same values as the distributions, which have no native buckets.
fn register_native_histograms(
    histograms: &HistogramFamilies,
    collections: &[LabelledStore],
    versions: &[VersionStats],
    registry: &Registry,
) -> Result<(), prometheus::Error> {
    let counting = |family: &ComputedHistogram, distribution: Option<&Distribution>| {
        register_family(registry, family.counting(distribution.map_or(&[][..], Distribution::bounds))?)
    };
    let set_observer = |distribution: &Distribution, family: &HistogramVec, labels: &[&str]| {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        let family = family.clone();
        distribution.set_observer(move |value| {
            family.with_label_values(&labels.iter().map(String::as_str).collect::<Vec<_>>()).observe(value);
        });
    };
    let (store, version) = (collections.first(), versions.first());
    let waits = counting(&histograms.waits, store.map(|labelled| labelled.store.cache.waits()))?;
    let sizes = counting(&histograms.sizes, version.map(|version| &*version.sent))?;
    let lists = counting(&histograms.watch_lists, version.map(|version| &version.watch_lists[0].1))?;
    let leases = counting(&histograms.leases, store.map(|labelled| &labelled.store.counts.leases))?;
    for labelled in collections {
        set_observer(labelled.store.cache.waits(), &waits, &[&labelled.group, &labelled.resource]);
        set_observer(&labelled.store.counts.leases, &leases, &[]);
    }
    for VersionStats { labels: [group, version, resource], sent, watch_lists } in versions {
        set_observer(sent, &sizes, &[group, resource, version]);
        for (scope, latencies) in watch_lists.iter() {
            set_observer(latencies, &lists, &[group, resource, scope, version]);
        }
    }
    Ok(())
}

/// A resource store with the labels of its resource.
struct LabelledStore {
    group: String,
    resource: String,
    store: Arc<ResourceStore>,
}

/// Statistics of the watches of one version.
struct VersionStats {
    /// Group, version and resource.
    labels: [String; 3],
    sent: Arc<Distribution>,
    watch_lists: Arc<[(&'static str, Distribution); 3]>,
}

struct StorageMetrics {
    collections: Vec<LabelledStore>,
    versions: Vec<VersionStats>,
    families: Families,
    /// Present if their feature gate is enabled.
    shards: Option<ShardFamilies>,
    /// Absent if histograms of the registry observe the same values.
    histograms: Option<HistogramFamilies>,
}

impl StorageMetrics {
    fn count(&self, labelled: &LabelledStore) {
        let labels = [labelled.group.as_str(), labelled.resource.as_str()];
        let (families, counts) = (&self.families, &labelled.store.counts);
        for (index, lists) in counts.cached() {
            let by_index = [labels[0], labels[1], index.as_str()];
            families.cached_lists.with_label_values(&by_index).inc_by(lists.lists);
            families.cached_fetched.with_label_values(&by_index).inc_by(lists.fetched);
            families.cached_returned.with_label_values(&labels).inc_by(lists.returned);
        }
        let stored = counts.stored();
        // A cache reads all objects once.
        let stats = labelled.store.cache.stats();
        let (initial_lists, initial_objects) = (stats.initializations, stats.initial_events);
        if stored.lists + initial_lists > 0 {
            for (family, count) in [
                (&families.stored_lists, stored.lists + initial_lists),
                (&families.stored_fetched, stored.fetched + initial_objects),
                (&families.stored_evaluated, stored.evaluated + initial_objects),
                (&families.stored_returned, stored.returned + initial_objects),
            ] {
                family.with_label_values(&labels).inc_by(count);
            }
        }
        let (failed, served) = counts.consistent();
        for (success, count) in [("false", failed), ("true", served)] {
            if count > 0 {
                families.consistent.with_label_values(&[labels[0], labels[1], success, "false"]).inc_by(count);
            }
        }
        let undecodable = stats.undecodable + counts.undecodable();
        if undecodable > 0 {
            families.undecodable.with_label_values(&labels).inc_by(undecodable);
        }
        if let Some(ShardFamilies { watches, filtered }) = self.shards.as_ref().filter(|_| stats.shards.watched > 0) {
            watches.with_label_values(&labels).set(stats.shards.watchers as i64);
            filtered.with_label_values(&labels).set_total(stats.shards.filtered);
        }
        // An unused cache has no statistics.
        if stats.initializations == 0 {
            return;
        }
        for (family, count) in [
            (&families.initializations, stats.initializations),
            (&families.initial_events, stats.initial_items_sent),
            (&families.received, stats.events_received),
            (&families.dispatched, stats.events_dispatched),
            (&families.terminated, stats.terminated),
        ] {
            if count > 0 {
                family.with_label_values(&labels).inc_by(count);
            }
        }
        let checks = stats.checks;
        for (status, count) in [("success", checks.successes), ("failure", checks.failures), ("error", checks.errors)] {
            if count > 0 {
                families.checks.with_label_values(&[labels[0], labels[1], status]).inc_by(count);
            }
        }
        let version = labelled.store.cache.progress().0 % VERSION_DIGITS;
        families.version.with_label_values(&labels).set(version as f64);
        families.capacity.with_label_values(&labels).set(stats.capacity as f64);
    }
}

impl Collector for StorageMetrics {
    fn desc(&self) -> Vec<&Desc> {
        let shards = self.shards.iter().flat_map(Collector::desc);
        let histograms = self.histograms.iter().flat_map(Collector::desc);
        self.families.desc().into_iter().chain(shards).chain(histograms).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.families.reset();
        self.collections.iter().for_each(|labelled| self.count(labelled));
        for VersionStats { labels, sent, .. } in &self.versions {
            let (_, count, _) = sent.cumulative();
            if count > 0 {
                self.families.sent.with_label_values(labels).inc_by(count);
            }
        }
        let mut families = self.families.collect();
        families.extend(self.shards.iter().flat_map(Collector::collect));
        if let Some(histograms) = &self.histograms {
            families.extend(self.distributions(histograms));
        }
        families.retain(|family| !family.get_metric().is_empty());
        families
    }
}

impl StorageMetrics {
    fn distributions(&self, histograms: &HistogramFamilies) -> [MetricFamily; 4] {
        let HistogramFamilies { waits, sizes, watch_lists, leases } = histograms;
        let (mut wait_metrics, mut size_metrics, mut list_metrics, mut lease_metrics) =
            (vec![], vec![], vec![], vec![]);
        for LabelledStore { group, resource, store } in &self.collections {
            wait_metrics
                .extend(histogram(store.cache.waits()).map(|counted| waits.metric(&[group, resource], counted)));
            // Only events have a TTL.
            lease_metrics.extend(histogram(&store.counts.leases).map(|counted| leases.metric(&[], counted)));
        }
        for VersionStats { labels: [group, version, resource], sent, watch_lists: latencies } in &self.versions {
            size_metrics.extend(histogram(sent).map(|counted| sizes.metric(&[group, resource, version], counted)));
            for (scope, latencies) in latencies.iter() {
                let labels: [&str; 4] = [group, resource, scope, version];
                list_metrics.extend(histogram(latencies).map(|counted| watch_lists.metric(&labels, counted)));
            }
        }
        [waits.with(wait_metrics), sizes.with(size_metrics), watch_lists.with(list_metrics), leases.with(lease_metrics)]
    }
}

/// Returns `None` if nothing was counted.
fn histogram(distribution: &Distribution) -> Option<Histogram> {
    let (buckets, count, sum) = distribution.cumulative();
    if count == 0 {
        return None;
    }
    let mut histogram = Histogram::default();
    histogram.set_sample_count(count);
    histogram.set_sample_sum(sum);
    let buckets = buckets.into_iter().map(|(bound, count)| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(bound);
        bucket.set_cumulative_count(count);
        bucket
    });
    histogram.set_bucket(buckets.collect());
    Some(histogram)
}
