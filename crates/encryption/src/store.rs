//! A store whose values are encrypted.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use binnacle_store::{
    Event, KeyValue, LeaseId, Op, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse, Watch,
    WatchMessage,
};
use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;
use parking_lot::RwLock;

use crate::keys::StorageKeys;
use crate::metrics::{Metrics, Observed};
use crate::resources::Transformers;
use crate::transform::{Opened, TransformError};

/// An engine behind encryption. Everything above sees plain values; revisions, leases and keys are the engine's.
pub struct EncryptedStore<S: ?Sized> {
    encryption: Arc<Encryption>,
    inner: Arc<S>,
}

/// How values are kept now: one for all stores of a server.
pub struct Encryption {
    keys: StorageKeys,
    current: RwLock<Arc<Transformers>>,
    metrics: Metrics,
}

impl<S: Store + ?Sized> EncryptedStore<S> {
    pub fn new(inner: Arc<S>, encryption: Arc<Encryption>) -> Self {
        Self { encryption, inner }
    }
}

impl Encryption {
    pub fn new(keys: StorageKeys, transformers: Transformers, metrics: Metrics) -> Self {
        Self { keys, current: RwLock::new(Arc::new(transformers)), metrics }
    }

    /// From now on values are read and written so. What is under way ends as it began.
    pub fn replace(&self, transformers: Transformers) {
        *self.current.write() = Arc::new(transformers);
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// What is in use.
    pub fn now(&self) -> Arc<Transformers> {
        self.current.read().clone()
    }

    /// The plain value of what an engine holds under the key.
    pub async fn read(&self, key: &Bytes, value: &Bytes) -> Result<Bytes, StoreError> {
        self.open(key, value).await.map(|opened| opened.value)
    }

    async fn open(&self, key: &Bytes, value: &Bytes) -> Result<Opened, StoreError> {
        let resource = self.keys.resource(key);
        let now = self.now();
        let observed = Observed { metrics: &self.metrics, resource: resource.as_ref() };
        now.of(resource.as_ref()).open(value, key, observed).await.map_err(|error| unable(key, error))
    }

    fn seal(&self, key: &Bytes, value: &Bytes) -> Result<Bytes, StoreError> {
        let resource = self.keys.resource(key);
        let now = self.now();
        let observed = Observed { metrics: &self.metrics, resource: resource.as_ref() };
        now.of(resource.as_ref()).seal(value, key, observed).map(Bytes::from).map_err(|error| unable(key, error))
    }

    async fn open_kv(&self, mut kv: KeyValue) -> Result<KeyValue, StoreError> {
        kv.value = self.open(&kv.key, &kv.value).await?.value;
        Ok(kv)
    }

    async fn open_some(&self, kv: Option<KeyValue>) -> Result<Option<KeyValue>, StoreError> {
        match kv {
            Some(kv) => self.open_kv(kv).await.map(Some),
            None => Ok(None),
        }
    }

    /// What was there before may have been under a key that is gone. It stays as it was kept then, for whoever wants to
    /// see it: the change itself can be read, and a watch must not miss it.
    async fn open_event(&self, event: Event) -> Result<Event, StoreError> {
        Ok(match event {
            Event::Put { kv, previous } => {
                Event::Put { kv: self.open_kv(kv).await?, previous: self.open_previous(previous).await }
            }
            Event::Delete { key, revision, previous } => {
                Event::Delete { key, revision, previous: self.open_previous(previous).await }
            }
        })
    }

    async fn open_previous(&self, previous: Option<KeyValue>) -> Option<KeyValue> {
        let mut kv = previous?;
        if let Ok(opened) = self.open(&kv.key, &kv.value).await {
            kv.value = opened.value;
        }
        Some(kv)
    }

    async fn open_message(&self, message: WatchMessage) -> Result<WatchMessage, StoreError> {
        Ok(match message {
            WatchMessage::Events(events) => {
                let mut opened = Vec::with_capacity(events.len());
                for event in events {
                    opened.push(self.open_event(event).await?);
                }
                WatchMessage::Events(opened)
            }
            progress @ WatchMessage::Progress(_) => progress,
        })
    }
}

fn unable(key: &Bytes, error: TransformError) -> StoreError {
    StoreError::Transform { key: String::from_utf8_lossy(key).into_owned(), why: error.to_string() }
}

impl<S: Store + ?Sized> Store for EncryptedStore<S> {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.inner.current_revision()
    }

    fn get(
        &self,
        key: Bytes,
        revision: Option<Revision>,
    ) -> BoxFuture<'_, Result<(Option<KeyValue>, Revision), StoreError>> {
        Box::pin(async move {
            let (kv, revision) = self.inner.get(key, revision).await?;
            Ok((self.encryption.open_some(kv).await?, revision))
        })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, StoreError>> {
        Box::pin(async move {
            let mut response = self.inner.range(request).await?;
            for kv in &mut response.kvs {
                kv.value = self.encryption.open(&kv.key, &kv.value).await?.value;
            }
            Ok(response)
        })
    }

    fn txn(&self, mut txn: Txn) -> BoxFuture<'_, Result<TxnResponse, StoreError>> {
        Box::pin(async move {
            if let Op::Put { value, .. } = &mut txn.op {
                *value = self.encryption.seal(&txn.key, value)?;
            }
            Ok(match self.inner.txn(txn).await? {
                // The write is done, whatever was there before and whether or not it can be read.
                TxnResponse::Done { revision, previous } => {
                    TxnResponse::Done { revision, previous: self.encryption.open_some(previous).await.unwrap_or(None) }
                }
                TxnResponse::Unmet { current, revision } => {
                    TxnResponse::Unmet { current: self.encryption.open_some(current).await?, revision }
                }
            })
        })
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        Box::pin(async move {
            let Watch { messages, control } = self.inner.watch(range, after).await?;
            let encryption = Arc::clone(&self.encryption);
            let messages = messages.then(move |message| {
                let encryption = Arc::clone(&encryption);
                async move { encryption.open_message(message?).await }
            });
            Ok(Watch { messages: messages.boxed(), control })
        })
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.compact(revision)
    }

    fn compacted_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.inner.compacted_revision()
    }

    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.inner.grant_lease(ttl_seconds)
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.revoke_lease(lease)
    }

    fn lease_remaining(&self, lease: LeaseId) -> BoxFuture<'_, Result<Duration, StoreError>> {
        self.inner.lease_remaining(lease)
    }

    fn health(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.inner.health()
    }

    fn is_stale(&self, key: Bytes, revision: Revision) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            let (kv, _) = self.inner.get(key, None).await?;
            let Some(kv) = kv.filter(|kv| kv.mod_revision == revision) else { return Ok(false) };
            Ok(self.encryption.open(&kv.key, &kv.value).await?.stale)
        })
    }
}
