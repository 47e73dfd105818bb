//! An index while it is filled at startup. In memory, keys are found by their hash and sorted once, at the end: for a
//! million keys this takes less than half as long as sorted insertion, and the ordered map is filled densely.

use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::io;

use bytes::Bytes;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::memory::MemoryIndex;
use super::{DiskIndex, Entry, Index, LiveVersion};

pub(crate) enum IndexBuilder {
    Memory(MemoryIndexBuilder),
    Disk(DiskIndex),
}

/// Keys in the order in which they were added.
#[derive(Default)]
pub(crate) struct MemoryIndexBuilder {
    seed: Seed,
    /// The newest key with each hash.
    slots: HashMap<u64, usize, BuildHasherDefault<PrecomputedHasher>>,
    keys: Vec<Key>,
}

struct Key {
    key: Bytes,
    entry: Entry,
    /// An older key with the same hash.
    collision: Option<usize>,
}

/// A random seed, so that users, who choose the keys, cannot cause collisions.
struct Seed(u64);

/// A hasher for keys that are hashes already.
#[derive(Default)]
struct PrecomputedHasher(u64);

/// The bytes of a key after the common prefix of all keys. Most keys can be sorted by these bytes alone.
type KeyPrefix = [u64; 5];

/// The number of keys above which a second thread helps to sort.
const PARALLEL_SORT_KEYS: usize = 64 << 10;

// === impl IndexBuilder ===

impl IndexBuilder {
    /// Returns true if values stay on disk.
    pub(crate) fn is_on_disk(&self) -> bool {
        matches!(self, Self::Disk(_))
    }

    pub(crate) fn put(&mut self, key: &Bytes, live: LiveVersion) -> io::Result<()> {
        match self {
            Self::Memory(builder) => {
                builder.entry(key).replace(live);
                Ok(())
            }
            Self::Disk(index) => index.put(key, &live),
        }
    }

    pub(crate) fn delete(&mut self, key: &Bytes, revision: u64) -> io::Result<()> {
        match self {
            Self::Memory(builder) => {
                builder.entry(key).delete(revision);
                Ok(())
            }
            Self::Disk(index) => index.delete(key, revision),
        }
    }

    pub(crate) fn finish(self) -> Index {
        match self {
            Self::Memory(builder) => Index::Memory(builder.sorted()),
            Self::Disk(index) => Index::Disk(index),
        }
    }
}

// === impl MemoryIndexBuilder ===

impl MemoryIndexBuilder {
    fn entry(&mut self, key: &[u8]) -> &mut Entry {
        let hash = xxh3_64_with_seed(key, self.seed.0);
        let first = self.slots.get(&hash).copied();
        let same = std::iter::successors(first, |slot| self.keys[*slot].collision).find(|n| self.keys[*n].key == key);
        let slot = same.unwrap_or_else(|| {
            let slot = self.keys.len();
            self.slots.insert(hash, slot);
            // Copied: the caller's bytes are a slice of a larger block.
            self.keys.push(Key { key: Bytes::copy_from_slice(key), entry: Entry::default(), collision: first });
            slot
        });
        &mut self.keys[slot].entry
    }

    fn sorted(self) -> MemoryIndex {
        let Self { mut keys, slots, .. } = self;
        drop(slots);
        let common = common_prefix_len(&keys);
        let mut order: Vec<(KeyPrefix, usize)> =
            keys.iter().enumerate().map(|(slot, key)| (prefix_of(&key.key[common..]), slot)).collect();
        let compare = |(start, a): &(KeyPrefix, usize), (other, b): &(KeyPrefix, usize)| {
            start.cmp(other).then_with(|| keys[*a].key.cmp(&keys[*b].key))
        };
        if order.len() > PARALLEL_SORT_KEYS {
            let half = order.len() / 2;
            let (left, right) = order.split_at_mut(half);
            std::thread::scope(|scope| {
                scope.spawn(|| left.sort_unstable_by(compare));
                right.sort_unstable_by(compare);
            });
        }
        // Both halves are sorted already, and a stable sort merges them.
        order.sort_by(compare);
        MemoryIndex::of(order.into_iter().map(|(_, slot)| {
            let key = &mut keys[slot];
            (std::mem::take(&mut key.key), std::mem::take(&mut key.entry))
        }))
    }
}

/// Returns the length of the common prefix of all keys.
fn common_prefix_len(keys: &[Key]) -> usize {
    let Some(first) = keys.first() else { return 0 };
    keys.iter().fold(first.key.len(), |common, key| {
        let same = key.key.iter().zip(&first.key[..common]).take_while(|(a, b)| a == b);
        same.count()
    })
}

/// Returns the first bytes of a key, whose order is the order of keys that differ in them.
fn prefix_of(key: &[u8]) -> KeyPrefix {
    let mut bytes = [0; 40];
    let len = key.len().min(bytes.len());
    bytes[..len].copy_from_slice(&key[..len]);
    let mut start = KeyPrefix::default();
    for (number, bytes) in start.iter_mut().zip(bytes.as_chunks().0) {
        *number = u64::from_be_bytes(*bytes);
    }
    start
}

// === impl Seed ===

impl Default for Seed {
    fn default() -> Self {
        Self(RandomState::new().hash_one(0_u8))
    }
}

// === impl PrecomputedHasher ===

impl Hasher for PrecomputedHasher {
    fn write(&mut self, _: &[u8]) {}

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;

    /// After puts and deletions, in order, the built index equals an ordered index.
    #[test]
    fn builder_equals_ordered_index() {
        let count = PARALLEL_SORT_KEYS as u64 + 1000;
        let mut builder = Index::default().into_builder();
        let mut ordered = Index::default();
        for revision in 2..2 * count {
            let key = Bytes::from(format!(
                "/k/{}",
                "long".repeat(revision as usize % 13) + &(revision * 7919 % count).to_string()
            ));
            if revision % 11 == 0 {
                builder.delete(&key, revision).expect("a deletion");
                ordered.delete(&key, revision).expect("a deletion");
                continue;
            }
            let live = LiveVersion { value: Some(key.clone()), modified: revision, created: revision, lease: 0 };
            builder.put(&key, live.clone()).expect("a put");
            ordered.put(&key, live).expect("a put");
        }
        let entries_of = |index: &Index| {
            let mut entries = Vec::new();
            let walked = index.after(None, &mut |key, entry| {
                let past: Vec<_> = entry.past.iter().map(|version| version.0).collect();
                entries.push((key.clone(), entry.newest(), entry.live.is_some(), past));
                ControlFlow::Continue(())
            });
            walked.expect("a walk");
            entries
        };
        assert!(entries_of(&builder.finish()) == entries_of(&ordered));
    }
}
