//! The messages of etcd's v3 API that this engine uses, with the field numbers of `rpc.proto` and `kv.proto`.
//!
//! They are written by hand: generated code would have four times as many messages (`docs/dependencies.md`), and these
//! never change. Unused fields are omitted; protobuf skips unknown ones.

use prost::{Message, Oneof};

/// The paths of the methods.
pub(crate) mod path {
    pub(crate) const RANGE: &str = "/etcdserverpb.KV/Range";
    pub(crate) const RANGE_STREAM: &str = "/etcdserverpb.KV/RangeStream";
    pub(crate) const PUT: &str = "/etcdserverpb.KV/Put";
    pub(crate) const DELETE_RANGE: &str = "/etcdserverpb.KV/DeleteRange";
    pub(crate) const TXN: &str = "/etcdserverpb.KV/Txn";
    pub(crate) const COMPACT: &str = "/etcdserverpb.KV/Compact";
    pub(crate) const WATCH: &str = "/etcdserverpb.Watch/Watch";
    pub(crate) const LEASE_GRANT: &str = "/etcdserverpb.Lease/LeaseGrant";
    pub(crate) const LEASE_REVOKE: &str = "/etcdserverpb.Lease/LeaseRevoke";
    pub(crate) const LEASE_TIME_TO_LIVE: &str = "/etcdserverpb.Lease/LeaseTimeToLive";
    pub(crate) const STATUS: &str = "/etcdserverpb.Maintenance/Status";
}

/// The header of every response. Its revision is the one of the member's store at that time.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseHeader {
    #[prost(uint64, tag = "1")]
    pub(crate) cluster_id: u64,
    #[prost(int64, tag = "3")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct KeyValue {
    #[prost(bytes = "vec", tag = "1")]
    pub(crate) key: Vec<u8>,
    #[prost(int64, tag = "2")]
    pub(crate) create_revision: i64,
    #[prost(int64, tag = "3")]
    pub(crate) mod_revision: i64,
    /// The number of writes of the key since it was created.
    #[prost(int64, tag = "4")]
    pub(crate) version: i64,
    #[prost(bytes = "vec", tag = "5")]
    pub(crate) value: Vec<u8>,
    #[prost(int64, tag = "6")]
    pub(crate) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Event {
    /// 0 is a put, 1 a delete.
    #[prost(int32, tag = "1")]
    pub(crate) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) kv: Option<KeyValue>,
    #[prost(message, optional, tag = "3")]
    pub(crate) prev_kv: Option<KeyValue>,
}

pub(crate) const EVENT_DELETE: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: bytes::Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) range_end: bytes::Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) limit: i64,
    #[prost(int64, tag = "4")]
    pub(crate) revision: i64,
    #[prost(bool, tag = "8")]
    pub(crate) keys_only: bool,
    #[prost(bool, tag = "9")]
    pub(crate) count_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) kvs: Vec<KeyValue>,
    #[prost(bool, tag = "3")]
    pub(crate) more: bool,
    #[prost(int64, tag = "4")]
    pub(crate) count: i64,
}

/// A part of a range, in etcd since 3.7. Only the last one has a header, a count and `more`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct RangeStreamResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) range_response: Option<RangeResponse>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: bytes::Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) value: bytes::Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) lease: i64,
    #[prost(bool, tag = "4")]
    pub(crate) prev_kv: bool,
    /// Whether to keep the current value of the key.
    #[prost(bool, tag = "5")]
    pub(crate) ignore_value: bool,
    #[prost(bool, tag = "6")]
    pub(crate) ignore_lease: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct PutResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(message, optional, tag = "2")]
    pub(crate) prev_kv: Option<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: bytes::Bytes,
    /// Empty for one key.
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) range_end: bytes::Bytes,
    #[prost(bool, tag = "3")]
    pub(crate) prev_kv: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct DeleteRangeResponse {
    #[prost(int64, tag = "2")]
    pub(crate) deleted: i64,
    #[prost(message, repeated, tag = "3")]
    pub(crate) prev_kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct RequestOp {
    #[prost(oneof = "RequestUnion", tags = "1, 2, 3, 4")]
    pub(crate) request: Option<RequestUnion>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum RequestUnion {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeRequest),
    #[prost(message, tag = "4")]
    Txn(TxnRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ResponseOp {
    #[prost(oneof = "ResponseUnion", tags = "1, 2, 3, 4")]
    pub(crate) response: Option<ResponseUnion>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum ResponseUnion {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
    #[prost(message, tag = "3")]
    Delete(DeleteRangeResponse),
    #[prost(message, tag = "4")]
    Txn(TxnResponse),
}

/// A condition on a property of a key. All properties of a key that does not exist are 0.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Compare {
    /// 0 means "equal".
    #[prost(int32, tag = "1")]
    pub(crate) result: i32,
    /// The index of the compared property.
    #[prost(int32, tag = "2")]
    pub(crate) target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    pub(crate) key: bytes::Bytes,
    #[prost(oneof = "CompareTarget", tags = "4, 5, 6")]
    pub(crate) compared: Option<CompareTarget>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum CompareTarget {
    #[prost(int64, tag = "4")]
    Version(i64),
    #[prost(int64, tag = "5")]
    CreateRevision(i64),
    #[prost(int64, tag = "6")]
    ModRevision(i64),
}

impl Compare {
    pub(crate) fn equal(key: bytes::Bytes, compared: CompareTarget) -> Self {
        let target = match compared {
            CompareTarget::Version(_) => 0,
            CompareTarget::CreateRevision(_) => 1,
            CompareTarget::ModRevision(_) => 2,
        };
        Self { result: 0, target, key, compared: Some(compared) }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(crate) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) success: Vec<RequestOp>,
    #[prost(message, repeated, tag = "3")]
    pub(crate) failure: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TxnResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "2")]
    pub(crate) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(crate) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactionRequest {
    #[prost(int64, tag = "1")]
    pub(crate) revision: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct CompactionResponse {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchRequest {
    #[prost(oneof = "WatchUnion", tags = "1, 3")]
    pub(crate) request: Option<WatchUnion>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum WatchUnion {
    #[prost(message, tag = "1")]
    Create(WatchCreateRequest),
    #[prost(message, tag = "3")]
    Progress(WatchProgressRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchCreateRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(crate) key: bytes::Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(crate) range_end: bytes::Bytes,
    #[prost(int64, tag = "3")]
    pub(crate) start_revision: i64,
    #[prost(bool, tag = "6")]
    pub(crate) prev_kv: bool,
    /// Whether large responses may be split into fragments.
    #[prost(bool, tag = "8")]
    pub(crate) fragment: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchProgressRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct WatchResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(bool, tag = "3")]
    pub(crate) created: bool,
    #[prost(bool, tag = "4")]
    pub(crate) canceled: bool,
    /// Not 0 if the watch was rejected because its start was compacted at this revision.
    #[prost(int64, tag = "5")]
    pub(crate) compact_revision: i64,
    #[prost(string, tag = "6")]
    pub(crate) cancel_reason: String,
    /// True if more fragments follow.
    #[prost(bool, tag = "7")]
    pub(crate) fragment: bool,
    #[prost(message, repeated, tag = "11")]
    pub(crate) events: Vec<Event>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantRequest {
    #[prost(int64, tag = "1")]
    pub(crate) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseRevokeRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseRevokeResponse {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseTimeToLiveRequest {
    #[prost(int64, tag = "1")]
    pub(crate) id: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct LeaseTimeToLiveResponse {
    #[prost(int64, tag = "2")]
    pub(crate) id: i64,
    /// The remaining seconds, or -1 if there is no such lease.
    #[prost(int64, tag = "3")]
    pub(crate) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusRequest {}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct StatusResponse {
    #[prost(message, optional, tag = "1")]
    pub(crate) header: Option<ResponseHeader>,
    #[prost(string, tag = "2")]
    pub(crate) version: String,
    #[prost(int64, tag = "3")]
    pub(crate) db_size: i64,
}
