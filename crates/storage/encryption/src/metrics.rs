//! kube-apiserver's metrics for encryption: encrypted and decrypted values, KMS plugins and their keys, and the
//! configuration in use.
//!
//! The IDs of servers and keys are hashed.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use binnacle_egress::plugin::{Code, code_name};
use binnacle_meta::GroupResource;
use binnacle_metrics::{
    GaugeVec, HistogramVec, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, LoneHistogram, Registry, families,
};
use parking_lot::Mutex;
use prometheus::exponential_buckets;
use sha2::{Digest, Sha256};

use crate::config_error::ConfigError;
use crate::transform_result::TransformError;

/// The maximum number of keys with labels. As in kube-apiserver, the labels of the oldest keys are removed.
const MAX_KEYS: usize = 100;

/// The direction of a transformation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    FromStorage,
    ToStorage,
}

families! {
    struct Families {
        durations: HistogramVec = "apiserver_storage_transformation_duration_seconds"
            by ["transformation_type", "transformer_prefix"] buckets exponential_buckets(5e-6, 2.0, 25)?,
            "[ALPHA] Latencies in seconds of value transformation operations.";
        operations: IntCounterVec = "apiserver_storage_transformation_operations_total"
            by ["resource", "transformation_type", "transformer_prefix", "status"],
            "[ALPHA] Total number of transformations. Successful transformation will have a status 'OK' and a varied status \
             string when the transformation fails. The status, resource, and transformation_type fields can be used for \
             alerting purposes. For example, you can monitor for encryption/decryption failures using the \
             transformation_type (e.g., from_storage for decryption and to_storage for encryption). Additionally, these \
             fields can be used to ensure that the correct transformers are applied to each resource.";
        misses: IntCounter = "apiserver_storage_envelope_transformation_cache_misses_total",
            "[ALPHA] Total number of cache misses while accessing key decryption key(KEK).";
        generation: LoneHistogram = "apiserver_storage_data_key_generation_duration_seconds"
            buckets exponential_buckets(5e-6, 2.0, 14)?,
            "[ALPHA] Latencies in seconds of data encryption key(DEK) generation operations.";
        generation_failures: IntCounter = "apiserver_storage_data_key_generation_failures_total",
            "[ALPHA] Total number of failed data encryption key(DEK) generation operations.";
        kms_durations: HistogramVec = "apiserver_envelope_encryption_kms_operations_latency_seconds"
            by ["provider_name", "method_name", "grpc_status_code"] buckets exponential_buckets(0.0001, 2.0, 20)?,
            "[ALPHA] KMS operation duration with gRPC error code status total.";
        key_uses: IntCounterVec = "apiserver_envelope_encryption_key_id_hash_total"
            by ["transformation_type", "provider_name", "key_id_hash", "apiserver_id_hash"],
            "[ALPHA] Number of times a keyID is used split by transformation type, provider, and apiserver identity.";
        key_last_used: GaugeVec = "apiserver_envelope_encryption_key_id_hash_last_timestamp_seconds"
            by ["transformation_type", "provider_name", "key_id_hash", "apiserver_id_hash"],
            "[ALPHA] The last time in seconds when a keyID was used.";
        key_last_in_status: GaugeVec = "apiserver_envelope_encryption_key_id_hash_status_last_timestamp_seconds"
            by ["provider_name", "key_id_hash", "apiserver_id_hash"],
            "[ALPHA] The last time in seconds when a keyID was returned by the Status RPC call.";
        invalid_keys: IntCounterVec = "apiserver_envelope_encryption_invalid_key_id_from_status_total"
            by ["provider_name", "error"],
            "[ALPHA] Number of times an invalid keyID is returned by the Status RPC call split by error.";
        cached_sources: IntGaugeVec = "apiserver_envelope_encryption_dek_source_cache_size" by ["provider_name"],
            "[ALPHA] Number of records in data encryption key (DEK) source cache. On a restart, this value is an \
             approximation of the number of decrypt RPC calls the server will make to the KMS plugin.";
        /// A metric of version 1 of the plugin API, which is not supported; exposed as in kube-apiserver.
        fill: IntGauge = "apiserver_envelope_encryption_dek_cache_fill_percent",
            "[ALPHA] Percent of the cache slots currently occupied by cached DEKs.";
        reloads: IntCounterVec = "apiserver_encryption_config_controller_automatic_reloads_total"
            by ["status", "apiserver_id_hash"],
            "[ALPHA] Total number of reload successes and failures of encryption configuration split by apiserver identity.";
        last_reload: GaugeVec = "apiserver_encryption_config_controller_automatic_reload_last_timestamp_seconds"
            by ["status", "apiserver_id_hash"],
            "[ALPHA] Timestamp of the last successful or failed automatic reload of encryption configuration split by \
             apiserver identity.";
        in_use: IntGaugeVec = "apiserver_encryption_config_controller_last_config_info" by ["apiserver_id_hash", "hash"],
            "[ALPHA] Information about the last applied encryption configuration with hash as label, split by apiserver \
             identity.";
    }
}

/// The metrics, shared by all stores of a server.
#[derive(Clone)]
pub struct Metrics(Arc<Shared>);

struct Shared {
    /// The hash of the server's identity.
    server: String,
    families: Families,
    label_history: Mutex<LabelHistory>,
}

/// Labels in the order of their first use.
#[derive(Default)]
struct LabelHistory {
    used: VecDeque<[String; 4]>,
    in_status: VecDeque<[String; 3]>,
    in_use: Option<String>,
}

/// The metrics and the resource of an encrypted or decrypted value.
#[derive(Clone, Copy)]
pub(crate) struct TransformMetrics<'a> {
    pub metrics: &'a Metrics,
    pub resource: Option<&'a GroupResource>,
}

// === impl Metrics ===

impl Metrics {
    /// Registers the metrics. `server` is the server's ID in its cluster.
    pub fn new(registry: &Registry, server: &str) -> Result<Self, prometheus::Error> {
        let families = Families::register(registry)?;
        Ok(Self(Arc::new(Shared { server: hash(server), families, label_history: Mutex::default() })))
    }

    /// Returns metrics that are not exposed, for tools.
    pub fn unregistered() -> Result<Self, ConfigError> {
        Self::new(&Registry::new(), "").map_err(|error| ConfigError(error.to_string()))
    }

    /// Records that a value was encrypted or decrypted with the key `key_id`.
    pub(crate) fn record_key_use(&self, direction: Direction, provider: &str, key_id: &str) {
        let labels = [direction.label().to_owned(), provider.to_owned(), hash(key_id), self.0.server.clone()];
        let mut label_history = self.0.label_history.lock();
        if let Some(oldest) = add_labels(&mut label_history.used, &labels) {
            let oldest: Vec<_> = oldest.iter().map(String::as_str).collect();
            self.0.families.key_uses.remove_label_values(&oldest);
            self.0.families.key_last_used.remove_label_values(&oldest);
        }
        self.0.families.key_uses.with_label_values(&labels).inc();
        self.0.families.key_last_used.with_label_values(&labels).set(now());
    }

    /// Records a plugin's key, as reported in its status.
    pub(crate) fn record_key_in_status(&self, provider: &str, key_id: &str) {
        let labels = [provider.to_owned(), hash(key_id), self.0.server.clone()];
        let mut label_history = self.0.label_history.lock();
        if let Some(oldest) = add_labels(&mut label_history.in_status, &labels) {
            let oldest: Vec<_> = oldest.iter().map(String::as_str).collect();
            self.0.families.key_last_in_status.remove_label_values(&oldest);
        }
        self.0.families.key_last_in_status.with_label_values(&labels).set(now());
    }

    pub(crate) fn record_invalid_key_id(&self, provider: &str, error: &str) {
        self.0.families.invalid_keys.with_label_values(&[provider, error]).inc();
    }

    /// Records the generation of a seed, or its failure.
    pub(crate) fn record_generation(&self, started: Instant, succeeded: bool) {
        match succeeded {
            true => self.0.families.generation.observe(started.elapsed().as_secs_f64()),
            false => self.0.families.generation_failures.inc(),
        }
    }

    /// Records a call to a plugin for the seed of a value.
    pub(crate) fn record_cache_miss(&self) {
        self.0.families.misses.inc();
    }

    /// Sets the number of cached seeds.
    pub(crate) fn set_cached_sources(&self, provider: &str, count: usize) {
        self.0.families.cached_sources.with_label_values(&[provider]).set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    /// Records a call to a plugin. `method` includes its service.
    pub(crate) fn record_call(&self, provider: &str, method: &str, started: Instant, failure: Option<Code>) {
        let labels = [provider, method, &code_name(failure.unwrap_or(Code::Ok))];
        self.0.families.kms_durations.with_label_values(&labels).observe(started.elapsed().as_secs_f64());
    }

    pub(crate) fn record_reload(&self, succeeded: bool) {
        let labels = [if succeeded { "success" } else { "failure" }, &self.0.server];
        self.0.families.reloads.with_label_values(&labels).inc();
        self.0.families.last_reload.with_label_values(&labels).set(now());
    }

    /// Records the hash of the configuration in use.
    pub fn in_use(&self, hash: &[u8; 32]) {
        let hash = format!("sha256:{}", hex(hash));
        let mut label_history = self.0.label_history.lock();
        if let Some(old) = label_history.in_use.replace(hash.clone()) {
            self.0.families.in_use.remove_label_values(&[&self.0.server, &old]);
        }
        self.0.families.in_use.with_label_values(&[&self.0.server, &hash]).set(1);
    }
}

impl TransformMetrics<'_> {
    /// Records the encryption or decryption of a value, or its failure.
    pub(crate) fn record(
        &self,
        direction: Direction,
        prefix: &[u8],
        started: Instant,
        failure: Option<&TransformError>,
    ) {
        let families = &self.metrics.0.families;
        let resource = self.resource.map(ToString::to_string).unwrap_or_default();
        let prefix = String::from_utf8_lossy(prefix);
        let status = match failure.map(TransformError::code) {
            None => code_name(Code::Ok),
            Some(Some(failure)) => code_name(failure),
            Some(None) => "unknown-non-grpc".to_owned(),
        };
        families.operations.with_label_values(&[&resource, direction.label(), &prefix, &status]).inc();
        if failure.is_none() {
            let duration = started.elapsed().as_secs_f64();
            families.durations.with_label_values(&[direction.label(), &prefix]).observe(duration);
        }
    }
}

impl Direction {
    fn label(self) -> &'static str {
        match self {
            Self::FromStorage => "from_storage",
            Self::ToStorage => "to_storage",
        }
    }
}

/// Adds labels, and returns the oldest ones if there are too many.
fn add_labels<const N: usize>(recent: &mut VecDeque<[String; N]>, labels: &[String; N]) -> Option<[String; N]> {
    if recent.contains(labels) {
        return None;
    }
    recent.push_back(labels.clone());
    if recent.len() > MAX_KEYS { recent.pop_front() } else { None }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}

fn hash(identity: &str) -> String {
    match identity {
        "" => String::new(),
        some => format!("sha256:{}", hex(&Sha256::digest(some.as_bytes()))),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
