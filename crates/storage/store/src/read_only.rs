//! A store that refuses writes, for a server beside another one that owns the data.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::{
    Answer, Chunks, KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse,
    Watch,
};

/// A store whose reads and watches are the inner store's. Everything else fails with [`StoreError::ReadOnly`], so that
/// no code above it can change what another server is responsible for, compactions and leases included.
pub struct ReadOnlyStore(Arc<dyn Store>);

impl ReadOnlyStore {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self(inner)
    }
}

fn refuse<'a, T: Send + 'a>() -> Answer<'a, T> {
    Box::pin(std::future::ready(Err(StoreError::ReadOnly)))
}

impl Store for ReadOnlyStore {
    fn current_revision(&self) -> Answer<'_, Revision> {
        self.0.current_revision()
    }

    fn get(&self, key: Bytes, revision: Option<Revision>) -> Answer<'_, (Option<KeyValue>, Revision)> {
        self.0.get(key, revision)
    }

    fn range(&self, request: RangeRequest) -> Answer<'_, RangeResponse> {
        self.0.range(request)
    }

    fn stream(&self, range: Range<Bytes>, revision: Revision) -> Answer<'_, Option<Chunks<'_>>> {
        self.0.stream(range, revision)
    }

    fn txn(&self, _: Txn) -> Answer<'_, TxnResponse> {
        refuse()
    }

    fn delete_range(&self, _: Range<Bytes>) -> Answer<'_, u64> {
        refuse()
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> Answer<'_, Watch> {
        self.0.watch(range, after)
    }

    fn compact(&self, _: Revision) -> Answer<'_, ()> {
        refuse()
    }

    fn compacted_revision(&self) -> Answer<'_, Revision> {
        self.0.compacted_revision()
    }

    fn grant_lease(&self, _: u64) -> Answer<'_, LeaseId> {
        refuse()
    }

    fn revoke_lease(&self, _: LeaseId) -> Answer<'_, ()> {
        refuse()
    }

    fn lease_remaining(&self, lease: LeaseId) -> Answer<'_, Duration> {
        self.0.lease_remaining(lease)
    }

    fn health(&self) -> Answer<'_, ()> {
        self.0.health()
    }

    fn readiness(&self) -> Answer<'_, ()> {
        self.0.readiness()
    }

    fn release(&self, key: &[u8], revision: Revision) {
        self.0.release(key, revision);
    }

    fn is_stale(&self, _: Bytes, _: Revision) -> Answer<'_, bool> {
        Box::pin(std::future::ready(Ok(false)))
    }
}
