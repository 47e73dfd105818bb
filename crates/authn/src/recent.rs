//! A map of recent entries with a limited size.

use std::collections::HashMap;
use std::hash::Hash;

/// Keeps at least the last `size` entries that were put in, and at most twice as many: the older half is dropped as a
/// whole when the younger is full.
#[derive(Debug)]
pub struct Recent<K, V> {
    young: HashMap<K, V>,
    old: HashMap<K, V>,
    size: usize,
}

impl<K: Hash + Eq, V: Clone> Recent<K, V> {
    pub fn new(size: usize) -> Self {
        Self { young: HashMap::new(), old: HashMap::new(), size }
    }

    pub fn insert(&mut self, key: K, value: V) {
        if self.young.len() >= self.size {
            self.old = std::mem::take(&mut self.young);
        }
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
    fn bounded() {
        let mut recent = Recent::new(10);
        for n in 0..100 {
            recent.insert(n, n);
            for kept in (0..=n).rev().take(10) {
                assert_eq!(recent.get(&kept), Some(&kept));
            }
            assert!(recent.young.len() + recent.old.len() <= 20);
        }
        recent.remove(&99);
        assert_eq!((recent.get(&99), recent.get(&0)), (None, None));
    }
}
