//! A cache of expressions that were compiled during evaluations.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::GoRegex;
use crate::error::Error;

/// The limit on the bytes of all expressions.
const BUDGET: usize = 16 << 20;
/// The limit on the bytes of one expression.
const MAX_ENTRY_BYTES: usize = 1 << 20;

#[derive(Default)]
struct Cache {
    compiled: HashMap<Box<str>, GoRegex>,
    /// The texts of `compiled`, the oldest first, with the bytes of each.
    order: VecDeque<(Box<str>, usize)>,
    bytes: usize,
}

/// Returns a compiled expression, from the cache if possible.
pub(crate) fn get(pattern: &str) -> Result<GoRegex, Error> {
    static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);
    let lock = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    binnacle_work::charge_bytes(pattern.len())?;
    if let Some(regex) = lock().compiled.get(pattern) {
        return Ok(regex.clone());
    }
    // Compiled outside of the lock, because charging work may wait.
    let regex = GoRegex::new(pattern)?;
    let bytes = regex.memory() + 2 * pattern.len();
    if bytes <= MAX_ENTRY_BYTES {
        // Evicted entries are dropped outside of the lock as well.
        drop(lock().insert(pattern, regex.clone(), bytes));
    }
    Ok(regex)
}

impl Cache {
    fn insert(&mut self, pattern: &str, regex: GoRegex, bytes: usize) -> Vec<GoRegex> {
        let mut dropped = Vec::new();
        if self.compiled.insert(pattern.into(), regex).is_none() {
            self.order.push_back((pattern.into(), bytes));
            self.bytes += bytes;
        }
        while self.bytes > BUDGET
            && let Some((oldest, bytes)) = self.order.pop_front()
        {
            self.bytes -= bytes;
            dropped.extend(self.compiled.remove(&oldest));
        }
        dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evicts_oldest_entries_over_budget() {
        let mut cache = Cache::default();
        let regex = GoRegex::new("a+b").unwrap();
        for n in 0..100 {
            let dropped = cache.insert(&n.to_string(), regex.clone(), 1 << 20);
            assert_eq!(dropped.len(), usize::from(n >= 16));
            assert!(cache.bytes <= BUDGET && cache.compiled.len() == cache.order.len());
        }
        assert!(cache.compiled.contains_key("99") && !cache.compiled.contains_key("0"));
    }
}
