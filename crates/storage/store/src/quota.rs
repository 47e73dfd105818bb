//! A store with limits on the number of its objects and their bytes.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

use crate::usage::{Growth, StorageUsage, size_of, stored_size};
use crate::{
    Answer, Chunks, Expect, KeyValue, Op, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse,
    Watch,
};

/// A store whose writes fail with [`StoreError::QuotaExceeded`] if they would exceed the limits of a [`StorageUsage`].
/// Deletions never fail, and writes do only if they grow what is stored.
pub struct QuotaStore<S: ?Sized = dyn Store> {
    inner: Arc<S>,
    usage: Arc<StorageUsage>,
    /// The index of the store in `usage`.
    index: usize,
}

impl<S: Store + ?Sized> QuotaStore<S> {
    /// `index` is the one of the store in `usage`, whose [`StorageUsage::follow`] must run for it.
    pub fn new(inner: Arc<S>, usage: Arc<StorageUsage>, index: usize) -> Self {
        Self { inner, usage, index }
    }

    /// Returns the growth by a write of `size` bytes with its key.
    async fn growth(&self, txn: &Txn, size: i64) -> Result<Growth, StoreError> {
        if txn.expect == Expect::Absent {
            return Ok(Growth::creation(size));
        }
        let is_update = matches!(txn.expect, Expect::ModRevision(_));
        if is_update && self.usage.has_ample_space(size) {
            // At most this: the exact growth is known after the write.
            return Ok(Growth::update(size));
        }
        let (current, _) = self.inner.get(txn.key.clone(), None).await?;
        Ok(match current {
            Some(current) => Growth::update(size - stored_size(&current)),
            // The transaction will fail.
            None if is_update => Growth::update(0),
            None => Growth::creation(size),
        })
    }
}

impl<S: Store + ?Sized> Store for QuotaStore<S> {
    crate::delegate_maintenance_to!(inner);

    fn get(&self, key: Bytes, revision: Option<Revision>) -> Answer<'_, (Option<KeyValue>, Revision)> {
        self.inner.get(key, revision)
    }

    fn range(&self, request: RangeRequest) -> Answer<'_, RangeResponse> {
        self.inner.range(request)
    }

    fn stream(&self, range: Range<Bytes>, revision: Revision) -> Answer<'_, Option<Chunks<'_>>> {
        self.inner.stream(range, revision)
    }

    fn txn(&self, txn: Txn) -> Answer<'_, TxnResponse> {
        let Op::Put { value, .. } = &txn.op else { return self.inner.txn(txn) };
        if !self.usage.is_limited() {
            return self.inner.txn(txn);
        }
        let size = size_of(&txn.key, value);
        Box::pin(async move {
            self.usage.counted().await;
            let growth = self.growth(&txn, size).await?;
            let reservation = self.usage.reserve(self.index, growth)?;
            let response = self.inner.txn(txn).await?;
            if let TxnResponse::Done { revision, previous } = &response {
                let growth = match previous {
                    Some(previous) => Growth::update(size - stored_size(previous)),
                    None => Growth::creation(size),
                };
                reservation.settle(*revision, growth);
            }
            Ok(response)
        })
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> Answer<'_, Watch> {
        self.inner.watch(range, after)
    }

    fn is_stale(&self, key: Bytes, revision: Revision) -> BoxFuture<'_, Result<bool, StoreError>> {
        self.inner.is_stale(key, revision)
    }
}
