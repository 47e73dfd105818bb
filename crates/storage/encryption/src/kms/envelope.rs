//! Encryption and decryption of values, with the encrypted seed of their keys.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;

use super::encrypted_object::{EncryptedObject, SOURCE_SEED, Source};
use super::plugin::Plugin;
use super::seed::DataKey;
use crate::metrics::{Direction, Metrics};
use crate::transform_result::{PlainValue, TransformError};

/// How long a decrypted seed stays cached after its last use.
const CACHE_TTL: Duration = Duration::from_secs(24 * 3600);
/// The maximum number of cached seeds. There are about as many seeds as key changes and server restarts; the limit
/// protects against a corrupt store.
const MAX_CACHED: usize = 10_000;

struct CachedDataKey {
    key: Arc<DataKey>,
    used: Instant,
}

/// Encrypts and decrypts values with data keys from a plugin.
pub(crate) struct Envelope {
    plugin: Arc<Plugin>,
    cached: Mutex<HashMap<Source, CachedDataKey>>,
}

impl Envelope {
    pub(crate) fn new(plugin: Arc<Plugin>) -> Self {
        Self { plugin, cached: Mutex::default() }
    }

    pub(crate) fn seal(&self, value: &[u8], key: &[u8], metrics: &Metrics) -> Result<Vec<u8>, TransformError> {
        let current = self.plugin.current()?;
        current.check_writable()?;
        // This counts as a cached key, and stays cached when the plugin's key changes.
        self.cache_key(current.object.source_of_key(), &current.key, metrics);
        let encrypted_data = current.key.seal(value, key)?;
        metrics.record_key_use(Direction::ToStorage, self.plugin.name(), &current.object.key_id);
        let object = EncryptedObject { encrypted_data, ..current.object.clone() };
        object.validate()?;
        Ok(object.encode_to_vec())
    }

    pub(crate) async fn open(&self, data: &Bytes, key: &[u8], metrics: &Metrics) -> Result<PlainValue, TransformError> {
        let object = EncryptedObject::decode(data.clone()).map_err(|error| TransformError::new(error.to_string()))?;
        object.validate()?;
        let current = self.plugin.current()?;
        let stale = object.key_id != current.object.key_id || object.source_type != current.object.source_type;
        let data_key = if object.source == current.object.source && !stale {
            Arc::clone(&current.key)
        } else {
            self.data_key(&object, metrics).await?
        };
        metrics.record_key_use(Direction::FromStorage, self.plugin.name(), &object.key_id);
        Ok(PlainValue { value: data_key.open(&object.encrypted_data, key)?.into(), stale })
    }

    /// Returns the data key of a value that was written with another seed than the current one.
    async fn data_key(&self, object: &EncryptedObject, metrics: &Metrics) -> Result<Arc<DataKey>, TransformError> {
        let source = object.source_of_key();
        let now = Instant::now();
        if let Some(cached) = self.cached.lock().get_mut(&source) {
            cached.used = now;
            return Ok(Arc::clone(&cached.key));
        }
        metrics.record_cache_miss();
        let plain = self.plugin.decrypt(object).await?;
        let key = Arc::new(match object.source_type {
            SOURCE_SEED => DataKey::seed(&plain)?,
            _ => DataKey::key(&plain)?,
        });
        self.cache_key(source, &key, metrics);
        Ok(key)
    }

    /// Caches a data key for reads.
    fn cache_key(&self, source: Source, key: &Arc<DataKey>, metrics: &Metrics) {
        let now = Instant::now();
        let mut cached = self.cached.lock();
        if let Some(cached) = cached.get_mut(&source) {
            cached.used = now;
            return;
        }
        if cached.len() >= MAX_CACHED {
            cached.retain(|_, cached| now.duration_since(cached.used) < CACHE_TTL / 2);
        }
        cached.retain(|_, cached| now.duration_since(cached.used) < CACHE_TTL);
        if cached.len() < MAX_CACHED {
            cached.insert(source, CachedDataKey { key: Arc::clone(key), used: now });
        }
        metrics.set_cached_sources(self.plugin.name(), cached.len());
    }
}
