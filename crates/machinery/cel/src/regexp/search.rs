//! Searches for the position of a match: the leftmost one, and of those the preferred one.

use std::ops::Range;

use binnacle_work::{BudgetError, charge};

use super::closure::{Closure, PrecedingChar};
use super::program::{Inst, Program};

/// A search, which visits each instruction at most once for each character.
pub(super) struct Search<'p> {
    program: &'p Program,
    closure: Closure,
    /// The instructions before the next character with the beginnings of their matches, the preferred ones first.
    threads: Vec<(u32, usize)>,
    reached: Vec<(u32, usize)>,
}

impl<'p> Search<'p> {
    pub(super) fn new(program: &'p Program) -> Result<Self, BudgetError> {
        let closure = Closure::new(program.insts.len())?;
        Ok(Self { program, closure, threads: Vec::new(), reached: Vec::new() })
    }

    /// Returns the first match that begins at an offset or after it.
    pub(super) fn find(&mut self, text: &str, from: usize) -> Result<Option<Range<usize>>, BudgetError> {
        let program = self.program;
        let mut found: Option<Range<usize>> = None;
        let mut before =
            text[..from].chars().next_back().map_or(PrecedingChar::Nothing, |c| PrecedingChar::of(program, c));
        let mut at = from;
        self.threads.clear();
        loop {
            let c = text[at..].chars().next();
            if found.is_none() && (at == 0 || !program.is_anchored) {
                self.threads.push((0, at));
            }
            if self.threads.is_empty() {
                return Ok(found);
            }
            self.advance_threads(before, c)?;
            self.threads.clear();
            for (pc, begin) in self.reached.drain(..) {
                match program.insts[pc as usize] {
                    Inst::Match => {
                        found = Some(begin..at);
                        // The rest is less preferred.
                        break;
                    }
                    Inst::Char(expected) if c == Some(expected) => self.threads.push((pc + 1, begin)),
                    Inst::Set(set) if c.is_some_and(|c| program.sets[set as usize].contains(c)) => {
                        self.threads.push((pc + 1, begin));
                    }
                    _ => {}
                }
            }
            let Some(c) = c else { return Ok(found) };
            before = PrecedingChar::of(program, c);
            at += c.len_utf8();
        }
    }

    /// Adds the instructions that the threads reach to `reached`.
    fn advance_threads(&mut self, before: PrecedingChar, after: Option<char>) -> Result<(), BudgetError> {
        charge(4)?;
        self.closure.clear();
        self.reached.clear();
        for (pc, begin) in &self.threads {
            let already_reached = self.closure.reached().len();
            self.closure.add(self.program, *pc, before, after)?;
            self.reached.extend(self.closure.reached()[already_reached..].iter().map(|pc| (*pc, *begin)));
        }
        Ok(())
    }

    /// Returns at most `count` matches that do not overlap, as Go's `FindAll`.
    pub(super) fn find_all<'t>(&mut self, text: &'t str, count: usize) -> Result<Vec<&'t str>, BudgetError> {
        let mut all = Vec::new();
        let (mut at, mut last_end) = (0, None);
        while all.len() < count && at <= text.len() {
            let Some(found) = self.find(text, at)? else { break };
            let mut accepted = true;
            if found.end == at {
                // An empty match directly after the previous one does not count.
                accepted = last_end != Some(found.start);
                at += text[at..].chars().next().map_or(1, char::len_utf8);
            } else {
                at = found.end;
            }
            last_end = Some(found.end);
            if accepted {
                binnacle_work::allocate(size_of::<&str>())?;
                all.push(&text[found]);
            }
        }
        Ok(all)
    }
}
