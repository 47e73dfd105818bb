//! Metrics of single clusters in the host: for a bounded number of them by name, and for all others together.

use std::collections::BTreeSet;
use std::sync::{Arc, Weak};

use binnacle_meta::Text;
use binnacle_metrics::{CounterVec, IntCounterVec, IntGaugeVec, Registry, families};
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;

use super::LogicalClusters;
use super::slot::{Activity, Slot};

/// The maximum number of clusters with series of their own. The busiest clusters get them, and keep them until they are
/// deleted: a counter must not change its meaning.
const MAX_NAMED: usize = 50;
/// The label of all other clusters, which is no name of a cluster.
const OTHERS: &str = "_others";

families! {
    struct Families {
        requests: IntCounterVec = "binnacle_logical_cluster_requests_total" by ["logical_cluster"],
            "Number of requests to a logical cluster since the start of its host.";
        refused: IntCounterVec = "binnacle_logical_cluster_refused_requests_total" by ["logical_cluster"],
            "Number of requests to a logical cluster that was suspended, deleted, or failed to start.";
        starts: IntCounterVec = "binnacle_logical_cluster_starts_total" by ["logical_cluster"],
            "Number of starts of a logical cluster, by requests or by its creation.";
        in_flight: IntGaugeVec = "binnacle_logical_cluster_requests_in_flight" by ["logical_cluster"],
            "Number of requests in flight, with watches.";
        waited: IntCounterVec = "binnacle_logical_cluster_waited_writes_total" by ["logical_cluster"],
            "Number of writes that waited because the logical cluster had many in the store.";
        waiting: IntGaugeVec = "binnacle_logical_cluster_waiting_writes" by ["logical_cluster"],
            "Number of such writes that wait now.";
        wait: CounterVec = "binnacle_logical_cluster_write_wait_seconds_total" by ["logical_cluster"],
            "Time that writes have waited because the logical cluster had many in the store.";
        awake: IntGaugeVec = "binnacle_logical_cluster_awake" by ["logical_cluster"],
            "1 while a logical cluster is running; the number of running ones for all others together.";
        objects: IntGaugeVec = "binnacle_logical_cluster_stored_objects" by ["logical_cluster"],
            "Number of objects in the store, if the quota limits them.";
        bytes: IntGaugeVec = "binnacle_logical_cluster_stored_bytes" by ["logical_cluster"],
            "Bytes of keys and values in the store, if the quota limits them.";
    }
}

/// Computes the metrics at each scrape.
struct ClusterMetrics {
    clusters: Weak<LogicalClusters>,
    families: Families,
    /// The clusters with series of their own.
    named: Mutex<BTreeSet<Text>>,
}

/// Registers the metrics of the clusters of a host.
pub(super) fn register(clusters: &Arc<LogicalClusters>, registry: &Registry) -> Result<(), prometheus::Error> {
    let families = Families::build()?;
    registry.register(ClusterMetrics { clusters: Arc::downgrade(clusters), families, named: Mutex::default() })
}

impl ClusterMetrics {
    fn set(&self, named: &mut BTreeSet<Text>, slots: &[Arc<Slot>]) {
        choose(named, slots.iter().map(|slot| (slot.name(), slot.activity().requests)));
        for slot in slots {
            let label = if named.contains(slot.name()) { slot.name() } else { OTHERS };
            self.families.add(label, &slot.activity());
        }
    }
}

impl Families {
    fn add(&self, label: &str, activity: &Activity) {
        let label = [label];
        self.requests.with_label_values(&label).inc_by(activity.requests);
        self.refused.with_label_values(&label).inc_by(activity.refused);
        self.starts.with_label_values(&label).inc_by(activity.starts);
        self.in_flight.with_label_values(&label).add(i64::try_from(activity.in_flight).unwrap_or(i64::MAX));
        self.awake.with_label_values(&label).add(i64::from(activity.is_awake));
        self.waited.with_label_values(&label).inc_by(activity.waited_writes);
        self.waiting.with_label_values(&label).add(i64::try_from(activity.waiting_writes).unwrap_or(i64::MAX));
        self.wait.with_label_values(&label).inc_by(activity.write_wait.as_secs_f64());
        if let Some(amount) = activity.stored {
            self.objects.with_label_values(&label).add(amount.objects);
            self.bytes.with_label_values(&label).add(amount.bytes);
        }
    }
}

/// Removes the clusters that do not exist any more, and fills the free places with the busiest others.
fn choose<'a>(named: &mut BTreeSet<Text>, clusters: impl Iterator<Item = (&'a Text, u64)>) {
    let mut clusters: Vec<_> = clusters.collect();
    let existing: BTreeSet<&Text> = clusters.iter().map(|(name, _)| *name).collect();
    named.retain(|name| existing.contains(name));
    clusters.retain(|(name, requests)| *requests > 0 && !named.contains(*name));
    clusters.sort_by_key(|(name, requests)| (std::cmp::Reverse(*requests), *name));
    let free = MAX_NAMED.saturating_sub(named.len());
    named.extend(clusters.into_iter().take(free).map(|(name, _)| name.clone()));
}

impl Collector for ClusterMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.families.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(clusters) = self.clusters.upgrade() else { return Vec::new() };
        // Held to the end: scrapes at the same time use the same families.
        let mut named = self.named.lock();
        self.families.reset();
        let slots: Vec<_> = clusters.slots.read().values().cloned().collect();
        self.set(&mut named, &slots);
        self.families.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn busiest_clusters_keep_their_series() {
        let names: Vec<Text> = (0..100).map(|n| Text::from(format!("c{n:02}"))).collect();
        let mut named = BTreeSet::new();
        let requests = |n: usize| if n < 10 { 0 } else { n as u64 };
        choose(&mut named, names.iter().enumerate().map(|(n, name)| (name, requests(n))));
        assert_eq!(named.len(), MAX_NAMED);
        assert!(named.contains("c99") && named.contains("c50") && !named.contains("c49"));
        // Another order of requests changes nothing, and a deleted cluster leaves its place to the busiest other.
        let rest = names.iter().enumerate().filter(|(n, _)| *n != 70);
        choose(&mut named, rest.map(|(n, name)| (name, 1000 - n as u64)));
        assert_eq!(named.len(), MAX_NAMED);
        assert!(!named.contains("c70") && named.contains("c00") && named.contains("c99"));
    }
}
