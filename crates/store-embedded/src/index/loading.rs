//! An index while a start fills it. In memory keys are found by their hash and put in order once, at the end: a million of
//! them take less than half as long as when each of them is put in its place, and the ordered map is filled densely.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::io;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::memory::MemoryIndex;
use super::{DiskIndex, Entry, Index, Live};

pub(crate) enum Loading {
    Memory(Gathered),
    Disk(DiskIndex),
}

/// Keys in no order.
#[derive(Default)]
pub(crate) struct Gathered {
    /// Where a key's entry is.
    places: HashMap<Bytes, usize, Seed>,
    entries: Vec<Entry>,
}

/// Keys are chosen by users, so that nobody may know beforehand which of them meet.
#[derive(Clone)]
struct Seed(u64);

struct KeyHasher(u64);

/// Fewer keys are put in order by one thread.
const MANY: usize = 64 << 10;

// === impl Loading ===

impl Loading {
    /// True when values are left where they are.
    pub(crate) fn is_on_disk(&self) -> bool {
        matches!(self, Self::Disk(_))
    }

    pub(crate) fn put(&mut self, key: &Bytes, live: Live) -> io::Result<()> {
        match self {
            Self::Memory(gathered) => {
                gathered.entry(key).replace(live);
                Ok(())
            }
            Self::Disk(index) => index.put(key, &live),
        }
    }

    pub(crate) fn delete(&mut self, key: &Bytes, revision: u64) -> io::Result<()> {
        match self {
            Self::Memory(gathered) => {
                gathered.entry(key).delete(revision);
                Ok(())
            }
            Self::Disk(index) => index.delete(key, revision),
        }
    }

    pub(crate) fn finish(self) -> Index {
        match self {
            Self::Memory(gathered) => Index::Memory(gathered.in_order()),
            Self::Disk(index) => Index::Disk(index),
        }
    }
}

// === impl Gathered ===

impl Gathered {
    fn entry(&mut self, key: &Bytes) -> &mut Entry {
        let place = match self.places.get(key) {
            Some(place) => *place,
            None => {
                self.entries.push(Entry::default());
                // Copied: the caller's bytes are a slice of something larger.
                self.places.insert(Bytes::copy_from_slice(key), self.entries.len() - 1);
                self.entries.len() - 1
            }
        };
        &mut self.entries[place]
    }

    fn in_order(mut self) -> MemoryIndex {
        let mut keys: Vec<(Bytes, usize)> = std::mem::take(&mut self.places).into_iter().collect();
        if keys.len() > MANY {
            let half = keys.len() / 2;
            let (left, right) = keys.split_at_mut(half);
            std::thread::scope(|scope| {
                scope.spawn(|| left.sort_unstable());
                right.sort_unstable();
            });
        }
        // Two halves in order are merged by this.
        keys.sort();
        let entries = &mut self.entries;
        MemoryIndex::of(keys.into_iter().map(|(key, place)| (key, std::mem::take(&mut entries[place]))))
    }
}

// === impl Seed ===

impl Default for Seed {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u8))
    }
}

impl BuildHasher for Seed {
    type Hasher = KeyHasher;

    fn build_hasher(&self) -> KeyHasher {
        KeyHasher(self.0)
    }
}

// === impl KeyHasher ===

impl Hasher for KeyHasher {
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64_with_seed(bytes, self.0);
    }

    /// The length, which the hash of the bytes covers as well.
    fn write_usize(&mut self, _: usize) {}

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    /// Puts and deletions, in order: what is gathered is what an ordered index has after the same.
    #[test]
    fn what_was_gathered_is_in_order_and_complete() {
        let count = MANY as u64 + 1000;
        let mut gathered = Index::default().loading();
        let mut ordered = Index::default();
        for revision in 2..2 * count {
            let key = Bytes::from(format!("/k/{}", revision * 7919 % count));
            if revision % 11 == 0 {
                gathered.delete(&key, revision).expect("a deletion");
                ordered.delete(&key, revision).expect("a deletion");
                continue;
            }
            let live = Live { value: Some(key.clone()), modified: revision, created: revision, lease: 0 };
            gathered.put(&key, live.clone()).expect("a put");
            ordered.put(&key, live).expect("a put");
        }
        let told = |index: &Index| {
            let mut told = Vec::new();
            let walked = index.after(None, &mut |key, entry| {
                let past: Vec<_> = entry.past.iter().map(|version| version.0).collect();
                told.push((key.clone(), entry.newest(), entry.is_there(), past));
                ControlFlow::Continue(())
            });
            walked.expect("a walk");
            told
        };
        assert!(told(&gathered.finish()) == told(&ordered));
    }
}
