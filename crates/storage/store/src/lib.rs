//! The storage contract: etcd's promises and no others, so that an embedded engine and etcd are interchangeable.
//!
//! Keys are ordered byte strings, every successful write gets the next global revision, reads can go back to any
//! revision that has not been compacted, and a watch delivers every change of a range from a revision on, in order.

mod compactor;
#[cfg(feature = "contract")]
pub mod contract;
mod digest;
mod layered;
mod range_watchers;
mod trace;

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

pub use compactor::{Compactor, DEFAULT_COMPACTION_INTERVAL, spawn_compactor};
pub use digest::{Digest, Fingerprint, RangeDigest, ValueHash};
pub use layered::{LayeredStore, ValueTransformer};
pub use range_watchers::RangeWatchers;
pub use trace::{CallSpan, CallTrace, current_trace, with_trace};

/// The future returned by a store's method.
pub type Answer<'a, T> = BoxFuture<'a, Result<T, StoreError>>;

/// A revision of the whole store. The first write gets one above 1; 0 means "none".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

/// A lease that keys can be attached to; they are deleted when it expires.
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
    /// True to get only `count`.
    pub count_only: bool,
}

#[derive(Clone, Debug)]
pub struct RangeResponse {
    pub kvs: Vec<KeyValue>,
    /// True if keys beyond the limit were left out.
    pub more: bool,
    /// The number of all keys in the range, whatever the limit is.
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
    /// The write is durable and has this revision. `previous` is the value that was replaced or deleted.
    Done { revision: Revision, previous: Option<KeyValue> },
    /// The condition does not hold; nothing was written. `current` is the current value of the key.
    Unmet { current: Option<KeyValue>, revision: Revision },
}

/// One change of one key.
#[derive(Clone, Debug)]
pub enum Event {
    /// `previous` is `None` if the key was created.
    Put { kv: KeyValue, previous: Option<KeyValue> },
    /// `previous` is the deleted value (`None` only if it was compacted), `revision` is the deletion's.
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

    /// Returns the size of its keys and values in bytes.
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

/// A running watch. Dropping it ends it.
pub struct Watch {
    /// Ends with an error if the watch cannot continue (its history was compacted, the engine stopped).
    pub messages: BoxStream<'static, Result<WatchMessage, StoreError>>,
    pub control: Box<dyn WatchControl>,
}

/// The control of a running watch.
pub trait WatchControl: Send + Sync {
    /// Returns a linearizable point: the store reached the revision `current` at some time after the call, and every
    /// event of this watch up to `current` was sent to the stream, the newest of them with revision `last_event` (0 if
    /// there was none since the watch started). A reader of the stream up to `last_event` has the range as of
    /// `current`.
    fn barrier(&self) -> BoxFuture<'_, Result<Barrier, StoreError>>;

    /// Returns the present digest of the watch's range, or `None` if the engine keeps none or has not counted all
    /// objects yet. The first call lets it begin to count; none waits for that.
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

    /// Returns one key at a revision (`None` means now), and the store's revision.
    fn get(
        &self,
        key: Bytes,
        revision: Option<Revision>,
    ) -> BoxFuture<'_, Result<(Option<KeyValue>, Revision), StoreError>>;

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, StoreError>>;

    /// Executes a transaction; after the response `Done` the write survives a power cut.
    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, StoreError>>;

    /// Watches the keys in `range` from the first change after `after`. Fails with [`StoreError::Compacted`] if that
    /// history is gone.
    fn watch(&self, range: Range<Bytes>, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>>;

    /// Forgets versions that were replaced or deleted at or before `revision`. Later reads at older revisions fail.
    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns the revision of the latest compaction, 0 for none.
    fn compacted_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>>;

    /// Grants a lease of `ttl_seconds` from now.
    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId, StoreError>>;

    /// Ends a lease and deletes its keys.
    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Returns the remaining time of a lease. As in etcd, a restart of the engine resets it to the full time.
    fn lease_remaining(&self, lease: LeaseId) -> BoxFuture<'_, Result<Duration, StoreError>>;

    /// Succeeds if the engine can serve: the health check `etcd`.
    fn health(&self) -> BoxFuture<'_, Result<(), StoreError>>;

    /// Fails if the engine can serve but should not get work, for example when the disk is full.
    fn readiness(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.health()
    }

    /// Tells the engine that the caller has the value that the key has had since `revision`, and rarely needs it from
    /// here: an engine that can read it from a disk need not keep it in memory. Reads return it as before.
    fn release(&self, _key: &[u8], _revision: Revision) {}

    /// Returns true if the value that the key has had since `revision` should be written again even unchanged, since
    /// its stored form has changed (for example the encryption key). Called only for updates without effect.
    fn is_stale(&self, _key: Bytes, _revision: Revision) -> BoxFuture<'_, Result<bool, StoreError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Reads and watches before `compacted` are not possible any more.
    #[error("mvcc: required revision has been compacted")]
    Compacted { compacted: Revision },
    #[error("mvcc: required revision is a future revision")]
    FutureRevision { current: Revision },
    #[error("requested lease not found")]
    LeaseNotFound,
    /// The disk failed; nothing of the transaction is visible, and the engine refuses later writes.
    #[error("storage failed: {0}")]
    Io(String),
    /// There is no space for the write; requests that free space still succeed. Nothing of the transaction is visible.
    #[error("storage is full: {0}")]
    NoSpace(String),
    /// The request is too large for the store. Nothing of it was executed.
    #[error("etcdserver: request is too large")]
    TooLarge,
    /// The data read differ from the data written.
    #[error("storage is damaged: {0}")]
    Damaged(String),
    /// The store cannot be reached. Whether a write was executed is unknown.
    #[error("{0}")]
    Unavailable(String),
    /// The watch has ended because the store was restored from a backup: its events may be from another history.
    #[error("the store went back to an earlier revision")]
    Restored,
    /// The value cannot be decrypted, or values cannot be encrypted now.
    #[error("unable to transform key {key:?}: {why}")]
    Transform { key: String, why: String },
    /// The value is not an object of the stored kind. Readers of objects return this, engines do not.
    #[error("{why}")]
    Undecodable { key: String, revision: Revision, why: String },
    #[error("storage is closed")]
    Closed,
    #[error("storage did not answer in time")]
    Timeout,
}

impl StoreError {
    /// Returns the error of a value that is not an object. It recognizes encrypted values by their prefix.
    pub fn no_object(kv: &KeyValue, why: String) -> Self {
        let key = String::from_utf8_lossy(&kv.key).into_owned();
        if kv.value.starts_with(b"k8s:enc:") {
            return Self::Transform { key, why: "identity transformer tried to read encrypted data".to_owned() };
        }
        Self::Undecodable { key, revision: kv.mod_revision, why }
    }

    /// Returns true if a write with this error may have been executed, or may still be: the resources that it uses must
    /// not be given to others.
    pub fn leaves_outcome_unknown(&self) -> bool {
        match self {
            Self::Compacted { .. }
            | Self::FutureRevision { .. }
            | Self::LeaseNotFound
            | Self::NoSpace(_)
            | Self::TooLarge
            | Self::Transform { .. }
            | Self::Undecodable { .. } => false,
            Self::Io(_) | Self::Damaged(_) | Self::Unavailable(_) | Self::Restored | Self::Closed | Self::Timeout => {
                true
            }
        }
    }

    /// Returns true if a value exists but cannot be read: a retry helps only after it, or its key, has changed.
    pub fn is_unreadable(&self) -> bool {
        matches!(self, Self::Transform { .. } | Self::Undecodable { .. })
    }
}

/// Returns the key that marks an unfinished migration into a store of the objects whose keys begin with `root`. A store
/// with this key has only some of its objects.
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
