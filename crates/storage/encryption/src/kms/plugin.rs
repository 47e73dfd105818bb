//! A KMS plugin: its health, and the current seed for writes.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use binnacle_meta::{Time, aggregate};
use binnacle_supervise::supervise;
use parking_lot::RwLock;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::client::{Client, DecryptRequest, EncryptRequest, StatusResponse};
use super::encrypted_object::{EncryptedObject, SOURCE_SEED, validate_key_id};
use super::seed::DataKey;
use crate::config::Kms;
use crate::metrics::Metrics;
use crate::transform_result::TransformError;

/// The interval between status requests to a healthy plugin.
const STATUS_INTERVAL: Duration = Duration::from_secs(60);
const STATUS_INTERVAL_UNHEALTHY: Duration = Duration::from_secs(10);
/// The times for which the outcomes of a health check are cached.
const RESULT_TTL: Duration = Duration::from_secs(20);
const RESULT_TTL_UNHEALTHY: Duration = Duration::from_secs(3);
/// How long a seed is used for writes after the plugin last confirmed its key as the current one. After an
/// administrator has changed the key and this time has passed, the old key is no longer used for writes.
const SEED_VALIDITY: Duration = Duration::from_secs(3 * 60);

/// A plugin in use. Dropping the last handle stops its status requests.
pub(crate) struct Plugin {
    name: String,
    client: Client,
    metrics: Metrics,
    current: RwLock<Option<Arc<CurrentSeed>>>,
    probe: Mutex<Probe>,
}

#[derive(Default)]
struct Probe {
    /// The version of the plugin API in its first status.
    version: Option<String>,
    answer: Option<(Result<(), String>, Instant)>,
}

/// The seed for writes.
pub(crate) struct CurrentSeed {
    pub key: Arc<DataKey>,
    /// The `EncryptedObject` without data.
    pub object: EncryptedObject,
    expires: SystemTime,
}

impl CurrentSeed {
    /// Returns an error if the plugin has not confirmed the key for too long. Reads are always possible.
    pub(crate) fn check_writable(&self) -> Result<(), TransformError> {
        let now = SystemTime::now();
        if now <= self.expires {
            return Ok(());
        }
        let (hash, expires, now) = (hash(&self.object.key_id), time(self.expires), time(now));
        let why = format!("encryptedDEKSource with keyID hash {hash:?} expired at {expires} (current time is {now})");
        Err(TransformError::new(why))
    }
}

/// Returns the hash of a key ID, for display.
fn hash(key_id: &str) -> String {
    if key_id.is_empty() {
        return String::new();
    }
    let digest = Sha256::digest(key_id.as_bytes());
    format!("sha256:{}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
}

impl Plugin {
    /// Requests the first seed, and starts to request the status in the background. A plugin that cannot be reached yet
    /// is not an error.
    pub(crate) async fn start(configuration: &Kms, metrics: &Metrics) -> Arc<Self> {
        let plugin = Arc::new(Self {
            name: configuration.name.clone(),
            client: Client::new(&configuration.name, &configuration.socket, configuration.timeout, metrics),
            metrics: metrics.clone(),
            current: RwLock::new(None),
            probe: Mutex::default(),
        });
        let healthy = plugin.check_and_log().await;
        let weak = Arc::downgrade(&plugin);
        tokio::spawn(supervise("kms plugin", move || {
            let (weak, mut healthy) = (weak.clone(), healthy);
            async move {
                loop {
                    tokio::time::sleep(if healthy { STATUS_INTERVAL } else { STATUS_INTERVAL_UNHEALTHY }).await;
                    let Some(plugin) = weak.upgrade() else { return };
                    healthy = plugin.check_and_log().await;
                }
            }
        }));
        plugin
    }

    async fn check_and_log(&self) -> bool {
        let answer = self.check().await;
        if let Err(error) = &answer {
            tracing::error!(name = self.name, %error, "kms plugin failed health check probe");
        }
        answer.is_ok()
    }

    /// Requests the status unless the last result is still valid, and updates the seed if the plugin's key has changed.
    pub(crate) async fn check(&self) -> Result<(), String> {
        let mut probe = self.probe.lock().await;
        if let Some((answer, when)) = &probe.answer {
            let ttl = if answer.is_ok() { RESULT_TTL } else { RESULT_TTL_UNHEALTHY };
            if when.elapsed() < ttl {
                return answer.clone();
            }
        }
        match self.client.status().await {
            Ok(status) => {
                let answer = self.validate_status(&mut probe, &status).await;
                probe.answer = Some((answer.clone(), Instant::now()));
                answer
            }
            Err(error) => {
                // As in kube-apiserver, the cached error has no prefix.
                probe.answer = Some((Err(error.to_string()), Instant::now()));
                let name = &self.name;
                Err(format!(
                    "failed to perform status section of the healthz check for KMS Provider {name}, error: {error}"
                ))
            }
        }
    }

    async fn validate_status(&self, probe: &mut Probe, status: &StatusResponse) -> Result<(), String> {
        let mut wrong = Vec::new();
        if status.healthz != "ok" {
            wrong.push(format!("got unexpected healthz status: {}", status.healthz));
        }
        if !["v2", "v2beta1"].contains(&status.version.as_str()) {
            wrong.push(format!("expected KMSv2 API version v2, got {}", status.version));
        } else {
            let first = probe.version.get_or_insert_with(|| status.version.clone());
            if *first != status.version {
                wrong.push(format!(
                    "KMSv2 API version should not change after the initial status response version {first}, got {}",
                    status.version
                ));
            }
        }
        match validate_key_id(&status.key_id) {
            Err(why) => {
                let kind = if status.key_id.is_empty() { "empty" } else { "too_long" };
                self.metrics.record_invalid_key_id(&self.name, kind);
                wrong.push(format!("got invalid KMSv2 KeyID hash {:?}: {why}", hash(&status.key_id)));
            }
            Ok(()) => {
                self.metrics.record_key_in_status(&self.name, &status.key_id);
                wrong.extend(self.update_seed(&status.key_id).await.err());
            }
        }
        if wrong.is_empty() {
            return Ok(());
        }
        Err(format!("kmsv2 Provider {} is not healthy, error: {}", self.name, aggregate(&wrong)))
    }

    /// Extends the validity of the seed if the plugin's key is unchanged; generates a new seed otherwise.
    async fn update_seed(&self, key_id: &str) -> Result<(), String> {
        // Read before the call, since the time is an upper bound.
        let expires = SystemTime::now() + SEED_VALIDITY;
        let old = self.current.read().clone();
        if let Some(old) = old.as_ref().filter(|old| old.object.key_id == key_id) {
            let current = CurrentSeed { key: Arc::clone(&old.key), object: old.object.clone(), expires };
            *self.current.write() = Some(Arc::new(current));
            return Ok(());
        }
        let uid = uuid::Uuid::new_v4().to_string();
        match self.generate_seed(&uid, expires).await {
            Ok(seed) if seed.object.key_id == key_id => {
                *self.current.write() = Some(Arc::new(seed));
                Ok(())
            }
            generated => {
                let (error, generated_id) = match &generated {
                    Ok(seed) => ("<nil>".to_owned(), hash(&seed.object.key_id)),
                    Err(error) => (error.clone(), String::new()),
                };
                let state = old.as_ref().map_or("got unexpected nil transformer", |_| "<nil>");
                let (state_id, state_until) = old.as_ref().map_or_else(
                    || (String::new(), "0001-01-01T00:00:00Z".to_owned()),
                    |old| (hash(&old.object.key_id), time(old.expires).to_string()),
                );
                Err(format!(
                    "failed to rotate DEK uid={uid:?}, useSeed=true, errState={state}, errGen={error}, \
                     statusKeyIDHash={:?}, encryptKeyIDHash={generated_id:?}, stateKeyIDHash={state_id:?}, \
                     expirationTimestamp={state_until}",
                    hash(key_id)
                ))
            }
        }
    }

    /// Generates a new seed and has it encrypted by the plugin.
    async fn generate_seed(&self, uid: &str, expires: SystemTime) -> Result<CurrentSeed, String> {
        let started = std::time::Instant::now();
        let generated = DataKey::generate();
        self.metrics.record_generation(started, generated.is_ok());
        let (key, plaintext) = generated.map_err(|error| error.to_string())?;
        let answer = self.client.encrypt(EncryptRequest { plaintext, uid: uid.to_owned() }).await;
        let answer = answer.map_err(|error| format!("failed to encrypt DEK, error: {error}"))?;
        let object = EncryptedObject {
            encrypted_data: Vec::new(),
            key_id: answer.key_id,
            source: answer.ciphertext,
            annotations: answer.annotations.into_iter().collect::<BTreeMap<_, _>>(),
            source_type: SOURCE_SEED,
        };
        object.validate_source().map_err(|error| error.to_string())?;
        Ok(CurrentSeed { key: Arc::new(key), object, expires })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the current seed for writes.
    pub(crate) fn current(&self) -> Result<Arc<CurrentSeed>, TransformError> {
        self.current.read().clone().ok_or_else(|| TransformError::new("got unexpected nil transformer"))
    }

    /// Has the seed or key of a value decrypted by the plugin.
    pub(crate) async fn decrypt(&self, object: &EncryptedObject) -> Result<Vec<u8>, TransformError> {
        let request = DecryptRequest {
            ciphertext: object.source.clone(),
            uid: uuid::Uuid::new_v4().to_string(),
            key_id: object.key_id.clone(),
            annotations: object.annotations.clone().into_iter().collect::<HashMap<_, _>>(),
        };
        match self.client.decrypt(request).await {
            Ok(answer) => Ok(answer.plaintext),
            Err(error) => Err(TransformError::from_call(format!("failed to decrypt DEK, error: {error}"), error.code)),
        }
    }
}

fn time(time: SystemTime) -> Time {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), 0)
}
