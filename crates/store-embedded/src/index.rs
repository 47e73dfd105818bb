//! Every key in order, with its live value and the revisions of its past.
//!
//! Only the past's revisions are kept, 8 bytes each: five minutes of heartbeats are millions of versions, and what they
//! looked like is rarely asked for.

use std::collections::BTreeMap;
use std::ops::{Bound, Range};

use binnacle_store::{KeyValue, LeaseId, Revision};
use bytes::Bytes;

#[derive(Default)]
pub(crate) struct Index {
    keys: BTreeMap<Bytes, Entry>,
}

/// One key. Its past ascends and lies before the live version; a key without either does not exist.
#[derive(Default)]
pub(crate) struct Entry {
    live: Option<Live>,
    past: Vec<Version>,
}

/// The current version of a key.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub(crate) value: Bytes,
    pub(crate) modified: u64,
    pub(crate) created: u64,
    /// 0 for none.
    pub(crate) lease: i64,
}

/// A revision at which the key was written, or deleted (the top bit).
#[derive(Clone, Copy)]
struct Version(u64);

/// What a key held at some revision.
pub(crate) enum At<'a> {
    Absent,
    Live(&'a Live),
    /// The value is in the record of this revision.
    Past(u64),
}

/// What a compaction leaves of the revisions it covers, as a check on what is found at the next start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

// === impl Index ===

impl Index {
    pub(crate) fn put(&mut self, key: &Bytes, live: Live) {
        // A new key is copied: the caller's bytes may be a slice of something larger.
        match self.keys.get_mut(key) {
            Some(entry) => entry.replace(live),
            None => {
                let entry = Entry { live: Some(live), past: Vec::new() };
                self.keys.insert(Bytes::copy_from_slice(key), entry);
            }
        }
    }

    /// The key may be unknown: a compaction at the deletion's own revision leaves a deletion without a past.
    pub(crate) fn delete(&mut self, key: &Bytes, revision: u64) {
        match self.keys.get_mut(key) {
            Some(entry) => {
                if let Some(live) = entry.live.take() {
                    entry.past.push(Version::written(live.modified));
                }
                entry.past.push(Version::deleted(revision));
            }
            None => {
                let entry = Entry { live: None, past: vec![Version::deleted(revision)] };
                self.keys.insert(Bytes::copy_from_slice(key), entry);
            }
        }
    }

    /// The live version, with the index's own copy of the key.
    pub(crate) fn live(&self, key: &[u8]) -> Option<(&Bytes, &Live)> {
        let (key, entry) = self.keys.get_key_value(key)?;
        Some((key, entry.live.as_ref()?))
    }

    pub(crate) fn at(&self, key: &[u8], revision: u64) -> Option<(&Bytes, At<'_>)> {
        self.keys.get_key_value(key).map(|(key, entry)| (key, entry.at(revision)))
    }

    /// The keys of a range after `after` (or from its start), in order.
    pub(crate) fn range<'a>(
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
        // An excluded start that equals the end is a range BTreeMap rejects; the key before it was the last.
        let exhausted = matches!(after, Some(key) if *key >= range.end);
        (!exhausted && !empty).then(|| self.keys.range::<Bytes, _>(bounds)).into_iter().flatten()
    }

    /// All keys after one, for walks that let go of the lock in between.
    pub(crate) fn after(&self, after: Option<&Bytes>) -> impl Iterator<Item = (&Bytes, &Entry)> {
        let start = after.map_or(Bound::Unbounded, |key| Bound::Excluded(key.clone()));
        self.keys.range::<Bytes, _>((start, Bound::Unbounded))
    }

    /// Takes the versions out of one key that a compaction at `compacted` forgets.
    pub(crate) fn compact_key(&mut self, key: &Bytes, compacted: u64) {
        let Some(entry) = self.keys.get_mut(key) else { return };
        let forgotten = entry.forgotten(compacted);
        entry.past.drain(..forgotten);
        if entry.past.is_empty() {
            entry.past = Vec::new();
            if entry.live.is_none() {
                self.keys.remove(key);
            }
        } else if entry.past.capacity() > 2 * entry.past.len() + 8 {
            entry.past.shrink_to_fit();
        }
    }
}

// === impl Entry ===

impl Entry {
    pub(crate) fn at(&self, revision: u64) -> At<'_> {
        if let Some(live) = self.live.as_ref().filter(|live| live.modified <= revision) {
            return At::Live(live);
        }
        let older = self.past.partition_point(|version| version.revision() <= revision);
        match older.checked_sub(1).map(|newest| self.past[newest]) {
            Some(version) if !version.is_deletion() => At::Past(version.revision()),
            _ => At::Absent,
        }
    }

    pub(crate) fn newest(&self) -> u64 {
        match &self.live {
            Some(live) => live.modified,
            None => self.past.last().map_or(0, |version| version.revision()),
        }
    }

    /// The lease of the live version, 0 for none.
    pub(crate) fn lease(&self) -> i64 {
        self.live.as_ref().map_or(0, |live| live.lease)
    }

    /// The revisions that a compaction at `compacted` forgets.
    pub(crate) fn forgotten_revisions(&self, compacted: u64) -> impl Iterator<Item = u64> + '_ {
        self.past[..self.forgotten(compacted)].iter().map(|version| version.revision())
    }

    /// What is left at or before `compacted` by a compaction there: at most one version.
    pub(crate) fn kept(&self, compacted: u64) -> Option<u64> {
        let forgotten = self.forgotten(compacted);
        let past = self.past.get(forgotten).map(|version| version.revision());
        past.or(self.live.as_ref().map(|live| live.modified)).filter(|&revision| revision <= compacted)
    }

    fn replace(&mut self, live: Live) {
        if let Some(old) = self.live.replace(live) {
            self.past.push(Version::written(old.modified));
        }
    }

    /// How many versions of the past a compaction forgets: all at or before it but the newest, which is what reads at
    /// that revision still see; that one too if it is a deletion, unless it was made by exactly that revision, of which
    /// a watch may still want to hear (as in etcd).
    fn forgotten(&self, compacted: u64) -> usize {
        if self.live.as_ref().is_some_and(|live| live.modified <= compacted) {
            return self.past.len();
        }
        let covered = self.past.partition_point(|version| version.revision() <= compacted);
        match covered.checked_sub(1).map(|newest| self.past[newest]) {
            Some(newest) if newest.is_deletion() && newest.revision() < compacted => covered,
            Some(_) => covered - 1,
            None => 0,
        }
    }
}

// === impl Live ===

impl Live {
    pub(crate) fn key_value(&self, key: &Bytes) -> KeyValue {
        KeyValue {
            key: key.clone(),
            value: self.value.clone(),
            create_revision: Revision(self.created),
            mod_revision: Revision(self.modified),
            lease: lease_id(self.lease),
        }
    }
}

pub(crate) fn lease_id(lease: i64) -> Option<LeaseId> {
    (lease != 0).then_some(LeaseId(lease))
}

// === impl Version ===

impl Version {
    const DELETION: u64 = 1 << 63;

    fn written(revision: u64) -> Self {
        Self(revision)
    }

    fn deleted(revision: u64) -> Self {
        Self(revision | Self::DELETION)
    }

    fn revision(self) -> u64 {
        self.0 & !Self::DELETION
    }

    fn is_deletion(self) -> bool {
        self.0 & Self::DELETION != 0
    }
}

// === impl Kept ===

impl Kept {
    pub(crate) fn add(&mut self, revision: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(revision.wrapping_mul(0x9E37_79B9_7F4A_7C15));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(versions: &[(u64, bool)]) -> Index {
        let key = Bytes::from_static(b"k");
        let mut index = Index::default();
        for &(revision, put) in versions {
            if put {
                let live = Live { value: Bytes::new(), modified: revision, created: revision, lease: 0 };
                index.put(&key, live);
            } else {
                index.delete(&key, revision);
            }
        }
        index
    }

    #[test]
    fn compaction_keeps_what_reads_from_there_on_see() {
        // versions (revision, put), compaction, forgotten, kept
        type Case = (&'static [(u64, bool)], u64, &'static [u64], Option<u64>);
        let cases: &[Case] = &[
            (&[(2, true)], 1, &[], None),
            (&[(2, true)], 2, &[], Some(2)),
            (&[(2, true), (5, true)], 4, &[], Some(2)),
            (&[(2, true), (5, true)], 5, &[2], Some(5)),
            (&[(2, true), (5, true), (8, true)], 6, &[2], Some(5)),
            (&[(2, true), (5, false)], 5, &[2], Some(5)),
            (&[(2, true), (5, false)], 6, &[2, 5], None),
            (&[(2, true), (5, false), (7, true)], 6, &[2, 5], None),
            (&[(2, true), (5, false), (7, true)], 9, &[2, 5], Some(7)),
        ];
        let key = Bytes::from_static(b"k");
        for (versions, compacted, forgotten, kept) in cases {
            let mut index = entry(versions);
            let entry = &index.keys[&key];
            let got: Vec<_> = entry.forgotten_revisions(*compacted).collect();
            assert_eq!((&got[..], entry.kept(*compacted)), (*forgotten, *kept), "{versions:?} at {compacted}");
            index.compact_key(&key, *compacted);
            let left = versions.len() - forgotten.len();
            let count = index.keys.get(&key).map_or(0, |entry| entry.past.len() + usize::from(entry.live.is_some()));
            assert_eq!(count, left, "{versions:?} at {compacted}");
        }
    }

    #[test]
    fn reads_see_the_newest_version_up_to_their_revision() {
        let index = entry(&[(2, true), (5, false), (7, true), (9, true)]);
        let seen: Vec<_> = (1..=10)
            .map(|revision| match index.keys[&b"k"[..]].at(revision) {
                At::Absent => 0,
                At::Live(live) => live.modified,
                At::Past(revision) => revision,
            })
            .collect();
        assert_eq!(seen, [0, 2, 2, 2, 0, 0, 7, 7, 9, 9]);
    }
}
