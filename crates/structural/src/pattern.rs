//! Regular expressions of schemas, compiled on first use and cached within a budget.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use binnacle_cel::go_regex;
use regex::Regex;

/// An expression in Go's syntax. The compiled form uses far more memory than the text, so it is cached within a budget
/// and recompiled when needed again.
#[derive(Debug)]
pub struct Pattern {
    text: Box<str>,
    machine: Mutex<Machine>,
    compiled: Arc<CompiledPatterns>,
}

#[derive(Debug, Default)]
enum Machine {
    #[default]
    Unknown,
    Made(Weak<Regex>),
    /// The reason why it does not compile.
    Invalid(Box<str>),
}

/// The cached machines, the oldest first, with the maximum size of each.
#[derive(Debug, Default)]
pub(crate) struct CompiledPatterns(Mutex<Held>);

#[derive(Debug, Default)]
struct Held {
    machines: VecDeque<(Arc<Regex>, usize)>,
    bytes: usize,
}

/// The limit on the bytes of all machines.
const BUDGET: usize = 64 << 20;
/// The size limits for one machine: most expressions fit into the first, and each further one needs another
/// compilation.
const SIZES: [usize; 3] = [64 << 10, 512 << 10, 8 << 20];

impl CompiledPatterns {
    fn hold(&self, machine: Arc<Regex>, bytes: usize) {
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        held.machines.push_back((machine, bytes));
        held.bytes += bytes;
        while held.bytes > BUDGET
            && let Some((_, bytes)) = held.machines.pop_front()
        {
            held.bytes -= bytes;
        }
    }
}

impl Pattern {
    pub(crate) fn new(text: &str, compiled: Arc<CompiledPatterns>) -> Self {
        Self { text: text.into(), machine: Mutex::default(), compiled }
    }

    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Returns true if the expression matches a part of a text.
    ///
    /// # Errors
    /// Go's error about a malformed expression.
    pub fn is_match(&self, text: &str) -> Result<bool, String> {
        Ok(self.machine()?.is_match(text))
    }

    fn machine(&self) -> Result<Arc<Regex>, String> {
        let mut machine = self.machine.lock().unwrap_or_else(PoisonError::into_inner);
        match &*machine {
            Machine::Made(made) => {
                if let Some(made) = made.upgrade() {
                    return Ok(made);
                }
            }
            Machine::Invalid(problem) => return Err(problem.to_string()),
            Machine::Unknown => {}
        }
        let mut problem = String::new();
        for bytes in SIZES {
            match go_regex(&self.text, bytes) {
                Ok(made) => {
                    let made = Arc::new(made);
                    *machine = Machine::Made(Arc::downgrade(&made));
                    self.compiled.hold(made.clone(), bytes);
                    return Ok(made);
                }
                Err(error) => problem = error.to_string(),
            }
        }
        *machine = Machine::Invalid(problem.as_str().into());
        Err(problem)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_made_again() {
        let compiled = Arc::new(CompiledPatterns::default());
        let pattern = Pattern::new(r"^\d{2}$", compiled.clone());
        assert_eq!(pattern.is_match("12"), Ok(true));
        // A machine that uses the whole budget evicts all others.
        compiled.hold(Arc::new(Regex::new("x").unwrap()), BUDGET);
        assert!(matches!(&*pattern.machine.lock().unwrap(), Machine::Made(made) if made.strong_count() == 0));
        assert_eq!(pattern.is_match("1"), Ok(false));
        let invalid = Pattern::new("a(", compiled);
        assert_eq!(invalid.is_match("a"), Err("error parsing regexp: missing closing ): `a(`".to_owned()));
    }
}
