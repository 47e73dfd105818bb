//! Finds damage in a store that is not in use: checks everything that a start checks, and more, and does not stop at
//! the first problem.

use std::io;
use std::ops::{ControlFlow, Range};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;

use crate::disk::{Disk, LogDisk, LogOptions};
use crate::error::OpenError;
use crate::files::{Files, RealFiles};
use crate::index::{DiskIndex, Index, Live};
use crate::lock::DirLock;
use crate::log::survey::{Finding, survey};
use crate::offline::{OLD_FORM, PrivateCopy};
use crate::options::OnReading;
use crate::record::{self, Record};
use crate::recovery::{FIRST_REVISION, Facts, Unusable, finish_compaction};

/// The result of a check of a store.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Checked {
    /// The newest revision.
    pub revision: u64,
    /// The revision of the latest compaction, 0 for none.
    pub compacted: u64,
    pub records: u64,
    pub record_bytes: u64,
    /// Keys that exist at the newest revision.
    pub keys: u64,
    /// The damage found, at most a hundred descriptions.
    pub problems: Vec<String>,
    /// The number of problems that are not described.
    pub more_problems: u64,
    /// Versions of objects that are damaged or lost, as far as they can be identified, at most a thousand.
    pub damaged: Vec<DamagedObject>,
    /// The number of bytes that cannot be divided into records.
    pub unreadable_bytes: u64,
}

/// A version of an object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedObject {
    /// The key, if it is known: from the rest of the record, or from the next version's record.
    pub key: Option<String>,
    pub revision: u64,
    /// The file and position of its record; `None` if the record is lost.
    pub place: Option<(String, u64)>,
}

/// The maximum number of problems that are described one by one.
const MAX_PROBLEMS: usize = 100;
const MAX_DAMAGED: usize = 1000;

/// Reads the whole store in `dir` without changing it; `on_reading` is told how far that is. Fails if the store cannot be read at all or is in use.
pub fn check(dir: &Path, on_reading: Option<OnReading>) -> Result<Checked, OpenError> {
    let copy = PrivateCopy::of(dir)?;
    let mut checked = Checked::default();
    let lock = DirLock::acquire(copy.path())?;
    if copy.path().join(OLD_FORM).exists() {
        return Err(Unusable::Format(1).of(dir.to_owned()));
    }
    let files = RealFiles::new(copy.path(), lock).map_err(|source| OpenError::Io { dir: dir.to_owned(), source })?;
    let files = Arc::new(files);
    let index = || DiskIndex::make(copy.path().join("index")).map(Index::Disk);
    let opened = LogDisk::open(files.clone(), LogOptions::default()).map_err(Unusable::from);
    let examined = opened.and_then(|disk| Ok(examine(&disk, index()?, &mut checked, on_reading.as_ref())?));
    let unknown = matches!(examined, Err(Unusable::Format(_)));
    if let Err(unusable) = examined {
        checked.unusable(unusable);
    }
    if checked.problems.is_empty() || unknown {
        return Ok(checked);
    }
    // A start stops at the first damage. The files are read one by one to find more damage, and records behind it.
    let mut all = Checked::default();
    let examined = index().map_err(Unusable::from).and_then(|index| examine_files(&*files, index, &mut all));
    if let Err(unusable) = examined {
        all.unusable(unusable);
    }
    for problem in checked.problems {
        if !all.problems.contains(&problem) {
            all.problem(problem);
        }
    }
    all.more_problems += checked.more_problems;
    Ok(all)
}

/// Checks a damaged log, as far as it can be read.
fn examine_files(files: &dyn Files, index: Index, checked: &mut Checked) -> Result<(), Unusable> {
    // The notes of a damaged log are complete only at its end.
    let notes = survey(files, &mut |_| Ok(()))?;
    let compacted = match Facts::of(notes) {
        Ok(facts) => facts.marker.revision,
        Err(unusable) => {
            checked.unusable(unusable);
            0
        }
    };
    let mut history = History { index, reached: 0, compacted, lost: Vec::new(), checked };
    survey(files, &mut |finding| match finding {
        Finding::Record { revision, bytes } => history.add(revision, &bytes),
        Finding::Broken { revision, key, segment, at } => {
            history.broken(revision, key, segment, at);
            Ok(())
        }
        Finding::Unreadable { segment, at, len } => {
            history.checked.unreadable_bytes += len;
            history.checked.problem(format!("{segment}: {len} bytes from byte {at} cannot be read"));
            Ok(())
        }
        Finding::Problem(problem) => {
            history.checked.problem(problem);
            Ok(())
        }
    })?;
    let History { index, reached, checked, .. } = history;
    checked.revision = reached.max(FIRST_REVISION).max(compacted);
    checked.compacted = compacted;
    Ok(checked.count_keys(&index)?)
}

/// Checks an undamaged log with an empty index; fails if the index cannot be filled.
fn examine(disk: &dyn Disk, index: Index, checked: &mut Checked, on_reading: Option<&OnReading>) -> io::Result<()> {
    let facts = match Facts::read(disk) {
        Ok(facts) => Some(facts),
        Err(unusable) => {
            checked.unusable(unusable);
            None
        }
    };
    let compacted = facts.as_ref().map_or(0, |facts| facts.marker.revision);
    let mut history = History { index, reached: 0, compacted, lost: Vec::new(), checked };
    let mut failed = Ok(());
    let (mut bytes, all) = (0, disk.stored_bytes());
    let scanned = disk.load(&mut |revision, record| {
        bytes += record.len() as u64;
        if let Some(report) = on_reading {
            report(bytes.min(all), all);
        }
        failed = history.add(revision, &record);
        if failed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    });
    failed?;
    if let Some(report) = on_reading {
        report(all, all);
    }
    let History { mut index, reached, checked, .. } = history;
    if let Err(error) = scanned {
        checked.problem(format!("the log cannot be read: {error}"));
    }
    checked.revision = reached.max(FIRST_REVISION).max(compacted);
    checked.compacted = compacted;
    match disk.acknowledged() {
        Ok(acknowledged) if acknowledged > checked.revision => checked.problem(format!(
            "the log ends at revision {}, but revision {acknowledged} had been acknowledged",
            checked.revision
        )),
        Ok(_) => {}
        Err(error) => checked.problem(format!("head: {error}")),
    }
    // If notes or records are damaged, a difference between them proves nothing.
    if let Some(facts) = facts.filter(|_| checked.problems.is_empty()) {
        let kept = finish_compaction(&mut index, facts.marker).map(drop);
        if let Err(unusable) = kept.and_then(|()| facts.leases(&index).map(drop)) {
            checked.unusable(unusable);
        }
    }
    checked.count_keys(&index)
}

/// The history built from the records that were read so far.
struct History<'a> {
    index: Index,
    reached: u64,
    compacted: u64,
    /// Revisions whose records are missing or damaged, in order.
    lost: Vec<Range<u64>>,
    checked: &'a mut Checked,
}

// === impl History ===

impl History<'_> {
    fn add(&mut self, revision: u64, bytes: &Bytes) -> io::Result<()> {
        self.follow(revision);
        self.checked.records += 1;
        self.checked.record_bytes += bytes.len() as u64;
        match record::decode(revision, bytes) {
            Err(problem) => self.checked.problem(problem),
            Ok(Record::Put(put)) => {
                let (previous, created) = match self.index.live(&put.key)? {
                    Some((_, live)) => (live.modified, live.created),
                    None => (0, revision),
                };
                // At or before the compaction revision, earlier versions may have been compacted.
                let differs = revision > self.compacted && (previous, created) != (put.previous, put.created);
                if differs && !self.is_lost(put.previous, &put.key) {
                    self.checked.problem(format!(
                        "revision {revision}: it says that it follows revision {} of a key created at {}, but the log \
                         has {previous} and {created}",
                        put.previous, put.created
                    ));
                }
                let live = Live { value: None, modified: revision, created: put.created, lease: put.lease };
                self.index.put(&put.key, live)?;
            }
            Ok(Record::Delete(deletions)) => {
                for deletion in deletions {
                    let previous = self.index.live(&deletion.key)?.map_or(0, |(_, live)| live.modified);
                    let differs = revision > self.compacted && previous != deletion.previous;
                    if differs && !self.is_lost(deletion.previous, &deletion.key) {
                        self.checked.problem(format!(
                            "revision {revision}: it deletes the version of revision {}, but the log has {previous}",
                            deletion.previous
                        ));
                    }
                    self.index.delete(&deletion.key, revision)?;
                }
            }
        }
        Ok(())
    }

    /// Notes the records that are missing before a revision.
    fn follow(&mut self, revision: u64) {
        let expected = self.reached.max(self.compacted).max(FIRST_REVISION) + 1;
        if revision > self.compacted && revision != expected {
            let missing = if revision == expected + 1 {
                format!("the log lacks revision {expected}")
            } else {
                format!("the log lacks the revisions {expected} to {}", revision - 1)
            };
            self.checked.problem(missing);
            self.lost.push(expected..revision);
        }
        self.reached = revision;
    }

    fn broken(&mut self, revision: u64, key: Option<Bytes>, segment: String, at: u64) {
        // The revision in a damaged record may be wrong.
        if revision == self.reached + 1 || self.reached < self.compacted {
            self.reached = self.reached.max(revision);
        }
        self.lost.push(revision..revision + 1);
        let key = key.map(|key| String::from_utf8_lossy(&key).into_owned());
        let whose = key.as_ref().map_or_else(|| "an unknown key".to_owned(), |key| format!("{key:?}"));
        self.checked.problem(format!("revision {revision} of {whose} is damaged ({segment}, byte {at})"));
        self.checked.damaged(DamagedObject { key, revision, place: Some((segment, at)) });
    }

    /// Returns true if the record of a revision is known to be lost, and notes its key from the next version's record.
    fn is_lost(&mut self, revision: u64, key: &Bytes) -> bool {
        if !self.lost.iter().any(|lost| lost.contains(&revision)) {
            return false;
        }
        let key = String::from_utf8_lossy(key).into_owned();
        if let Some(known) = self.checked.damaged.iter_mut().find(|damaged| damaged.revision == revision) {
            known.key = Some(key);
        } else {
            self.checked.problem(format!("revision {revision} of {key:?} is lost"));
            self.checked.damaged(DamagedObject { key: Some(key), revision, place: None });
        }
        true
    }
}

// === impl Checked ===

impl Checked {
    fn problem(&mut self, text: String) {
        if self.problems.len() < MAX_PROBLEMS {
            self.problems.push(text);
        } else {
            self.more_problems += 1;
        }
    }

    fn damaged(&mut self, object: DamagedObject) {
        if self.damaged.len() < MAX_DAMAGED {
            self.damaged.push(object);
        }
    }

    fn count_keys(&mut self, index: &Index) -> io::Result<()> {
        index.after(None, &mut |_, entry| {
            self.keys += u64::from(entry.is_there());
            ControlFlow::Continue(())
        })
    }

    fn unusable(&mut self, unusable: Unusable) {
        self.problem(match unusable {
            Unusable::Damaged(detail) => detail,
            Unusable::Format(found) => format!("the store has format {found}, which is not known"),
            Unusable::Io(error) => error.to_string(),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::{Batch, MemoryDisk};
    use crate::record::{Deletion, Put, encode_delete, encode_put};
    use crate::recovery::lease_fact;

    fn put(revision: u64, key: &'static str, previous: u64, created: u64) -> (u64, Bytes) {
        let (key, value) = (Bytes::from_static(key.as_bytes()), Bytes::from_static(b"value"));
        (revision, encode_put(revision, &Put { key, value, created, previous, lease: 0 }).0)
    }

    fn delete(revision: u64, key: &'static str, previous: u64) -> (u64, Bytes) {
        (revision, encode_delete(revision, &[Deletion { key: Bytes::from_static(key.as_bytes()), previous }]))
    }

    fn problems(records: Vec<(u64, Bytes)>, meta: Vec<(Bytes, Option<Bytes>)>) -> Vec<String> {
        let disk = MemoryDisk::default();
        disk.commit(&Batch { records, meta }).expect("memory takes it");
        let mut checked = Checked::default();
        examine(&disk, Index::default(), &mut checked, None).expect("an index in memory");
        checked.problems
    }

    #[test]
    fn all_findings_are_told() {
        let torn = |(revision, bytes): (u64, Bytes)| (revision, bytes.slice(..bytes.len() - 1));
        let whole =
            || vec![put(2, "a", 0, 2), put(3, "b", 0, 3), put(4, "a", 2, 2), delete(5, "b", 3), put(6, "b", 0, 6)];
        assert_eq!(problems(whole(), Vec::new()), [""; 0]);
        let mut several = whole();
        several[0] = torn(put(2, "a", 0, 2));
        several.remove(2);
        several.push(put(9, "c", 0, 9));
        assert_eq!(
            problems(several, Vec::new()),
            [
                "revision 2: the checksum does not match",
                "the log lacks revision 4",
                "the log lacks the revisions 7 to 8",
            ]
        );
        assert_eq!(
            problems(vec![put(2, "a", 0, 2), put(3, "a", 0, 3), delete(4, "b", 1), put(5, "a", 3, 2)], Vec::new()),
            [
                "revision 3: it says that it follows revision 0 of a key created at 3, but the log has 2 and 2",
                "revision 4: it deletes the version of revision 1, but the log has 0",
                "revision 5: it says that it follows revision 3 of a key created at 2, but the log has 3 and 3",
            ]
        );
        let unknown = vec![(Bytes::from_static(b"mystery"), Some(Bytes::new()))];
        assert_eq!(problems(whole(), unknown), ["there is an unknown note \"mystery\""]);
        let broken = lease_fact(7, Some(10)).1.map(|value| value.slice(1..));
        let lease = vec![(lease_fact(7, None).0, broken)];
        assert_eq!(problems(whole(), lease).len(), 1);
        let many = (0..300).map(|n| torn(put(n + 2, "a", 0, 2))).collect();
        assert_eq!(problems(many, Vec::new()).len(), MAX_PROBLEMS);
    }
}
