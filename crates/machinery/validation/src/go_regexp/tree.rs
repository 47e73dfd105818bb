//! Parsed expressions, with the sizes that Go limits.

use super::{Error, ParseResult, Parser};

/// A parsed expression. Nodes refer to others by their numbers.
#[derive(Debug, Default)]
pub struct Tree<'p> {
    pub nodes: Vec<Node>,
    pub root: u32,
    /// The nodes of concatenations and alternations.
    pub children: Vec<u32>,
    pub classes: Vec<Class<'p>>,
    pub items: Vec<ClassItem<'p>>,
    /// The number of instructions that Go estimates for the program.
    pub size: u64,
}

/// A part of an expression. Groups are represented by their contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Node {
    /// Matches the empty text.
    Empty,
    /// A single character; `fold` ignores case.
    Char {
        c: u32,
        fold: bool,
    },
    /// One of the characters of a class.
    Class(u32),
    Look(Look),
    /// A range of [`Tree::children`].
    Concat {
        first: u32,
        count: u32,
    },
    /// A range of [`Tree::children`]; the first alternative is preferred.
    Alternate {
        first: u32,
        count: u32,
    },
    Repeat {
        node: u32,
        min: u16,
        /// [`UNLIMITED`] for no maximum.
        max: u16,
        lazy: bool,
    },
}

/// No maximum of a repetition.
pub const UNLIMITED: u16 = u16::MAX;

/// A zero-width assertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Look {
    BeginText,
    EndText,
    BeginLine,
    EndLine,
    WordBoundary,
    NoWordBoundary,
}

/// A class of characters.
#[derive(Clone, Debug)]
pub struct Class<'p> {
    /// The text, which identifies the class together with `fold`.
    pub text: &'p str,
    pub fold: bool,
    pub negated: bool,
    /// A range of [`Tree::items`].
    pub first: u32,
    pub count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClassItem<'p> {
    /// From the first to the last code point.
    Range(u32, u32),
    Named {
        set: NamedSet<'p>,
        negated: bool,
    },
}

/// A named set of characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamedSet<'p> {
    /// `\d`, `\s` or `\w`.
    Perl(u8),
    /// The name in `[:name:]`.
    Posix(&'p str),
    /// The name in `\p{name}`.
    Unicode(&'p str),
}

/// Go's limit on the instructions of a program: 128 MB of memory.
pub const MAX_SIZE: u64 = (128 << 20) / 40;
/// Go's limit on the nesting of a tree.
const MAX_HEIGHT: u16 = 1000;

/// A node with its limited sizes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    pub(super) node: u32,
    size: u64,
    height: u16,
    is_literal: bool,
}

impl<'p> Tree<'p> {
    pub(super) fn add(&mut self, node: Node) -> u32 {
        self.nodes.push(node);
        (self.nodes.len() - 1) as u32
    }

    fn children(&mut self, items: &[Item]) -> (u32, u32) {
        let first = self.children.len() as u32;
        self.children.extend(items.iter().map(|item| item.node));
        (first, items.len() as u32)
    }

    pub(super) fn leaf(&mut self, node: Node) -> Item {
        Item { node: self.add(node), size: 1, height: 1, is_literal: matches!(node, Node::Char { .. }) }
    }

    pub(super) fn concat(&mut self, items: &[Item]) -> Item {
        match items {
            [] => self.leaf(Node::Empty),
            [item] => *item,
            items => {
                let (first, count) = self.children(items);
                // Go merges adjacent characters into one node.
                let is_literal = items.iter().all(|item| item.is_literal);
                let height = highest(items) + u16::from(!is_literal);
                Item { node: self.add(Node::Concat { first, count }), size: total(items), height, is_literal }
            }
        }
    }

    pub(super) fn alternate(&mut self, items: &[Item]) -> Item {
        match items {
            [item] => *item,
            items => {
                let (first, count) = self.children(items);
                let size = total(items) + items.len() as u64 - 1;
                let node = self.add(Node::Alternate { first, count });
                Item { node, size, height: highest(items) + 1, is_literal: false }
            }
        }
    }

    pub(super) fn repeat(&mut self, item: Item, min: u16, max: u16, lazy: bool) -> Item {
        let (copies, least) = (u64::from(max), u64::from(min));
        let is_operator = matches!((min, max), (0 | 1, UNLIMITED) | (0, 1));
        let size = match (min, max) {
            (0, UNLIMITED) => item.size + 2,
            (_, UNLIMITED) => least.saturating_mul(item.size) + 1,
            (0, 1) => item.size + 1,
            _ => copies.saturating_mul(item.size) + copies.saturating_sub(least),
        };
        let mut height = item.height + 1;
        // Go merges adjacent operators.
        if let Node::Repeat { node: inner, min: 0 | 1, max: UNLIMITED | 1, lazy: inner_lazy } =
            self.nodes[item.node as usize]
            && is_operator
            && inner_lazy == lazy
            && self.nodes[item.node as usize] != (Node::Repeat { node: inner, min: 1, max: 1, lazy })
        {
            height = item.height;
        }
        let node = self.add(Node::Repeat { node: item.node, min, max, lazy });
        Item { node, size: size.max(1), height, is_literal: false }
    }
}

impl Item {
    /// Returns the item as the contents of a capturing group.
    pub(super) fn captured(self) -> Self {
        Self { size: self.size + 2, height: self.height + 1, is_literal: false, ..self }
    }
}

impl<'p> Parser<'p> {
    /// Fails if an item exceeds Go's limits.
    pub(super) fn limited(&self, item: Item) -> ParseResult<'p, Item> {
        if item.size > MAX_SIZE {
            return Err(Error { problem: "expression too large", at: self.pattern });
        }
        if item.height > MAX_HEIGHT {
            return Err(Error { problem: "expression nests too deeply", at: self.pattern });
        }
        Ok(item)
    }

    /// Finishes the expression.
    pub(super) fn finish(mut self) -> ParseResult<'p, Tree<'p>> {
        let root = self.contents()?;
        self.tree.root = root.node;
        // The instruction that ends the program, and one that always fails.
        self.tree.size = root.size + 2;
        Ok(self.tree)
    }
}

fn highest(items: &[Item]) -> u16 {
    items.iter().map(|item| item.height).max().unwrap_or(0)
}

fn total(items: &[Item]) -> u64 {
    items.iter().fold(0, |sum, item| sum.saturating_add(item.size))
}
