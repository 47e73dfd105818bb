//! A segment in memory: its file, and the position of each record in it.
//!
//! A record takes 4 bytes (its position) in an original segment, which has every revision, 8 in a rewritten one, which
//! has gaps, and two bits: dead, and deletion.

use std::sync::Arc;

use super::format::{Cover, End, Marks};
use crate::files::LogFile;

pub(crate) struct Segment {
    pub(crate) cover: Cover,
    pub(crate) marks: Marks,
    pub(crate) next_revision: u64,
    /// The number of its first frame, and the end of the previous segment. A rewritten segment keeps both.
    pub(crate) sequence: u64,
    pub(crate) before: End,
    pub(crate) file: Arc<dyn LogFile>,
    /// The position of its first frame.
    pub(crate) begin: u64,
    /// The end of its frames. The bytes behind it were never acknowledged.
    pub(crate) end: End,
    /// The bytes that it occupies on disk.
    pub(crate) allocated: u64,
    pub(crate) records: Records,
}

#[derive(Default)]
pub(crate) struct Records {
    base: u64,
    /// Revisions relative to `base`. Empty as long as there is no gap.
    revisions: Vec<u32>,
    positions: Vec<u32>,
    dead: Bits,
    deletions: Bits,
    /// The end of the newest record.
    end: u64,
    pub(crate) usage: Usage,
}

/// The bytes of records, each including the bytes between it and the next one: padding, and the header and notes of a
/// frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) total: u64,
    /// Bytes of dead puts, which no read can return.
    pub(crate) dead_puts: u64,
    /// Bytes of dead deletions, which have to stay while an older segment has a dead put.
    pub(crate) dead_deletions: u64,
}

/// One bit per record.
#[derive(Clone, Default)]
pub(crate) struct Bits(Vec<u64>);

/// The position of a record, which is that of its length field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPosition {
    pub(crate) revision: u64,
    pub(crate) at: u64,
    /// The distance to the next record, or to the end. It may be larger than the record.
    pub(crate) room: u64,
}

// === impl Records ===

impl Records {
    pub(crate) fn len(&self) -> usize {
        self.positions.len()
    }

    /// Returns false if the position cannot be stored: revisions must be ascending, and both must be within 2^32.
    pub(crate) fn push(&mut self, revision: u64, at: u64, len: usize, deletion: bool) -> bool {
        let count = self.positions.len();
        if count == 0 {
            self.base = revision;
        }
        let (Some(delta), Ok(position)) = (revision.checked_sub(self.base), u32::try_from(at)) else { return false };
        let Ok(delta) = u32::try_from(delta) else { return false };
        if count > 0 && self.revision(count - 1) >= revision {
            return false;
        }
        if self.revisions.is_empty() && delta as usize != count {
            self.revisions = (0..count as u32).collect();
        }
        if !self.revisions.is_empty() || delta as usize != count {
            self.revisions.push(delta);
        }
        if count > 0 {
            self.count_gap(count - 1, at.saturating_sub(self.end));
        }
        self.positions.push(position);
        self.dead.push(count, false);
        self.deletions.push(count, deletion);
        self.end = at + len as u64;
        self.usage.total += len as u64;
        true
    }

    pub(crate) fn revision(&self, n: usize) -> u64 {
        self.base + self.revisions.get(n).map_or(n as u64, |delta| u64::from(*delta))
    }

    pub(crate) fn last_revision(&self) -> Option<u64> {
        Some(self.revision(self.len().checked_sub(1)?))
    }

    pub(crate) fn find(&self, revision: u64) -> Option<usize> {
        let delta = revision.checked_sub(self.base)?;
        let n = match self.revisions.is_empty() {
            true => usize::try_from(delta).ok()?,
            false => self.revisions.binary_search(&u32::try_from(delta).ok()?).ok()?,
        };
        (n < self.len()).then_some(n)
    }

    /// Returns the index of the first record at or after a revision.
    pub(crate) fn first_from(&self, revision: u64) -> usize {
        let Some(delta) = revision.checked_sub(self.base) else { return 0 };
        match self.revisions.is_empty() {
            true => usize::try_from(delta).unwrap_or(usize::MAX).min(self.len()),
            false => self.revisions.partition_point(|known| u64::from(*known) < delta),
        }
    }

    pub(crate) fn position(&self, n: usize, end: u64) -> RecordPosition {
        let at = u64::from(self.positions[n]);
        let next = self.positions.get(n + 1).map_or(end, |next| u64::from(*next));
        RecordPosition { revision: self.revision(n), at, room: next.saturating_sub(at) }
    }

    /// Returns a copy of the set of dead records.
    pub(crate) fn dead(&self) -> Bits {
        self.dead.clone()
    }

    pub(crate) fn is_dead(&self, n: usize) -> bool {
        self.dead.get(n)
    }

    pub(crate) fn is_deletion(&self, n: usize) -> bool {
        self.deletions.get(n)
    }

    /// Marks a record as dead: no read can return it any more.
    pub(crate) fn mark_dead(&mut self, n: usize) {
        if !self.dead.get(n) {
            self.dead.set(n);
            let bytes = self.position(n, self.end).room;
            self.count_dead(n, bytes);
        }
    }

    /// Adds bytes between a record and the next one.
    fn count_gap(&mut self, n: usize, bytes: u64) {
        self.usage.total += bytes;
        if self.dead.get(n) {
            self.count_dead(n, bytes);
        }
    }

    fn count_dead(&mut self, n: usize, bytes: u64) {
        match self.deletions.get(n) {
            true => self.usage.dead_deletions += bytes,
            false => self.usage.dead_puts += bytes,
        }
    }

    pub(crate) fn shrink(&mut self) {
        self.revisions.shrink_to_fit();
        self.positions.shrink_to_fit();
    }
}

// === impl Usage ===

impl Usage {
    pub(crate) fn dead(&self) -> u64 {
        self.dead_puts + self.dead_deletions
    }

    /// Returns the bytes of records that are not dead.
    pub(crate) fn needed(&self) -> u64 {
        self.total.saturating_sub(self.dead())
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.total += other.total;
        self.dead_puts += other.dead_puts;
        self.dead_deletions += other.dead_deletions;
    }
}

// === impl Bits ===

impl Bits {
    fn push(&mut self, n: usize, value: bool) {
        if n.is_multiple_of(64) {
            self.0.push(0);
        }
        if value {
            self.set(n);
        }
    }

    fn set(&mut self, n: usize) {
        self.0[n / 64] |= 1 << (n % 64);
    }

    pub(crate) fn get(&self, n: usize) -> bool {
        self.0[n / 64] & 1 << (n % 64) != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_records_with_and_without_gaps() {
        for revisions in [(5..200).collect::<Vec<u64>>(), vec![5, 6, 9, 10, 70, 3_000_000_000], vec![8, 9, 10, 12]] {
            let mut records = Records::default();
            for (n, revision) in revisions.iter().enumerate() {
                assert!(records.push(*revision, 4096 + n as u64 * 10, 10, n % 3 == 0));
            }
            assert!(!records.push(revisions[0], 1, 1, false), "revisions ascend");
            assert!(!records.push(revisions[0] + (1 << 33), 1, 1, false));
            let end = 4096 + revisions.len() as u64 * 10;
            for (n, revision) in revisions.iter().enumerate() {
                assert_eq!(records.find(*revision), Some(n));
                assert_eq!(records.first_from(*revision), n);
                let at = 4096 + n as u64 * 10;
                assert_eq!(records.position(n, end), RecordPosition { revision: *revision, at, room: 10 });
                assert_eq!((records.is_deletion(n), records.is_dead(n)), (n % 3 == 0, false));
            }
            assert_eq!(records.last_revision(), revisions.last().copied());
            assert_eq!((records.find(4), records.first_from(4)), (None, 0));
            assert_eq!(records.first_from(u64::MAX), revisions.len());
            assert_eq!(records.find(11), revisions.iter().position(|revision| *revision == 11));
            records.mark_dead(0);
            records.mark_dead(0);
            records.mark_dead(1);
            let expected = Usage { total: end - 4096, dead_puts: 10, dead_deletions: 10 };
            assert_eq!(records.usage, expected);
            assert_eq!(expected.needed(), end - 4096 - 20);
        }
    }

    /// Records of 10 bytes, each in its own frame.
    #[test]
    fn counts_gap_with_preceding_record() {
        let deletion = |n: u64| n % 2 == 1;
        let usage = |dead: &[usize], early: bool| {
            let mut records = Records::default();
            for n in 0..4u64 {
                assert!(records.push(5 + n, 4096 + n * 64, 10, deletion(n)));
                if early {
                    dead.iter().filter(|dead| **dead as u64 == n).for_each(|dead| records.mark_dead(*dead));
                }
            }
            dead.iter().for_each(|dead| records.mark_dead(*dead));
            records.usage
        };
        for early in [false, true] {
            let total = 3 * 64 + 10;
            assert_eq!(usage(&[], early), Usage { total, dead_puts: 0, dead_deletions: 0 });
            assert_eq!(usage(&[0, 2], early), Usage { total, dead_puts: 128, dead_deletions: 0 });
            assert_eq!(usage(&[0, 1, 2], early), Usage { total, dead_puts: 128, dead_deletions: 64 });
            assert_eq!(usage(&[0, 1, 2], early).needed(), 10, "the newest record is needed");
            assert_eq!(usage(&[0, 1, 2, 3], early).needed(), 0);
        }
    }
}
