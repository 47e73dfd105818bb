//! kube-apiserver's metrics of lists, caches and leases: computed at each scrape from the counts of the resources.

use std::collections::HashSet;
use std::sync::Arc;

use binnacle_metrics::{HistogramVec, Registry, keep};
use binnacle_registry::{Collection, Distribution, Resource};
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, LabelPair, Metric, MetricFamily, MetricType};
use prometheus::{Gauge, GaugeVec, HistogramOpts, IntCounterVec, IntGaugeVec, Opts};

/// The metric shows the last digits of resourceVersions, as many as a float can hold.
const VERSION_DIGITS: u64 = 1_000_000_000_000_000;
const WAITS: (&str, &str) = (
    "apiserver_watch_cache_read_wait_seconds",
    "[ALPHA] Histogram of time spent waiting for a watch cache to become fresh.",
);
const SENT: (&str, &str) = ("apiserver_watch_events_total", "[ALPHA] Number of events sent in watch clients");
const SENT_SIZES: (&str, &str) = ("apiserver_watch_events_sizes", "[ALPHA] Watch event size distribution in bytes");
const WATCH_LISTS: (&str, &str) = (
    "apiserver_watch_list_duration_seconds",
    "[BETA] Response latency distribution in seconds for watch list requests broken by group, version, resource and scope.",
);
const WATCH_SHARDS: (&str, &str) =
    ("apiserver_watch_shards_total", "[ALPHA] Number of active sharded watch connections broken by resource type.");
const FILTERED: (&str, &str) = (
    "apiserver_watch_filtered_events_total",
    "[ALPHA] Counter of events filtered out by shard selector during watch dispatch, broken by resource type.",
);
const LEASES: (&str, &str) = ("etcd_lease_object_counts", "[ALPHA] Number of objects attached to a single etcd lease.");

/// Registers the metrics of all resources.
pub(crate) fn register(resources: &[Arc<Resource>], registry: &Registry) -> Result<(), prometheus::Error> {
    // One entry for all versions of a resource.
    let mut seen = HashSet::new();
    let known = resources.iter().filter(|resource| seen.insert(resource.collection.prefix.clone()));
    let collections = known.map(|resource| {
        let name = resource.group_resource();
        Told { group: name.group.to_string(), resource: name.resource.to_string(), of: resource.collection.clone() }
    });
    let versions = resources.iter().map(|resource| {
        let name = resource.kind();
        let labels = [name.group.to_string(), name.version.to_string(), resource.description.plural.to_string()];
        Version { labels, sent: resource.sent.clone(), watch_lists: resource.watch_lists.clone() }
    });
    let (collections, versions): (Vec<_>, Vec<_>) = (collections.collect(), versions.collect());
    let native = registry.has_native_histograms();
    if native {
        count_natively(&collections, &versions, registry)?;
    }
    registry.register_counting(Families { histograms: !native, ..Families::new(collections, versions)? })
}

/// Has histograms of the registry count what the distributions do, which have no native buckets.
fn count_natively(collections: &[Told], versions: &[Version], registry: &Registry) -> Result<(), prometheus::Error> {
    let family = |(name, help): (&str, &str), of: Option<&Distribution>, labels: &[&str]| {
        let bounds = of.map_or(&[][..], Distribution::bounds).to_vec();
        keep(registry, HistogramVec::new(HistogramOpts::new(name, help).buckets(bounds), labels)?)
    };
    let follow = |distribution: &Distribution, family: &HistogramVec, labels: &[&str]| {
        let labels: Vec<String> = labels.iter().map(|label| (*label).to_owned()).collect();
        let family = family.clone();
        distribution.follow(move |value| {
            family.with_label_values(&labels.iter().map(String::as_str).collect::<Vec<_>>()).observe(value);
        });
    };
    let by_version = ["group", "resource", "version"];
    let (one, version) = (collections.first(), versions.first());
    let waits = family(WAITS, one.map(|told| told.of.cache.waits()), &["group", "resource"])?;
    let sizes = family(SENT_SIZES, version.map(|version| &*version.sent), &by_version)?;
    let lists = version.map(|version| &version.watch_lists[0].1);
    let lists = family(WATCH_LISTS, lists, &["group", "resource", "scope", "version"])?;
    let leases = family(LEASES, one.map(|told| &told.of.counts.leases), &[])?;
    for told in collections {
        follow(told.of.cache.waits(), &waits, &[&told.group, &told.resource]);
        follow(&told.of.counts.leases, &leases, &[]);
    }
    for Version { labels: [group, version, resource], sent, watch_lists } in versions {
        follow(sent, &sizes, &[group, resource, version]);
        for (scope, latencies) in watch_lists.iter() {
            follow(latencies, &lists, &[group, resource, scope, version]);
        }
    }
    Ok(())
}

struct Told {
    group: String,
    resource: String,
    of: Arc<Collection>,
}

/// Statistics of the watches of one version.
struct Version {
    /// Group, version and resource.
    labels: [String; 3],
    sent: Arc<Distribution>,
    watch_lists: Arc<[(&'static str, Distribution); 3]>,
}

struct Families {
    collections: Vec<Told>,
    versions: Vec<Version>,
    /// Watches of shards, and objects that they filtered out, with the feature gate for them.
    shards: Option<(IntGaugeVec, IntCounterVec)>,
    /// False if histograms of the registry count what these would tell.
    histograms: bool,
    /// Set at each scrape.
    sent: IntCounterVec,
    cached: [IntCounterVec; 3],
    stored: [IntCounterVec; 4],
    consistent: IntCounterVec,
    cache: [IntCounterVec; 5],
    undecodable: IntCounterVec,
    version: GaugeVec,
    capacity: GaugeVec,
    /// The descriptions of the histograms, whose samples are built by hand.
    described: [Gauge; 4],
}

impl Families {
    fn new(collections: Vec<Told>, versions: Vec<Version>) -> Result<Self, prometheus::Error> {
        let by_resource = &["group", "resource"][..];
        let sharded = collections.first().is_some_and(|told| told.of.features.enabled("ShardedListAndWatch"));
        let by_index = &["group", "resource", "index"];
        let counter = |name: &str, help: &str, labels: &[&str]| {
            IntCounterVec::new(Opts::new(name, format!("[ALPHA] {help}")), labels)
        };
        let gauge = |name: &str, help: &str| GaugeVec::new(Opts::new(name, format!("[ALPHA] {help}")), by_resource);
        Ok(Self {
            collections,
            versions,
            histograms: true,
            shards: if sharded {
                Some((
                    IntGaugeVec::new(Opts::new(WATCH_SHARDS.0, WATCH_SHARDS.1), by_resource)?,
                    IntCounterVec::new(Opts::new(FILTERED.0, FILTERED.1), by_resource)?,
                ))
            } else {
                None
            },
            sent: IntCounterVec::new(Opts::new(SENT.0, SENT.1), &["group", "version", "resource"])?,
            cached: [
                counter("apiserver_cache_list_total", "Number of LIST requests served from watch cache", by_index)?,
                counter(
                    "apiserver_cache_list_fetched_objects_total",
                    "Number of objects read from watch cache in the course of serving a LIST request",
                    by_index,
                )?,
                counter(
                    "apiserver_cache_list_returned_objects_total",
                    "Number of objects returned for a LIST request from watch cache",
                    by_resource,
                )?,
            ],
            stored: [
                counter("apiserver_storage_list_total", "Number of LIST requests served from storage", by_resource)?,
                counter(
                    "apiserver_storage_list_fetched_objects_total",
                    "Number of objects read from storage in the course of serving a LIST request",
                    by_resource,
                )?,
                counter(
                    "apiserver_storage_list_evaluated_objects_total",
                    "Number of objects tested in the course of serving a LIST request from storage",
                    by_resource,
                )?,
                counter(
                    "apiserver_storage_list_returned_objects_total",
                    "Number of objects returned for a LIST request from storage",
                    by_resource,
                )?,
            ],
            consistent: counter(
                "apiserver_watch_cache_consistent_read_total",
                "Counter for consistent reads from cache.",
                &["group", "resource", "success", "fallback"],
            )?,
            cache: [
                counter(
                    "apiserver_watch_cache_initializations_total",
                    "Counter of watch cache initializations broken by resource type.",
                    by_resource,
                )?,
                counter(
                    "apiserver_init_events_total",
                    "Counter of init events processed in watch cache broken by resource type.",
                    by_resource,
                )?,
                counter(
                    "apiserver_watch_cache_events_received_total",
                    "Counter of events received in watch cache broken by resource type.",
                    by_resource,
                )?,
                counter(
                    "apiserver_watch_cache_events_dispatched_total",
                    "Counter of events dispatched in watch cache broken by resource type.",
                    by_resource,
                )?,
                counter(
                    "apiserver_terminated_watchers_total",
                    "Counter of watchers closed due to unresponsiveness broken by resource type.",
                    by_resource,
                )?,
            ],
            undecodable: counter(
                "apiserver_storage_decode_errors_total",
                "Number of stored object decode errors split by object type",
                by_resource,
            )?,
            version: gauge(
                "apiserver_watch_cache_resource_version",
                "Current resource version of watch cache broken by resource type. This is truncated to the 15 least \
                 significant digits.",
            )?,
            capacity: gauge("watch_cache_capacity", "Total capacity of watch cache broken by resource type.")?,
            described: [
                Gauge::new(WAITS.0, WAITS.1)?,
                Gauge::new(LEASES.0, LEASES.1)?,
                Gauge::new(SENT_SIZES.0, SENT_SIZES.1)?,
                Gauge::new(WATCH_LISTS.0, WATCH_LISTS.1)?,
            ],
        })
    }

    fn counters(&self) -> impl Iterator<Item = &IntCounterVec> {
        self.cached
            .iter()
            .chain(&self.stored)
            .chain([&self.consistent, &self.sent, &self.undecodable])
            .chain(&self.cache)
    }

    fn tell(&self, told: &Told) {
        let labels = [told.group.as_str(), told.resource.as_str()];
        let counts = &told.of.counts;
        for (index, lists) in counts.cached() {
            let by_index = [labels[0], labels[1], index.as_str()];
            self.cached[0].with_label_values(&by_index).inc_by(lists.lists);
            self.cached[1].with_label_values(&by_index).inc_by(lists.fetched);
            self.cached[2].with_label_values(&labels).inc_by(lists.returned);
        }
        let stored = counts.stored();
        // A cache reads all objects once.
        let stats = told.of.cache.stats();
        let (read, objects) = (stats.initializations, stats.initial_events);
        let stored =
            [stored.lists + read, stored.fetched + objects, stored.evaluated + objects, stored.returned + objects];
        if stored[0] > 0 {
            for (family, count) in self.stored.iter().zip(stored) {
                family.with_label_values(&labels).inc_by(count);
            }
        }
        let (failed, served) = counts.consistent();
        for (success, count) in [("false", failed), ("true", served)] {
            if count > 0 {
                self.consistent.with_label_values(&[labels[0], labels[1], success, "false"]).inc_by(count);
            }
        }
        let undecodable = stats.undecodable + counts.undecodable();
        if undecodable > 0 {
            self.undecodable.with_label_values(&labels).inc_by(undecodable);
        }
        if let Some((watches, filtered)) = self.shards.as_ref().filter(|_| stats.shards.watched > 0) {
            watches.with_label_values(&labels).set(stats.shards.watchers as i64);
            filtered.with_label_values(&labels).reset();
            filtered.with_label_values(&labels).inc_by(stats.shards.filtered);
        }
        // An unused cache has no statistics.
        if stats.initializations == 0 {
            return;
        }
        let [initializations, initial, received, dispatched, terminated] = &self.cache;
        for (family, count) in [
            (initializations, stats.initializations),
            (initial, stats.told_initially),
            (received, stats.events_received),
            (dispatched, stats.events_dispatched),
            (terminated, stats.terminated),
        ] {
            if count > 0 {
                family.with_label_values(&labels).inc_by(count);
            }
        }
        let version = told.of.cache.progress().0 % VERSION_DIGITS;
        self.version.with_label_values(&labels).set(version as f64);
        self.capacity.with_label_values(&labels).set(stats.capacity as f64);
    }
}

impl Collector for Families {
    fn desc(&self) -> Vec<&Desc> {
        let gauges = [&self.version, &self.capacity].into_iter().flat_map(Collector::desc);
        let described = self.described.iter().filter(|_| self.histograms).flat_map(Collector::desc);
        let shards = self.shards.iter().flat_map(|(watches, filtered)| [watches.desc(), filtered.desc()].concat());
        self.counters().flat_map(Collector::desc).chain(gauges).chain(described).chain(shards).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        self.counters().for_each(IntCounterVec::reset);
        [&self.version, &self.capacity].into_iter().for_each(GaugeVec::reset);
        self.collections.iter().for_each(|told| self.tell(told));
        for Version { labels, sent, .. } in &self.versions {
            let (_, count, _) = sent.cumulative();
            if count > 0 {
                self.sent.with_label_values(labels).inc_by(count);
            }
        }
        let mut families: Vec<_> = self.counters().flat_map(Collector::collect).collect();
        families.extend(self.version.collect());
        families.extend(self.capacity.collect());
        families.extend(
            self.shards.iter().flat_map(|(watches, filtered)| [watches.collect(), filtered.collect()].concat()),
        );
        if self.histograms {
            self.tell_distributions(&mut families);
        }
        families.retain(|family| !family.get_metric().is_empty());
        families
    }
}

impl Families {
    fn tell_distributions(&self, families: &mut Vec<MetricFamily>) {
        let waits = self.collections.iter().filter_map(|told| {
            let labels = [("group", told.group.as_str()), ("resource", told.resource.as_str())];
            histogram(told.of.cache.waits(), &labels)
        });
        families.push(family(WAITS, waits.collect()));
        let sizes = self.versions.iter().filter_map(|Version { labels: [group, version, resource], sent, .. }| {
            histogram(sent, &[("group", group), ("resource", resource), ("version", version)])
        });
        families.push(family(SENT_SIZES, sizes.collect()));
        let watch_lists =
            self.versions.iter().flat_map(|Version { labels: [group, version, resource], watch_lists, .. }| {
                watch_lists.iter().filter_map(move |(scope, latencies)| {
                    let labels = [("group", &**group), ("resource", resource), ("scope", scope), ("version", version)];
                    histogram(latencies, &labels)
                })
            });
        families.push(family(WATCH_LISTS, watch_lists.collect()));
        // Only events have a time to live.
        let leases = self.collections.iter().filter_map(|told| histogram(&told.of.counts.leases, &[]));
        families.push(family(LEASES, leases.collect()));
    }
}

fn family((name, help): (&str, &str), metrics: Vec<Metric>) -> MetricFamily {
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(MetricType::HISTOGRAM);
    family.set_metric(metrics);
    family
}

/// Returns `None` if nothing was counted.
fn histogram(distribution: &Distribution, labels: &[(&str, &str)]) -> Option<Metric> {
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
    let mut metric = Metric::default();
    let labels = labels.iter().map(|(name, value)| {
        let mut label = LabelPair::default();
        label.set_name((*name).to_owned());
        label.set_value((*value).to_owned());
        label
    });
    metric.set_label(labels.collect());
    metric.set_histogram(histogram);
    Some(metric)
}
