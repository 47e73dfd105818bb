//! The index in memory, with the live values.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use bytes::Bytes;

use super::{Entry, LiveVersion, Version};

#[derive(Default)]
pub(crate) struct MemoryIndex {
    keys: BTreeMap<Bytes, Entry>,
}

// === impl MemoryIndex ===

impl MemoryIndex {
    /// Builds an index from keys that are sorted already.
    pub(super) fn of(keys: impl Iterator<Item = (Bytes, Entry)>) -> Self {
        Self { keys: keys.collect() }
    }

    /// Adds a version. Returns the index's own copy of the key.
    pub(super) fn put(&mut self, key: &Bytes, live: LiveVersion) -> Bytes {
        let own = self.keys.get_key_value(key).map(|(own, _)| own.clone());
        // A new key is copied, since the caller's bytes may be a slice of a larger block.
        let own = own.unwrap_or_else(|| Bytes::copy_from_slice(key));
        self.keys.entry(own.clone()).or_default().replace(live);
        own
    }

    pub(super) fn delete(&mut self, key: &Bytes, revision: u64) {
        match self.keys.get_mut(key) {
            Some(entry) => entry.delete(revision),
            None => {
                let entry = Entry { live: None, past: vec![Version::deletion(revision)] };
                self.keys.insert(Bytes::copy_from_slice(key), entry);
            }
        }
    }

    pub(super) fn release(&mut self, key: &[u8], revision: u64) {
        let live = self.keys.get_mut(key).and_then(|entry| entry.live.as_mut());
        if let Some(live) = live.filter(|live| live.modified == revision) {
            live.value = None;
        }
    }

    /// Returns the live version, with the index's own copy of the key.
    pub(super) fn live(&self, key: &[u8]) -> Option<(&Bytes, &LiveVersion)> {
        let (key, entry) = self.entry(key)?;
        Some((key, entry.live.as_ref()?))
    }

    pub(super) fn entry(&self, key: &[u8]) -> Option<(&Bytes, &Entry)> {
        self.keys.get_key_value(key)
    }

    /// Returns the keys of a range after `after` (or from its start), in order.
    pub(super) fn range<'a>(
        &'a self,
        range: &Range<Bytes>,
        after: Option<&Bytes>,
    ) -> impl Iterator<Item = (&'a Bytes, &'a Entry)> + use<'a> {
        let start = match after {
            Some(key) => Bound::Excluded(key.clone()),
            None => Bound::Included(range.start.clone()),
        };
        let empty = range.start >= range.end;
        let bounds = if empty {
            (Bound::Included(Bytes::new()), Bound::Excluded(Bytes::new()))
        } else {
            (start, Bound::Excluded(range.end.clone()))
        };
        // `BTreeMap` rejects a range whose excluded start is its end; no key is left in that case.
        let exhausted = matches!(after, Some(key) if *key >= range.end);
        (!exhausted && !empty).then(|| self.keys.range::<Bytes, _>(bounds)).into_iter().flatten()
    }

    /// Returns all keys after `after`.
    pub(super) fn after(&self, after: Option<&Bytes>) -> impl Iterator<Item = (&Bytes, &Entry)> {
        let start = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone()));
        self.keys.range::<Bytes, _>((start, Bound::Unbounded))
    }

    pub(super) fn compact_key(&mut self, key: &Bytes, compacted: u64) {
        if self.keys.get_mut(key).is_some_and(|entry| entry.compact(compacted)) {
            self.keys.remove(key);
        }
    }

    /// Compacts each key whose entry satisfies `needs_compaction`.
    pub(super) fn compact(&mut self, compacted: u64, needs_compaction: &mut dyn FnMut(&Entry) -> bool) {
        self.keys.retain(|_, entry| !(needs_compaction(entry) && entry.compact(compacted)));
    }
}
