//! The implementation of [`Store`](binnacle_store::Store) with calls to etcd.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_store::{
    Chunks, Count, Expect, KeyValue, LeaseId, Op, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn,
    TxnResponse, Watch,
};
use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{FutureExt, StreamExt, stream};

use crate::api::{
    self, Compare, CompareTarget, DeleteRangeRequest, LeaseGrantRequest, LeaseRevokeRequest, LeaseTimeToLiveRequest,
    LeaseTimeToLiveResponse, PutRequest, RequestOp, RequestUnion, ResponseOp, ResponseUnion, TxnRequest, path,
};
use crate::cluster::{Call, Cluster, READ};
use crate::error::Failure;
use crate::hub::{Hub, QUICK_READ};
use crate::metrics::Metrics;
use crate::options::{ConnectError, EtcdOptions};
use crate::stream::{StreamEnd, first_key, key_value, unsigned};
use crate::watch_limits::WatchLimits;
use crate::watch_receiver::{Control, WatchReceiver};
use crate::watcher::Watcher;

/// A store in an etcd cluster.
pub struct EtcdStore {
    pub(crate) hub: Arc<Hub>,
    limits: WatchLimits,
    pub(crate) metrics: Metrics,
    health_key: Bytes,
}

/// etcd itself gives up on a write after seven seconds.
const WRITE: Duration = Duration::from_secs(15);
/// The name of the operation in metrics, as in kube-apiserver 1.37.
const LIST_STREAM: &str = "listStream";
const RANGE: Call = Call { path: path::RANGE, repeatable: true, timeout: READ };
pub(crate) const TXN: Call = Call { path: path::TXN, repeatable: false, timeout: WRITE };
/// A key that was written again after the first attempt belongs to the range, too.
const DELETE_RANGE: Call = Call { path: path::DELETE_RANGE, repeatable: true, timeout: WRITE };
/// The number of keys that are deleted together. Their values must fit in one message of a watch.
const DELETED_KEYS: i64 = 128;
/// An empty value may be written twice.
const PUT_NOTHING: Call = Call { path: path::PUT, repeatable: true, timeout: WRITE };
const COMPACT: Call = Call { path: path::COMPACT, repeatable: false, timeout: WRITE };
/// If the response is lost, the lease expires automatically.
const GRANT: Call = Call { path: path::LEASE_GRANT, repeatable: true, timeout: WRITE };
const TIME_TO_LIVE: Call = Call { path: path::LEASE_TIME_TO_LIVE, repeatable: true, timeout: READ };
const REVOKE: Call = Call { path: path::LEASE_REVOKE, repeatable: false, timeout: WRITE };

// === impl EtcdStore ===

impl EtcdStore {
    /// Creates a store on a cluster, without connecting to it.
    pub fn new(options: &EtcdOptions) -> Result<Self, ConnectError> {
        Self::with_limits(options, WatchLimits::default())
    }

    /// Creates a store like [`EtcdStore::new`], with other limits on the memory of watches.
    pub fn with_limits(options: &EtcdOptions, limits: WatchLimits) -> Result<Self, ConnectError> {
        let cluster = Cluster::new(options)?;
        let (watched, metrics) = (options.watched.clone(), options.metrics.clone());
        let health_key = Bytes::from([watched.start.as_ref(), b"health"].concat());
        let hub = Arc::new(Hub::new(cluster, watched, limits, metrics.clone()));
        Ok(Self { hub, limits, metrics, health_key })
    }

    /// Ends all watches.
    pub fn close(&self) {
        self.hub.close();
    }

    /// Returns the size of a member's database file in bytes.
    pub async fn database_size(&self) -> Result<u64, StoreError> {
        let status = self.hub.cluster.pick().status(Duration::from_secs(1)).await;
        Ok(unsigned(status.map_err(Failure::into_store_error)?.db_size))
    }

    /// Returns the unique ID of the cluster.
    pub async fn cluster_id(&self) -> Result<u64, StoreError> {
        let request = api::RangeRequest { key: self.health_key.clone(), count_only: true, ..Default::default() };
        let answer = self.read("get", QUICK_READ, request).await?;
        Ok(answer.header.map_or(0, |header| header.cluster_id))
    }

    /// Puts an empty value under a key, once or more often, only to advance etcd's revision. Returns a revision that
    /// etcd has after that.
    pub async fn put_nothing(&self, key: Bytes) -> Result<Revision, StoreError> {
        let started = Instant::now();
        let request = PutRequest { key: key.clone(), ..Default::default() };
        let answer = self.hub.cluster.call::<_, api::PutResponse>(PUT_NOTHING, request).await;
        self.metrics.request("update", &key, started, answer.is_err());
        let answer = answer.map_err(Failure::into_store_error)?;
        Ok(Revision(answer.header.map_or(0, |header| unsigned(header.revision))))
    }

    async fn read(
        &self,
        operation: &str,
        call: Call,
        request: api::RangeRequest,
    ) -> Result<api::RangeResponse, StoreError> {
        let (started, key) = (Instant::now(), request.key.clone());
        let answer = self.hub.cluster.call(call, request).await;
        self.metrics.request(operation, &key, started, answer.is_err());
        match answer {
            Ok(answer) => Ok(answer),
            Err(failure) => Err(self.explain(failure).await),
        }
    }

    /// Converts a failure to an error with its revision, which is missing in etcd's response.
    async fn explain(&self, failure: Failure) -> StoreError {
        match failure {
            Failure::Compacted => match self.hub.compacted_revision().await {
                Ok(revision) => StoreError::Compacted { compacted: Revision(revision) },
                Err(reason) => StoreError::Unavailable(reason),
            },
            Failure::Answered(StoreError::FutureRevision { .. }) => match self.hub.fresh_revision().await {
                Ok(current) => StoreError::FutureRevision { current: Revision(current) },
                Err(error) => error,
            },
            other => other.into_store_error(),
        }
    }

    async fn get_at(&self, key: Bytes, revision: Option<Revision>) -> Result<(Option<KeyValue>, Revision), StoreError> {
        let revision = signed(revision.unwrap_or_default().0);
        let request = api::RangeRequest { key: first_key(key), revision, ..Default::default() };
        let answer = self.read("get", QUICK_READ, request).await?;
        let current = answer.header.map_or(0, |header| unsigned(header.revision));
        Ok((answer.kvs.into_iter().next().map(key_value), Revision(current)))
    }

    async fn range_at(&self, request: RangeRequest) -> Result<RangeResponse, StoreError> {
        let Range { start, end } = request.range;
        let operation = if request.count == Count::Only { "listWithCount" } else { "list" };
        if start >= end {
            // etcd interprets such a range as an error or as another notation.
            let current = Revision(self.hub.fresh_revision().await?);
            return Ok(RangeResponse { kvs: Vec::new(), more: false, count: 0, revision: current });
        }
        let wanted = api::RangeRequest {
            key: first_key(start),
            range_end: end,
            limit: i64::try_from(request.limit).unwrap_or(i64::MAX),
            revision: signed(request.revision.unwrap_or_default().0),
            keys_only: false,
            count_only: request.count == Count::Only,
        };
        let answer = self.read(operation, RANGE, wanted).await?;
        Ok(RangeResponse {
            kvs: answer.kvs.into_iter().map(key_value).collect(),
            more: answer.more,
            count: usize::try_from(answer.count).unwrap_or(0),
            revision: Revision(answer.header.map_or(0, |header| unsigned(header.revision))),
        })
    }

    /// Opens a stream of a range at the next member that has streams.
    async fn stream_at(&self, range: Range<Bytes>, revision: Revision) -> Result<Option<Chunks<'_>>, StoreError> {
        if range.start >= range.end {
            return Ok(None);
        }
        let (started, key) = (Instant::now(), range.start.clone());
        let request = api::RangeRequest {
            key: first_key(range.start),
            range_end: range.end,
            revision: signed(revision.0),
            ..Default::default()
        };
        let stream = match self.hub.cluster.open_range_stream(request).await {
            Ok(None) => return Ok(None),
            Ok(Some(stream)) => stream,
            Err(failure) => {
                self.metrics.request(LIST_STREAM, &key, started, true);
                return Err(self.explain(failure).await);
            }
        };
        let chunks = stream::unfold(Some((stream, key)), move |reading| async move {
            let (mut stream, key) = reading?;
            match stream.next().await {
                Ok(Some(kvs)) => Some((Ok(kvs.into_iter().map(key_value).collect()), Some((stream, key)))),
                Ok(None) => {
                    self.metrics.request(LIST_STREAM, &key, started, false);
                    None
                }
                Err(failure) => {
                    self.metrics.request(LIST_STREAM, &key, started, true);
                    if failure.is_of_member() {
                        self.hub.cluster.avoid(stream.member());
                    }
                    Some((Err(self.explain(failure).await), None))
                }
            }
        });
        Ok(Some(chunks.boxed()))
    }

    async fn carry_out(&self, txn: Txn) -> Result<TxnResponse, StoreError> {
        let (started, key) = (Instant::now(), txn.key.clone());
        let operation = match (&txn.op, txn.expect) {
            (Op::Delete, _) => "delete",
            (Op::Put { .. }, Expect::Absent) => "create",
            (Op::Put { .. }, _) => "update",
        };
        let answer = self.hub.cluster.call::<_, api::TxnResponse>(TXN, request_of(txn)).await;
        self.metrics.request(operation, &key, started, answer.is_err());
        match answer {
            Ok(answer) => Ok(response_of(answer)),
            Err(failure) => Err(self.explain(failure).await),
        }
    }

    async fn delete_in_batches(&self, range: Range<Bytes>) -> Result<u64, StoreError> {
        let mut deleted = 0;
        let mut start = first_key(range.start);
        while start < range.end {
            let (key, range_end) = (start.clone(), range.end.clone());
            let batch =
                api::RangeRequest { key, range_end, limit: DELETED_KEYS, keys_only: true, ..Default::default() };
            let batch = self.read("list", RANGE, batch).await?;
            let Some(last) = batch.kvs.last() else { break };
            let range_end = Bytes::from([&last.key, &b"\0"[..]].concat());
            let (started, key) = (Instant::now(), start);
            let request = DeleteRangeRequest { key: key.clone(), range_end: range_end.clone(), prev_kv: false };
            let answer = self.hub.cluster.call::<_, api::DeleteRangeResponse>(DELETE_RANGE, request).await;
            self.metrics.request("delete", &key, started, answer.is_err());
            deleted += unsigned(answer.map_err(Failure::into_store_error)?.deleted);
            if !batch.more {
                break;
            }
            start = range_end;
        }
        Ok(deleted)
    }

    async fn begin_watch(&self, range: Range<Bytes>, after: Revision) -> Result<Watch, StoreError> {
        self.hub.wait_started().await?;
        let epoch = self.hub.epoch();
        match self.hub.check_reachable(after.0).await {
            Ok(()) => {}
            Err(StreamEnd::Compacted(compacted)) => {
                return Err(StoreError::Compacted { compacted: Revision(compacted) });
            }
            Err(StreamEnd::Lost(reason)) => return Err(StoreError::Unavailable(reason)),
        }
        let watcher = Arc::new(Watcher::new(range, after.0, self.limits, epoch));
        self.hub.add(&watcher, after.0);
        let receiver = WatchReceiver { hub: self.hub.clone(), watcher: watcher.clone(), ended: false };
        let messages =
            stream::unfold(receiver, |mut receiver| async move { Some((receiver.next().await?, receiver)) }).boxed();
        Ok(Watch { messages, control: Box::new(Control { hub: self.hub.clone(), watcher }) })
    }
}

impl Drop for EtcdStore {
    fn drop(&mut self) {
        self.close();
    }
}

impl Store for EtcdStore {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        async { self.hub.fresh_revision().await.map(Revision) }.boxed()
    }

    fn get(
        &self,
        key: Bytes,
        revision: Option<Revision>,
    ) -> BoxFuture<'_, Result<(Option<KeyValue>, Revision), StoreError>> {
        self.get_at(key, revision).boxed()
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, StoreError>> {
        self.range_at(request).boxed()
    }

    fn stream(&self, range: Range<Bytes>, revision: Revision) -> BoxFuture<'_, Result<Option<Chunks<'_>>, StoreError>> {
        self.stream_at(range, revision).boxed()
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, StoreError>> {
        self.carry_out(txn).boxed()
    }

    fn delete_range(&self, range: Range<Bytes>) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.delete_in_batches(range).boxed()
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        self.begin_watch(range, after).boxed()
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let request = api::CompactionRequest { revision: signed(revision.0) };
            match self.hub.cluster.call::<_, api::CompactionResponse>(COMPACT, request).await {
                Ok(_) => Ok(()),
                Err(failure) => Err(self.explain(failure).await),
            }
        }
        .boxed()
    }

    fn compacted_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        async { self.hub.compacted_revision().await.map(Revision).map_err(StoreError::Unavailable) }.boxed()
    }

    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        async move {
            let request = LeaseGrantRequest { ttl: signed(ttl_seconds) };
            let answer: Result<api::LeaseGrantResponse, _> = self.hub.cluster.call(GRANT, request).await;
            answer.map(|granted| LeaseId(granted.id)).map_err(Failure::into_store_error)
        }
        .boxed()
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        async move {
            let request = LeaseRevokeRequest { id: lease.0 };
            let answer: Result<api::LeaseRevokeResponse, _> = self.hub.cluster.call(REVOKE, request).await;
            answer.map(|_| ()).map_err(Failure::into_store_error)
        }
        .boxed()
    }

    fn lease_remaining(&self, lease: LeaseId) -> BoxFuture<'_, Result<Duration, StoreError>> {
        async move {
            let request = LeaseTimeToLiveRequest { id: lease.0 };
            let answer: Result<LeaseTimeToLiveResponse, _> = self.hub.cluster.call(TIME_TO_LIVE, request).await;
            // etcd returns no error for an unknown lease.
            match answer.map_err(Failure::into_store_error)?.ttl {
                gone if gone < 0 => Err(StoreError::LeaseNotFound),
                seconds => Ok(Duration::from_secs(unsigned(seconds))),
            }
        }
        .boxed()
    }

    fn is_remote(&self) -> bool {
        true
    }

    fn health(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        async { self.get_at(self.health_key.clone(), None).await.map(|_| ()) }.boxed()
    }
}

fn request_of(txn: Txn) -> TxnRequest {
    let key = first_key(txn.key);
    let expected = match txn.expect {
        Expect::Absent => Some(0),
        Expect::ModRevision(revision) => Some(signed(revision.0)),
        Expect::Anything => None,
    };
    let compare = expected.map(|revision| Compare::equal(key.clone(), CompareTarget::ModRevision(revision)));
    // A key that does not exist has no previous value.
    let prev_kv = expected != Some(0);
    let failure = RequestUnion::Range(api::RangeRequest { key: key.clone(), ..Default::default() });
    TxnRequest {
        compare: compare.into_iter().collect(),
        success: vec![request_op(write_of(key, txn.op, prev_kv))],
        failure: vec![request_op(failure)],
    }
}

/// Returns the request to write one key; with `prev_kv`, the response has the previous value.
pub(crate) fn write_of(key: Bytes, op: Op, prev_kv: bool) -> RequestUnion {
    match op {
        Op::Put { value, lease } => {
            let lease = lease.map_or(0, |lease| lease.0);
            RequestUnion::Put(PutRequest { key, value, lease, prev_kv, ..PutRequest::default() })
        }
        Op::Delete => RequestUnion::Delete(DeleteRangeRequest { key, prev_kv, ..DeleteRangeRequest::default() }),
    }
}

pub(crate) fn request_op(request: RequestUnion) -> RequestOp {
    RequestOp { request: Some(request) }
}

fn response_of(answer: api::TxnResponse) -> TxnResponse {
    let revision = Revision(answer.header.map_or(0, |header| unsigned(header.revision)));
    let kv = match answer.responses.into_iter().next() {
        Some(ResponseOp { response: Some(ResponseUnion::Range(range)) }) => range.kvs.into_iter().next(),
        Some(ResponseOp { response: Some(ResponseUnion::Put(put)) }) => put.prev_kv,
        Some(ResponseOp { response: Some(ResponseUnion::Delete(delete)) }) => delete.prev_kvs.into_iter().next(),
        Some(ResponseOp { response: Some(ResponseUnion::Txn(_)) | None }) | None => None,
    };
    let kv = kv.map(key_value);
    if answer.succeeded {
        TxnResponse::Done { revision, previous: kv }
    } else {
        TxnResponse::Unmet { current: kv, revision }
    }
}

pub(crate) fn signed(revision: u64) -> i64 {
    i64::try_from(revision).unwrap_or(i64::MAX)
}
