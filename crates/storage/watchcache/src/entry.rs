//! One object of the cache at one revision, and one change of an object.

use std::sync::{Arc, OnceLock};

use binnacle_store::{Fingerprint, KeyValue, Revision, ValueHash};
use bytes::Bytes;
use tokio::time::Instant;

use crate::attrs::{Labels, Meta};
use crate::backlog::{Backlog, Charge};
use crate::compression::{Value, ValueRef};
use crate::encodings::{EncodingBudget, EncodingId, EncodingSlot};

/// An object at one revision. It is immutable, except for the encodings that are cached with it.
#[derive(Debug)]
pub struct Entry {
    pub(crate) meta: Meta,
    value: Value,
    revision: Revision,
    create_revision: Revision,
    value_hash: ValueHash,
    encodings: EncodingSlot,
}

impl Entry {
    /// Creates an entry. If `compresses` is true, its value is compressed after a while.
    pub(crate) fn new(meta: Meta, value: Bytes, compresses: bool, kv: &KeyValue) -> Self {
        let (revision, create_revision) = (kv.mod_revision, kv.create_revision);
        let value_hash = ValueHash::of(&kv.value);
        Self {
            meta,
            value: Value::new(value, compresses),
            revision,
            create_revision,
            value_hash,
            encodings: EncodingSlot::default(),
        }
    }

    /// Returns the entry with a limit on its encodings, whatever that of its readers is. Values of such entries are not
    /// compressed.
    pub(crate) fn within(self, budget: &Arc<EncodingBudget>) -> Self {
        Self { encodings: EncodingSlot::within(budget), ..self }
    }

    /// Returns `namespace/name`, or `name` without a namespace: the key without the resource's prefix.
    pub fn path(&self) -> &str {
        self.meta.path()
    }

    /// Returns the namespace, which is empty for cluster-scoped objects.
    pub fn namespace(&self) -> &str {
        self.meta.namespace()
    }

    pub fn name(&self) -> &str {
        self.meta.name()
    }

    /// Returns the stored bytes, or the indexer's value instead of them.
    #[inline]
    pub fn value(&self) -> ValueRef<'_> {
        self.value.get()
    }

    /// Returns the length of [`Entry::value`].
    #[inline]
    pub fn value_len(&self) -> usize {
        self.value.len()
    }

    #[cfg(test)]
    pub(crate) fn is_compressed(&self) -> bool {
        self.value.is_compressed()
    }

    /// Compresses the value. Returns true if the compressed value is kept.
    pub(crate) fn compress(&self) -> bool {
        self.value.compress()
    }

    /// Returns the revision at which this value was written.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the revision at which the object was created.
    pub fn create_revision(&self) -> Revision {
        self.create_revision
    }

    /// Returns the hash of the value as the store sent it.
    pub(crate) fn value_hash(&self) -> ValueHash {
        self.value_hash
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        Fingerprint::new(self.path().as_bytes(), self.revision, self.value_hash)
    }

    pub fn labels(&self) -> Labels<'_> {
        self.meta.labels()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.meta.label(key)
    }

    /// Returns the value of the selectable field at a position of [`Indexer::fields`](crate::Indexer::fields).
    pub fn field(&self, position: usize) -> &str {
        self.meta.field(position)
    }

    /// Returns the encoding `id`, which is created on first use and shared. `encode` must not request an encoding of
    /// this entry.
    pub fn encoding<E>(
        &self,
        budget: &Arc<EncodingBudget>,
        id: EncodingId,
        encode: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        self.encodings.get_or_encode(budget, (id, 0), encode)
    }

    /// Returns the encoding `id` if it is cached.
    pub fn cached_encoding(&self, id: EncodingId) -> Option<Bytes> {
        self.encodings.get((id, 0))
    }

    /// Returns the approximate memory of the object in the cache, without encodings.
    pub(crate) fn size(&self) -> usize {
        // The entry with its counters, its node in the map, and the heap memory of `Bytes`.
        const FIXED: usize = size_of::<Entry>() + 16 + 40 + 32;
        FIXED + self.meta.size() + self.value.len()
    }
}

/// Entries of one key are equal if their revisions are.
impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.revision == other.revision && self.meta == other.meta
    }
}

impl Eq for Entry {}

/// One change of one object, shared by the window and all watchers.
#[derive(Debug)]
pub struct Event {
    revision: Revision,
    old: Option<Arc<Entry>>,
    new: Option<Arc<Entry>>,
    pub(crate) at: Instant,
    /// The sequence number among all events of the cache.
    pub(crate) sequence: u64,
    encodings: EncodingSlot,
    /// Set when the window has dropped the event while watchers still hold it.
    charge: OnceLock<Charge>,
}

impl Event {
    pub(crate) fn new(revision: Revision, old: Option<Arc<Entry>>, new: Option<Arc<Entry>>, at: Instant) -> Self {
        Self { revision, old, new, at, sequence: 0, encodings: EncodingSlot::default(), charge: OnceLock::new() }
    }

    /// Returns the revision of the change. In a deletion, no entry has this revision.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// Returns the object before the change, or `None` if it was created.
    pub fn old(&self) -> Option<&Arc<Entry>> {
        self.old.as_ref()
    }

    /// Returns the object after the change, or `None` if it was deleted.
    pub fn new_entry(&self) -> Option<&Arc<Entry>> {
        self.new.as_ref()
    }

    pub(crate) fn size(&self) -> usize {
        let value = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |entry| entry.size());
        // The new entry is usually held by the cache anyway, or is the old one of a later event.
        value(&self.old) + size_of::<Self>() + 24
    }

    /// Returns the bytes of memory that are retained by a reader that has not read this event.
    pub(crate) fn retained_bytes(&self) -> usize {
        let created = if self.old.is_none() { self.new.as_ref() } else { None };
        self.size() + created.map_or(0, |entry| entry.size())
    }

    /// Counts the event in the backlog if watchers still hold it when the window drops it.
    pub(crate) fn charge(&self, backlog: &Arc<Backlog>) {
        self.charge.get_or_init(|| Charge::new(backlog, self.retained_bytes()));
    }
}

/// The type of a change for one watcher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// An item of a watch.
#[derive(Clone, Debug)]
pub enum WatchItem {
    /// ADDED, from the initial state of the watch.
    Initial(Arc<Entry>),
    /// ADDED, MODIFIED or DELETED. An object that no longer matches is DELETED.
    Event { change: Change, event: Arc<Event> },
    /// The end of the initial state, with the revision of that state.
    InitialEventsEnd(Revision),
}

impl WatchItem {
    /// Returns the object of the item. For a deletion, it is the last version that the watcher may have received.
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Initial(entry) => Some(entry),
            Self::Event { change: Change::Deleted, event } => event.old.as_ref(),
            Self::Event { event, .. } => event.new.as_ref(),
            Self::InitialEventsEnd(_) => None,
        }
    }

    /// Returns the revision of the item's object. For a deletion, it is the revision of the deletion.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Initial(entry) => entry.revision,
            Self::Event { event, .. } => event.revision,
            Self::InitialEventsEnd(revision) => *revision,
        }
    }

    /// Returns the type of the change, or `None` for the end of the initial state.
    pub fn change(&self) -> Option<Change> {
        match self {
            Self::Initial(_) => Some(Change::Added),
            Self::Event { change, .. } => Some(*change),
            Self::InitialEventsEnd(_) => None,
        }
    }

    /// Returns the framed bytes of the item in the encoding `id`. All watchers for which the event is the same type of
    /// change share them; other items are encoded each time. `encode` may request an encoding of the entry.
    pub fn frame<E>(
        &self,
        budget: &Arc<EncodingBudget>,
        id: EncodingId,
        encode: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        match self {
            Self::Event { change, event } => event.encodings.get_or_encode(budget, (id, *change as u8), encode),
            Self::Initial(_) | Self::InitialEventsEnd(_) => encode(),
        }
    }
}
