//! Programs: the instructions of an expression, as in Go.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_validation::go_regexp::{Look, Node, Tree, UNLIMITED, parse};
use binnacle_work::{BudgetError, allocate, charge};

use super::sets::CharSet;
use crate::error::Error;

#[derive(Clone, Copy, Debug)]
pub(super) enum Inst {
    /// Matches a character, and continues with the next instruction.
    Char(char),
    /// Matches a character of a set.
    Set(u32),
    /// Continues with both; the first is preferred.
    Split(u32, u32),
    Jump(u32),
    Look(Look),
    Match,
    Fail,
}

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) insts: Vec<Inst>,
    pub(super) sets: Vec<Arc<CharSet>>,
    /// True if a match can only begin at the beginning of the text.
    pub(super) is_anchored: bool,
    /// The kinds of assertions in the program.
    pub(super) looks: LookSet,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LookSet {
    pub(super) text: bool,
    pub(super) lines: bool,
    pub(super) words: bool,
}

/// Go's limit on the code points at the ends of all ranges: 128 MB of memory.
const MAX_RUNES: usize = (128 << 20) / 4;

impl Program {
    /// Compiles an expression. Its size is charged in advance.
    ///
    /// # Errors
    /// Go's error for the expression, or that the budget is exhausted.
    pub(super) fn new(pattern: &str) -> Result<Self, Error> {
        let tree = parse(pattern).map_err(Error::new)?;
        binnacle_work::check()?;
        charge(tree.size)?;
        allocate(usize::try_from(tree.size).unwrap_or(usize::MAX).saturating_mul(size_of::<Inst>()))?;
        let mut compiler = Compiler {
            tree: &tree,
            insts: Vec::new(),
            sets: Vec::new(),
            set_ids: HashMap::new(),
            runes: 0,
            looks: LookSet::default(),
        };
        compiler.node(tree.root)?;
        compiler.insts.push(Inst::Match);
        if compiler.runes > MAX_RUNES {
            return Err(Error::new(format!("error parsing regexp: expression too large: `{pattern}`")));
        }
        let Compiler { mut insts, sets, looks, .. } = compiler;
        insts.shrink_to_fit();
        Ok(Self { insts, sets, is_anchored: is_anchored(&tree, tree.root), looks })
    }

    /// Returns the number of bytes.
    pub(super) fn memory(&self) -> usize {
        let sets = self.sets.iter().map(|set| set.memory()).sum::<usize>();
        size_of::<Self>() + self.insts.capacity() * size_of::<Inst>() + sets
    }
}

/// Returns true if an expression begins with `^` or `\A`.
fn is_anchored(tree: &Tree<'_>, node: u32) -> bool {
    match tree.nodes[node as usize] {
        Node::Look(Look::BeginText) => true,
        Node::Concat { first, count } if count > 0 => is_anchored(tree, tree.children[first as usize]),
        _ => false,
    }
}

struct Compiler<'t> {
    tree: &'t Tree<'t>,
    insts: Vec<Inst>,
    sets: Vec<Arc<CharSet>>,
    /// The IDs of character sets by their text: a class, or a single character whose case is ignored.
    set_ids: HashMap<(&'t str, Option<char>, bool), u32>,
    runes: usize,
    looks: LookSet,
}

impl<'t> Compiler<'t> {
    fn node(&mut self, node: u32) -> Result<(), Error> {
        charge(1)?;
        match self.tree.nodes[node as usize] {
            Node::Empty => {}
            Node::Char { c, fold } => {
                let inst = match char::from_u32(c) {
                    None => Inst::Fail,
                    Some(c) if fold => Inst::Set(self.set(("", Some(c), true), |_| CharSet::of_char(c))?),
                    Some(c) => Inst::Char(c),
                };
                self.insts.push(inst);
            }
            Node::Class(class) => {
                let class = &self.tree.classes[class as usize];
                let set = self.set((class.text, None, class.fold), |tree| {
                    let items = class.first as usize..(class.first + class.count) as usize;
                    CharSet::of_class(class, &tree.items[items])
                })?;
                self.insts.push(Inst::Set(set));
            }
            Node::Look(look) => {
                match look {
                    Look::BeginText | Look::EndText => self.looks.text = true,
                    Look::BeginLine | Look::EndLine => self.looks.lines = true,
                    Look::WordBoundary | Look::NoWordBoundary => self.looks.words = true,
                }
                self.insts.push(Inst::Look(look));
            }
            Node::Concat { first, count } => {
                for child in first..first + count {
                    self.below(self.tree.children[child as usize])?;
                }
            }
            Node::Alternate { first, count } => self.alternate(first, count)?,
            Node::Repeat { node, min, max, lazy } => self.repeat(node, min, max, lazy)?,
        }
        Ok(())
    }

    fn below(&mut self, node: u32) -> Result<(), Error> {
        stacker::maybe_grow(64 * 1024, 1024 * 1024, || self.node(node))
    }

    /// Returns the ID of a set; each is built once.
    fn set(
        &mut self,
        key: (&'t str, Option<char>, bool),
        build: impl FnOnce(&'t Tree<'t>) -> Result<Arc<CharSet>, BudgetError>,
    ) -> Result<u32, BudgetError> {
        if let Some(id) = self.set_ids.get(&key) {
            return Ok(*id);
        }
        let set = build(self.tree)?;
        self.runes += 2 * set.len();
        self.sets.push(set);
        let number = (self.sets.len() - 1) as u32;
        self.set_ids.insert(key, number);
        Ok(number)
    }

    fn next_pc(&self) -> u32 {
        self.insts.len() as u32
    }

    /// Adds an instruction whose targets are set later.
    fn hole(&mut self) -> usize {
        self.insts.push(Inst::Fail);
        self.insts.len() - 1
    }

    fn split(&mut self, at: usize, preferred: u32, other: u32, lazy: bool) {
        self.insts[at] = if lazy { Inst::Split(other, preferred) } else { Inst::Split(preferred, other) };
    }

    fn alternate(&mut self, first: u32, count: u32) -> Result<(), Error> {
        let mut ends = Vec::new();
        for child in first..first + count {
            let node = self.tree.children[child as usize];
            if child + 1 == first + count {
                self.below(node)?;
                continue;
            }
            let split = self.hole();
            self.below(node)?;
            ends.push(self.hole());
            self.split(split, split as u32 + 1, self.next_pc(), false);
        }
        for end in ends {
            self.insts[end] = Inst::Jump(self.next_pc());
        }
        Ok(())
    }

    /// Writes repetitions as Go does: `x{2,}` as `xx+`, `x{2,4}` as `xx(x(x)?)?`.
    fn repeat(&mut self, node: u32, min: u16, max: u16, lazy: bool) -> Result<(), Error> {
        if max == UNLIMITED {
            return match min {
                0 if self.is_nullable(node)? => {
                    // `(x+)?`, so that the empty text has the priority that Go gives it.
                    let split = self.hole();
                    self.plus(node, lazy)?;
                    self.split(split, split as u32 + 1, self.next_pc(), lazy);
                    Ok(())
                }
                0 => {
                    let split = self.hole();
                    self.below(node)?;
                    self.insts.push(Inst::Jump(split as u32));
                    self.split(split, split as u32 + 1, self.next_pc(), lazy);
                    Ok(())
                }
                _ => {
                    (1..min).try_for_each(|_| self.below(node))?;
                    self.plus(node, lazy)
                }
            };
        }
        (0..min).try_for_each(|_| self.below(node))?;
        let mut splits = Vec::new();
        for _ in min..max {
            splits.push(self.hole());
            self.below(node)?;
        }
        for split in splits {
            self.split(split, split as u32 + 1, self.next_pc(), lazy);
        }
        Ok(())
    }

    fn plus(&mut self, node: u32, lazy: bool) -> Result<(), Error> {
        let begin = self.next_pc();
        self.below(node)?;
        let split = self.hole();
        self.split(split, begin, split as u32 + 1, lazy);
        Ok(())
    }

    /// Returns true if a part can match the empty text.
    fn is_nullable(&self, node: u32) -> Result<bool, Error> {
        charge(1)?;
        let children = |first: u32, count: u32| &self.tree.children[first as usize..(first + count) as usize];
        let below = |child: &u32| stacker::maybe_grow(64 * 1024, 1024 * 1024, || self.is_nullable(*child));
        Ok(match self.tree.nodes[node as usize] {
            Node::Empty | Node::Look(_) => true,
            Node::Char { .. } | Node::Class(_) => false,
            Node::Concat { first, count } => {
                let mut all = true;
                for child in children(first, count) {
                    all = all && below(child)?;
                }
                all
            }
            Node::Alternate { first, count } => {
                let mut any = false;
                for child in children(first, count) {
                    any = any || below(child)?;
                }
                any
            }
            Node::Repeat { node, min, .. } => min == 0 || below(&node)?,
        })
    }
}
