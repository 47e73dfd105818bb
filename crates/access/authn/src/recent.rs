//! A map of bounded size, which drops the oldest entries.

use std::collections::HashMap;
use std::hash::Hash;

/// Holds at least the last `size` inserted entries and at most twice as many: when the younger generation is full, the
/// older one is dropped. A large entry counts as several.
#[derive(Debug)]
pub struct RecentCache<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    size: usize,
    /// The size of the younger generation, in units of [`ENTRY`].
    young_size: usize,
}

/// The size in bytes that counts as one entry.
const ENTRY: usize = 2048;

impl<K: Hash + Eq, V: Clone> RecentCache<K, V> {
    pub fn new(size: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), size, young_size: 0 }
    }

    pub fn insert(&mut self, key: K, value: V) {
        self.insert_sized(key, value, 0);
    }

    /// Inserts an entry whose value takes `bytes`.
    pub fn insert_sized(&mut self, key: K, value: V, bytes: usize) {
        if self.young_size >= self.size {
            self.old = std::mem::take(&mut self.young);
            self.young_size = 0;
        }
        self.young_size = self.young_size.saturating_add(1 + bytes / ENTRY);
        self.young.insert(key, value);
    }

    pub fn remove(&mut self, key: &K) {
        self.young.remove(key);
        self.old.remove(key);
    }

    pub fn get(&self, key: &K) -> Option<&V> {
        self.young.get(key).or_else(|| self.old.get(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_the_last_entries_and_at_most_twice_as_many() {
        let mut recent = RecentCache::new(10);
        for n in 0..100 {
            recent.insert(n, n);
            for recent_key in (0..=n).rev().take(10) {
                assert_eq!(recent.get(&recent_key), Some(&recent_key));
            }
            assert!(recent.young.len() + recent.old.len() <= 20);
        }
        recent.remove(&99);
        assert_eq!((recent.get(&99), recent.get(&0)), (None, None));
    }

    #[test]
    fn counts_large_entries_as_several() {
        let mut recent = RecentCache::new(100);
        for n in 0..1000 {
            recent.insert_sized(n, n, 10 * ENTRY);
            assert!(recent.young.len() + recent.old.len() <= 20);
        }
        recent.insert_sized(1000, 1000, usize::MAX / 2);
        recent.insert(1001, 1001);
        assert!(recent.get(&1000).is_some() && recent.get(&1001).is_some() && recent.young.len() == 1);
    }
}
