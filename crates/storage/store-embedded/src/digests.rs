//! Digests of the watched ranges, which describe what a reader of a watch must have.
//!
//! They are independent of the dispatch of events, and are updated with the index: an event that gets lost on its way
//! to a watcher, or is sent twice, does not change them. The initial objects of a range are counted in steps, so that
//! writers do not wait for all of them.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use binnacle_store::{Digest, Fingerprint, KeyValue, Revision, StoreError, ValueHash, prefix_range};
use bytes::Bytes;

use crate::error::read_error;
use crate::index::Index;

/// The digests of ranges that do not overlap, sorted by start.
#[derive(Default)]
pub(crate) struct Digests(Vec<RangeCount>);

pub(crate) struct RangeCount {
    range: Range<Bytes>,
    digest: Digest,
    /// The keys up to this one have been counted: none yet for `None`, all of them at the end of the range.
    reached: Option<Bytes>,
    /// True once the values that had to be read from disk have been counted as well.
    is_complete: bool,
    /// Distinguishes this count from earlier ones of the range.
    count: Arc<()>,
}

/// Live versions whose values must be read from disk, by key and revision.
pub(crate) type MissingValues = Vec<(Bytes, u64)>;

/// The number of keys, and the bytes of their values, that are counted while writers wait. This takes some tens of
/// microseconds.
const STEP_KEYS: usize = 256;
const STEP_BYTES: usize = 256 << 10;

// === impl Digests ===

impl Digests {
    /// Records that the version `old` of a key was replaced with `new`. `None` means an absent key.
    pub(crate) fn record_change(&mut self, key: &[u8], old: Option<&KeyValue>, new: Option<&KeyValue>) {
        let Some(range_count) = self.find_by_key(key) else { return };
        if range_count.reached.as_deref().is_none_or(|reached| key > reached) {
            return;
        }
        if let Some(old) = old {
            range_count.digest.remove(range_count.fingerprint(key, old));
        }
        if let Some(new) = new {
            range_count.digest.add(range_count.fingerprint(key, new));
        }
    }

    /// Returns the digest of a range if all its objects have been counted.
    pub(crate) fn get(&self, range: &Range<Bytes>) -> Option<Digest> {
        let range_count = &self.0[self.position(&range.start).ok()?];
        (range_count.is_complete && range_count.range == *range).then_some(range_count.digest)
    }

    pub(crate) fn remove(&mut self, range: &Range<Bytes>) {
        if let Ok(at) = self.position(&range.start)
            && self.0[at].range == *range
        {
            self.0.remove(at);
        }
    }

    /// Starts to count a range, and returns the identity of this count. Returns `None` if the range is counted already,
    /// or cannot be counted: only whole prefixes that do not overlap others can.
    pub(crate) fn start_count(&mut self, range: &Range<Bytes>) -> Option<Arc<()>> {
        if prefix_range(&range.start) != *range {
            return None;
        }
        let at = self.position(&range.start).err()?;
        let overlaps = |other: &RangeCount| other.range.start < range.end && range.start < other.range.end;
        if self.0[..at].last().is_some_and(overlaps) || self.0.get(at).is_some_and(overlaps) {
            return None;
        }
        let count = Arc::new(());
        let (range, digest) = (range.clone(), Digest::default());
        self.0.insert(at, RangeCount { range, digest, reached: None, is_complete: false, count: Arc::clone(&count) });
        Some(count)
    }

    fn position(&self, start: &Bytes) -> Result<usize, usize> {
        self.0.binary_search_by(|range_count| range_count.range.start.cmp(start))
    }

    fn find_by_key(&mut self, key: &[u8]) -> Option<&mut RangeCount> {
        let after = self.0.partition_point(|range_count| *range_count.range.start <= *key);
        self.0[..after].last_mut().filter(|range_count| *key < *range_count.range.end)
    }

    pub(crate) fn find_by_token(&mut self, range: &Range<Bytes>, count: &Arc<()>) -> Option<&mut RangeCount> {
        let at = self.position(&range.start).ok()?;
        Some(&mut self.0[at]).filter(|range_count| Arc::ptr_eq(&range_count.count, count))
    }
}

// === impl RangeCount ===

impl RangeCount {
    fn fingerprint(&self, key: &[u8], kv: &KeyValue) -> Fingerprint {
        fingerprint(&self.range, key, kv.mod_revision, &kv.value)
    }

    /// Counts the next keys, except those whose values are not in memory.
    pub(crate) fn step(&mut self, index: &Index) -> Result<MissingValues, StoreError> {
        let (mut keys, mut bytes, mut missing) = (0, 0, MissingValues::new());
        let mut reached = self.range.end.clone();
        let (range, digest) = (&self.range, &mut self.digest);
        let walked = index.range(range, self.reached.as_ref(), &mut |key, entry| {
            keys += 1;
            if let Some(live) = entry.live() {
                match &live.value {
                    Some(value) => {
                        bytes += value.len();
                        digest.add(fingerprint(range, key, Revision(live.modified), value));
                    }
                    None => missing.push((key.clone(), live.modified)),
                }
            }
            if keys < STEP_KEYS && bytes < STEP_BYTES {
                return ControlFlow::Continue(());
            }
            reached = key.clone();
            ControlFlow::Break(())
        });
        walked.map_err(|error| read_error(&error))?;
        self.reached = Some(reached);
        Ok(missing)
    }

    /// Adds versions whose values were read from disk. If one was replaced in the meantime, it has already been
    /// subtracted from the sums, which do not depend on the order. Returns true after the last step.
    pub(crate) fn finish_step(&mut self, values: &[KeyValue]) -> bool {
        for kv in values {
            self.digest.add(self.fingerprint(&kv.key, kv));
        }
        self.is_complete = self.reached.as_ref() == Some(&self.range.end);
        self.is_complete
    }
}

fn fingerprint(range: &Range<Bytes>, key: &[u8], revision: Revision, value: &[u8]) -> Fingerprint {
    Fingerprint::new(&key[range.start.len()..], revision, ValueHash::of(value))
}
