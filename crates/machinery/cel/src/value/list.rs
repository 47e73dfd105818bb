//! Lists: of a tree, of values, or concatenations of other lists.

use std::sync::Arc;

use binnacle_schema as schema;

use super::{Val, deepest};
use crate::decl_type::{DeclType, Shape};
use crate::error::Error;
use crate::meter::Meter;

#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Holds the type of the list.
    Tree(&'a [schema::Value], Option<&'a DeclType>),
    Values(Arc<Items<'a>>),
    /// The sum of lists with a list type; the first list determines it.
    Merged(Arc<Items<'a>>, &'a DeclType),
    /// Not copied, so that repeated concatenation of long lists is cheap in time and memory.
    Concat(Arc<Concat<'a>>),
}

/// Values and their nesting depth.
#[derive(Clone, Debug, Default)]
pub struct Items<'a> {
    values: Vec<Val<'a>>,
    depth: u32,
}

/// The sum of two lists.
#[derive(Debug)]
pub struct Concat<'a> {
    parts: (List<'a>, List<'a>),
    len: usize,
    /// The nesting depth of concatenations.
    height: u32,
    depth: u32,
}

impl<'a> From<Vec<Val<'a>>> for Items<'a> {
    fn from(values: Vec<Val<'a>>) -> Self {
        let depth = deepest(&values);
        Self { values, depth }
    }
}

/// The length below which lists are copied when concatenated.
const COPIED: usize = 64;
/// The height of sums from which they are copied.
const MAX_HEIGHT: u32 = 100;

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Tree(items, _) => items.len(),
            Self::Values(items) | Self::Merged(items, _) => items.values.len(),
            Self::Concat(joined) => joined.len,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// # Errors
    /// If the element of a tree does not have its type.
    ///
    /// # Panics
    /// If the index is beyond the end.
    pub fn get(&self, index: usize) -> Result<Val<'a>, Error> {
        match self {
            Self::Tree(items, ty) => element(&items[index], *ty),
            Self::Values(items) | Self::Merged(items, _) => Ok(items.values[index].clone()),
            Self::Concat(joined) => match index.checked_sub(joined.parts.0.len()) {
                None => joined.parts.0.get(index),
                Some(index) => joined.parts.1.get(index),
            },
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = Result<Val<'a>, Error>> + use<'a, '_> {
        (0..self.len()).map(|i| self.get(i))
    }

    /// Returns the type of a list of a tree, or of a sum of such lists.
    pub(crate) fn decl(&self) -> Option<&'a DeclType> {
        match self {
            Self::Tree(_, ty) => *ty,
            Self::Merged(_, ty) => Some(ty),
            Self::Values(_) | Self::Concat(_) => None,
        }
    }

    /// Returns the nesting depth of values in the list, not counting values of a tree.
    pub(super) fn depth(&self) -> u32 {
        match self {
            Self::Tree(..) => 0,
            Self::Values(items) | Self::Merged(items, _) => items.depth,
            Self::Concat(joined) => joined.depth,
        }
    }

    /// Returns the steps of accessing an element.
    pub(crate) fn height(&self) -> u64 {
        match self {
            Self::Concat(joined) => joined.height.into(),
            _ => 0,
        }
    }

    pub(crate) fn join(self, meter: &Meter, other: Self) -> Result<Self, Error> {
        if other.is_empty() {
            return Ok(self);
        }
        if self.is_empty() {
            return Ok(other);
        }
        let len = self.len().checked_add(other.len()).ok_or_else(|| Error::new("integer overflow"))?;
        let height = 1 + self.height().max(other.height()) as u32;
        if len > COPIED && height <= MAX_HEIGHT {
            meter.copy(size_of::<Concat<'_>>())?;
            let depth = self.depth().max(other.depth());
            return Ok(Self::Concat(Arc::new(Concat { parts: (self, other), len, height, depth })));
        }
        meter.list(len)?;
        meter.work((len as u64).saturating_mul(height.into()))?;
        let values: Result<Vec<_>, _> = self.iter().chain(other.iter()).collect();
        Ok(Self::from(values?))
    }

    /// Returns the list with one more value at its end.
    pub(crate) fn push(self, meter: &Meter, value: Val<'a>) -> Result<Self, Error> {
        match self {
            Self::Values(mut items) => {
                if Arc::get_mut(&mut items).is_none() {
                    meter.list(items.values.len())?;
                }
                meter.list(1)?;
                let items_mut = Arc::make_mut(&mut items);
                items_mut.depth = items_mut.depth.max(value.depth() + 1);
                items_mut.values.push(value);
                Ok(Self::Values(items))
            }
            list => list.join(meter, Self::from(vec![value])),
        }
    }
}

impl<'a> From<Vec<Val<'a>>> for List<'a> {
    fn from(values: Vec<Val<'a>>) -> Self {
        Self::Values(Arc::new(Items::from(values)))
    }
}

fn element<'a>(value: &'a schema::Value, ty: Option<&'a DeclType>) -> Result<Val<'a>, Error> {
    match ty.map(|ty| &ty.shape) {
        Some(Shape::List { element, .. }) => Val::typed(value, element),
        _ => Ok(Val::of(value)),
    }
}
