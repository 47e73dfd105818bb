//! The mutable state of a cache: the objects and their indexes, which only the reflector changes.

use std::sync::Arc;

use binnacle_store::{Digest, Revision};

use crate::attrs::Meta;
use crate::entry::Entry;
use crate::index::{Index, Objects};

/// Objects and indexes at the newest change.
///
/// The maps are persistent, and are copied only while a snapshot exists: without readers, changes are made in place.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) objects: Objects,
    pub(crate) indexes: Vec<Index>,
    /// The digest of the objects as sent by the store.
    pub(crate) digest: Digest,
    /// The revision of the newest change.
    pub(crate) changed: Revision,
    /// The approximate memory of the objects.
    pub(crate) bytes: usize,
    /// The bytes of the objects' stored values.
    pub(crate) value_bytes: usize,
    /// Incremented when everything was read again and the previous state may have another history.
    pub(crate) era: u64,
    /// The number of bytes written since the start. The difference to a snapshot's number is an upper bound of the
    /// memory that the snapshot retains.
    pub(crate) written: u64,
}

impl State {
    /// Puts or deletes one object and returns the previous one.
    pub(crate) fn apply(&mut self, path: &str, new: Option<Arc<Entry>>, revision: Revision) -> Option<Arc<Entry>> {
        self.changed = self.changed.max(revision);
        let old = match &new {
            Some(entry) => {
                self.bytes += entry.size();
                self.value_bytes += entry.value_len();
                self.written += entry.size() as u64;
                self.digest.add(entry.fingerprint());
                self.objects.insert(entry.meta.clone(), Arc::clone(entry))
            }
            None => self.objects.remove(path),
        };
        if let Some(old) = &old {
            self.bytes -= old.size();
            self.value_bytes -= old.value_len();
            self.digest.remove(old.fingerprint());
        }
        let meta = |entry: &Option<Arc<Entry>>| -> Option<Meta> { entry.as_ref().map(|entry| entry.meta.clone()) };
        let (before, after) = (meta(&old), meta(&new));
        for index in &mut self.indexes {
            index.update(before.as_ref(), after.as_ref());
        }
        old
    }

    /// Replaces all objects. `digest` is the digest of the new ones. Indexes are dropped, and built again when lists
    /// need them.
    pub(crate) fn replace(&mut self, objects: Objects, digest: Digest, revision: Revision) {
        self.bytes = objects.values().map(|entry| entry.size()).sum();
        self.value_bytes = objects.values().map(|entry| entry.value_len()).sum();
        self.written += self.bytes as u64;
        self.objects = objects;
        self.digest = digest;
        self.indexes.clear();
        self.changed = revision;
    }

    /// Adds an index that was built from an older state.
    pub(crate) fn adopt(&mut self, mut index: Index, built_from: &Objects) {
        if self.indexes.iter().any(|own| own.property() == index.property()) {
            return;
        }
        catch_up(&mut index, built_from, &self.objects);
        self.indexes.push(index);
    }
}

/// Updates an index of `from` to the state `to`. Parts that both share are not visited.
pub(crate) fn catch_up(index: &mut Index, from: &Objects, to: &Objects) {
    use imbl::ordmap::DiffItem;
    for change in from.diff(to) {
        match change {
            DiffItem::Add(new, _) => index.update(None, Some(new)),
            DiffItem::Update { old: (old, _), new: (new, _) } => index.update(Some(old), Some(new)),
            DiffItem::Remove(old, _) => index.update(Some(old), None),
        }
    }
}
