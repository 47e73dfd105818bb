//! Background tasks for the stores: compaction, and metrics that must be measured.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use binnacle_metrics::{Registry, families};
use binnacle_registry::Resource;
use binnacle_store::{Compactor, RangeRequest, prefix_range, spawn_compactor};
use binnacle_supervise::supervise;
use prometheus::GaugeVec;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

use crate::settings::Storage;
use crate::stores::Stores;

/// Background tasks, which end on drop.
pub(crate) struct Upkeep {
    _compactors: Vec<Compactor>,
    tasks: Vec<JoinHandle<()>>,
    counted: Counted,
}

/// True when the objects of all resources were counted, or if they are not counted at all.
#[derive(Clone, Debug)]
pub(crate) struct Counted(Arc<AtomicBool>);

impl Counted {
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }
}

impl Upkeep {
    pub(crate) fn start(
        stores: &Stores,
        resources: &[Arc<Resource>],
        storage: &Storage,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let compactors = storage.compaction_interval.map(|every| compactors(stores, resources, every));
        let mut tasks = Vec::new();
        crate::storage_metrics::register(resources, registry)?;
        let counted = Counted(Arc::new(AtomicBool::new(storage.count_metric_interval.is_none())));
        if let Some(every) = storage.count_metric_interval {
            tasks.push(count_objects(resources, every, counted.clone(), registry)?);
        }
        let has_database = !stores.clusters().is_empty() || stores.embedded().is_some();
        if let Some(every) = storage.size_metric_interval.filter(|_| has_database) {
            tasks.push(measure_databases(stores, every, registry)?);
        }
        Ok(Self { _compactors: compactors.unwrap_or_default(), tasks, counted })
    }

    pub(crate) fn counted(&self) -> Counted {
        self.counted.clone()
    }
}

impl Drop for Upkeep {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Starts one compactor for each store, which reports its revisions to the caches of that store.
fn compactors(stores: &Stores, resources: &[Arc<Resource>], every: Duration) -> Vec<Compactor> {
    let compactor = |(at, store)| {
        let inside = resources.iter().filter(|resource| stores.place_of(&resource.group_resource()) == at);
        let caches: Vec<_> = inside.map(|resource| Arc::clone(&resource.collection)).collect();
        spawn_compactor(store, every, move |revision| {
            caches.iter().for_each(|collection| collection.cache.forget_before(revision));
        })
    };
    stores.all().into_iter().enumerate().map(compactor).collect()
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

families! {
    struct DatabaseFamilies {
        size: GaugeVec = "apiserver_storage_size_bytes" by ["storage_cluster_id"],
            "[STABLE] Size of the storage database file physically allocated in bytes.";
    }
}

/// Counts the objects of every resource, once for all its versions. A failed count is -1.
fn count_objects(
    resources: &[Arc<Resource>],
    every: Duration,
    counted: Counted,
    registry: &Registry,
) -> Result<JoinHandle<()>, prometheus::Error> {
    let ObjectFamilies { objects, deprecated, sizes } = ObjectFamilies::register(registry)?;
    let mut seen = HashSet::new();
    let resources: Vec<_> =
        resources.iter().filter(|resource| seen.insert(resource.collection.prefix.clone())).cloned().collect();
    Ok(tokio::spawn(async move {
        supervise("object counts", || async {
            let mut turn = interval(every);
            turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                turn.tick().await;
                for resource in &resources {
                    let collection = &resource.collection;
                    let range = prefix_range(&collection.prefix);
                    let request = RangeRequest { range, revision: None, limit: 0, count_only: true };
                    let count = collection.store.range(request).await.map_or(-1.0, |found| found.count as f64);
                    let name = resource.group_resource();
                    objects.with_label_values(&[name.group.as_str(), name.resource.as_str()]).set(count);
                    deprecated.with_label_values(&[name.to_string()]).set(count);
                    // Objects without readers are not in the cache, so their size is not known.
                    let stats = collection.cache.stats();
                    let unknown = count < 0.0 || (count > 0.0 && stats.objects == 0);
                    let size = if unknown { -1.0 } else { stats.value_bytes as f64 };
                    sizes.with_label_values(&[name.group.as_str(), name.resource.as_str()]).set(size);
                }
                counted.0.store(true, Ordering::Release);
            }
        })
        .await;
    }))
}

fn measure_databases(
    stores: &Stores,
    every: Duration,
    registry: &Registry,
) -> Result<JoinHandle<()>, prometheus::Error> {
    let DatabaseFamilies { size } = DatabaseFamilies::build()?;
    // Not kept: a reset does not forget what is read from elsewhere.
    registry.register(size.clone())?;
    let clusters = stores.clusters().to_vec();
    let embedded = stores.embedded();
    Ok(tokio::spawn(async move {
        supervise("database size", || async {
            let mut turn = interval(every);
            turn.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                turn.tick().await;
                if let Some(embedded) = &embedded {
                    size.with_label_values(&["embedded"]).set(embedded.stats().disk_bytes as f64);
                }
                for (n, cluster) in clusters.iter().enumerate() {
                    match cluster.database_size().await {
                        Ok(bytes) => size.with_label_values(&[format!("etcd-{n}")]).set(bytes as f64),
                        Err(error) => tracing::debug!(%error, "etcd did not tell the size of its database"),
                    }
                }
            }
        })
        .await;
    }))
}
