//! Finding what stands in a list twice, without comparing all with all.

use std::collections::HashSet;
use std::hash::Hash;

/// For each item, true where an earlier one has the same key.
pub fn repeated<'a, T, K: Eq + Hash>(items: &'a [T], key: impl FnMut(&'a T) -> K) -> Vec<bool> {
    let mut seen = HashSet::with_capacity(items.len());
    items.iter().map(key).map(|key| !seen.insert(key)).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn cases() {
        assert_eq!(super::repeated(&["a", "b", "a", "a", "c"], |text| *text), [false, false, true, true, false]);
    }
}
