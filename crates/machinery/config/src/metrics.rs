//! Metrics of changed configuration files, under kube-apiserver's names.

use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_metrics::{Registry, keep};
use prometheus::{GaugeVec, IntCounterVec, IntGaugeVec, Opts};
use sha2::{Digest, Sha256};

/// The metrics of one file: `apiserver_SUBJECT_config_controller_...`.
#[derive(Clone)]
pub struct ReloadMetrics {
    reloads: IntCounterVec,
    time: GaugeVec,
    config: IntGaugeVec,
    /// The hash of this server's name.
    server: String,
}

impl ReloadMetrics {
    /// Registers the metrics of `authentication` or `authorization` (`subject`) for a server's name in the cluster.
    pub fn register(registry: &Registry, subject: &str, server: &str) -> Result<Self, prometheus::Error> {
        let name = |of: &str| format!("apiserver_{subject}_config_controller_{of}");
        let labels = ["status", "apiserver_id_hash"];
        let help = |what: &str| format!("{what} of {subject} configuration split by status and apiserver identity.");
        let reloads = Opts::new(name("automatic_reloads_total"), help("[BETA] Total number of automatic reloads"));
        let time = Opts::new(
            name("automatic_reload_last_timestamp_seconds"),
            help("[BETA] Timestamp of the last automatic reload"),
        );
        let config = Opts::new(
            name("last_config_info"),
            format!(
                "[ALPHA] Information about the last applied {subject} configuration with hash as label, split by apiserver \
                 identity."
            ),
        );
        Ok(Self {
            reloads: keep(registry, IntCounterVec::new(reloads, &labels)?)?,
            time: keep(registry, GaugeVec::new(time, &labels)?)?,
            config: keep(registry, IntGaugeVec::new(config, &["apiserver_id_hash", "hash"])?)?,
            server: hash(server.as_bytes()),
        })
    }

    /// Sets the file with which the server started.
    pub fn configured(&self, data: &[u8]) {
        self.config.reset();
        self.config.with_label_values(&[&self.server, &hash(data)]).set(1);
    }

    /// Counts a file that is now in use.
    pub fn reloaded(&self, data: &[u8]) {
        self.count("success");
        self.configured(data);
    }

    /// Counts a file that is not usable.
    pub fn failed(&self) {
        self.count("failure");
    }

    fn count(&self, status: &str) {
        let labels = [status, &self.server];
        self.reloads.with_label_values(&labels).inc();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.time.with_label_values(&labels).set(now.as_secs_f64());
    }
}

/// Returns the hash for a text that metrics must not show; empty for an empty text.
pub fn hash(data: &[u8]) -> String {
    if data.is_empty() {
        return String::new();
    }
    Sha256::digest(data).iter().fold("sha256:".to_owned(), |shown, byte| format!("{shown}{byte:02x}"))
}
