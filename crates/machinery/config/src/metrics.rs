//! Metrics of changed configuration files, under kube-apiserver's names.

use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_metrics::{GaugeVec, IntCounterVec, IntGaugeVec, Registry, families};
use sha2::{Digest, Sha256};

families! {
    struct AuthenticationFamilies {
        reloads: IntCounterVec = "apiserver_authentication_config_controller_automatic_reloads_total"
            by ["status", "apiserver_id_hash"],
            "[BETA] Total number of automatic reloads of authentication configuration split by status and apiserver \
             identity.";
        time: GaugeVec = "apiserver_authentication_config_controller_automatic_reload_last_timestamp_seconds"
            by ["status", "apiserver_id_hash"],
            "[BETA] Timestamp of the last automatic reload of authentication configuration split by status and apiserver \
             identity.";
        config: IntGaugeVec = "apiserver_authentication_config_controller_last_config_info"
            by ["apiserver_id_hash", "hash"],
            "[ALPHA] Information about the last applied authentication configuration with hash as label, split by \
             apiserver identity.";
    }
}

families! {
    struct AuthorizationFamilies {
        reloads: IntCounterVec = "apiserver_authorization_config_controller_automatic_reloads_total"
            by ["status", "apiserver_id_hash"],
            "[BETA] Total number of automatic reloads of authorization configuration split by status and apiserver \
             identity.";
        time: GaugeVec = "apiserver_authorization_config_controller_automatic_reload_last_timestamp_seconds"
            by ["status", "apiserver_id_hash"],
            "[BETA] Timestamp of the last automatic reload of authorization configuration split by status and apiserver \
             identity.";
        config: IntGaugeVec = "apiserver_authorization_config_controller_last_config_info"
            by ["apiserver_id_hash", "hash"],
            "[ALPHA] Information about the last applied authorization configuration with hash as label, split by apiserver \
             identity.";
    }
}

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
    /// Registers the metrics of the authentication configuration for a server's name in the cluster.
    pub fn of_authentication(registry: &Registry, server: &str) -> Result<Self, prometheus::Error> {
        let AuthenticationFamilies { reloads, time, config } = AuthenticationFamilies::register(registry)?;
        Ok(Self { reloads, time, config, server: hash(server.as_bytes()) })
    }

    /// Registers the metrics of the authorization configuration for a server's name in the cluster.
    pub fn of_authorization(registry: &Registry, server: &str) -> Result<Self, prometheus::Error> {
        let AuthorizationFamilies { reloads, time, config } = AuthorizationFamilies::register(registry)?;
        Ok(Self { reloads, time, config, server: hash(server.as_bytes()) })
    }

    /// Sets the hash of the file in use.
    pub fn configured(&self, data: &[u8]) {
        self.config.reset();
        self.config.with_label_values(&[&self.server, &hash(data)]).set(1);
    }

    /// Counts a successful reload.
    pub fn reloaded(&self, data: &[u8]) {
        self.count("success");
        self.configured(data);
    }

    /// Counts a failed reload.
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

/// Returns the hash that metrics show in place of the text itself; empty for empty text.
pub fn hash(data: &[u8]) -> String {
    if data.is_empty() {
        return String::new();
    }
    Sha256::digest(data).iter().fold("sha256:".to_owned(), |shown, byte| format!("{shown}{byte:02x}"))
}
