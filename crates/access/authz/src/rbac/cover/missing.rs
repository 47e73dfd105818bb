//! The combinations of a product of lists that are not covered. Held rules cover boxes of the product: a subset of each
//! list.

use std::collections::HashMap;
use std::ops::ControlFlow;

use binnacle_work::{BudgetError, allocate, charge};

use super::elements::Cover;
use crate::rule::Rule;

/// The missing combinations of elements.
pub(super) struct MissingCombinations {
    /// The sizes of the lists.
    sizes: Vec<usize>,
    tree: Tree,
}

/// The missing combinations of a list and those after it.
enum Tree {
    Nothing,
    Everything,
    /// The missing combinations are the same for all elements of the list.
    Same(Box<Tree>),
    /// The elements with missing combinations, each with its class, and the missing combinations of each class.
    Classes {
        of: Vec<(u32, u32)>,
        trees: Vec<Tree>,
    },
}

/// The elements of each list that a rule covers.
type BoxCovers = Vec<Cover>;

impl MissingCombinations {
    pub(super) const NOTHING: Self = Self { sizes: Vec::new(), tree: Tree::Nothing };

    /// Finds the missing combinations of lists of these sizes. `covered` returns the elements of a list that a rule
    /// covers.
    pub(super) fn of<'h>(
        sizes: &[usize],
        held: impl Iterator<Item = &'h Rule>,
        covered: impl Fn(&Rule, usize) -> Result<Cover, BudgetError>,
    ) -> Result<Self, BudgetError> {
        let mut boxes: Vec<BoxCovers> = Vec::new();
        'rules: for rule in held {
            charge(1)?;
            let mut covers = Vec::with_capacity(sizes.len());
            for list in 0..sizes.len() {
                match covered(rule, list)? {
                    Cover::Nothing => continue 'rules,
                    cover => covers.push(cover),
                }
            }
            if covers.iter().all(|cover| *cover == Cover::All) {
                return Ok(Self::NOTHING);
            }
            allocate(size_of::<BoxCovers>() + sizes.len() * size_of::<Cover>())?;
            boxes.push(covers);
        }
        let boxes: Vec<&[Cover]> = boxes.iter().map(Vec::as_slice).collect();
        Ok(Self { sizes: sizes.to_vec(), tree: Tree::of(&boxes, sizes)? })
    }

    pub(super) fn count(&self) -> u64 {
        self.tree.count(&self.sizes)
    }

    /// Visits the missing combinations as positions in the lists. The last list varies fastest.
    pub(super) fn visit(
        &self,
        visitor: &mut dyn FnMut(&[usize]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, BudgetError> {
        self.tree.visit(&self.sizes, &mut Vec::with_capacity(self.sizes.len()), visitor)
    }
}

impl Tree {
    /// Builds the tree. `boxes` are the covers of the remaining lists, one per rule.
    fn of(boxes: &[&[Cover]], sizes: &[usize]) -> Result<Self, BudgetError> {
        charge(1 + boxes.len() as u64)?;
        if boxes.is_empty() {
            return Ok(Self::Everything);
        }
        if boxes.iter().any(|covers| covers.iter().all(|cover| *cover == Cover::All)) {
            return Ok(Self::Nothing);
        }
        let Some((size, rest)) = sizes.split_first() else { return Ok(Self::Nothing) };
        let mut of_element: Vec<(u32, u32)> = Vec::new();
        let mut of_all = Vec::new();
        for (number, covers) in (0u32..).zip(boxes) {
            match &covers[0] {
                Cover::All => of_all.push(&covers[1..]),
                Cover::Some(elements) => {
                    charge(elements.len() as u64)?;
                    allocate(elements.len() * size_of::<(u32, u32)>())?;
                    of_element.extend(elements.iter().map(|element| (*element, number)));
                }
                Cover::Nothing => {}
            }
        }
        if of_element.is_empty() {
            return Ok(match Self::of(&of_all, rest)? {
                tree @ (Self::Nothing | Self::Everything) => tree,
                tree => Self::Same(Box::new(tree)),
            });
        }
        Self::of_classes(boxes, &of_all, of_element, *size, rest)
    }

    /// Builds a node. Elements that are covered by the same rules form a class. `of_element` has the elements with the
    /// rules that cover them, and `of_all` the covers of the remaining lists by the rules that cover all elements.
    fn of_classes(
        boxes: &[&[Cover]],
        of_all: &[&[Cover]],
        mut of_element: Vec<(u32, u32)>,
        size: usize,
        rest: &[usize],
    ) -> Result<Self, BudgetError> {
        charge(of_element.len() as u64 * u64::from(of_element.len().ilog2() + 1) + size as u64)?;
        allocate(of_element.len() * size_of::<u32>() + size * size_of::<(u32, u32)>())?;
        of_element.sort_unstable();
        let (elements, rules): (Vec<u32>, Vec<u32>) = of_element.into_iter().unzip();
        let mut known: HashMap<&[u32], u32> = HashMap::new();
        let mut trees = Vec::new();
        let mut of = Vec::with_capacity(size);
        let mut from = 0;
        for element in 0..size {
            let to = from + elements[from..].iter().take_while(|of| **of as usize == element).count();
            let by = &rules[from..to];
            from = to;
            charge(2 + by.len() as u64)?;
            let class = match known.get(by) {
                Some(class) => *class,
                None => {
                    let class = trees.len() as u32;
                    charge((by.len() + of_all.len()) as u64)?;
                    let mut boxes_of: Vec<&[Cover]> = by.iter().map(|rule| &boxes[*rule as usize][1..]).collect();
                    boxes_of.extend_from_slice(of_all);
                    allocate(size_of::<Self>() + size_of::<(&[u32], u32)>())?;
                    trees.push(Self::of(&boxes_of, rest)?);
                    known.insert(by, class);
                    class
                }
            };
            if !matches!(trees[class as usize], Self::Nothing) {
                of.push((element as u32, class));
            }
        }
        Ok(if of.is_empty() {
            Self::Nothing
        } else if trees.iter().all(|tree| matches!(tree, Self::Everything)) {
            Self::Everything
        } else {
            Self::Classes { of, trees }
        })
    }

    fn count(&self, sizes: &[usize]) -> u64 {
        let product = |sizes: &[usize]| sizes.iter().fold(1u64, |all, size| all.saturating_mul(*size as u64));
        match (self, sizes.split_first()) {
            (Self::Nothing, _) => 0,
            (Self::Everything, _) | (_, None) => product(sizes),
            (Self::Same(tree), Some((size, rest))) => tree.count(rest).saturating_mul(*size as u64),
            (Self::Classes { of, trees }, Some((_, rest))) => {
                let counts: Vec<u64> = trees.iter().map(|tree| tree.count(rest)).collect();
                of.iter().fold(0, |all, (_, class)| all.saturating_add(counts[*class as usize]))
            }
        }
    }

    fn visit(
        &self,
        sizes: &[usize],
        at: &mut Vec<usize>,
        visitor: &mut dyn FnMut(&[usize]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, BudgetError> {
        charge(1)?;
        let Some((size, rest)) = sizes.split_first() else {
            return Ok(if matches!(self, Self::Nothing) { ControlFlow::Continue(()) } else { visitor(at) });
        };
        let mut visit_element = |element: usize, tree: &Self| {
            at.push(element);
            let seen = tree.visit(rest, at, visitor);
            at.pop();
            seen
        };
        match self {
            Self::Nothing => {}
            Self::Everything | Self::Same(_) => {
                let tree = if let Self::Same(tree) = self { tree } else { self };
                for element in 0..*size {
                    if visit_element(element, tree)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            Self::Classes { of, trees } => {
                for (element, class) in of {
                    if visit_element(*element as usize, &trees[*class as usize])?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
