//! A store whose waiting times are recorded with the request, to explain slow requests.

use std::borrow::Cow;
use std::ops::Deref;
use std::sync::Arc;

use binnacle_request::latency::{Part, measured};
use binnacle_request::trace::{self, OpenSpan, SpanKind, SpanParent};
use binnacle_store::{
    CallSpan, CallTrace, Expect, KeyValue, Op, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn,
    TxnResponse, with_trace,
};
use bytes::Bytes;

/// A store. Calls of requests are measured; other calls use [`Deref`].
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
        let call = measured(Part::Storage, self.0.get(key, revision));
        match SpanParent::current() {
            Some(parent) => with_trace(Arc::new(RequestTrace(parent)), call).await,
            None => call.await,
        }
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
    let done = with_trace(Arc::new(RequestTrace(span.as_parent())), call).await;
    if let Err(error) = &done {
        span.fail(error.to_string());
    }
    done
}

/// The parent of the spans that an engine creates for a call of a request.
struct RequestTrace(SpanParent);

impl CallTrace for RequestTrace {
    fn begin(&self, method: &'static str) -> Box<dyn CallSpan> {
        Box::new(RequestSpan(self.0.begin(method, SpanKind::Client)))
    }
}

struct RequestSpan(OpenSpan);

impl CallSpan for RequestSpan {
    fn header(&self) -> String {
        self.0.context().header().to_str().unwrap_or_default().to_owned()
    }

    fn set(&mut self, attribute: &'static str, value: &str) {
        self.0.set(attribute, value);
    }

    fn set_number(&mut self, attribute: &'static str, value: i64) {
        self.0.set(attribute, value);
    }

    fn fail(&mut self, why: &str) {
        self.0.fail(why);
    }
}

impl Deref for RequestStore {
    type Target = dyn Store;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}
