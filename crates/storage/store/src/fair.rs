//! A store whose users write in turns: each has a bounded part of the writes in the store.
//!
//! An engine carries writes out in groups, in the order in which they arrive. A user with many writes in front of those of
//! others makes all of them wait, so the writes of a user beyond its share wait in front of the store, where each user has a
//! queue of its own.

mod shares;

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;

pub use self::shares::{WriteShare, WriteShares, WriteWaits};
use crate::{Answer, KeyValue, Op, RangeRequest, RangeResponse, Revision, Store, Txn, TxnResponse, Watch};

/// A store as one of its users sees it. Only transactions wait for the user's share: they are what users cause at will.
pub struct FairStore<S: ?Sized = dyn Store> {
    inner: Arc<S>,
    share: WriteShare,
}

impl<S: Store + ?Sized> FairStore<S> {
    pub fn new(inner: Arc<S>, share: WriteShare) -> Self {
        Self { inner, share }
    }
}

impl<S: Store + ?Sized> Store for FairStore<S> {
    crate::delegate_maintenance_to!(inner);

    fn get(&self, key: Bytes, revision: Option<Revision>) -> Answer<'_, (Option<KeyValue>, Revision)> {
        self.inner.get(key, revision)
    }

    fn range(&self, request: RangeRequest) -> Answer<'_, RangeResponse> {
        self.inner.range(request)
    }

    fn txn(&self, txn: Txn) -> Answer<'_, TxnResponse> {
        let value = match &txn.op {
            Op::Put { value, .. } => value.len(),
            Op::Delete => 0,
        };
        let size = txn.key.len() + value;
        Box::pin(async move {
            let _permit = self.share.acquire(size).await?;
            self.inner.txn(txn).await
        })
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> Answer<'_, Watch> {
        self.inner.watch(range, after)
    }

    fn is_stale(&self, key: Bytes, revision: Revision) -> BoxFuture<'_, Result<bool, crate::StoreError>> {
        self.inner.is_stale(key, revision)
    }
}
