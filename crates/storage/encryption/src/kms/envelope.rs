//! Values with the encrypted seed of their keys: the `EncryptedObject` message.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_meta::{FieldErrors, FieldPath, aggregate};
use binnacle_validation::domains::fully_qualified_domain_name;
use bytes::Bytes;
use parking_lot::Mutex;
use prost::Message;

use super::plugin::Plugin;
use super::seed::DataKey;
use crate::metrics::{Direction, Metrics};
use crate::transform::{PlainValue, TransformError};

/// How long a decrypted seed stays cached after its last use.
const CACHE_TTL: Duration = Duration::from_secs(24 * 3600);
/// The maximum number of cached seeds. There are about as many seeds as key changes and server restarts; the limit
/// protects against a corrupt store.
const MAX_CACHED: usize = 10_000;
const MAX_ANNOTATIONS: usize = 32 * 1024;
const MAX_KEY_ID: usize = 1024;
const MAX_SOURCE: usize = 1024;

/// The source types: the data key itself, or a seed.
pub(crate) const SOURCE_KEY: i32 = 0;
pub(crate) const SOURCE_SEED: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    pub encrypted_data: Vec<u8>,
    #[prost(string, tag = "2")]
    pub key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    pub source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub annotations: BTreeMap<String, Vec<u8>>,
    #[prost(int32, tag = "5")]
    pub source_type: i32,
}

impl EncryptedObject {
    /// Validates an object as kube-apiserver does on every read and write.
    pub(crate) fn validate(&self) -> Result<(), TransformError> {
        let invalid = |why: String| Err(TransformError::new(why));
        if ![SOURCE_KEY, SOURCE_SEED].contains(&self.source_type) {
            return invalid(format!("unknown encryptedDEKSourceType: {}", self.source_type));
        }
        if self.encrypted_data.is_empty() {
            return invalid("encrypted data is empty".to_owned());
        }
        self.validate_source()
    }

    /// Validates everything except the data, like [`Self::validate`].
    pub(crate) fn validate_source(&self) -> Result<(), TransformError> {
        let invalid = |why: String| Err(TransformError::new(why));
        match self.source.len() {
            0 => return invalid("failed to validate encrypted DEK source: encrypted DEK source is empty".to_owned()),
            size if size > MAX_SOURCE => {
                return invalid(format!(
                    "failed to validate encrypted DEK source: encrypted DEK source is {size} bytes, which exceeds the \
                     max size of {MAX_SOURCE}"
                ));
            }
            _ => {}
        }
        if let Err(why) = validate_key_id(&self.key_id) {
            return invalid(format!("failed to validate key id: {why}"));
        }
        let mut why = Vec::new();
        for name in self.annotations.keys() {
            let mut errors = FieldErrors::default();
            fully_qualified_domain_name(&FieldPath::new("annotations"), name, &mut errors);
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            if !errors.is_empty() {
                why.push(aggregate(&errors));
            }
        }
        let size: usize = self.annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > MAX_ANNOTATIONS {
            why.push(format!("total size of annotations is {size}, which exceeds the max size of {MAX_ANNOTATIONS}"));
        }
        if !why.is_empty() {
            return invalid(format!("failed to validate annotations: {}", aggregate(&why)));
        }
        Ok(())
    }

    /// Returns the source under which the data key is cached.
    fn source_of_key(&self) -> Source {
        Source {
            source_type: self.source_type,
            source: self.source.clone(),
            key_id: self.key_id.clone(),
            annotations: self.annotations.clone(),
        }
    }
}

pub(crate) fn validate_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("keyID is empty".to_owned()),
        size if size > MAX_KEY_ID => Err(format!("keyID is {size} bytes, which exceeds the max size of {MAX_KEY_ID}")),
        _ => Ok(()),
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct Source {
    source_type: i32,
    source: Vec<u8>,
    key_id: String,
    annotations: BTreeMap<String, Vec<u8>>,
}

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

#[cfg(test)]
mod tests {
    use super::*;

    /// Validates a value whose fields are valid except for the changed ones.
    fn check(change: impl FnOnce(&mut EncryptedObject), want: &str) {
        let mut object = EncryptedObject {
            encrypted_data: b"data".to_vec(),
            key_id: "1".to_owned(),
            source: b"source".to_vec(),
            annotations: BTreeMap::new(),
            source_type: SOURCE_SEED,
        };
        change(&mut object);
        assert_eq!(object.validate().map_err(|error| error.to_string()).err().unwrap_or_default(), want);
    }

    fn annotate(name: &str, size: usize) -> impl FnOnce(&mut EncryptedObject) {
        let annotations = [(name.to_owned(), vec![0; size])].into();
        move |object| object.annotations = annotations
    }

    #[test]
    fn limits_sizes_and_types_of_stored_values() {
        let source = "failed to validate encrypted DEK source: encrypted DEK source";
        check(|_| {}, "");
        check(|object| object.source_type = SOURCE_KEY, "");
        check(|object| object.source_type = 2, "unknown encryptedDEKSourceType: 2");
        check(|object| object.encrypted_data.clear(), "encrypted data is empty");
        check(|object| object.source.clear(), &format!("{source} is empty"));
        check(|object| object.source = vec![0; 1024], "");
        let too_large = format!("{source} is 1025 bytes, which exceeds the max size of 1024");
        check(|object| object.source = vec![0; 1025], &too_large);
        check(|object| object.key_id.clear(), "failed to validate key id: keyID is empty");
        check(|object| object.key_id = "k".repeat(1024), "");
        let too_long = "failed to validate key id: keyID is 1025 bytes, which exceeds the max size of 1024";
        check(|object| object.key_id = "k".repeat(1025), too_long);
    }

    #[test]
    fn validates_names_and_total_size_of_annotations() {
        let invalid = "failed to validate annotations: ";
        check(annotate("a.example.com", 32 * 1024 - 13), "");
        let total = format!("{invalid}total size of annotations is 32769, which exceeds the max size of 32768");
        check(annotate("a.example.com", 32 * 1024 - 12), &total);
        let name =
            "annotations: Invalid value: \"example\": should be a domain with at least two segments separated by dots";
        check(annotate("example", 0), &format!("{invalid}{name}"));
    }
}
