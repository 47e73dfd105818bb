//! The numbers and sizes of stored objects, counted at intervals.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use binnacle_metrics::{ComputedGauge, Family, Registry, families, register_family};
use binnacle_registry::{Resource, ResourceStore};
use binnacle_store::{Count, RangeRequest, prefix_range};
use binnacle_supervise::supervise;
use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

/// Reports whether the objects of all resources have been counted once. Clones share the state.
#[derive(Clone, Debug, Default)]
pub struct FirstCount(Arc<AtomicBool>);

impl FirstCount {
    /// Returns a finished state, for a server that does not count objects.
    pub fn done() -> Self {
        Self(Arc::new(AtomicBool::new(true)))
    }

    /// Returns true once all objects have been counted.
    pub fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

families! {
    #[derive(Clone)]
    struct ObjectFamilies {
        objects: ComputedGauge = "apiserver_resource_objects" by ["group", "resource"],
            "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a fetching error, the \
             value will be -1.";
        deprecated: ComputedGauge = "apiserver_storage_objects" by ["resource"],
            "[STABLE] (Deprecated since 1.34.0) [DEPRECATED, consider using apiserver_resource_objects instead] Number of \
             stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1.";
        sizes: ComputedGauge = "apiserver_resource_size_estimate_bytes" by ["group", "resource"],
            "[ALPHA] Estimated size of stored objects in database. Estimate is based on sum of last observed sizes of \
             serialized objects. In case of a fetching error, the value will be -1.";
    }
}

/// The last counts. The metrics are made of them at each scrape: a server has hundreds of them, and many servers in one
/// process are rarely scraped. Clones share the state.
#[derive(Clone)]
struct ObjectCounts {
    families: ObjectFamilies,
    resources: Arc<[Arc<Resource>]>,
    /// One for each resource; none before the first count, and after a reset.
    counted: Arc<Mutex<Vec<ObjectTotals>>>,
}

/// The objects of a resource; -1 for what is unknown.
#[derive(Clone, Copy)]
struct ObjectTotals {
    objects: f64,
    bytes: f64,
}

impl ObjectTotals {
    async fn of(collection: &ResourceStore) -> Self {
        let range = prefix_range(&collection.prefix);
        let request = RangeRequest { range, revision: None, limit: 0, count: Count::Only };
        let objects = collection.store.range(request).await.map_or(-1.0, |found| found.count as f64);
        // Objects without readers are not cached, so their size is not available.
        let stats = collection.cache.stats();
        let unknown = objects < 0.0 || (objects > 0.0 && stats.objects == 0);
        Self { objects, bytes: if unknown { -1.0 } else { stats.value_bytes as f64 } }
    }
}

impl Collector for ObjectCounts {
    fn desc(&self) -> Vec<&Desc> {
        self.families.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let ObjectFamilies { objects, deprecated, sizes } = &self.families;
        let (mut of_objects, mut of_deprecated, mut of_sizes) = (Vec::new(), Vec::new(), Vec::new());
        for (resource, counted) in self.resources.iter().zip(self.counted.lock().iter()) {
            let name = resource.group_resource();
            let labels = [name.group.as_str(), name.resource.as_str()];
            of_objects.push(objects.metric(&labels, counted.objects));
            of_deprecated.push(deprecated.metric(&[&name.to_string()], counted.objects));
            of_sizes.push(sizes.metric(&labels, counted.bytes));
        }
        vec![objects.with(of_objects), deprecated.with(of_deprecated), sizes.with(of_sizes)]
    }
}

impl Family for ObjectCounts {
    fn reset(&self) {
        self.counted.lock().clear();
    }
}

/// Counts the objects of every resource until the task is aborted, once for all its versions. A failed count is
/// reported as -1.
///
/// # Errors
///
/// Returns an error if the metrics are already registered.
pub fn count_objects(
    resources: &[Arc<Resource>],
    every: Duration,
    registry: &Registry,
) -> Result<(JoinHandle<()>, FirstCount), prometheus::Error> {
    let mut seen = HashSet::new();
    let distinct = resources.iter().filter(|resource| seen.insert(resource.collection.prefix.clone()));
    let (families, resources) = (ObjectFamilies::build()?, distinct.cloned().collect());
    let counts = register_family(registry, ObjectCounts { families, resources, counted: Arc::default() })?;
    let first = FirstCount::default();
    let done = first.clone();
    let task = tokio::spawn(async move {
        supervise("object counts", || async {
            let mut ticker = interval(every);
            ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticker.tick().await;
                let mut counted = Vec::with_capacity(counts.resources.len());
                for resource in &*counts.resources {
                    counted.push(ObjectTotals::of(&resource.collection).await);
                }
                *counts.counted.lock() = counted;
                done.0.store(true, Ordering::Release);
            }
        })
        .await;
    });
    Ok((task, first))
}
