//! A store that admits only keys with a prefix, for one of several users of an engine.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Answer, KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse, Watch,
    prefix_range,
};

/// A store whose reads, writes and watches fail for keys outside of a prefix, so that no error in the code above it
/// reaches the keys of others. Keys keep the prefix, and revisions are those of the inner store: every write of another
/// user of the store increases them. Others may need history that this user does not, so compactions fail, too.
pub struct KeyspaceStore<S: ?Sized = dyn Store> {
    inner: Arc<S>,
    keys: Range<Bytes>,
}

impl<S: Store + ?Sized> KeyspaceStore<S> {
    pub fn new(inner: Arc<S>, prefix: &[u8]) -> Self {
        Self { inner, keys: prefix_range(prefix) }
    }

    fn has(&self, key: &Bytes) -> bool {
        self.keys.contains(key)
    }

    /// An empty end stands for the end of all keys.
    fn includes(&self, range: &Range<Bytes>) -> bool {
        self.has(&range.start) && !range.end.is_empty() && range.end <= self.keys.end
    }
}

fn refuse<'a, T: Send + 'a>() -> Answer<'a, T> {
    Box::pin(std::future::ready(Err(StoreError::OutsideKeyspace)))
}

impl<S: Store + ?Sized> Store for KeyspaceStore<S> {
    fn get(&self, key: Bytes, revision: Option<Revision>) -> Answer<'_, (Option<KeyValue>, Revision)> {
        if self.has(&key) { self.inner.get(key, revision) } else { refuse() }
    }

    fn range(&self, request: RangeRequest) -> Answer<'_, RangeResponse> {
        if self.includes(&request.range) { self.inner.range(request) } else { refuse() }
    }

    fn txn(&self, txn: Txn) -> Answer<'_, TxnResponse> {
        if self.has(&txn.key) { self.inner.txn(txn) } else { refuse() }
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> Answer<'_, Watch> {
        if self.includes(&range) { self.inner.watch(range, after) } else { refuse() }
    }

    fn delete_range(&self, range: Range<Bytes>) -> Answer<'_, u64> {
        if self.includes(&range) { self.inner.delete_range(range) } else { refuse() }
    }

    fn compact(&self, _: Revision) -> Answer<'_, ()> {
        refuse()
    }

    fn current_revision(&self) -> Answer<'_, Revision> {
        self.inner.current_revision()
    }

    fn compacted_revision(&self) -> Answer<'_, Revision> {
        self.inner.compacted_revision()
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

    fn release(&self, key: &[u8], revision: Revision) {
        self.inner.release(key, revision);
    }

    fn is_stale(&self, key: Bytes, revision: Revision) -> Answer<'_, bool> {
        if self.has(&key) { self.inner.is_stale(key, revision) } else { refuse() }
    }
}
