//! The contents of a store at one revision, copied into another store, and read from there as a whole.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::{BufMut, Bytes, BytesMut};
use parking_lot::Mutex;

use crate::{Expect, KeyValue, Op, Pages, Revision, Store, StoreError, Txn};

/// A copy in memory, which keeps the revisions of its keys. Nobody changes it. All readers share one, and what they make
/// of it.
pub struct Snapshot {
    /// The keys, in order.
    kvs: Vec<KeyValue>,
    inner: Arc<dyn Store>,
    derived: Mutex<HashMap<(TypeId, Bytes), Arc<dyn Any + Send + Sync>>>,
}

/// Copies keys into a store, where [`Snapshot::load`] finds them. A value is stored behind a head with the revisions at
/// which its key was created and last written in the original. No key is changed or deleted after it was written.
pub struct SnapshotWriter {
    inner: Arc<dyn Store>,
}

/// The first byte of a head. No stored object begins with it.
const FORMAT: u8 = 0;
const HEAD: usize = 17;

impl SnapshotWriter {
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
}

impl Snapshot {
    /// Reads a complete copy below a prefix.
    pub async fn load(inner: Arc<dyn Store>, prefix: &[u8]) -> Result<Self, StoreError> {
        let mut kvs = Vec::new();
        // The keys stay as they are, so that all pages are of the same contents.
        let mut pages = Pages::new(&*inner, crate::prefix_range(prefix), Revision(0));
        while let Some(page) = pages.next().await? {
            for kv in page {
                kvs.push(original(kv)?);
            }
        }
        drop(pages);
        kvs.shrink_to_fit();
        Ok(Self { kvs, inner, derived: Mutex::default() })
    }

    pub fn get(&self, key: &[u8]) -> Option<&KeyValue> {
        let at = self.kvs.binary_search_by(|kv| (*kv.key).cmp(key)).ok()?;
        self.kvs.get(at)
    }

    /// Returns the keys of a range, in order.
    pub fn range(&self, range: &Range<Bytes>) -> &[KeyValue] {
        let before = |end: &Bytes| self.kvs.partition_point(|kv| kv.key < *end);
        let start = before(&range.start);
        &self.kvs[start..before(&range.end).max(start)]
    }

    /// Returns what readers derive from a part of the contents, which they share. `name` distinguishes values of one
    /// type. If several readers derive a value at the same time, they get the first one.
    pub fn derived<T: Send + Sync + 'static, E>(
        &self,
        name: Bytes,
        derive: impl FnOnce() -> Result<T, E>,
    ) -> Result<Arc<T>, E> {
        let key = (TypeId::of::<T>(), name);
        if let Some(value) = self.find_derived(&key) {
            return Ok(value);
        }
        // Without the lock, since it may take long.
        let value = Arc::new(derive()?);
        let kept = self.derived.lock().entry(key).or_insert_with(|| value.clone()).clone();
        Ok(kept.downcast().unwrap_or(value))
    }

    fn find_derived<T: Send + Sync + 'static>(&self, key: &(TypeId, Bytes)) -> Option<Arc<T>> {
        self.derived.lock().get(key)?.clone().downcast().ok()
    }

    /// Returns true if the value of a key should be rewritten: see [`Store::is_stale`].
    pub(crate) async fn is_stale(&self, key: Bytes) -> Result<bool, StoreError> {
        match self.inner.get(key.clone(), None).await? {
            (Some(kv), _) => self.inner.is_stale(key, kv.mod_revision).await,
            (None, _) => Ok(false),
        }
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
