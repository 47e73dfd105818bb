//! A store whose values are encrypted.

use std::sync::Arc;

use binnacle_store::{KeyValue, LayeredStore, StoreError, ValueTransformer};
use bytes::Bytes;
use futures::future::BoxFuture;
use parking_lot::RwLock;

use crate::keys::StorageKeys;
use crate::metrics::{Metrics, TransformMetrics};
use crate::resources::Transformers;
use crate::transform_result::{PlainValue, TransformError};

/// An engine with encrypted values. Callers see plain values; revisions, leases and keys are those of the engine.
pub type EncryptedStore<S> = LayeredStore<Encryption, S>;

/// The transformers in use, shared by all stores of a server.
pub struct Encryption {
    keys: StorageKeys,
    current: Arc<RwLock<Arc<Transformers>>>,
    metrics: Metrics,
}

impl Encryption {
    pub fn new(keys: StorageKeys, transformers: Transformers, metrics: Metrics) -> Self {
        Self { keys, current: Arc::new(RwLock::new(Arc::new(transformers))), metrics }
    }

    /// Returns the same encryption for other keys: it always uses the same transformers as this one.
    #[must_use]
    pub fn for_keys(&self, keys: StorageKeys) -> Self {
        Self { keys, current: self.current.clone(), metrics: self.metrics.clone() }
    }

    /// Replaces the transformers. Calls in progress still use the old ones.
    pub fn replace(&self, transformers: Transformers) {
        *self.current.write() = Arc::new(transformers);
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Returns the transformers in use.
    pub fn transformers(&self) -> Arc<Transformers> {
        self.current.read().clone()
    }

    /// Returns the plain value of a stored value under the key.
    pub async fn read(&self, key: &Bytes, value: &Bytes) -> Result<Bytes, StoreError> {
        self.decrypt(key, value).await.map(|plain| plain.value)
    }

    async fn decrypt(&self, key: &Bytes, value: &Bytes) -> Result<PlainValue, StoreError> {
        let resource = self.keys.resource(key);
        let now = self.transformers();
        let metrics = TransformMetrics { metrics: &self.metrics, resource: resource.as_ref() };
        now.of(resource.as_ref()).open(value, key, metrics).await.map_err(|error| transform_error(key, error))
    }
}

impl ValueTransformer for Encryption {
    const MAY_BE_STALE: bool = true;

    fn transform_from_storage<'a>(&'a self, kvs: Vec<&'a mut KeyValue>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut values = Vec::with_capacity(kvs.len());
            for kv in &kvs {
                values.push(self.decrypt(&kv.key, &kv.value).await?.value);
            }
            kvs.into_iter().zip(values).for_each(|(kv, value)| kv.value = value);
            Ok(())
        })
    }

    fn transform_to_storage(&self, key: &Bytes, value: Bytes) -> Result<Bytes, StoreError> {
        let resource = self.keys.resource(key);
        let now = self.transformers();
        let metrics = TransformMetrics { metrics: &self.metrics, resource: resource.as_ref() };
        now.of(resource.as_ref())
            .seal(&value, key, metrics)
            .map(Bytes::from)
            .map_err(|error| transform_error(key, error))
    }

    fn is_stale<'a>(&'a self, kv: &'a KeyValue) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(async move { Ok(self.decrypt(&kv.key, &kv.value).await?.stale) })
    }
}

fn transform_error(key: &Bytes, error: TransformError) -> StoreError {
    StoreError::Transform { key: String::from_utf8_lossy(key).into_owned(), why: error.to_string() }
}
