//! Reports about damaged stores.

use std::ops::Range;

use crate::recovery::OpenFailure;

/// The result of a check of a store.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The newest revision.
    pub revision: u64,
    /// The revision of the latest compaction, 0 for none.
    pub compacted: u64,
    pub records: u64,
    pub record_bytes: u64,
    /// The number of keys that exist at the newest revision.
    pub keys: u64,
    /// Descriptions of the damage found, at most a hundred.
    pub problems: Vec<String>,
    /// The number of further problems, without descriptions.
    pub more_problems: u64,
    /// Versions of objects that are damaged or lost, as far as they can be identified, at most a thousand.
    pub damaged: Vec<DamagedObject>,
    /// Revisions after the compaction for which neither the record nor the key is available, at most a thousand ranges.
    pub unidentified: Vec<Range<u64>>,
    /// The number of bytes that cannot be split into records.
    pub unreadable_bytes: u64,
    /// The first line of the [mark](crate::mark_salvaged) of a store that was salvaged from a damaged one.
    pub salvaged: Option<String>,
    /// Whether to describe all problems.
    unlimited: bool,
}

/// A version of an object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedObject {
    /// The key, if it is available from the rest of the record, or from the next version's record.
    pub key: Option<String>,
    pub revision: u64,
    /// The file and position of its record, or `None` if the record is lost.
    pub place: Option<(String, u64)>,
    pub remains: Remains,
}

/// What remains of an object that has a damaged or lost version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remains {
    /// A later change is intact, so only history is lost.
    Newer,
    /// The newest intact version has this revision.
    Older(u64),
    /// The damaged record deletes the version that was the newest.
    Deleted,
    /// There is no version of this key.
    Nothing,
    /// The key is unknown.
    Unknown,
}

impl CheckReport {
    /// Returns an empty report that describes all problems.
    pub(crate) fn unlimited() -> Self {
        Self { unlimited: true, ..Self::default() }
    }

    pub(crate) fn problem(&mut self, text: String) {
        if self.unlimited || self.problems.len() < MAX_PROBLEMS {
            self.problems.push(text);
        } else {
            self.more_problems += 1;
        }
    }

    pub(crate) fn damaged(&mut self, object: DamagedObject) {
        if self.unlimited || self.damaged.len() < MAX_DAMAGED {
            self.damaged.push(object);
        }
    }

    pub(crate) fn unidentified(&mut self, range: Range<u64>) {
        if !range.is_empty() && (self.unlimited || self.unidentified.len() < MAX_DAMAGED) {
            self.unidentified.push(range);
        }
    }

    pub(crate) fn open_failure(&mut self, open_failure: OpenFailure) {
        self.problem(match open_failure {
            OpenFailure::Damaged(detail) => detail,
            OpenFailure::Format(found) => format!("the store has format {found}, which is not known"),
            OpenFailure::Io(error) => error.to_string(),
        });
    }
}

/// The maximum number of problems that are described one by one.
pub(crate) const MAX_PROBLEMS: usize = 100;

const MAX_DAMAGED: usize = 1000;
