//! The contents of a store at one revision, copied into another store.

use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};

use crate::{Expect, KeyValue, Op, RangeRequest, Revision, Store, StoreError, Txn};

/// A copy that keeps the revisions of its keys: a value is stored behind a head with the revisions at which its key was
/// created and last written in the original. No key is changed or deleted after it was written.
pub struct Snapshot {
    inner: Arc<dyn Store>,
}

/// The keys of a range, in order.
#[derive(Debug)]
pub struct SnapshotRange {
    pub kvs: Vec<KeyValue>,
    /// True if keys beyond the limit were left out.
    pub more: bool,
    /// The number of all keys in the range, regardless of the limit.
    pub count: usize,
}

/// The first byte of a head. No stored object begins with it.
const FORMAT: u8 = 0;
const HEAD: usize = 17;

impl Snapshot {
    pub fn new(inner: Arc<dyn Store>) -> Self {
        Self { inner }
    }

    /// Adds a key of the original. A key that was written before stays as it is.
    pub async fn add(&self, kv: KeyValue) -> Result<(), StoreError> {
        let mut value = BytesMut::with_capacity(HEAD + kv.value.len());
        value.put_u8(FORMAT);
        value.put_u64_le(kv.create_revision.0);
        value.put_u64_le(kv.mod_revision.0);
        value.put_slice(&kv.value);
        let op = Op::Put { value: value.freeze(), lease: None };
        self.inner.txn(Txn { key: kv.key, expect: Expect::Absent, op }).await.map(drop)
    }

    pub async fn get(&self, key: Bytes) -> Result<Option<KeyValue>, StoreError> {
        let (kv, _) = self.inner.get(key, None).await?;
        kv.map(original).transpose()
    }

    /// Returns the keys of a range up to a limit; 0 means no limit.
    pub async fn range(&self, range: Range<Bytes>, limit: usize) -> Result<SnapshotRange, StoreError> {
        let request = RangeRequest { range, revision: None, limit, count_only: false };
        let response = self.inner.range(request).await?;
        let kvs = response.kvs.into_iter().map(original).collect::<Result<_, _>>()?;
        Ok(SnapshotRange { kvs, more: response.more, count: response.count })
    }

    /// Returns the number of keys in a range.
    pub async fn count(&self, range: Range<Bytes>) -> Result<usize, StoreError> {
        let request = RangeRequest { range, revision: None, limit: 0, count_only: true };
        Ok(self.inner.range(request).await?.count)
    }

    /// Returns true if the value of a key should be rewritten: see [`Store::is_stale`].
    pub async fn is_stale(&self, key: Bytes) -> Result<bool, StoreError> {
        match self.inner.get(key.clone(), None).await? {
            (Some(kv), _) => self.inner.is_stale(key, kv.mod_revision).await,
            (None, _) => Ok(false),
        }
    }

    /// Deletes the copy.
    pub async fn delete(&self, range: Range<Bytes>) -> Result<u64, StoreError> {
        self.inner.delete_range(range).await
    }
}

/// Returns a key as it was in the original.
fn original(kv: KeyValue) -> Result<KeyValue, StoreError> {
    let number = |at: usize| kv.value.get(at..at + 8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    match (kv.value.first(), number(1), number(9)) {
        (Some(&FORMAT), Some(created), Some(modified)) => Ok(KeyValue {
            value: kv.value.slice(HEAD..),
            create_revision: Revision(created),
            mod_revision: Revision(modified),
            ..kv
        }),
        _ => Err(StoreError::Damaged(format!("the copy of {:?} has no head", String::from_utf8_lossy(&kv.key)))),
    }
}
