//! The sizes of the stores' databases, measured at intervals.

use std::sync::Arc;
use std::time::Duration;

use binnacle_metrics::{GaugeVec, Registry, families};
use binnacle_store_embedded::EmbeddedStore;
use binnacle_store_etcd::EtcdStore;
use binnacle_supervise::supervise;
use tokio::task::JoinHandle;
use tokio::time::{MissedTickBehavior, interval};

families! {
    struct DatabaseFamilies {
        size: GaugeVec = "apiserver_storage_size_bytes" by ["storage_cluster_id"],
            "[STABLE] Size of the storage database file physically allocated in bytes.";
    }
}

/// Measures the databases of stores until the task is aborted.
///
/// # Errors
///
/// Returns an error if the metric is already registered.
pub fn measure_databases(
    embedded: Option<Arc<EmbeddedStore>>,
    clusters: Vec<Arc<EtcdStore>>,
    every: Duration,
    registry: &Registry,
) -> Result<JoinHandle<()>, prometheus::Error> {
    let DatabaseFamilies { size } = DatabaseFamilies::build()?;
    // Not added to the resettable metrics: the value comes from the store, so a reset does not apply.
    registry.register(size.clone())?;
    Ok(tokio::spawn(async move {
        supervise("database size", || async {
            let mut ticker = interval(every);
            ticker.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticker.tick().await;
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
