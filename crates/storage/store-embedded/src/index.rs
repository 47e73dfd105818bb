//! Every key in order, with its live version and the revisions of its past versions.
//!
//! For past versions only the revisions are held, 8 bytes each: five minutes of heartbeats are millions of versions,
//! whose values are rarely read. A server has the whole index in memory, with the live values. Tools, whose memory must
//! not grow with the store, have it [on disk](disk).

mod builder;
mod disk;
mod memory;
mod rows;

use std::io;
use std::ops::{ControlFlow, Range};

use binnacle_store::{KeyValue, LeaseId, Revision};
use bytes::Bytes;

pub(crate) use self::builder::IndexBuilder;
pub(crate) use self::disk::{DiskIndex, remove};
use self::memory::MemoryIndex;

pub(crate) enum Index {
    Memory(MemoryIndex),
    Disk(DiskIndex),
}

/// The versions of one key. The past versions are in ascending order and older than the live version. A key without
/// versions does not exist.
#[derive(Default)]
pub(crate) struct Entry {
    live: Option<LiveVersion>,
    past: Vec<Version>,
}

/// The current version of a key.
#[derive(Clone, Debug)]
pub(crate) struct LiveVersion {
    /// `None` means that it must be read from the record of `modified`.
    pub(crate) value: Option<Bytes>,
    pub(crate) modified: u64,
    pub(crate) created: u64,
    /// 0 means no lease.
    pub(crate) lease: i64,
}

/// A revision at which the key was written, or deleted (the top bit).
#[derive(Clone, Copy)]
struct Version(u64);

/// The version of a key at some revision.
pub(crate) enum VersionLookup<'a> {
    Absent,
    /// The live version and its value.
    Value(&'a LiveVersion, &'a Bytes),
    /// The revision of the record with the value.
    Recorded(u64),
}

/// The count and the sum of the versions that a compaction keeps at or before its revision, which the next start
/// checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VersionDigest {
    pub(crate) count: u64,
    pub(crate) sum: u64,
}

/// Called with each key of a walk, in order, until it returns `Break`.
pub(crate) type KeyVisitor<'a> = dyn FnMut(&Bytes, &Entry) -> ControlFlow<()> + 'a;

// === impl Index ===

impl Index {
    /// Prepares this empty index for being filled from disk.
    pub(crate) fn into_builder(self) -> IndexBuilder {
        match self {
            Self::Memory(_) => IndexBuilder::Memory(builder::MemoryIndexBuilder::default()),
            Self::Disk(index) => IndexBuilder::Disk(index),
        }
    }

    /// Adds the new version of a key. Returns a copy of the key that may be retained.
    pub(crate) fn put(&mut self, key: &Bytes, live: LiveVersion) -> io::Result<Bytes> {
        match self {
            Self::Memory(index) => Ok(index.put(key, live)),
            Self::Disk(index) => index.put(key, &live).map(|()| key.clone()),
        }
    }

    /// Adds a deletion. The key may be absent: a compaction at the deletion's revision removes all its past versions.
    pub(crate) fn delete(&mut self, key: &Bytes, revision: u64) -> io::Result<()> {
        match self {
            Self::Memory(index) => {
                index.delete(key, revision);
                Ok(())
            }
            Self::Disk(index) => index.delete(key, revision),
        }
    }

    /// Drops the live value of a key that was written at `revision`. Later reads take it from the record.
    pub(crate) fn release(&mut self, key: &[u8], revision: u64) {
        if let Self::Memory(index) = self {
            index.release(key, revision);
        }
    }

    /// Drops the index. If the process ends soon, its memory is not freed here, but at once with the process.
    pub(crate) fn discard(self, process_ends: bool) {
        match self {
            Self::Memory(index) if process_ends => std::mem::forget(index),
            index => drop(index),
        }
    }

    /// Removes the versions of one key that a compaction at `compacted` drops.
    pub(crate) fn compact_key(&mut self, key: &Bytes, compacted: u64) -> io::Result<()> {
        match self {
            Self::Memory(index) => {
                index.compact_key(key, compacted);
                Ok(())
            }
            Self::Disk(index) => index.compact_key(key, compacted),
        }
    }

    /// Removes the versions that a compaction drops. Returns the kept versions and the removed revisions, unordered.
    pub(crate) fn compact(&mut self, compacted: u64) -> io::Result<(VersionDigest, Vec<u64>)> {
        let (mut kept, mut forgotten) = (VersionDigest::default(), Vec::new());
        let mut record_entry = |entry: &Entry| {
            let before = forgotten.len();
            forgotten.extend(entry.forgotten_revisions(compacted));
            entry.kept(compacted).into_iter().for_each(|revision| kept.add(revision));
            forgotten.len() > before
        };
        match self {
            Self::Memory(index) => index.compact(compacted, &mut record_entry),
            Self::Disk(_) => {
                let mut keys = Vec::new();
                self.after(None, &mut |key, entry| {
                    if record_entry(entry) {
                        keys.push(key.clone());
                    }
                    ControlFlow::Continue(())
                })?;
                for key in keys {
                    self.compact_key(&key, compacted)?;
                }
            }
        }
        Ok((kept, forgotten))
    }

    /// Returns the live version, with a copy of the key that may be retained.
    pub(crate) fn live(&self, key: &Bytes) -> io::Result<Option<(Bytes, LiveVersion)>> {
        match self {
            Self::Memory(index) => Ok(index.live(key).map(|(key, live)| (key.clone(), live.clone()))),
            Self::Disk(index) => Ok(index.live(key)?.map(|live| (key.clone(), live))),
        }
    }

    /// Returns the version of a key at a revision, with a copy of the key that may be retained.
    pub(crate) fn at(&self, key: &Bytes, revision: u64) -> io::Result<Option<(Bytes, VersionLookup<'_>)>> {
        match self {
            Self::Memory(index) => Ok(index.entry(key).map(|(key, entry)| (key.clone(), entry.at(revision)))),
            Self::Disk(index) => {
                Ok(index.modified_at(key, revision)?.map(|modified| (key.clone(), VersionLookup::Recorded(modified))))
            }
        }
    }

    /// Visits the keys of a range after `after` (or from its start).
    pub(crate) fn range(
        &self,
        range: &Range<Bytes>,
        after: Option<&Bytes>,
        visit: &mut KeyVisitor<'_>,
    ) -> io::Result<()> {
        match self {
            Self::Memory(index) => {
                let _ = index.range(range, after).try_for_each(|(key, entry)| visit(key, entry));
                Ok(())
            }
            Self::Disk(index) => index.range(after.unwrap_or(&range.start), after.is_none(), Some(&range.end), visit),
        }
    }

    /// Visits all keys after `after`, for walks that release the lock in between.
    pub(crate) fn after(&self, after: Option<&Bytes>, visit: &mut KeyVisitor<'_>) -> io::Result<()> {
        match self {
            Self::Memory(index) => {
                let _ = index.after(after).try_for_each(|(key, entry)| visit(key, entry));
                Ok(())
            }
            Self::Disk(index) => index.range(after.unwrap_or(&Bytes::new()), after.is_none(), None, visit),
        }
    }

    /// Returns the remaining keys of a lease, or `None` if they are stored with the leases.
    pub(crate) fn keys_of_lease(&self, lease: i64) -> io::Result<Option<Vec<Bytes>>> {
        match self {
            Self::Memory(_) => Ok(None),
            Self::Disk(index) => index.keys_of_lease(lease).map(Some),
        }
    }

    /// Returns true if reads should stop as early as possible, because every key is read from disk.
    pub(crate) fn is_on_disk(&self) -> bool {
        matches!(self, Self::Disk(_))
    }
}

impl Default for Index {
    fn default() -> Self {
        Self::Memory(MemoryIndex::default())
    }
}

// === impl Entry ===

impl Entry {
    pub(crate) fn at(&self, revision: u64) -> VersionLookup<'_> {
        if let Some(live) = self.live.as_ref().filter(|live| live.modified <= revision) {
            return live
                .value
                .as_ref()
                .map_or(VersionLookup::Recorded(live.modified), |value| VersionLookup::Value(live, value));
        }
        let older = self.past.partition_point(|version| version.revision() <= revision);
        match older.checked_sub(1).map(|newest| self.past[newest]) {
            Some(version) if !version.is_deletion() => VersionLookup::Recorded(version.revision()),
            _ => VersionLookup::Absent,
        }
    }

    pub(crate) fn newest(&self) -> u64 {
        match &self.live {
            Some(live) => live.modified,
            None => self.past.last().map_or(0, |version| version.revision()),
        }
    }

    pub(crate) fn live(&self) -> Option<&LiveVersion> {
        self.live.as_ref()
    }

    /// Returns the lease of the live version, or 0 if there is none.
    pub(crate) fn lease(&self) -> i64 {
        self.live.as_ref().map_or(0, |live| live.lease)
    }

    /// Returns the revisions that a compaction at `compacted` drops.
    pub(crate) fn forgotten_revisions(&self, compacted: u64) -> impl Iterator<Item = u64> + '_ {
        self.past[..self.forgotten_count(compacted)].iter().map(|version| version.revision())
    }

    /// Returns the version at or before `compacted` that a compaction keeps, if any.
    pub(crate) fn kept(&self, compacted: u64) -> Option<u64> {
        let forgotten = self.forgotten_count(compacted);
        let past = self.past.get(forgotten).map(|version| version.revision());
        past.or(self.live.as_ref().map(|live| live.modified)).filter(|&revision| revision <= compacted)
    }

    fn replace(&mut self, live: LiveVersion) {
        if let Some(old) = self.live.replace(live) {
            self.past.push(Version::put(old.modified));
        }
    }

    fn delete(&mut self, revision: u64) {
        if let Some(live) = self.live.take() {
            self.past.push(Version::put(live.modified));
        }
        self.past.push(Version::deletion(revision));
    }

    /// Removes the versions that a compaction at `compacted` drops. Returns true if the entry is empty afterwards.
    fn compact(&mut self, compacted: u64) -> bool {
        let forgotten = self.forgotten_count(compacted);
        self.past.drain(..forgotten);
        if self.past.is_empty() {
            self.past = Vec::new();
        } else if self.past.capacity() > 2 * self.past.len() + 8 {
            self.past.shrink_to_fit();
        }
        self.past.is_empty() && self.live.is_none()
    }

    /// Returns the number of past versions that a compaction drops: all at or before its revision except the newest,
    /// which reads at that revision still need. That one is dropped as well if it is a deletion at an older revision. A
    /// deletion at exactly that revision stays, since a watch may still need its event (as in etcd).
    fn forgotten_count(&self, compacted: u64) -> usize {
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

// === impl LiveVersion ===

impl LiveVersion {
    /// Returns the live version for a key and its value.
    pub(crate) fn of(kv: &KeyValue) -> Self {
        Self {
            value: Some(kv.value.clone()),
            modified: kv.mod_revision.0,
            created: kv.create_revision.0,
            lease: kv.lease.map_or(0, |lease| lease.0),
        }
    }

    pub(crate) fn key_value(&self, key: Bytes, value: &Bytes) -> KeyValue {
        KeyValue {
            key,
            value: value.clone(),
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

    fn put(revision: u64) -> Self {
        Self(revision)
    }

    fn deletion(revision: u64) -> Self {
        Self(revision | Self::DELETION)
    }

    fn revision(self) -> u64 {
        self.0 & !Self::DELETION
    }

    fn is_deletion(self) -> bool {
        self.0 & Self::DELETION != 0
    }
}

/// Spreads revisions, so that the sums over different sets of revisions differ.
const SPREAD: u64 = 0x9E37_79B9_7F4A_7C15;

// === impl VersionDigest ===

impl VersionDigest {
    pub(crate) fn add(&mut self, revision: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(revision.wrapping_mul(SPREAD));
    }

    /// Returns the revision of the only version that is missing in `others`.
    pub(crate) fn missing_from(&self, others: Self) -> Option<u64> {
        // The inverse of an odd number modulo 2^64: each step of Newton's method doubles the number of correct bits.
        let inverse =
            (0..6).fold(SPREAD, |inverse, _| inverse.wrapping_mul(2_u64.wrapping_sub(SPREAD.wrapping_mul(inverse))));
        let sum = self.sum.wrapping_sub(others.sum);
        (self.count == others.count.wrapping_add(1)).then(|| sum.wrapping_mul(inverse))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the versions of a key in both kinds of index.
    fn with_both_indexes(versions: &[(u64, bool)], check: impl Fn(&mut Index)) {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Index::Disk(DiskIndex::create(dir.path().join("index")).expect("an index"));
        for mut index in [Index::default(), disk] {
            for &(revision, put) in versions {
                let live = LiveVersion { value: None, modified: revision, created: revision, lease: 0 };
                match put {
                    true => drop(index.put(&KEY, live).expect("a put")),
                    false => index.delete(&KEY, revision).expect("a deletion"),
                }
            }
            check(&mut index);
        }
    }

    const KEY: Bytes = Bytes::from_static(b"k");

    /// Returns the result of `read` for the key's entry, or the default if there is no entry.
    fn read_entry<T: Default>(index: &Index, read: impl Fn(&Entry) -> T) -> T {
        let mut result = T::default();
        let all = Bytes::new()..Bytes::from_static(b"z");
        index
            .range(&all, None, &mut |key, entry| {
                assert_eq!(*key, KEY);
                result = read(entry);
                ControlFlow::Continue(())
            })
            .expect("a walk");
        result
    }

    #[test]
    fn leaks_memory_only_if_process_ends() {
        for process_ends in [false, true] {
            let owner = std::sync::Arc::new([0_u8; 8]);
            let value = Some(Bytes::from_owner(Shared(owner.clone())));
            let mut index = Index::default();
            index.put(&KEY, LiveVersion { value, modified: 2, created: 2, lease: 0 }).expect("a put");
            index.discard(process_ends);
            assert_eq!(std::sync::Arc::strong_count(&owner) == 2, process_ends);
        }
    }

    struct Shared(std::sync::Arc<[u8; 8]>);

    impl AsRef<[u8]> for Shared {
        fn as_ref(&self) -> &[u8] {
            &*self.0
        }
    }

    #[test]
    fn compaction_keeps_versions_visible_from_its_revision() {
        // versions (revision, put), compaction, dropped, kept
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
        for (versions, compacted, forgotten, kept) in cases {
            with_both_indexes(versions, |index| {
                let got = read_entry(index, |entry| {
                    (entry.forgotten_revisions(*compacted).collect::<Vec<_>>(), entry.kept(*compacted))
                });
                assert_eq!((&got.0[..], got.1), (*forgotten, *kept), "{versions:?} at {compacted}");
                index.compact_key(&KEY, *compacted).expect("a compaction");
                let left = versions.len() - forgotten.len();
                let count = read_entry(index, |entry| entry.past.len() + usize::from(entry.live.is_some()));
                assert_eq!(count, left, "{versions:?} at {compacted}");
            });
        }
    }

    #[test]
    fn read_returns_newest_version_at_revision() {
        with_both_indexes(&[(2, true), (5, false), (7, true), (9, true)], |index| {
            let seen = |revision| match index.at(&KEY, revision).expect("a read") {
                None | Some((_, VersionLookup::Absent)) => 0,
                Some((_, VersionLookup::Value(live, _))) => live.modified,
                Some((_, VersionLookup::Recorded(revision))) => revision,
            };
            assert_eq!((1..=10).map(seen).collect::<Vec<_>>(), [0, 2, 2, 2, 0, 0, 7, 7, 9, 9]);
        });
    }

    #[test]
    fn releases_value_only_of_its_revision() {
        let mut index = Index::default();
        for revision in [2, 3] {
            let live = LiveVersion { value: Some(Bytes::from_static(b"v")), modified: revision, created: 2, lease: 0 };
            index.put(&KEY, live).expect("a put");
        }
        let is_there = |index: &Index| matches!(index.at(&KEY, 3), Ok(Some((_, VersionLookup::Value(..)))));
        index.release(&KEY, 2);
        index.release(b"other", 3);
        assert!(is_there(&index));
        index.release(&KEY, 3);
        assert!(!is_there(&index) && matches!(index.at(&KEY, 3), Ok(Some((_, VersionLookup::Recorded(3))))));
    }

    #[test]
    fn walk_resumes_after_last_key() {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = Index::Disk(DiskIndex::create(dir.path().join("index")).expect("an index"));
        let keys = ["a", "a\0", "a\0b", "ab", "b", "c/d"];
        for mut index in [Index::default(), disk] {
            for (at, key) in keys.iter().enumerate() {
                let revision = at as u64 + 2;
                let live = LiveVersion { value: None, modified: revision, created: revision, lease: 7 };
                index.put(&Bytes::from_static(key.as_bytes()), live).expect("a put");
            }
            let mut after = None;
            let mut walked = Vec::new();
            for _ in 0..=keys.len() {
                let mut last = None;
                index
                    .after(after.as_ref(), &mut |key, _| {
                        last = Some(key.clone());
                        ControlFlow::Break(())
                    })
                    .expect("a walk");
                let Some(key) = last else { break };
                walked.push(String::from_utf8_lossy(&key).into_owned());
                after = Some(key);
            }
            assert_eq!(walked, keys);
            let ranges = [("a", None, "b", 4), ("a", Some("a"), "b", 3), ("a", Some("b"), "b", 0), ("b", None, "a", 0)];
            for (start, after, end, expected) in ranges {
                let bytes = |text: &'static str| Bytes::from_static(text.as_bytes());
                let mut count = 0;
                index
                    .range(&(bytes(start)..bytes(end)), after.map(bytes).as_ref(), &mut |_, _| {
                        count += 1;
                        ControlFlow::Continue(())
                    })
                    .expect("a walk");
                assert_eq!(count, expected, "{start} {after:?} {end}");
            }
        }
    }
}
