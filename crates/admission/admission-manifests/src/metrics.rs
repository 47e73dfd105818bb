//! Metrics of reloads, with kube-apiserver's names.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_config::hash;
use binnacle_metrics::{GaugeVec, IntCounterVec, IntGaugeVec, Registry, families};
use parking_lot::Mutex;

use crate::manifest_type::ManifestType;

families! {
    #[derive(Clone)]
    struct Families {
        reloads: IntCounterVec = "apiserver_manifest_admission_config_controller_automatic_reloads_total"
            by ["status", "plugin", "apiserver_id_hash"],
            "[ALPHA] Total number of automatic reloads of admission manifest configuration split by status, plugin, and \
             apiserver identity.";
        time: GaugeVec = "apiserver_manifest_admission_config_controller_automatic_reload_last_timestamp_seconds"
            by ["status", "plugin", "apiserver_id_hash"],
            "[ALPHA] Timestamp of the last automatic reload of admission manifest configuration split by status, plugin, \
             and apiserver identity.";
        config: IntGaugeVec = "apiserver_manifest_admission_config_controller_last_config_info"
            by ["plugin", "apiserver_id_hash", "hash"],
            "[ALPHA] Information about the last applied admission manifest configuration with hash as label, split by \
             plugin and apiserver identity.";
    }
}

/// The metric families, common to all directories.
#[derive(Clone)]
pub struct Metrics {
    families: Families,
    /// The hash of this server's ID.
    server: String,
    /// The hashes that are currently reported.
    reported: Arc<Mutex<HashMap<ManifestType, String>>>,
}

impl Metrics {
    /// Registers the families. `server` is this server's ID in its cluster.
    pub fn register(registry: &Registry, server: &str) -> Result<Self, prometheus::Error> {
        let families = Families::register(registry)?;
        Ok(Self { families, server: hash(server.as_bytes()), reported: Arc::default() })
    }

    /// Counts a successful reload and reports the hash of the loaded files.
    pub(crate) fn loaded(&self, manifest_type: ManifestType, files: &str) {
        self.count(manifest_type, "success");
        let before = self.reported.lock().insert(manifest_type, files.to_owned());
        if let Some(before) = before.filter(|before| before != files) {
            self.families.config.remove_label_values(&[manifest_type.plugin(), &self.server, &before]);
        }
        self.families.config.with_label_values(&[manifest_type.plugin(), &self.server, files]).set(1);
    }

    /// Counts a failed reload.
    pub(crate) fn failed(&self, manifest_type: ManifestType) {
        self.count(manifest_type, "failure");
    }

    fn count(&self, manifest_type: ManifestType, status: &str) {
        let labels = [status, manifest_type.plugin(), &self.server];
        self.families.reloads.with_label_values(&labels).inc();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.families.time.with_label_values(&labels).set(now.as_secs_f64());
    }
}
