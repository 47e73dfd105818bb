//! Lists: of a tree, of values, or sums of other lists.

use std::sync::Arc;

use binnacle_schema as schema;

use super::Val;
use crate::declared::{DeclType, Shape};
use crate::error::Error;

#[derive(Clone, Debug)]
pub enum List<'a> {
    /// Holds the type of the list.
    Tree(&'a [schema::Value], Option<&'a DeclType>),
    Values(Arc<Vec<Val<'a>>>),
    /// The sum of lists with a list type, which is that of the first one.
    Merged(Arc<[Val<'a>]>, &'a DeclType),
    /// Not copied, so that repeated concatenation of long lists is cheap in time and memory.
    Joined(Arc<(List<'a>, List<'a>, usize)>),
}

/// The length below which lists are copied when concatenated.
const COPIED: usize = 64;

impl<'a> List<'a> {
    pub fn len(&self) -> usize {
        match self {
            Self::Tree(items, _) => items.len(),
            Self::Values(values) => values.len(),
            Self::Merged(values, _) => values.len(),
            Self::Joined(parts) => parts.2,
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
            Self::Values(values) => Ok(values[index].clone()),
            Self::Merged(values, _) => Ok(values[index].clone()),
            Self::Joined(parts) => match index.checked_sub(parts.0.len()) {
                None => parts.0.get(index),
                Some(index) => parts.1.get(index),
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
            Self::Values(_) | Self::Joined(_) => None,
        }
    }

    pub(crate) fn join(self, other: Self) -> Result<Self, Error> {
        if other.is_empty() {
            return Ok(self);
        }
        if self.is_empty() {
            return Ok(other);
        }
        let len = self.len().checked_add(other.len()).ok_or_else(|| Error::new("integer overflow"))?;
        if len > COPIED {
            return Ok(Self::Joined(Arc::new((self, other, len))));
        }
        let values: Result<Vec<_>, _> = self.iter().chain(other.iter()).collect();
        Ok(Self::Values(Arc::new(values?)))
    }

    /// Returns the list with one more value at its end.
    pub(crate) fn push(self, value: Val<'a>) -> Result<Self, Error> {
        match self {
            Self::Values(mut values) => {
                Arc::make_mut(&mut values).push(value);
                Ok(Self::Values(values))
            }
            list => list.join(Self::from(vec![value])),
        }
    }
}

impl<'a> From<Vec<Val<'a>>> for List<'a> {
    fn from(values: Vec<Val<'a>>) -> Self {
        Self::Values(Arc::new(values))
    }
}

fn element<'a>(value: &'a schema::Value, ty: Option<&'a DeclType>) -> Result<Val<'a>, Error> {
    match ty.map(|ty| &ty.shape) {
        Some(Shape::List { element, .. }) => Val::typed(value, element),
        _ => Ok(Val::of(value)),
    }
}
