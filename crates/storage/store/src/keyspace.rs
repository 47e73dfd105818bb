//! A store inside another one: all its keys are stored with a prefix, which its user does not see.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use crate::{
    Answer, Chunks, Event, KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn,
    TxnResponse, Watch, WatchMessage,
};

/// A store whose keys are stored with a prefix in the inner store, so that no code above it reaches the keys of others.
/// Revisions are those of the inner store: every write of another user of it increases them. Others may need history
/// that this user does not need, so compactions fail with [`StoreError::Shared`].
pub struct KeyspaceStore<S: ?Sized = dyn Store> {
    inner: Arc<S>,
    prefix: Bytes,
    /// The first revision of the history.
    begins: Revision,
}

impl<S: Store + ?Sized> KeyspaceStore<S> {
    /// `prefix` must not be the beginning of another user's keys.
    pub fn new(inner: Arc<S>, prefix: impl Into<Bytes>) -> Self {
        Self { inner, prefix: prefix.into(), begins: Revision(0) }
    }

    /// Lets the history begin at a revision: earlier ones are compacted for this user.
    #[must_use]
    pub fn since(self, begins: Revision) -> Self {
        Self { begins, ..self }
    }

    /// Fails if the history does not have a revision.
    fn check(&self, revision: Revision) -> Result<(), StoreError> {
        match revision < self.begins {
            true => Err(StoreError::Compacted { compacted: self.begins }),
            false => Ok(()),
        }
    }

    /// Returns the key in the inner store.
    fn inner_key(&self, key: &[u8]) -> Bytes {
        Bytes::from([&*self.prefix, key].concat())
    }

    fn inner_range(&self, range: &Range<Bytes>) -> Range<Bytes> {
        self.inner_key(&range.start)..self.inner_key(&range.end)
    }

    fn own(&self, mut kv: KeyValue) -> KeyValue {
        remove_prefix(&mut kv, self.prefix.len());
        kv
    }

    fn error(&self, error: StoreError) -> StoreError {
        own_error(error, &self.prefix)
    }
}

fn remove_prefix(kv: &mut KeyValue, prefix: usize) {
    kv.key = kv.key.slice(prefix..);
}

/// Removes the prefix from keys in messages.
fn own_error(error: StoreError, prefix: &[u8]) -> StoreError {
    let own = |key: String| match key.as_bytes().strip_prefix(prefix) {
        Some(rest) => String::from_utf8_lossy(rest).into_owned(),
        None => key,
    };
    match error {
        StoreError::Transform { key, why } => StoreError::Transform { key: own(key), why },
        StoreError::Undecodable { key, revision, why } => StoreError::Undecodable { key: own(key), revision, why },
        other => other,
    }
}

fn own_message(mut message: WatchMessage, prefix: usize) -> WatchMessage {
    if let WatchMessage::Events(events) = &mut message {
        for event in events {
            let previous = match event {
                Event::Put { kv, previous } => {
                    remove_prefix(kv, prefix);
                    previous
                }
                Event::Delete { key, previous, .. } => {
                    *key = key.slice(prefix..);
                    previous
                }
            };
            previous.iter_mut().for_each(|previous| remove_prefix(previous, prefix));
        }
    }
    message
}

impl<S: Store + ?Sized> Store for KeyspaceStore<S> {
    fn get(&self, key: Bytes, revision: Option<Revision>) -> Answer<'_, (Option<KeyValue>, Revision)> {
        let key = self.inner_key(&key);
        Box::pin(async move {
            revision.map_or(Ok(()), |revision| self.check(revision))?;
            let (kv, revision) = self.inner.get(key, revision).await.map_err(|error| self.error(error))?;
            Ok((kv.map(|kv| self.own(kv)), revision))
        })
    }

    fn range(&self, mut request: RangeRequest) -> Answer<'_, RangeResponse> {
        request.range = self.inner_range(&request.range);
        Box::pin(async move {
            request.revision.map_or(Ok(()), |revision| self.check(revision))?;
            let mut response = self.inner.range(request).await.map_err(|error| self.error(error))?;
            response.kvs.iter_mut().for_each(|kv| remove_prefix(kv, self.prefix.len()));
            Ok(response)
        })
    }

    fn stream(&self, range: Range<Bytes>, revision: Revision) -> Answer<'_, Option<Chunks<'_>>> {
        let range = self.inner_range(&range);
        Box::pin(async move {
            self.check(revision)?;
            let chunks = self.inner.stream(range, revision).await.map_err(|error| self.error(error))?;
            let own = |chunk: Result<Vec<KeyValue>, StoreError>| {
                let mut kvs = chunk.map_err(|error| self.error(error))?;
                kvs.iter_mut().for_each(|kv| remove_prefix(kv, self.prefix.len()));
                Ok(kvs)
            };
            Ok(chunks.map(|chunks| chunks.map(own).boxed()))
        })
    }

    fn txn(&self, mut txn: Txn) -> Answer<'_, TxnResponse> {
        txn.key = self.inner_key(&txn.key);
        Box::pin(async move {
            Ok(match self.inner.txn(txn).await.map_err(|error| self.error(error))? {
                TxnResponse::Done { revision, previous } => {
                    TxnResponse::Done { revision, previous: previous.map(|kv| self.own(kv)) }
                }
                TxnResponse::Unmet { current, revision } => {
                    TxnResponse::Unmet { current: current.map(|kv| self.own(kv)), revision }
                }
            })
        })
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> Answer<'_, Watch> {
        let range = self.inner_range(&range);
        Box::pin(async move {
            self.check(after)?;
            let Watch { messages, control } = self.inner.watch(range, after).await?;
            let prefix = self.prefix.clone();
            let messages = messages.map(move |message| match message {
                Ok(message) => Ok(own_message(message, prefix.len())),
                Err(error) => Err(own_error(error, &prefix)),
            });
            Ok(Watch { messages: messages.boxed(), control })
        })
    }

    fn delete_range(&self, range: Range<Bytes>) -> Answer<'_, u64> {
        self.inner.delete_range(self.inner_range(&range))
    }

    fn compact(&self, _: Revision) -> Answer<'_, ()> {
        Box::pin(std::future::ready(Err(StoreError::Shared)))
    }

    fn current_revision(&self) -> Answer<'_, Revision> {
        self.inner.current_revision()
    }

    fn compacted_revision(&self) -> Answer<'_, Revision> {
        Box::pin(async move { Ok(self.inner.compacted_revision().await?.max(self.begins)) })
    }

    fn grant_lease(&self, ttl_seconds: u64) -> Answer<'_, LeaseId> {
        self.inner.grant_lease(ttl_seconds)
    }

    fn revoke_lease(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.inner.revoke_lease(lease)
    }

    fn lease_remaining(&self, lease: LeaseId) -> Answer<'_, Duration> {
        self.inner.lease_remaining(lease)
    }

    fn health(&self) -> Answer<'_, ()> {
        self.inner.health()
    }

    fn readiness(&self) -> Answer<'_, ()> {
        self.inner.readiness()
    }

    fn is_remote(&self) -> bool {
        self.inner.is_remote()
    }

    fn release(&self, key: &[u8], revision: Revision) {
        self.inner.release(&self.inner_key(key), revision);
    }

    fn is_stale(&self, key: Bytes, revision: Revision) -> Answer<'_, bool> {
        self.inner.is_stale(self.inner_key(&key), revision)
    }
}
