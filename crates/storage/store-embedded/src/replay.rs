//! Replays the records of a log for tools: finds inconsistencies, which versions are lost, and what remains of each
//! object. Neither keys nor values are held, only a hash of each key with the numbers of its newest version.

use std::collections::{BTreeMap, HashMap};
use std::hash::{BuildHasher, RandomState};
use std::ops::Range;

use binnacle_store::Content;
use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_128_with_seed;

use crate::check_report::{CheckReport, DamagedObject, Remains};
use crate::index::VersionDigest;
use crate::log::survey::Finding;
use crate::marker::Marker;
use crate::record::FIRST_REVISION;
use crate::record::{self, Guess, Put, Record};
use crate::recovery::kept_mismatch;

/// The receiver of all changes that a check reads, in order. It returns what it needs of a version when the next one
/// replaces it, since a check holds no values.
pub trait Tally {
    fn put(&mut self, key: &[u8], value: &[u8], replaced: Option<Content>) -> Content;

    fn delete(&mut self, key: &[u8], deleted: Content);
}

/// Nothing is counted.
impl Tally for () {
    fn put(&mut self, _: &[u8], _: &[u8], _: Option<Content>) -> Content {
        Content::default()
    }

    fn delete(&mut self, _: &[u8], _: Content) {}
}

/// The history built from the records read so far.
pub(crate) struct Replay<'a> {
    tally: &'a mut dyn Tally,
    keys: Keys,
    reached: u64,
    compacted: u64,
    /// The versions at or before the compaction that it kept, as far as they were found.
    kept: VersionDigest,
    /// True if a record after the compaction was read.
    is_kept_summed: bool,
    /// Revisions whose records are missing or damaged. At or before the compaction there may never have been any.
    lost: Vec<Range<u64>>,
    /// True if records are missing behind the last one that was read.
    has_hole: bool,
    versions: BTreeMap<(u64, usize), LostVersion>,
    /// The versions in `versions` by key, as long as no later change of the key was read.
    newest: HashMap<Bytes, Vec<(u64, usize)>>,
    pub(crate) checked: CheckReport,
}

/// The newest version of each key that exists, by a hash of the key with a random seed.
pub(crate) struct Keys {
    seed: u64,
    live: HashMap<[u64; 2], NewestVersion>,
}

#[derive(Clone, Copy)]
struct NewestVersion {
    modified: u64,
    created: u64,
    lease: i64,
    content: Content,
}

/// A version whose record is damaged or lost.
struct LostVersion {
    key: Option<Bytes>,
    place: Option<(String, u64)>,
    /// True if a later change of the key was read.
    superseded: bool,
    /// True if it was certainly a deletion.
    deleted: bool,
}

// === impl Replay ===

impl<'a> Replay<'a> {
    pub(crate) fn new(compacted: u64, checked: CheckReport, tally: &'a mut dyn Tally) -> Self {
        Self {
            tally,
            keys: Keys { seed: RandomState::new().hash_one(0_u8), live: HashMap::new() },
            reached: 0,
            compacted,
            kept: VersionDigest::default(),
            is_kept_summed: false,
            lost: Vec::new(),
            has_hole: false,
            versions: BTreeMap::new(),
            newest: HashMap::new(),
            checked,
        }
    }

    /// Adds a finding in a damaged log.
    pub(crate) fn add_finding(&mut self, finding: Finding) {
        match finding {
            Finding::Record { revision, bytes } => self.add(revision, &bytes),
            Finding::Broken { revision, guess, segment, at } => self.add_broken(revision, guess, segment, at),
            Finding::Unreadable { segment, at, len } => {
                self.has_hole = true;
                self.checked.unreadable_bytes += len;
                self.checked.problem(format!("{segment}: {len} bytes from byte {at} cannot be read"));
            }
            Finding::Missing(problem) => {
                self.has_hole = true;
                self.checked.problem(problem);
            }
            Finding::Problem(problem) => self.checked.problem(problem),
        }
    }

    /// Adds the next record.
    pub(crate) fn add(&mut self, revision: u64, bytes: &Bytes) {
        self.record_gap(revision);
        self.checked.records += 1;
        self.checked.record_bytes += bytes.len() as u64;
        match record::decode(revision, bytes) {
            Err(problem) => self.checked.problem(problem),
            Ok(Record::Put(put)) => self.put(revision, &put),
            Ok(Record::Delete(deletions)) => {
                for deletion in deletions {
                    let newest = self.keys.get(&deletion.key);
                    let previous = newest.map_or(0, |newest| newest.modified);
                    let kept_mismatch = revision > self.compacted && previous != deletion.previous;
                    if kept_mismatch && !self.is_lost(deletion.previous, &deletion.key) {
                        self.checked.problem(format!(
                            "revision {revision}: it deletes the version of revision {}, but the log has {previous}",
                            deletion.previous
                        ));
                    }
                    self.supersede(&deletion.key, deletion.previous);
                    if let Some(newest) = newest {
                        self.tally.delete(&deletion.key, newest.content);
                    }
                    self.keys.remove(&deletion.key);
                    if revision == self.compacted {
                        self.kept.add(revision);
                    }
                }
            }
        }
    }

    fn put(&mut self, revision: u64, put: &Put) {
        let newest = self.keys.get(&put.key);
        let (previous, created) = newest.map_or((0, revision), |newest| (newest.modified, newest.created));
        // At or before the compaction revision, earlier versions may have been compacted.
        let kept_mismatch = revision > self.compacted && (previous, created) != (put.previous, put.created);
        if kept_mismatch && !self.is_lost(put.previous, &put.key) {
            self.checked.problem(format!(
                "revision {revision}: it says that it follows revision {} of a key created at {}, but the log has \
                 {previous} and {created}",
                put.previous, put.created
            ));
        }
        self.supersede(&put.key, put.previous);
        let content = self.tally.put(&put.key, &put.value, newest.map(|newest| newest.content));
        let version = NewestVersion { modified: revision, created: put.created, lease: put.lease, content };
        self.keys.insert(&put.key, version);
    }

    /// Records that records are missing before a revision.
    fn record_gap(&mut self, revision: u64) {
        let expected = self.reached.max(self.compacted).max(FIRST_REVISION) + 1;
        if revision <= self.reached {
            self.checked.problem(format!("revision {revision} comes after revision {}", self.reached));
        }
        if revision > self.compacted {
            self.sum_kept();
        }
        if revision > self.compacted && revision > expected {
            let missing = if revision == expected + 1 {
                format!("the log lacks revision {expected}")
            } else {
                format!("the log lacks the revisions {expected} to {}", revision - 1)
            };
            self.checked.problem(missing);
            self.lost.push(expected..revision);
        }
        let compacted = self.reached + 1..revision.min(self.compacted + 1);
        if std::mem::take(&mut self.has_hole) && !compacted.is_empty() {
            self.lost.push(compacted);
        }
        self.reached = self.reached.max(revision);
    }

    /// Counts the versions that the compaction kept, once all versions that it could keep have been read.
    fn sum_kept(&mut self) {
        if !std::mem::replace(&mut self.is_kept_summed, true) {
            for newest in self.keys.live.values() {
                self.kept.add(newest.modified);
            }
        }
    }

    fn add_broken(&mut self, revision: u64, guess: Guess, segment: String, at: u64) {
        // The revision in a damaged record may be wrong.
        if revision == self.reached + 1 || (self.reached < revision && revision <= self.compacted) {
            self.record_gap(revision);
        }
        self.lost.push(revision..revision + 1);
        let owner = guess.key.as_ref().map_or_else(|| "an unknown key".to_owned(), |key| format!("{:?}", text(key)));
        self.checked.problem(format!("revision {revision} of {owner} is damaged ({segment}, byte {at})"));
        let place = Some((segment, at));
        if guess.deletions.is_empty() {
            self.add_lost(revision, LostVersion { key: guess.key, place, superseded: false, deleted: false });
            return;
        }
        for deletion in guess.deletions {
            // Both the key and the version match, so it is certain which version was deleted.
            let deleted = self.keys.get(&deletion.key).is_some_and(|newest| newest.modified == deletion.previous);
            if deleted {
                self.supersede(&deletion.key, deletion.previous);
                self.keys.remove(&deletion.key);
            }
            self.add_lost(
                revision,
                LostVersion { key: Some(deletion.key), place: place.clone(), superseded: false, deleted },
            );
        }
    }

    fn add_lost(&mut self, revision: u64, lost: LostVersion) {
        let n = self.versions.range((revision, 0)..=(revision, usize::MAX)).count();
        if let Some(key) = &lost.key {
            self.newest.entry(key.clone()).or_default().push((revision, n));
        }
        self.versions.insert((revision, n), lost);
    }

    /// Records that a change of a key was read, which follows the version `previous`.
    fn supersede(&mut self, key: &Bytes, previous: u64) {
        for version in self.newest.remove(key).unwrap_or_default() {
            let Some(lost) = self.versions.get_mut(&version) else { continue };
            if previous == 0 || version.0 <= previous {
                lost.superseded = true;
            } else {
                // The key did not change in between, so the damaged record was of another one.
                lost.key = None;
            }
        }
    }

    /// Returns true if the record of a revision is lost, and takes its key from the next version's record.
    fn is_lost(&mut self, revision: u64, key: &Bytes) -> bool {
        if !self.lost.iter().any(|lost| lost.contains(&revision)) {
            return false;
        }
        let mut known = self.versions.range_mut((revision, 0)..=(revision, usize::MAX));
        if let Some((version, lost)) = known.next() {
            lost.key = Some(key.clone());
            self.newest.entry(key.clone()).or_default().push(*version);
        } else {
            self.checked.problem(format!("revision {revision} of {:?} is lost", text(key)));
            self.add_lost(
                revision,
                LostVersion { key: Some(key.clone()), place: None, superseded: false, deleted: false },
            );
        }
        true
    }

    /// Compares the versions that the compaction kept with those that were found, behind the last record.
    pub(crate) fn compare_kept(&mut self, marker: Marker) {
        self.sum_kept();
        let Some(detail) = kept_mismatch(marker, self.kept) else { return };
        self.checked.problem(detail);
        // The sum over the revisions identifies a single one.
        let missing = marker.kept.missing_from(self.kept).filter(|missing| *missing <= marker.revision);
        if let Some(missing) = missing
            && self.versions.range((missing, 0)..=(missing, usize::MAX)).next().is_none()
        {
            self.add_lost(missing, LostVersion { key: None, place: None, superseded: false, deleted: false });
        }
    }

    /// Compares the leases of all objects with the existing leases.
    pub(crate) fn compare_leases(&mut self, exists: impl Fn(i64) -> bool) {
        let unknown = self.keys.leases().find(|lease| !exists(*lease));
        if let Some(lease) = unknown {
            self.checked.problem(format!("a key belongs to the lease {lease}, which is not there"));
        }
    }

    /// Ends the replay of a log whose revision `acknowledged` is certain to have existed.
    pub(crate) fn finish(mut self, acknowledged: u64) -> (CheckReport, Keys) {
        self.sum_kept();
        let reached = self.reached.max(FIRST_REVISION).max(self.compacted);
        if acknowledged > reached {
            self.checked.problem(format!(
                "the log ends at revision {reached}, but revision {acknowledged} had been acknowledged"
            ));
            self.lost.push(reached + 1..acknowledged + 1);
        }
        let Self { keys, compacted, lost, versions, mut checked, .. } = self;
        (checked.revision, checked.compacted, checked.keys) = (reached, compacted, keys.live.len() as u64);
        for range in lost {
            unidentified(range.start.max(compacted + 1)..range.end, &versions, &mut checked);
        }
        for ((revision, _), lost) in versions {
            let newest = lost.key.as_ref().map(|key| keys.get(key));
            let remains = match newest {
                _ if lost.superseded => Remains::Newer,
                _ if lost.deleted => Remains::Deleted,
                None => Remains::Unknown,
                Some(None) => Remains::Nothing,
                Some(Some(newest)) if newest.modified > revision => Remains::Newer,
                Some(Some(newest)) => Remains::Older(newest.modified),
            };
            checked.damaged(DamagedObject { key: lost.key.as_ref().map(text), revision, place: lost.place, remains });
        }
        (checked, keys)
    }
}

/// Adds the revisions of a range whose records are missing and were not identified.
fn unidentified(range: Range<u64>, versions: &BTreeMap<(u64, usize), LostVersion>, checked: &mut CheckReport) {
    if range.is_empty() {
        return;
    }
    let mut first = range.start;
    for ((revision, _), _) in versions.range((range.start, 0)..(range.end, 0)) {
        checked.unidentified(first..*revision);
        first = revision + 1;
    }
    checked.unidentified(first..range.end);
}

fn text(key: &Bytes) -> String {
    String::from_utf8_lossy(key).into_owned()
}

// === impl Keys ===

impl Keys {
    fn hash(&self, key: &[u8]) -> [u64; 2] {
        let hash = xxh3_128_with_seed(key, self.seed);
        [hash as u64, (hash >> 64) as u64]
    }

    fn get(&self, key: &[u8]) -> Option<NewestVersion> {
        self.live.get(&self.hash(key)).copied()
    }

    fn insert(&mut self, key: &[u8], newest: NewestVersion) {
        self.live.insert(self.hash(key), newest);
    }

    fn remove(&mut self, key: &[u8]) {
        self.live.remove(&self.hash(key));
    }

    /// Returns true if this is the newest version of its key.
    pub(crate) fn is_newest(&self, key: &[u8], revision: u64) -> bool {
        self.get(key).is_some_and(|newest| newest.modified == revision)
    }

    /// Returns the leases of all objects, some of them more than once.
    pub(crate) fn leases(&self) -> impl Iterator<Item = i64> + '_ {
        self.live.values().map(|newest| newest.lease).filter(|lease| *lease != 0)
    }
}
