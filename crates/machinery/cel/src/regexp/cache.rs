//! Expressions that were compiled for values of evaluations.

use std::collections::{HashMap, VecDeque};
use std::sync::{LazyLock, Mutex, PoisonError};

use super::GoRegex;
use crate::error::Error;

/// The limit on the bytes of all expressions.
const BUDGET: usize = 16 << 20;
/// The limit for one.
const MAX_KEPT: usize = 1 << 20;

#[derive(Default)]
struct Cache {
    known: HashMap<Box<str>, GoRegex>,
    /// The texts of `known`, the oldest first, with the bytes of each.
    order: VecDeque<(Box<str>, usize)>,
    bytes: usize,
}

/// Returns a compiled expression, which is compiled if it was not needed lately.
pub(crate) fn get(pattern: &str) -> Result<GoRegex, Error> {
    static CACHE: LazyLock<Mutex<Cache>> = LazyLock::new(Mutex::default);
    let lock = || CACHE.lock().unwrap_or_else(PoisonError::into_inner);
    binnacle_work::charge_bytes(pattern.len())?;
    if let Some(known) = lock().known.get(pattern) {
        return Ok(known.clone());
    }
    // Compiled without the lock: a charge may wait.
    let made = GoRegex::new(pattern)?;
    let bytes = made.memory() + 2 * pattern.len();
    if bytes <= MAX_KEPT {
        // What is no longer needed is dropped without the lock, too.
        drop(lock().insert(pattern, made.clone(), bytes));
    }
    Ok(made)
}

impl Cache {
    fn insert(&mut self, pattern: &str, made: GoRegex, bytes: usize) -> Vec<GoRegex> {
        let mut dropped = Vec::new();
        if self.known.insert(pattern.into(), made).is_none() {
            self.order.push_back((pattern.into(), bytes));
            self.bytes += bytes;
        }
        while self.bytes > BUDGET
            && let Some((oldest, bytes)) = self.order.pop_front()
        {
            self.bytes -= bytes;
            dropped.extend(self.known.remove(&oldest));
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
        let made = GoRegex::new("a+b").unwrap();
        for n in 0..100 {
            let dropped = cache.insert(&n.to_string(), made.clone(), 1 << 20);
            assert_eq!(dropped.len(), usize::from(n >= 16));
            assert!(cache.bytes <= BUDGET && cache.known.len() == cache.order.len());
        }
        assert!(cache.known.contains_key("99") && !cache.known.contains_key("0"));
    }
}
