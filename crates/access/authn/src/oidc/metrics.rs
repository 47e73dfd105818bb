//! Metrics of JWT authenticators, with kube-apiserver's names. The labels are hashes of the issuer and the server ID.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use binnacle_config::hash;
use binnacle_metrics::{GaugeVec, HistogramVec, IntGaugeVec, Registry, Series, families};
use prometheus::core::Collector;

families! {
    #[derive(Clone)]
    struct Families {
        latency: HistogramVec = "apiserver_authentication_jwt_authenticator_latency_seconds"
            by ["result", "jwt_issuer_hash"]
            buckets [0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0],
            "[ALPHA] Latency of jwt authentication operations in seconds. This is the time spent authenticating a token for \
             cache miss only (i.e. when the token is not found in the cache).";
        fetched: GaugeVec = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_timestamp_seconds"
            by ["result", "jwt_issuer_hash", "apiserver_id_hash"],
            "[ALPHA] Timestamp of the last successful or failed JWKS fetch split by result, api server identity and jwt \
             issuer for the JWT authenticator.";
        key_set: IntGaugeVec = "apiserver_authentication_jwt_authenticator_jwks_fetch_last_key_set_info"
            by ["jwt_issuer_hash", "apiserver_id_hash", "hash"],
            "[ALPHA] Information about the last JWKS fetched by the JWT authenticator with hash as label, split by api \
             server identity and jwt issuer.";
    }
}

/// The families, common to all issuers.
#[derive(Clone)]
pub struct JwtMetrics {
    families: Families,
    /// False if fetches of keys are not recorded.
    records_fetches: bool,
    /// The hash of this server's ID.
    server: String,
}

/// The metrics of an issuer.
pub(super) struct IssuerMetrics {
    all: JwtMetrics,
    issuer: String,
    success: Series<HistogramVec>,
    failure: Series<HistogramVec>,
}

impl JwtMetrics {
    /// Registers the families. `server` is this server's ID in its cluster.
    pub fn register(registry: &Registry, server: &str) -> Result<Self, prometheus::Error> {
        let (families, server) = (Families::register(registry)?, hash(server.as_bytes()));
        Ok(Self { families, records_fetches: true, server })
    }

    /// Sets whether fetches of keys are recorded.
    #[must_use]
    pub fn recording_fetches(self, records_fetches: bool) -> Self {
        Self { records_fetches, ..self }
    }

    pub(super) fn of_issuer(&self, issuer: &str) -> IssuerMetrics {
        let issuer = hash(issuer.as_bytes());
        let latency = |result: &str| Series::new(&self.families.latency, &[result, &issuer]);
        IssuerMetrics { success: latency("success"), failure: latency("failure"), all: self.clone(), issuer }
    }

    /// Removes the metrics of an issuer that is no longer configured.
    pub(crate) fn forget(&self, issuer: &str) {
        let issuer = hash(issuer.as_bytes());
        for result in ["success", "failure"] {
            self.families.fetched.remove_label_values(&[result, &issuer, &self.server]);
        }
        self.forget_key_set(&issuer);
    }

    fn forget_key_set(&self, issuer: &str) {
        let is_of = |metric: &prometheus::proto::Metric, name: &str, value: &str| {
            metric.get_label().iter().any(|label| label.name() == name && label.value() == value)
        };
        for family in self.families.key_set.collect() {
            for metric in family.get_metric().iter().filter(|metric| is_of(metric, "jwt_issuer_hash", issuer)) {
                let set = metric.get_label().iter().find(|label| label.name() == "hash");
                if let Some(set) = set {
                    self.families.key_set.remove_label_values(&[issuer, &self.server, set.value()]);
                }
            }
        }
    }
}

impl IssuerMetrics {
    pub(super) fn record(&self, good: bool, took: Duration) {
        let latency = if good { &self.success } else { &self.failure };
        latency.with(|histogram| histogram.observe(took.as_secs_f64()));
    }

    /// Records a fetch of keys: the JWKS, or `None` for a failure.
    pub(super) fn fetched(&self, key_set: Option<&[u8]>) {
        if !self.all.records_fetches {
            return;
        }
        let result = if key_set.is_some() { "success" } else { "failure" };
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        self.all.families.fetched.with_label_values(&[result, &self.issuer, &self.all.server]).set(now.as_secs_f64());
        if let Some(key_set) = key_set {
            self.all.forget_key_set(&self.issuer);
            let labels = [&self.issuer, &self.all.server, &hash(key_set)];
            self.all.families.key_set.with_label_values(&labels).set(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_fetches_unless_disabled() {
        for records in [true, false] {
            let registry = Registry::new();
            let metrics = JwtMetrics::register(&registry, "here").unwrap().recording_fetches(records);
            let issuer = metrics.of_issuer("https://issuer.test");
            issuer.fetched(Some(b"{}"));
            issuer.fetched(None);
            let families = registry.gather();
            let has = |of: &str| families.iter().any(|family| family.name().ends_with(of));
            assert_eq!(has("jwks_fetch_last_timestamp_seconds"), records);
            assert_eq!(has("jwks_fetch_last_key_set_info"), records);
        }
    }
}
