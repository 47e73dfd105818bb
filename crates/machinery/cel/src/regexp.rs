//! Go's regular expressions.
//!
//! An expression is compiled to a program as in Go: one instruction per character, with shared character sets, so that
//! `\pL{62}` needs 62 instructions. Programs are matched in linear time. All steps are charged to the work budget.

mod cache;
mod closure;
mod program;
mod search;
mod sets;
mod states;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use binnacle_validation::go_regexp;
use binnacle_work::BudgetError;

pub(crate) use self::cache::get;
use self::program::Program;
use self::search::Search;
use self::states::States;
use crate::error::Error;

/// A compiled expression with Go's syntax. Clones share it.
#[derive(Clone, Debug)]
pub struct GoRegex(Arc<Machine>);

#[derive(Debug)]
struct Machine {
    program: Program,
    /// The states reached with earlier texts; `None` while another search uses them.
    states: Mutex<Option<Box<States>>>,
}

impl GoRegex {
    /// Compiles an expression.
    ///
    /// # Errors
    /// Go's error for the expression, or that the work budget is exhausted.
    pub fn new(pattern: &str) -> Result<Self, Error> {
        Ok(Self(Arc::new(Machine { program: Program::new(pattern)?, states: Mutex::default() })))
    }

    /// Returns true if the expression matches a part of a text.
    ///
    /// # Errors
    /// If the work budget is exhausted.
    pub fn is_match(&self, text: &str) -> Result<bool, BudgetError> {
        let Machine { program, states } = &*self.0;
        let lock = || states.lock().unwrap_or_else(PoisonError::into_inner);
        let cached = lock().take();
        let mut states = match cached {
            Some(states) => states,
            None => Box::new(States::new(program)?),
        };
        let matches = states.is_match(program, text);
        if states.memory() <= MAX_STATE_BYTES + 2 * program.memory() {
            // The replaced value is dropped outside of the lock.
            let _replaced = lock().replace(states);
        }
        matches
    }

    /// Returns the leftmost match.
    pub(crate) fn find(&self, text: &str) -> Result<Option<Range<usize>>, BudgetError> {
        Search::new(&self.0.program)?.find(text, 0)
    }

    /// Returns at most this number of matches.
    pub(crate) fn find_all<'t>(&self, text: &'t str, count: usize) -> Result<Vec<&'t str>, BudgetError> {
        Search::new(&self.0.program)?.find_all(text, count)
    }

    /// Returns the maximum number of bytes that the expression uses.
    pub fn memory(&self) -> usize {
        3 * self.0.program.memory() + MAX_STATE_BYTES
    }
}

/// The limit on the bytes of cached states, in addition to twice those of the program: few expressions need more.
const MAX_STATE_BYTES: usize = 8 << 10;

/// Checks an expression, with Go's errors.
pub(crate) fn check(pattern: &str) -> Result<(), Error> {
    go_regexp::check(pattern).map_err(Error::new)
}

/// Returns true if a pattern occurs in a text.
pub(crate) fn is_match(pattern: &str, text: &str) -> Result<bool, Error> {
    // Patterns without special characters are common and need no machine.
    let plain = !pattern.bytes().any(|b| b"\\.+*?()|[]{}^$".contains(&b));
    if plain {
        binnacle_work::charge_bytes(text.len() + pattern.len())?;
        return Ok(text.contains(pattern));
    }
    Ok(get(pattern)?.is_match(text)?)
}
