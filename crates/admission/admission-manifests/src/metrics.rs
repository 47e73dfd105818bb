//! Metrics of reloads, under kube-apiserver's names.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_config::hash;
use binnacle_metrics::{Registry, keep};
use parking_lot::Mutex;
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts};

use crate::sort::Manifests;

/// The metric families for all directories.
#[derive(Clone)]
pub struct Metrics {
    reloads: IntCounterVec,
    time: GaugeVec,
    config: IntGaugeVec,
    /// The hash of this server's name.
    server: String,
    /// The hashes that `config` reports now.
    told: Arc<Mutex<HashMap<Manifests, String>>>,
}

impl Metrics {
    /// Registers the families. `server` is this server's name in its cluster.
    pub fn register(registry: &Registry, server: &str) -> Result<Self, prometheus::Error> {
        let name = |of: &str| format!("apiserver_manifest_admission_config_controller_{of}");
        let split = "of admission manifest configuration split by status, plugin, and apiserver identity.";
        let reloads =
            Opts::new(name("automatic_reloads_total"), format!("[ALPHA] Total number of automatic reloads {split}"));
        let time = Opts::new(
            name("automatic_reload_last_timestamp_seconds"),
            format!("[ALPHA] Timestamp of the last automatic reload {split}"),
        );
        let config = Opts::new(
            name("last_config_info"),
            "[ALPHA] Information about the last applied admission manifest configuration with hash as label, split by \
             plugin and apiserver identity.",
        );
        let labels = ["status", "plugin", "apiserver_id_hash"];
        Ok(Self {
            reloads: keep(registry, IntCounterVec::new(reloads, &labels)?)?,
            time: keep(registry, GaugeVec::new(time, &labels)?)?,
            config: keep(registry, IntGaugeVec::new(config, &["plugin", "apiserver_id_hash", "hash"])?)?,
            server: hash(server.as_bytes()),
            told: Arc::default(),
        })
    }

    /// Counts a successful reload and reports the hash of the files, which are in force now.
    pub(crate) fn loaded(&self, sort: Manifests, files: &str) {
        self.count(sort, "success");
        let before = self.told.lock().insert(sort, files.to_owned());
        if let Some(before) = before.filter(|before| before != files) {
            // An error means that the label values are absent already.
            let _ = self.config.remove_label_values(&[sort.plugin(), &self.server, &before]);
        }
        self.config.with_label_values(&[sort.plugin(), &self.server, files]).set(1);
    }

    /// Counts a failed reload.
    pub(crate) fn failed(&self, sort: Manifests) {
        self.count(sort, "failure");
    }

    fn count(&self, sort: Manifests, status: &str) {
        let labels = [status, sort.plugin(), &self.server];
        self.reloads.with_label_values(&labels).inc();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.time.with_label_values(&labels).set(now.as_secs_f64());
    }
}
