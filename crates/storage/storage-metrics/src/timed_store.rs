//! The embedded store with its requests counted and timed under etcd's metric names, which dashboards use.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use binnacle_store::{
    Count, Expect, KeyValue, Op, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse, Watch,
};
use binnacle_store_embedded::EmbeddedStore;
use binnacle_store_etcd::Metrics;
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;

/// An embedded store whose requests are counted and timed in `metrics`.
pub struct TimedStore {
    store: Arc<EmbeddedStore>,
    metrics: Metrics,
}

impl TimedStore {
    /// Wraps `store` and records its requests in `metrics`.
    pub fn new(store: Arc<EmbeddedStore>, metrics: Metrics) -> Self {
        Self { store, metrics }
    }

    async fn timed<T>(
        &self,
        operation: &str,
        key: Bytes,
        answer: BoxFuture<'_, Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let started = Instant::now();
        let answer = answer.await;
        self.metrics.request(operation, &key, started, answer.is_err());
        answer
    }
}

impl Store for TimedStore {
    binnacle_store::delegate_maintenance_to!(store);

    fn get(
        &self,
        key: Bytes,
        revision: Option<Revision>,
    ) -> BoxFuture<'_, Result<(Option<KeyValue>, Revision), StoreError>> {
        self.timed("get", key.clone(), self.store.get(key, revision)).boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, StoreError>> {
        let operation = if request.count == Count::Only { "listWithCount" } else { "list" };
        self.timed(operation, request.range.start.clone(), self.store.range(request)).boxed()
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, StoreError>> {
        let operation = match (&txn.op, txn.expect) {
            (Op::Delete, _) => "delete",
            (Op::Put { .. }, Expect::Absent) => "create",
            (Op::Put { .. }, _) => "update",
        };
        self.timed(operation, txn.key.clone(), self.store.txn(txn)).boxed()
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        self.store.watch(range, after)
    }
}
