//! The storage contract. It has exactly the guarantees of etcd, so that an embedded engine and etcd are
//! interchangeable.
//!
//! Keys are ordered byte strings, and every successful write gets the next global revision. Reads can go back to any
//! revision that has not been compacted. A watch delivers every change of a range from a revision on, in order.

mod compactor;
mod contents;
#[cfg(feature = "contract")]
pub mod contract;
mod digest;
mod fair;
mod keyspace;
mod layered;
mod overlay;
mod pages;
mod past;
mod quota;
mod range_watchers;
mod read_only;
mod snapshot;
mod trace;
mod usage;

use std::ops::Range;
use std::time::Duration;

#[doc(hidden)]
pub use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

pub use compactor::{Compactor, DEFAULT_COMPACTION_INTERVAL, spawn_compactor};
pub use contents::{Content, ContentDigest};
pub use digest::{Digest, Fingerprint, RangeDigest, ValueHash};
pub use fair::{FairStore, WriteShare, WriteShares, WriteWaits};
pub use keyspace::KeyspaceStore;
pub use layered::{LayeredStore, ValueTransformer};
pub use overlay::{Layers, OverlayStore};
pub use pages::{PageSize, Pages};
pub use past::PastStore;
pub use quota::QuotaStore;
pub use range_watchers::RangeWatchers;
pub use read_only::ReadOnlyStore;
pub use snapshot::{Snapshot, SnapshotWriter};
pub use trace::{CallSpan, CallTrace, current_trace, with_trace};
pub use usage::{StorageLimits, StorageUsage, StoredAmount};

/// The keys of a range in order, in chunks. It ends without an error only after all keys.
pub type Chunks<'a> = BoxStream<'a, Result<Vec<KeyValue>, StoreError>>;

/// The future that a store's method returns.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A revision of the whole store. The first write gets a revision above 1; 0 means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A lease that keys can be attached to. They are deleted when it expires.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LeaseId(pub i64);

/// One key at a revision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyValue {
    pub key: Bytes,
    pub value: Bytes,
    /// The revision of the key's last creation.
    pub create_revision: Revision,
    /// The revision at which this value was written.
    pub mod_revision: Revision,
    pub lease: Option<LeaseId>,
}

/// A read of the keys in `start..end`, in order.
#[derive(Clone, Debug)]
pub struct RangeRequest {
    pub range: Range<Bytes>,
    /// `None` means the current revision.
    pub revision: Option<Revision>,
    /// 0 means no limit.
    pub limit: usize,
    pub count: Count,
}

/// What a range read counts. To count the keys that a limit leaves out takes time in proportion to their number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// All keys of the range.
    All,
    /// At least the returned keys, and one more if there are more.
    Returned,
    /// All keys, of which none is returned.
    Only,
}

#[derive(Clone, Debug)]
pub struct RangeResponse {
    pub kvs: Vec<KeyValue>,
    /// True if keys beyond the limit were left out.
    pub more: bool,
    /// The number of keys, as [`RangeRequest::count`] says.
    pub count: usize,
    /// The store's current revision at the time of the response, not the revision of the read.
    pub revision: Revision,
}

/// A compare-and-set on one key.
#[derive(Clone, Debug)]
pub struct Txn {
    pub key: Bytes,
    pub expect: Expect,
    pub op: Op,
}

/// The condition of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    /// The key does not exist.
    Absent,
    /// The key exists and was last written at this revision.
    ModRevision(Revision),
    /// No condition: the key may exist or not.
    Anything,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Op {
    Put { value: Bytes, lease: Option<LeaseId> },
    Delete,
}

#[derive(Clone, Debug)]
pub enum TxnResponse {
    /// The write is durable and has this revision. `previous` is the replaced or deleted value.
    Done { revision: Revision, previous: Option<KeyValue> },
    /// The condition does not hold, and nothing was written. `current` is the current value of the key.
    Unmet { current: Option<KeyValue>, revision: Revision },
}

/// One change of one key.
#[derive(Clone, Debug)]
pub enum Event {
    /// `previous` is `None` if the key was created.
    Put { kv: KeyValue, previous: Option<KeyValue> },
    /// `previous` is the deleted value (`None` only if it was compacted). `revision` is the revision of the deletion.
    Delete { key: Bytes, revision: Revision, previous: Option<KeyValue> },
}

impl Event {
    pub fn key(&self) -> &Bytes {
        match self {
            Self::Put { kv, .. } => &kv.key,
            Self::Delete { key, .. } => key,
        }
    }

    pub fn revision(&self) -> Revision {
        match self {
            Self::Put { kv, .. } => kv.mod_revision,
            Self::Delete { revision, .. } => *revision,
        }
    }

    /// Returns the size of the keys and values in bytes.
    pub fn size(&self) -> usize {
        let size = |kv: &KeyValue| kv.key.len() + kv.value.len();
        match self {
            Self::Put { kv, previous } => size(kv) + previous.as_ref().map_or(0, size),
            Self::Delete { key, previous, .. } => key.len() + previous.as_ref().map_or(0, size),
        }
    }
}

/// A message of a watch.
#[derive(Clone, Debug)]
pub enum WatchMessage {
    /// Changes in revision order; all changes of one revision are in one message.
    Events(Vec<Event>),
    /// Every event of this watch up to this revision has been sent.
    Progress(Revision),
}

/// A running watch, which ends when it is dropped.
pub struct Watch {
    /// Ends with an error if the watch cannot continue (its history was compacted, or the engine stopped).
    pub messages: BoxStream<'static, Result<WatchMessage, StoreError>>,
    pub control: Box<dyn WatchControl>,
}

/// The control of a running watch.
pub trait WatchControl: Send + Sync {
    /// Returns a linearizable point: the store reached the revision `current` at some time after the call, and every
    /// event of this watch up to `current` was sent to the stream. `last_event` is the revision of the newest of them
    /// (0 if there was none since the watch started). A reader that has read the stream up to `last_event` has the
    /// range as of `current`.
    fn barrier(&self) -> BoxFuture<'_, Result<Barrier, StoreError>>;

    /// Returns the current digest of the watch's range, or `None` if the engine keeps none or has not counted all
    /// objects yet. The first call makes the engine start to count; no call waits for the result.
    fn digest(&self) -> Option<RangeDigest> {
        None
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Barrier {
    pub current: Revision,
    pub last_event: Revision,
}

/// A durable, ordered, versioned key-value store.
pub trait Store: Send + Sync + 'static {
    /// Returns the revision of the newest acknowledged write, read linearizably.
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>>;

    /// Returns one key at a revision (`None` means the current one), and the store's revision.
    fn get(
        &self,
        key: Bytes,
        revision: Option<Revision>,
    ) -> BoxFuture<'_, Result<(Option<KeyValue>, Revision), StoreError>>;

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, StoreError>>;

    /// Opens a read of all keys in `range` at a revision, in chunks that the engine bounds. Returns `None` if the engine
    /// has nothing cheaper than ranges with limits.
    ///
    /// Callers use [`Pages`], which read the rest by ranges after an error.
    fn stream(&self, _range: Range<Bytes>, _revision: Revision) -> Answer<'_, Option<Chunks<'_>>> {
        Box::pin(std::future::ready(Ok(None)))
    }

    /// Executes a transaction. After the response `Done`, the write survives a power failure.
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, StoreError>>;

    /// Deletes all keys in `range`, and returns their number. The keys are deleted in batches of bounded size; those of a
    /// batch have one revision. After an error, some of them may have been deleted. A key that is written meanwhile may
    /// remain.
    fn delete_range(&self, range: Range<Bytes>) -> BoxFuture<'_, Result<u64, StoreError>>;

    /// Watches the keys in `range` from the first change after `after`. Fails with [`StoreError::Compacted`] if that
    /// history was compacted.
    fn watch(&self, range: Range<Bytes>, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>>;

    /// Drops versions that were replaced or deleted at or before `revision`. Later reads at older revisions fail.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns the revision of the latest compaction, or 0 if there was none.
    fn compacted_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>>;

    /// Grants a lease with a TTL of `ttl_seconds`, which starts now.
    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId, StoreError>>;

    /// Revokes a lease and deletes its keys.
    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns the remaining time of a lease. As in etcd, a restart of the engine resets it to the full TTL.
    fn lease_remaining(&self, lease: LeaseId) -> BoxFuture<'_, Result<Duration, StoreError>>;

    /// Succeeds if the engine can serve. This is the health check `etcd`.
    fn health(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Fails if the engine can serve but should not get requests, for example when the disk is full.
    fn readiness(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.health()
    }

    /// Returns true if each read is a call of another process, so that a writer should begin with a state of the key that it has.
    fn is_remote(&self) -> bool {
        false
    }

    /// Returns the parts of a store that has its own keys above those of a snapshot, for readers of whole ranges that keep
    /// what they make of the snapshot.
    fn layers(&self) -> Option<Layers> {
        None
    }

    /// Releases the value that the key has had since `revision`: the caller holds a copy and rarely reads it from the
    /// store. An engine that can read the value from disk may drop it from memory. Reads still return it.
    fn release(&self, _key: &[u8], _revision: Revision) {}

    /// Returns true if the value that the key has had since `revision` should be rewritten even if unchanged, because
    /// its stored encoding is out of date (for example, the encryption key has changed). This is only called for
    /// updates that change nothing.
    fn is_stale(&self, _key: Bytes, _revision: Revision) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// Reads and watches before `compacted` are no longer possible.
    #[error("mvcc: required revision has been compacted")]
    Compacted { compacted: Revision },
    #[error("mvcc: required revision is a future revision")]
    FutureRevision { current: Revision },
    #[error("requested lease not found")]
    LeaseNotFound,
    /// The disk failed. Nothing of the transaction is visible, and the engine rejects later writes.
    #[error("storage failed: {0}")]
    Io(String),
    /// There is no space for the write. Requests that free space still succeed. Nothing of the transaction is visible.
    #[error("storage is full: {0}")]
    NoSpace(String),
    /// The request is too large for the store. Nothing of it was executed.
    #[error("etcdserver: request is too large")]
    TooLarge,
    /// The data read differ from the data written.
    #[error("storage is damaged: {0}")]
    Damaged(String),
    /// The store cannot be reached. It is unknown whether a write was executed.
    #[error("{0}")]
    Unavailable(String),
    /// The watch has ended because the store was restored from a backup: its events may belong to another history.
    #[error("the store went back to an earlier revision")]
    Restored,
    /// The value cannot be decrypted, or values currently cannot be encrypted.
    #[error("unable to transform key {key:?}: {why}")]
    Transform { key: String, why: String },
    /// The value is not an object of the stored kind. Only readers of objects return this error, not engines.
    #[error("{why}")]
    Undecodable { key: String, revision: Revision, why: String },
    /// This server only reads the store. Nothing of the request was executed.
    #[error("the server is read-only")]
    ReadOnly,
    /// The store ends at an earlier revision. Nothing of the request was executed.
    #[error("the past cannot be changed")]
    Past,
    /// The store has other users, which the request would affect. Nothing of it was executed.
    #[error("the store is shared with others")]
    Shared,
    /// The write would exceed a limit of this user of the store. Nothing of it was executed.
    #[error("exceeded quota of this cluster: {quota}, requested: {requested}, used: {used}, limited: {limited}")]
    QuotaExceeded { quota: &'static str, requested: i64, used: i64, limited: u64 },
    #[error("storage is closed")]
    Closed,
    #[error("storage did not answer in time")]
    Timeout,
}

impl StoreError {
    /// Returns the error for a value that is not an object. It recognizes encrypted values by their prefix.
    pub fn no_object(kv: &KeyValue, why: String) -> Self {
        let key = String::from_utf8_lossy(&kv.key).into_owned();
        if kv.value.starts_with(b"k8s:enc:") {
            return Self::Transform { key, why: "identity transformer tried to read encrypted data".to_owned() };
        }
        Self::Undecodable { key, revision: kv.mod_revision, why }
    }

    /// Returns true if a write with this error may have been executed, or may still be executed. The resources that it
    /// uses must not be released.
    pub fn leaves_outcome_unknown(&self) -> bool {
        match self {
            Self::Compacted { .. }
            | Self::FutureRevision { .. }
            | Self::LeaseNotFound
            | Self::NoSpace(_)
            | Self::TooLarge
            | Self::ReadOnly
            | Self::Shared
            | Self::Past
            | Self::QuotaExceeded { .. }
            | Self::Transform { .. }
            | Self::Undecodable { .. } => false,
            Self::Io(_) | Self::Damaged(_) | Self::Unavailable(_) | Self::Restored | Self::Closed | Self::Timeout => {
                true
            }
        }
    }

    /// Returns true if a value exists but cannot be read. A retry only helps after the value or its encryption key has
    /// changed.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Transform { .. } | Self::Undecodable { .. })
    }
}

/// Returns the key that marks an unfinished migration of the objects whose keys begin with `root` into the store. A
/// store with this key has only some of the objects.
pub fn unfinished_migration_key(root: &str) -> Bytes {
    Bytes::from(format!("binnacle_migration{root}"))
}

/// Returns the end of the range of all keys that start with `prefix`.
pub fn prefix_end(prefix: &[u8]) -> Bytes {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < 0xff {
            end.push(last + 1);
            return Bytes::from(end);
        }
    }
    // All bytes are 0xff: only keys that start with the prefix are greater.
    Bytes::from_static(&[0xff; 64])
}

/// Returns the range of all keys that start with `prefix`.
pub fn prefix_range(prefix: &[u8]) -> Range<Bytes> {
    Bytes::copy_from_slice(prefix)..prefix_end(prefix)
}
