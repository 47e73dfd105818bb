//! Matching without the position of the match: a lazy DFA whose states are sets of instructions and whose transitions
//! are cached.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_work::{BudgetError, charge};

use super::closure::{Closure, PrecedingChar};
use super::program::{Inst, Program};

/// The states reached so far. They are built when they are first needed, and dropped when they use too much memory.
#[derive(Debug)]
pub(super) struct States {
    /// The number of the column for each ASCII character. The last column is for the end of the text.
    columns: [u8; 128],
    width: usize,
    /// The instructions of each state in order, followed by the kind of the character before.
    keys: Vec<Arc<[u32]>>,
    numbers: HashMap<Arc<[u32]>, u32>,
    /// A row of next states for each state.
    table: Vec<u32>,
    /// The next states for other characters.
    non_ascii: HashMap<(u32, char), u32>,
    bytes: usize,
    closure: Closure,
    next: Vec<u32>,
}

/// A transition that has not been computed.
const UNKNOWN: u32 = u32::MAX;
/// There is a match before the character.
const MATCH: u32 = u32::MAX - 1;
/// There is no match, and none is possible.
const DEAD: u32 = u32::MAX - 2;

/// The number of bytes above which all states are dropped.
const MAX_STATES: usize = 32 << 10;
/// Cached transitions are charged once per this number of characters, with this number of steps.
const STRIDE: u32 = 64;
const STEPS_PER_STRIDE: u64 = 16;

impl States {
    pub(super) fn new(program: &Program) -> Result<Self, BudgetError> {
        let (columns, width) = columns(program)?;
        let mut states = Self {
            columns,
            width,
            keys: Vec::new(),
            numbers: HashMap::new(),
            table: Vec::new(),
            non_ascii: HashMap::new(),
            bytes: 0,
            closure: Closure::new(program.insts.len())?,
            next: Vec::new(),
        };
        states.number(&[0, PrecedingChar::Nothing as u32])?;
        Ok(states)
    }

    /// Returns true if a part of the text matches.
    pub(super) fn is_match(&mut self, program: &Program, text: &str) -> Result<bool, BudgetError> {
        // After all states were dropped, the start state is the first one again.
        let mut state = self.number(&[0, PrecedingChar::Nothing as u32])?;
        let mut stride = 0;
        for c in text.chars() {
            if stride == 0 {
                charge(STEPS_PER_STRIDE)?;
                stride = STRIDE;
            }
            stride -= 1;
            let known = match self.columns.get(c as usize) {
                Some(column) => self.table[state as usize * self.width + usize::from(*column)],
                None => self.non_ascii.get(&(state, c)).copied().unwrap_or(UNKNOWN),
            };
            state = match if known == UNKNOWN { self.transition(program, state, Some(c))? } else { known } {
                MATCH => return Ok(true),
                DEAD => return Ok(false),
                next => next,
            };
        }
        charge(1)?;
        let known = self.table[(state as usize + 1) * self.width - 1];
        Ok(if known == UNKNOWN { self.transition(program, state, None)? } else { known } == MATCH)
    }

    /// Computes the next state after a character, or at the end of the text.
    #[cold]
    fn transition(&mut self, program: &Program, state: u32, c: Option<char>) -> Result<u32, BudgetError> {
        let key = self.keys[state as usize].clone();
        let (before, insts) = key.split_last().expect("keys end with the kind of a character");
        self.closure.clear();
        let mut next = std::mem::take(&mut self.next);
        next.clear();
        for pc in insts {
            self.closure.add(program, *pc, PrecedingChar::of_number(*before), c)?;
        }
        let mut matches = false;
        for pc in self.closure.reached() {
            match program.insts[*pc as usize] {
                Inst::Match => matches = true,
                Inst::Char(single_char) if c == Some(single_char) => next.push(pc + 1),
                Inst::Set(set) if c.is_some_and(|c| program.sets[set as usize].contains(c)) => next.push(pc + 1),
                _ => {}
            }
        }
        if !program.is_anchored {
            next.push(0);
        }
        charge(next.len() as u64)?;
        next.sort_unstable();
        next.dedup();
        let found = match c {
            _ if matches => MATCH,
            Some(c) if !next.is_empty() => {
                next.push(PrecedingChar::of(program, c) as u32);
                return self.insert_transition(state, c, next, &key);
            }
            _ => DEAD,
        };
        self.next = next;
        self.set(state, c, found);
        Ok(found)
    }

    /// Records a transition to a state.
    fn insert_transition(&mut self, state: u32, c: char, next: Vec<u32>, key: &[u32]) -> Result<u32, BudgetError> {
        let mut from = state;
        if self.bytes > MAX_STATES {
            self.keys.clear();
            self.numbers.clear();
            self.table.clear();
            self.non_ascii.clear();
            self.bytes = 0;
            from = self.number(key)?;
        }
        let number = self.number(&next)?;
        self.next = next;
        self.set(from, Some(c), number);
        Ok(number)
    }

    fn set(&mut self, state: u32, c: Option<char>, next: u32) {
        let column = match c {
            None => self.width - 1,
            Some(c) => match self.columns.get(c as usize) {
                Some(column) => usize::from(*column),
                None => {
                    self.bytes += OTHER;
                    self.non_ascii.insert((state, c), next);
                    return;
                }
            },
        };
        self.table[state as usize * self.width + column] = next;
    }

    /// Returns the number of a state.
    fn number(&mut self, key: &[u32]) -> Result<u32, BudgetError> {
        if let Some(known) = self.numbers.get(key) {
            return Ok(*known);
        }
        charge((key.len() + self.width) as u64)?;
        let number = self.keys.len() as u32;
        let key: Arc<[u32]> = key.into();
        self.bytes += size_of_val(&*key) + self.width * size_of::<u32>() + STATE;
        self.numbers.insert(key.clone(), number);
        self.keys.push(key);
        self.table.resize(self.keys.len() * self.width, UNKNOWN);
        Ok(number)
    }

    /// Returns the number of bytes.
    pub(super) fn memory(&self) -> usize {
        size_of::<Self>() + self.bytes + self.closure.memory()
    }
}

/// The memory of a state besides its instructions and its row.
const STATE: usize = 96;
/// The memory of a transition by a character that is not ASCII.
const OTHER: usize = 32;

/// Returns the column of each ASCII character, and the number of columns including the one for the end of the text.
/// Characters share a column if the program treats them alike.
fn columns(program: &Program) -> Result<([u8; 128], usize), BudgetError> {
    let mut columns = [0_u8; 128];
    let mut width = 1;
    let mut split = |holds: &dyn Fn(char) -> bool| {
        // The new number of the characters that are in the set, by their old one.
        let mut renamed: HashMap<u8, u8> = HashMap::new();
        let outside =
            (0..128_u8).filter(|c| !holds(char::from(*c))).fold(0_u128, |all, c| all | 1 << columns[usize::from(c)]);
        for c in (0..128_u8).filter(|c| holds(char::from(*c))) {
            let column = &mut columns[usize::from(c)];
            if outside >> *column & 1 == 1 {
                *column = *renamed.entry(*column).or_insert_with(|| {
                    width += 1;
                    width as u8 - 1
                });
            }
        }
    };
    charge((program.sets.len() as u64 + 2) * 100)?;
    for set in &program.sets {
        split(&|c| set.contains(c));
    }
    let mut single = 0_u128;
    for inst in &program.insts {
        if let Inst::Char(c) = inst
            && c.is_ascii()
        {
            single |= 1 << u32::from(*c);
        }
    }
    for single_char in (0..128_u8).filter(|c| single >> c & 1 == 1) {
        split(&|c| c == char::from(single_char));
    }
    if program.looks.lines {
        split(&|c| c == '\n');
    }
    if program.looks.words {
        split(&|c| c.is_ascii_alphanumeric() || c == '_');
    }
    Ok((columns, width + 1))
}
