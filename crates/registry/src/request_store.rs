//! A store whose waiting times are recorded with the request, to explain slow ones.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use binnacle_request::latency::{Part, measured};
use binnacle_request::trace::{self, SpanKind};
use binnacle_store::{
    Expect, KeyValue, Op, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse, told_trace,
};
use bytes::Bytes;

/// A store. Calls of requests are measured, others use [`Deref`].
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
        traced("List(recursive=true) etcd3", measured(Part::Storage, self.0.range(request))).await
    }

    pub async fn txn(&self, txn: Txn) -> Result<TxnResponse, StoreError> {
        let name = match (&txn.op, txn.expect) {
            (Op::Delete, _) => "Delete etcd3",
            (Op::Put { .. }, Expect::Absent) => "Create etcd3",
            (Op::Put { .. }, _) => "GuaranteedUpdate etcd3",
        };
        traced(name, measured(Part::Storage, self.0.txn(txn))).await
    }
}

/// Adds a span for a call, with its outcome, if the request has a trace.
async fn traced<T>(name: &'static str, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
    let Some(mut span) = trace::begin(|| Cow::Borrowed(name), SpanKind::Internal) else { return call.await };
    let context = span.context().header();
    let done = told_trace(context.to_str().unwrap_or_default(), call).await;
    if let Err(error) = &done {
        span.fail(error.to_string());
    }
    done
}

impl Deref for RequestStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
