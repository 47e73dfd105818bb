//! Epsilon closures: the instructions that are reached without consuming a character.

use binnacle_validation::go_regexp::Look;
use binnacle_work::{BudgetError, allocate, charge};

use super::program::{Inst, Program};

/// The kind of the character before a position, as far as assertions distinguish it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum PrecedingChar {
    Nothing,
    Newline,
    Word,
    Other,
}

impl PrecedingChar {
    pub(super) fn of(program: &Program, c: char) -> Self {
        match c {
            '\n' if program.looks.lines => Self::Newline,
            c if program.looks.words && is_word(c) => Self::Word,
            _ => Self::Other,
        }
    }

    pub(super) fn of_number(number: u32) -> Self {
        match number {
            0 => Self::Nothing,
            1 => Self::Newline,
            2 => Self::Word,
            _ => Self::Other,
        }
    }
}

pub(super) fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// A set of instructions in the order in which they were reached.
#[derive(Debug)]
pub(super) struct Closure {
    /// The index of each instruction in `visited`, if it was visited.
    positions: Box<[u32]>,
    visited: Vec<u32>,
    /// The visited instructions that consume a character or match.
    reached: Vec<u32>,
    stack: Vec<u32>,
}

impl Closure {
    pub(super) fn new(insts: usize) -> Result<Self, BudgetError> {
        allocate(insts * 4 * size_of::<u32>())?;
        Ok(Self { positions: vec![0; insts].into(), visited: Vec::new(), reached: Vec::new(), stack: Vec::new() })
    }

    pub(super) fn clear(&mut self) {
        self.visited.clear();
        self.reached.clear();
    }

    pub(super) fn reached(&self) -> &[u32] {
        &self.reached
    }

    /// Adds an instruction, and those that are reached from it between two characters, the preferred ones first.
    pub(super) fn add(
        &mut self,
        program: &Program,
        pc: u32,
        before: PrecedingChar,
        after: Option<char>,
    ) -> Result<(), BudgetError> {
        self.stack.push(pc);
        while let Some(pc) = self.stack.pop() {
            charge(1)?;
            let position = self.positions[pc as usize] as usize;
            if self.visited.get(position) == Some(&pc) {
                continue;
            }
            self.positions[pc as usize] = self.visited.len() as u32;
            self.visited.push(pc);
            match program.insts[pc as usize] {
                Inst::Split(preferred, other) => {
                    self.stack.push(other);
                    self.stack.push(preferred);
                }
                Inst::Jump(to) => self.stack.push(to),
                Inst::Look(look) if look_matches(look, before, after) => self.stack.push(pc + 1),
                Inst::Look(_) | Inst::Fail => {}
                Inst::Char(_) | Inst::Set(_) | Inst::Match => self.reached.push(pc),
            }
        }
        Ok(())
    }

    /// Returns the number of bytes.
    pub(super) fn memory(&self) -> usize {
        let lists = self.visited.capacity() + self.reached.capacity() + self.stack.capacity();
        (self.positions.len() + lists) * size_of::<u32>()
    }
}

fn look_matches(look: Look, before: PrecedingChar, after: Option<char>) -> bool {
    let is_boundary = || (before == PrecedingChar::Word) != after.is_some_and(is_word);
    match look {
        Look::BeginText => before == PrecedingChar::Nothing,
        Look::EndText => after.is_none(),
        Look::BeginLine => matches!(before, PrecedingChar::Nothing | PrecedingChar::Newline),
        Look::EndLine => matches!(after, None | Some('\n')),
        Look::WordBoundary => is_boundary(),
        Look::NoWordBoundary => !is_boundary(),
    }
}
