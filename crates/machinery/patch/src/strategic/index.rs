//! Look-up of list elements by their merge key, or by value for lists of scalars.

use std::collections::BTreeMap;

use binnacle_schema::Value;
use binnacle_work::pace;

use crate::order::OrderedValue;

/// The indices of list elements; of equal elements the first.
#[derive(Debug)]
pub(super) struct Index<'k> {
    key: &'k str,
    positions: BTreeMap<OrderedValue, usize>,
}

impl<'k> Index<'k> {
    /// `key` is empty for lists of scalars.
    pub(super) fn new(items: &[Value], key: &'k str) -> Self {
        pace(20 * items.len() as u64);
        let mut index = Self { key, positions: BTreeMap::new() };
        items.iter().enumerate().for_each(|(at, item)| index.push(item, at));
        index
    }

    pub(super) fn push(&mut self, item: &Value, at: usize) {
        if let Some(identity) = self.identity(item) {
            self.positions.entry(OrderedValue(identity.clone())).or_insert(at);
        }
    }

    /// Returns the index of an equal element.
    pub(super) fn find(&self, item: &Value) -> Option<usize> {
        self.position_of(self.identity(item)?)
    }

    /// Returns the index of the element with this merge key, or of this scalar.
    pub(super) fn position_of(&self, identity: &Value) -> Option<usize> {
        pace(8);
        self.positions.get(&OrderedValue(identity.clone())).copied()
    }

    fn identity<'v>(&self, item: &'v Value) -> Option<&'v Value> {
        if self.key.is_empty() { Some(item) } else { item.get(self.key) }
    }
}
