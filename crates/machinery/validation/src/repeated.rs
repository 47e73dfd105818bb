//! Duplicate detection in lists, in linear time.

use std::collections::HashSet;
use std::hash::Hash;

/// Returns one boolean per item, true if an earlier item has the same key.
pub fn repeated<'a, T, K: Eq + Hash>(items: &'a [T], key: impl FnMut(&'a T) -> K) -> Vec<bool> {
    let mut seen = HashSet::with_capacity(items.len());
    items.iter().map(key).map(|key| !seen.insert(key)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn marks_repeated_items() {
        assert_eq!(super::repeated(&["a", "b", "a", "a", "c"], |text| *text), [false, false, true, true, false]);
    }
}
