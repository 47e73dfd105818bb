//! Regular expressions of schemas, compiled on first use and cached within a budget.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

use binnacle_cel::GoRegex;

/// An expression in Go's syntax. Compiled expressions use more memory than their text, so they are cached within a
/// budget, and recompiled after eviction.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    machine: Arc<Mutex<Machine>>,
    compiled: Arc<CompiledPatterns>,
}

#[derive(Debug, Default)]
enum Machine {
    #[default]
    Unknown,
    Compiled(GoRegex),
    /// The reason why it does not compile.
    Invalid(Box<str>),
}

/// The cached machines, the oldest first, with the bytes of each.
#[derive(Debug, Default)]
pub(crate) struct CompiledPatterns(Mutex<CacheEntries>);

#[derive(Debug, Default)]
struct CacheEntries {
    machines: VecDeque<(Arc<Mutex<Machine>>, usize)>,
    bytes: usize,
}

/// The limit on the bytes of all machines.
const BUDGET: usize = 64 << 20;

impl CompiledPatterns {
    /// Stores a compiled machine in its slot, and evicts the oldest ones above the limit.
    fn insert(&self, slot: &Arc<Mutex<Machine>>, regex: GoRegex) {
        let bytes = regex.memory();
        if bytes > BUDGET {
            return;
        }
        let mut dropped = vec![std::mem::replace(&mut *lock(slot), Machine::Compiled(regex))];
        if matches!(dropped[0], Machine::Compiled(_)) {
            // Another thread was faster, and its entry is the one for this slot.
            return;
        }
        let mut entries = lock(&self.0);
        entries.machines.push_back((slot.clone(), bytes));
        entries.bytes += bytes;
        while entries.bytes > BUDGET
            && let Some((oldest, bytes)) = entries.machines.pop_front()
        {
            entries.bytes -= bytes;
            dropped.push(std::mem::take(&mut *lock(&oldest)));
        }
        drop(entries);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Pattern {
    pub(crate) fn new(text: &str, compiled: Arc<CompiledPatterns>) -> Self {
        Self { text: text.into(), machine: Arc::default(), compiled }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns true if the expression matches a part of a text.
    ///
    /// # Errors
    /// Go's error about a malformed expression, or that the work budget is exhausted.
    pub fn is_match(&self, text: &str) -> Result<bool, String> {
        self.machine()?.is_match(text).map_err(|exceeded| exceeded.to_string())
    }

    /// Returns the bytes of the compiled form; none before it is needed.
    pub(crate) fn memory(&self) -> usize {
        match &*lock(&self.machine) {
            Machine::Compiled(machine) => machine.memory(),
            Machine::Invalid(problem) => problem.len(),
            Machine::Unknown => 0,
        }
    }

    fn machine(&self) -> Result<GoRegex, String> {
        match &*lock(&self.machine) {
            Machine::Compiled(machine) => return Ok(machine.clone()),
            Machine::Invalid(problem) => return Err(problem.to_string()),
            Machine::Unknown => {}
        }
        // Compiled outside of the lock: other requests need it, and charging work may wait.
        match GoRegex::new(&self.text) {
            Ok(regex) => {
                self.compiled.insert(&self.machine, regex.clone());
                Ok(regex)
            }
            Err(error) => {
                let problem = error.to_string();
                // An exhausted budget is not an error of the expression.
                if binnacle_work::check().is_ok() {
                    *lock(&self.machine) = Machine::Invalid(problem.as_str().into());
                }
                Err(problem)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_work::{WorkBudget, WorkLimits};

    use super::*;

    #[test]
    fn recompiles_evicted_patterns() {
        let compiled = Arc::new(CompiledPatterns::default());
        let pattern = Pattern::new(r"^\d{2}$", compiled.clone());
        assert_eq!(pattern.memory(), 0);
        assert_eq!(pattern.is_match("12"), Ok(true));
        assert!(pattern.memory() > 0);
        // Large machines evict all others.
        let large: Vec<_> =
            (0..4).map(|n| Pattern::new(&format!("{}{n}", "[a-z]{1000}".repeat(900)), compiled.clone())).collect();
        for large in &large {
            assert_eq!(large.is_match("a"), Ok(false));
            assert!(lock(&compiled.0).bytes <= BUDGET);
        }
        assert_eq!(pattern.memory(), 0);
        assert_eq!(large[0].memory(), 0);
        assert_eq!(pattern.is_match("1"), Ok(false));
        let invalid = Pattern::new("a(", compiled);
        assert_eq!(invalid.is_match("a"), Err("error parsing regexp: missing closing ): `a(`".to_owned()));
    }

    #[test]
    fn does_not_cache_budget_errors() {
        let pattern = Pattern::new(&"[a-z]{1000}".repeat(20), Arc::default());
        let budget = WorkBudget::new(WorkLimits { steps: 10_000, memory: 1 << 20 });
        assert!(budget.enter(|| pattern.is_match("a")).is_err());
        assert_eq!(pattern.is_match("a"), Ok(false));
    }

    #[test]
    fn compiles_patterns_once() {
        let pattern =
            Pattern::new(r"^([a-z0-9\p{S}\p{L}](-?[a-z0-9\p{S}\p{L}]{0,62})?\.){1,8}[a-z\p{L}]{2,63}$", Arc::default());
        let steps = || {
            let budget = WorkBudget::new(WorkLimits::REQUEST);
            assert_eq!(budget.enter(|| pattern.is_match("www.example.com")), Ok(true));
            budget.steps()
        };
        let first = steps();
        let second = steps();
        assert!(first > 1000 && second < 100, "{first} {second}");
    }
}
