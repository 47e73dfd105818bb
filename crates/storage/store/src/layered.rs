//! A store that transforms values: its callers see another encoding than the inner store, for example because the
//! values are encrypted or converted to another version.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, TryStreamExt};

use crate::{
    Answer, Barrier, Chunks, Event, KeyValue, Op, RangeDigest, RangeRequest, RangeResponse, Revision, Store,
    StoreError, Txn, TxnResponse, Watch, WatchControl, WatchMessage,
};

/// Converts values between the stored encoding and the callers' encoding.
pub trait ValueTransformer: Send + Sync + 'static {
    /// True if the stored encoding may change, so that values in an earlier encoding are stale.
    const MAY_BE_STALE: bool = false;

    /// Converts stored values in place.
    ///
    /// An error contains the key; no value has been changed in that case.
    fn transform_from_storage<'a>(&'a self, kvs: Vec<&'a mut KeyValue>) -> BoxFuture<'a, Result<(), StoreError>>;

    /// Returns the stored encoding of a value. The default is the value itself.
    fn transform_to_storage(&self, _key: &Bytes, value: Bytes) -> Result<Bytes, StoreError> {
        Ok(value)
    }

    /// Implements [`Store::is_stale`] for the current value of a key.
    fn is_stale<'a>(&'a self, _kv: &'a KeyValue) -> BoxFuture<'a, Result<bool, StoreError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

/// A store whose values pass through a [`ValueTransformer`]. Revisions, leases and keys are those of the inner store.
pub struct LayeredStore<V, S: ?Sized = dyn Store> {
    values: Arc<V>,
    inner: Arc<S>,
}

impl<V: ValueTransformer, S: Store + ?Sized> LayeredStore<V, S> {
    pub fn new(inner: Arc<S>, values: Arc<V>) -> Self {
        Self { values, inner }
    }
}

async fn transform_option<V: ValueTransformer>(
    values: &V,
    mut kv: Option<KeyValue>,
) -> Result<Option<KeyValue>, StoreError> {
    if let Some(kv) = &mut kv {
        values.transform_from_storage(vec![kv]).await?;
    }
    Ok(kv)
}

/// Converts all values of a message, in one call if that succeeds. A previous value may be unreadable (because the
/// encryption key was removed): it stays in the stored encoding, since a watch must not miss the change.
async fn transform_message<V: ValueTransformer>(
    values: &V,
    mut message: WatchMessage,
) -> Result<WatchMessage, StoreError> {
    let WatchMessage::Events(events) = &mut message else { return Ok(message) };
    let (mut current, mut previous_values) = (Vec::new(), Vec::new());
    for event in events {
        match event {
            Event::Put { kv, previous } => {
                current.push(kv);
                previous_values.extend(previous);
            }
            Event::Delete { previous, .. } => previous_values.extend(previous),
        }
    }
    let all = current.iter_mut().chain(&mut previous_values).map(|kv| &mut **kv).collect();
    if values.transform_from_storage(all).await.is_err() {
        values.transform_from_storage(current).await?;
        for kv in previous_values {
            if let Err(error) = values.transform_from_storage(vec![kv]).await {
                tracing::debug!(%error, "a value that was replaced cannot be read");
            }
        }
    }
    Ok(message)
}

impl<V: ValueTransformer, S: Store + ?Sized> Store for LayeredStore<V, S> {
    crate::delegate_maintenance_to!(inner);

    fn get(
        &self,
        key: Bytes,
        revision: Option<Revision>,
    ) -> BoxFuture<'_, Result<(Option<KeyValue>, Revision), StoreError>> {
        Box::pin(async move {
            let (kv, revision) = self.inner.get(key, revision).await?;
            Ok((transform_option(&*self.values, kv).await?, revision))
        })
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, StoreError>> {
        Box::pin(async move {
            let mut response = self.inner.range(request).await?;
            self.values.transform_from_storage(response.kvs.iter_mut().collect()).await?;
            Ok(response)
        })
    }

    fn stream(&self, range: Range<Bytes>, revision: Revision) -> Answer<'_, Option<Chunks<'_>>> {
        Box::pin(async move {
            let Some(chunks) = self.inner.stream(range, revision).await? else { return Ok(None) };
            let transformed = chunks.and_then(async |mut kvs| {
                self.values.transform_from_storage(kvs.iter_mut().collect()).await?;
                Ok(kvs)
            });
            Ok(Some(transformed.boxed()))
        })
    }

    fn txn(&self, mut txn: Txn) -> BoxFuture<'_, Result<TxnResponse, StoreError>> {
        Box::pin(async move {
            if let Op::Put { value, .. } = &mut txn.op {
                *value = self.values.transform_to_storage(&txn.key, std::mem::take(value))?;
            }
            Ok(match self.inner.txn(txn).await? {
                // The write was executed, even if the previous value cannot be read.
                TxnResponse::Done { revision, previous } => TxnResponse::Done {
                    revision,
                    previous: transform_option(&*self.values, previous).await.unwrap_or(None),
                },
                TxnResponse::Unmet { current, revision } => {
                    TxnResponse::Unmet { current: transform_option(&*self.values, current).await?, revision }
                }
            })
        })
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        Box::pin(async move {
            let Watch { messages, control } = self.inner.watch(range, after).await?;
            let values = Arc::clone(&self.values);
            let messages = messages.then(move |message| {
                let values = Arc::clone(&values);
                async move { transform_message(&*values, message?).await }
            });
            Ok(Watch { messages: messages.boxed(), control: Box::new(LayeredWatchControl(control)) })
        })
    }

    fn is_stale(&self, key: Bytes, revision: Revision) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(async move {
            if self.inner.is_stale(key.clone(), revision).await? {
                return Ok(true);
            }
            if !V::MAY_BE_STALE {
                return Ok(false);
            }
            let (kv, _) = self.inner.get(key, None).await?;
            match kv.filter(|kv| kv.mod_revision == revision) {
                Some(kv) => self.values.is_stale(&kv).await,
                None => Ok(false),
            }
        })
    }
}

/// The control of a watch whose reader sees other values than the inner store.
struct LayeredWatchControl(Box<dyn WatchControl>);

impl WatchControl for LayeredWatchControl {
    fn barrier(&self) -> BoxFuture<'_, Result<Barrier, StoreError>> {
        self.0.barrier()
    }

    fn digest(&self) -> Option<RangeDigest> {
        self.0.digest().map(|digest| RangeDigest { has_values: false, is_delayed: true, ..digest })
    }
}

/// Implements the methods of [`Store`] that wrappers only delegate: all except reads, transactions and watches. The
/// argument is the field with the inner store.
#[macro_export]
macro_rules! delegate_maintenance_to {
    ($inner:tt) => {
        fn current_revision(&self) -> $crate::Answer<'_, $crate::Revision> {
            self.$inner.current_revision()
        }

        fn delete_range(&self, range: std::ops::Range<$crate::Bytes>) -> $crate::Answer<'_, u64> {
            self.$inner.delete_range(range)
        }

        fn compact(&self, revision: $crate::Revision) -> $crate::Answer<'_, ()> {
            self.$inner.compact(revision)
        }

        fn compacted_revision(&self) -> $crate::Answer<'_, $crate::Revision> {
            self.$inner.compacted_revision()
        }

        fn grant_lease(&self, ttl_seconds: u64) -> $crate::Answer<'_, $crate::LeaseId> {
            self.$inner.grant_lease(ttl_seconds)
        }

        fn revoke_lease(&self, lease: $crate::LeaseId) -> $crate::Answer<'_, ()> {
            self.$inner.revoke_lease(lease)
        }

        fn lease_remaining(&self, lease: $crate::LeaseId) -> $crate::Answer<'_, std::time::Duration> {
            self.$inner.lease_remaining(lease)
        }

        fn health(&self) -> $crate::Answer<'_, ()> {
            self.$inner.health()
        }

        fn readiness(&self) -> $crate::Answer<'_, ()> {
            self.$inner.readiness()
        }

        fn is_remote(&self) -> bool {
            self.$inner.is_remote()
        }

        fn release(&self, key: &[u8], revision: $crate::Revision) {
            self.$inner.release(key, revision);
        }
    };
}
