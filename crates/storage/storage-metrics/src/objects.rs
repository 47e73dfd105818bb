//! The numbers and sizes of stored objects, counted at intervals.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use binnacle_metrics::{Registry, families};
use binnacle_registry::Resource;
use binnacle_store::{RangeRequest, prefix_range};
use binnacle_supervise::supervise;
use prometheus::GaugeVec;
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
    struct ObjectFamilies {
        objects: GaugeVec = "apiserver_resource_objects" by ["group", "resource"],
            "[ALPHA] Number of stored objects at the time of last check split by kind. In case of a fetching error, the \
             value will be -1.";
        deprecated: GaugeVec = "apiserver_storage_objects" by ["resource"],
            "[STABLE] (Deprecated since 1.34.0) [DEPRECATED, consider using apiserver_resource_objects instead] Number of \
             stored objects at the time of last check split by kind. In case of a fetching error, the value will be -1.";
        sizes: GaugeVec = "apiserver_resource_size_estimate_bytes" by ["group", "resource"],
            "[ALPHA] Estimated size of stored objects in database. Estimate is based on sum of last observed sizes of \
             serialized objects. In case of a fetching error, the value will be -1.";
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
    let ObjectFamilies { objects, deprecated, sizes } = ObjectFamilies::register(registry)?;
    let mut seen = HashSet::new();
    let resources: Vec<_> =
        resources.iter().filter(|resource| seen.insert(resource.collection.prefix.clone())).cloned().collect();
    let counted = FirstCount::default();
    let first = counted.clone();
    let task = tokio::spawn(async move {
        supervise("object counts", || async {
            let mut ticker = interval(every);
            ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticker.tick().await;
                for resource in &resources {
                    let collection = &resource.collection;
                    let range = prefix_range(&collection.prefix);
                    let request = RangeRequest { range, revision: None, limit: 0, count_only: true };
                    let count = collection.store.range(request).await.map_or(-1.0, |found| found.count as f64);
                    let name = resource.group_resource();
                    objects.with_label_values(&[name.group.as_str(), name.resource.as_str()]).set(count);
                    deprecated.with_label_values(&[name.to_string()]).set(count);
                    // Objects without readers are not cached, so their size is not available.
                    let stats = collection.cache.stats();
                    let unknown = count < 0.0 || (count > 0.0 && stats.objects == 0);
                    let size = if unknown { -1.0 } else { stats.value_bytes as f64 };
                    sizes.with_label_values(&[name.group.as_str(), name.resource.as_str()]).set(size);
                }
                counted.0.store(true, Ordering::Release);
            }
        })
        .await;
    });
    Ok((task, first))
}
