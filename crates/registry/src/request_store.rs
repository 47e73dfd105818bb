//! A store as requests use it: what they wait for it counts as theirs, so that whoever wonders why one was slow can be told.

use std::ops::Deref;
use std::sync::Arc;

use binnacle_request::latency::{Part, measured};
use binnacle_store::{KeyValue, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse};
use bytes::Bytes;

/// A store. The calls that requests make of it are measured, others go by [`Deref`].
#[derive(Clone)]
pub struct RequestStore(Arc<dyn Store>);

impl RequestStore {
    pub fn new(store: Arc<dyn Store>) -> Self {
        Self(store)
    }

    pub async fn current_revision(&self) -> Result<Revision, StoreError> {
        measured(Part::Storage, self.0.current_revision()).await
    }

    pub async fn get(
        &self,
        key: Bytes,
        revision: Option<Revision>,
    ) -> Result<(Option<KeyValue>, Revision), StoreError> {
        measured(Part::Storage, self.0.get(key, revision)).await
    }

    pub async fn range(&self, request: RangeRequest) -> Result<RangeResponse, StoreError> {
        measured(Part::Storage, self.0.range(request)).await
    }

    pub async fn txn(&self, txn: Txn) -> Result<TxnResponse, StoreError> {
        measured(Part::Storage, self.0.txn(txn)).await
    }
}

impl Deref for RequestStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
