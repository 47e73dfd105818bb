//! One object of the cache at one revision, and one change of an object.

use std::sync::{Arc, OnceLock};

use binnacle_store::Revision;
use bytes::Bytes;
use tokio::time::Instant;

use crate::attrs::{Labels, Meta};
use crate::backlog::{Backlog, Charge};
use crate::forms::{FormBudget, FormId, FormSlot};

/// An object as it stood at one revision. Immutable, but for the wire forms that are kept with it.
#[derive(Debug)]
pub struct Entry {
    pub(crate) meta: Meta,
    value: Bytes,
    revision: Revision,
    create_revision: Revision,
    forms: FormSlot,
}

impl Entry {
    pub(crate) fn new(meta: Meta, value: Bytes, revision: Revision, create_revision: Revision) -> Self {
        Self { meta, value, revision, create_revision, forms: FormSlot::default() }
    }

    /// `namespace/name`, or `name` when there is no namespace: the key without the resource's prefix.
    pub fn path(&self) -> &str {
        self.meta.path()
    }

    /// Empty for objects without one.
    pub fn namespace(&self) -> &str {
        self.meta.namespace()
    }

    pub fn name(&self) -> &str {
        self.meta.name()
    }

    /// The stored bytes, or the indexer's value in their place.
    pub fn value(&self) -> &Bytes {
        &self.value
    }

    /// The revision at which this value was written.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The revision at which the object was created.
    pub fn create_revision(&self) -> Revision {
        self.create_revision
    }

    pub fn labels(&self) -> Labels<'_> {
        self.meta.labels()
    }

    pub fn label(&self, key: &str) -> Option<&str> {
        self.meta.label(key)
    }

    /// The selectable field at a position of [`Indexer::fields`](crate::Indexer::fields).
    pub fn field(&self, position: usize) -> &str {
        self.meta.field(position)
    }

    /// The wire form `id`, made on first use and shared. `make` must not ask this entry for a form.
    pub fn form<E>(
        &self,
        budget: &Arc<FormBudget>,
        id: FormId,
        make: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        self.forms.get_or_make(budget, (id, 0), make)
    }

    /// The wire form `id` if it is there.
    pub fn kept_form(&self, id: FormId) -> Option<Bytes> {
        self.forms.get((id, 0))
    }

    /// About how much memory the object takes in the cache, wire forms aside.
    pub(crate) fn size(&self) -> usize {
        // The entry with its counters, its place in the map, and the heap memory of `Bytes`.
        const FIXED: usize = size_of::<Entry>() + 16 + 40 + 32;
        FIXED + self.meta.size() + self.value.len()
    }
}

/// Two entries of one key at one revision are the same.
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
    /// Its place in the row of all events of the cache.
    pub(crate) sequence: u64,
    forms: FormSlot,
    /// There once the window has dropped the event while watchers still hold it.
    charge: OnceLock<Charge>,
}

impl Event {
    pub(crate) fn new(revision: Revision, old: Option<Arc<Entry>>, new: Option<Arc<Entry>>, at: Instant) -> Self {
        Self { revision, old, new, at, sequence: 0, forms: FormSlot::default(), charge: OnceLock::new() }
    }

    /// The revision of the change; for a deletion that is not the revision of any entry.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// The object before the change; `None` if it was created.
    pub fn old(&self) -> Option<&Arc<Entry>> {
        self.old.as_ref()
    }

    /// The object after the change; `None` if it was deleted.
    pub fn new_entry(&self) -> Option<&Arc<Entry>> {
        self.new.as_ref()
    }

    pub(crate) fn size(&self) -> usize {
        let value = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |entry| entry.size());
        // The new entry is usually the one that the cache holds anyway, or the old one of a later event.
        value(&self.old) + size_of::<Self>() + 24
    }

    /// Returns the bytes of memory that a reader keeps alive that has not read this event.
    pub(crate) fn held(&self) -> usize {
        let created = if self.old.is_none() { self.new.as_ref() } else { None };
        self.size() + created.map_or(0, |entry| entry.size())
    }

    /// Charges the event to the backlog: the window drops it while watchers still hold it.
    pub(crate) fn charge(&self, backlog: &Arc<Backlog>) {
        self.charge.get_or_init(|| Charge::new(backlog, self.held()));
    }
}

/// A change as a watcher sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Change {
    Added,
    Modified,
    Deleted,
}

/// An item that a watcher reads.
#[derive(Clone, Debug)]
pub enum WatchItem {
    /// ADDED, from the state that the watch began with.
    Initial(Arc<Entry>),
    /// ADDED, MODIFIED or DELETED. An object that stops matching is DELETED.
    Event { change: Change, event: Arc<Event> },
    /// All of the state that the watch began with, as of this revision, has been sent.
    InitialEventsEnd(Revision),
}

impl WatchItem {
    /// The object that the item shows: of a deletion, the last that the watcher may know.
    pub fn entry(&self) -> Option<&Arc<Entry>> {
        match self {
            Self::Initial(entry) => Some(entry),
            Self::Event { change: Change::Deleted, event } => event.old.as_ref(),
            Self::Event { event, .. } => event.new.as_ref(),
            Self::InitialEventsEnd(_) => None,
        }
    }

    /// The revision that the item's object is shown with: of a deletion, when that happened.
    pub fn revision(&self) -> Revision {
        match self {
            Self::Initial(entry) => entry.revision,
            Self::Event { event, .. } => event.revision,
            Self::InitialEventsEnd(revision) => *revision,
        }
    }

    /// `None` for the end of the initial state.
    pub fn change(&self) -> Option<Change> {
        match self {
            Self::Initial(_) => Some(Change::Added),
            Self::Event { change, .. } => Some(*change),
            Self::InitialEventsEnd(_) => None,
        }
    }

    /// The framed bytes of the item in the encoding `id`: made once for all watchers that see the event as the same
    /// change; items of one watcher alone are made each time. `make` may ask the entry for a form.
    pub fn frame<E>(
        &self,
        budget: &Arc<FormBudget>,
        id: FormId,
        make: impl FnOnce() -> Result<Bytes, E>,
    ) -> Result<Bytes, E> {
        match self {
            Self::Event { change, event } => event.forms.get_or_make(budget, (id, *change as u8), make),
            Self::Initial(_) | Self::InitialEventsEnd(_) => make(),
        }
    }
}
