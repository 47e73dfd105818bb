//! Digests of the ranges that are watched: what a follower of a watch must have.
//!
//! They are kept apart from the dispatch of events, and follow the index: an event that gets lost on its way to a
//! watcher, or is sent twice, does not change them. The first objects of a range are counted in steps, so that writers
//! wait for none of them.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use binnacle_store::{Digest, Fingerprint, KeyValue, Revision, StoreError, ValueHash, prefix_range};
use bytes::Bytes;

use crate::history;
use crate::index::Index;
use crate::shared::{Shared, State, read_failed};

/// The digests of ranges that do not overlap, sorted by their starts.
#[derive(Default)]
pub(crate) struct Digests(Vec<Counted>);

struct Counted {
    range: Range<Bytes>,
    digest: Digest,
    progress: Progress,
    /// Distinguishes this count from earlier ones of the range.
    count: Arc<()>,
}

enum Progress {
    /// The keys up to this one (none for `None`) are counted.
    UpTo(Option<Bytes>),
    All {
        /// Objects whose values are read from the disk, and which are not in the digest until then.
        missing: usize,
    },
}

/// One step of the first count of a range.
struct Step {
    /// Live versions whose values must be read from the disk, by key and revision.
    missing: Vec<(Bytes, u64)>,
    revision: u64,
    done: bool,
}

/// The keys, and the bytes of their values, that are counted while writers wait: some tens of microseconds.
const STEP_KEYS: usize = 256;
const STEP_BYTES: usize = 256 << 10;

// === impl Digests ===

impl Digests {
    /// Notes that the version `old` of a key was replaced by `new`; `None` is an absent key.
    pub(crate) fn note(&mut self, key: &[u8], old: Option<&KeyValue>, new: Option<&KeyValue>) {
        let Some(counted) = self.of_key(key) else { return };
        let covered = match &counted.progress {
            Progress::UpTo(last) => last.as_deref().is_some_and(|last| key <= last),
            Progress::All { .. } => true,
        };
        if !covered {
            return;
        }
        if let Some(old) = old {
            counted.digest.remove(counted.fingerprint(key, old));
        }
        if let Some(new) = new {
            counted.digest.add(counted.fingerprint(key, new));
        }
    }

    /// Returns the digest of a range if all its objects are counted.
    pub(crate) fn get(&self, range: &Range<Bytes>) -> Option<Digest> {
        let counted = &self.0[self.position(&range.start).ok()?];
        let complete = matches!(counted.progress, Progress::All { missing: 0 });
        (complete && counted.range == *range).then_some(counted.digest)
    }

    pub(crate) fn remove(&mut self, range: &Range<Bytes>) {
        if let Ok(at) = self.position(&range.start)
            && self.0[at].range == *range
        {
            self.0.remove(at);
        }
    }

    /// Begins to count a range; returns what distinguishes this count. `None` if it is counted already, or cannot be:
    /// only whole prefixes that do not overlap others are.
    fn begin(&mut self, range: &Range<Bytes>) -> Option<Arc<()>> {
        if prefix_range(&range.start) != *range {
            return None;
        }
        let at = self.position(&range.start).err()?;
        let overlaps = |other: &Counted| other.range.start < range.end && range.start < other.range.end;
        if self.0[..at].last().is_some_and(overlaps) || self.0.get(at).is_some_and(overlaps) {
            return None;
        }
        let count = Arc::new(());
        let progress = Progress::UpTo(None);
        let counted = Counted { range: range.clone(), digest: Digest::default(), progress, count: Arc::clone(&count) };
        self.0.insert(at, counted);
        Some(count)
    }

    fn position(&self, start: &Bytes) -> Result<usize, usize> {
        self.0.binary_search_by(|counted| counted.range.start.cmp(start))
    }

    fn of_key(&mut self, key: &[u8]) -> Option<&mut Counted> {
        let after = self.0.partition_point(|counted| *counted.range.start <= *key);
        self.0[..after].last_mut().filter(|counted| *key < *counted.range.end)
    }

    fn of_count(&mut self, range: &Range<Bytes>, count: &Arc<()>) -> Option<&mut Counted> {
        let at = self.position(&range.start).ok()?;
        Some(&mut self.0[at]).filter(|counted| Arc::ptr_eq(&counted.count, count))
    }
}

// === impl Counted ===

impl Counted {
    fn fingerprint(&self, key: &[u8], kv: &KeyValue) -> Fingerprint {
        fingerprint(&self.range, key, kv.mod_revision, &kv.value)
    }

    /// Counts the next keys.
    fn step(&mut self, index: &Index, revision: u64) -> Result<Step, StoreError> {
        let Progress::UpTo(after) = &self.progress else {
            return Ok(Step { missing: Vec::new(), revision, done: true });
        };
        let (mut keys, mut bytes, mut missing, mut last) = (0, 0, Vec::new(), None);
        let (range, digest) = (&self.range, &mut self.digest);
        let walked = index.range(range, after.as_ref(), &mut |key, entry| {
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
            last = Some(key.clone());
            ControlFlow::Break(())
        });
        walked.map_err(|error| read_failed(&error))?;
        let done = last.is_none();
        self.progress = match done {
            true => Progress::All { missing: missing.len() },
            false => Progress::UpTo(last),
        };
        Ok(Step { missing, revision, done })
    }

    /// Adds versions whose values were read from the disk. If one was replaced meanwhile, it has been removed from the
    /// sums already, which do not mind the order.
    fn add_missing(&mut self, values: &[KeyValue]) {
        for kv in values {
            self.digest.add(self.fingerprint(&kv.key, kv));
        }
        if let Progress::All { missing } = &mut self.progress {
            *missing -= values.len().min(*missing);
        }
    }
}

fn fingerprint(range: &Range<Bytes>, key: &[u8], revision: Revision, value: &[u8]) -> Fingerprint {
    Fingerprint::new(&key[range.start.len()..], revision, ValueHash::of(value))
}

/// Lets the objects of a range be counted, unless they are already.
pub(crate) fn count(shared: &Arc<Shared>, range: &Range<Bytes>) {
    let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
    let Some(count) = shared.state.write().digests.begin(range) else { return };
    let (shared, range) = (Arc::clone(shared), range.clone());
    runtime.spawn(async move {
        if let Err(error) = count_all(&shared, &range, &count).await {
            // The next request for the digest begins again.
            tracing::debug!(%error, ?range, "the objects of a range cannot be counted");
            let mut state = shared.state.write();
            if state.digests.of_count(&range, &count).is_some() {
                state.digests.remove(&range);
            }
        }
    });
}

async fn count_all(shared: &Arc<Shared>, range: &Range<Bytes>, count: &Arc<()>) -> Result<(), StoreError> {
    loop {
        let step = {
            let mut state = shared.state.write();
            state.open()?;
            let State { index, digests, revision, .. } = &mut *state;
            let Some(counted) = digests.of_count(range, count) else { return Ok(()) };
            counted.step(index, *revision)?
        };
        if !step.missing.is_empty() {
            let values = history::values(shared, step.revision, step.missing).await?;
            let mut state = shared.state.write();
            let Some(counted) = state.digests.of_count(range, count) else { return Ok(()) };
            counted.add_missing(&values);
        }
        if step.done {
            return Ok(());
        }
        tokio::task::yield_now().await;
    }
}
