//! Background tasks for the stores: compaction, and metrics that must be measured.

use std::sync::Arc;
use std::time::Duration;

use binnacle_metrics::Registry;
use binnacle_registry::Resource;
use binnacle_storage_metrics::{FirstCount, count_objects, measure_databases, register_resources};
use binnacle_store::{Compactor, Revision, spawn_compactor};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::cluster_storage::ClusterStorage;
use crate::settings::Storage;
use crate::stores::Stores;

/// Background tasks, which end on drop.
pub(crate) struct StoreMaintenance {
    _compactors: Vec<Compactor>,
    tasks: Vec<JoinHandle<()>>,
    counted: FirstCount,
}

impl StoreMaintenance {
    pub(crate) fn start(
        cluster: &ClusterStorage,
        resources: &[Arc<Resource>],
        storage: &Storage,
        registry: &Registry,
    ) -> Result<Self, prometheus::Error> {
        let mut tasks = forget_compacted(cluster, resources);
        // The host maintains the stores for all clusters.
        let stores = (!cluster.is_logical()).then_some(&*cluster.stores);
        let interval = storage.compaction_interval.filter(|_| !storage.read_only);
        let compactors =
            stores.zip(interval).map(|(stores, every)| compactors(stores, cluster, every, storage.history_retention));
        register_resources(resources, registry)?;
        let mut counted = FirstCount::done();
        if let Some(every) = storage.count_metric_interval {
            let (task, first) = count_objects(resources, every, registry)?;
            tasks.push(task);
            counted = first;
        }
        let (embedded, clusters) =
            stores.map_or_else(Default::default, |stores| (stores.embedded(), stores.clusters().to_vec()));
        let has_database = !clusters.is_empty() || embedded.is_some();
        if let Some(every) = storage.size_metric_interval.filter(|_| has_database) {
            tasks.push(measure_databases(embedded, clusters, every, registry)?);
        }
        Ok(Self { _compactors: compactors.unwrap_or_default(), tasks, counted })
    }

    pub(crate) fn counted(&self) -> FirstCount {
        self.counted.clone()
    }
}

impl Drop for StoreMaintenance {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Starts one compactor for each store.
fn compactors(
    stores: &Stores,
    cluster: &ClusterStorage,
    every: Duration,
    retention: Option<Duration>,
) -> Vec<Compactor> {
    let compactor = |(at, store)| {
        let compactions = cluster.compactions.clone();
        spawn_compactor(store, every, retention.unwrap_or(every), move |revision| compactions.report(at, revision))
    };
    stores.all().into_iter().enumerate().map(compactor).collect()
}

/// Removes what was compacted from the caches of the cluster.
fn forget_compacted(cluster: &ClusterStorage, resources: &[Arc<Resource>]) -> Vec<JoinHandle<()>> {
    let follow = |(at, mut compacted): (usize, watch::Receiver<Revision>)| {
        let inside = resources.iter().filter(|resource| cluster.stores.index_of(&resource.group_resource()) == at);
        let caches: Vec<_> = inside.map(|resource| Arc::clone(&resource.collection)).collect();
        tokio::spawn(async move {
            while compacted.changed().await.is_ok() {
                let revision = *compacted.borrow_and_update();
                caches.iter().for_each(|collection| collection.cache.forget_before(revision));
            }
        })
    };
    cluster.compactions.subscribe().into_iter().enumerate().map(follow).collect()
}
