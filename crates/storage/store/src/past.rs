//! A store as it was at a revision.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::BoxFuture;

use crate::{
    Answer, Barrier, Chunks, KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, Watch,
    WatchControl,
};

/// A store in which nothing has happened since a revision. Reads fail with [`StoreError::Compacted`] when the inner store
/// has compacted the revision, and writes fail with [`StoreError::Past`].
pub struct PastStore {
    inner: Arc<dyn Store>,
    revision: Revision,
}

impl PastStore {
    pub fn new(inner: Arc<dyn Store>, revision: Revision) -> Self {
        Self { inner, revision }
    }

    /// Returns the revision of a read.
    fn at(&self, revision: Option<Revision>) -> Result<Revision, StoreError> {
        match revision {
            Some(later) if later > self.revision => Err(StoreError::FutureRevision { current: self.revision }),
            Some(revision) => Ok(revision),
            None => Ok(self.revision),
        }
    }
}

fn refuse<'a, T: Send + 'a>() -> Answer<'a, T> {
    Box::pin(std::future::ready(Err(StoreError::Past)))
}

impl Store for PastStore {
    fn current_revision(&self) -> Answer<'_, Revision> {
        Box::pin(std::future::ready(Ok(self.revision)))
    }

    fn get(&self, key: Bytes, revision: Option<Revision>) -> Answer<'_, (Option<KeyValue>, Revision)> {
        Box::pin(async move {
            let (kv, _) = self.inner.get(key, Some(self.at(revision)?)).await?;
            Ok((kv, self.revision))
        })
    }

    fn range(&self, request: RangeRequest) -> Answer<'_, RangeResponse> {
        Box::pin(async move {
            let revision = Some(self.at(request.revision)?);
            let response = self.inner.range(RangeRequest { revision, ..request }).await?;
            Ok(RangeResponse { revision: self.revision, ..response })
        })
    }

    fn stream(&self, range: Range<Bytes>, revision: Revision) -> Answer<'_, Option<Chunks<'_>>> {
        Box::pin(async move { self.inner.stream(range, self.at(Some(revision))?).await })
    }

    fn txn(&self, _: Txn) -> Answer<'_, crate::TxnResponse> {
        refuse()
    }

    fn delete_range(&self, _: Range<Bytes>) -> Answer<'_, u64> {
        refuse()
    }

    /// Returns a watch without events.
    fn watch(&self, _: Range<Bytes>, after: Revision) -> Answer<'_, Watch> {
        Box::pin(async move {
            // A watch of the past would end in the present.
            if after < self.revision {
                return Err(StoreError::Past);
            }
            let control = Box::new(PastWatchControl(self.revision));
            Ok(Watch { messages: futures::stream::pending().boxed(), control })
        })
    }

    fn compact(&self, _: Revision) -> Answer<'_, ()> {
        refuse()
    }

    fn compacted_revision(&self) -> Answer<'_, Revision> {
        self.inner.compacted_revision()
    }

    fn grant_lease(&self, _: u64) -> Answer<'_, LeaseId> {
        refuse()
    }

    fn revoke_lease(&self, _: LeaseId) -> Answer<'_, ()> {
        refuse()
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
}

struct PastWatchControl(Revision);

impl WatchControl for PastWatchControl {
    fn barrier(&self) -> BoxFuture<'_, Result<Barrier, StoreError>> {
        Box::pin(std::future::ready(Ok(Barrier { current: self.0, last_event: Revision(0) })))
    }
}
