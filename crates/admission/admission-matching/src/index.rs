//! An index of the criteria that may match a request.

use std::collections::HashMap;

use binnacle_meta::Text;
use binnacle_registry::admission::Attributes;

use crate::criteria::Criteria;
use crate::rules::{OPERATIONS, operation_index};

/// Positions of criteria by operation and plural, which equivalent resources share.
#[derive(Clone, Debug, Default)]
pub struct Index {
    by_plural: [HashMap<Text, Vec<usize>>; OPERATIONS.len()],
    /// The criteria that match any resource.
    for_all: [Vec<usize>; OPERATIONS.len()],
}

impl Index {
    /// Builds the index. Positions are those in `criteria`.
    pub fn new<'c>(criteria: impl IntoIterator<Item = &'c Criteria>) -> Self {
        let mut index = Self::default();
        for (at, criteria) in criteria.into_iter().enumerate() {
            for operation in OPERATIONS {
                let (by_plural, for_all) =
                    (&mut index.by_plural[operation_index(operation)], &mut index.for_all[operation_index(operation)]);
                if criteria.is_for_all(operation) {
                    for_all.push(at);
                    continue;
                }
                for plural in criteria.rules_for(operation).filter_map(|rule| rule.plurals()).flatten() {
                    let positions = by_plural.entry(plural.clone()).or_default();
                    if positions.last() != Some(&at) {
                        positions.push(at);
                    }
                }
            }
        }
        for (by_plural, for_all) in index.by_plural.iter_mut().zip(&index.for_all) {
            for positions in by_plural.values_mut() {
                positions.extend(for_all);
                positions.sort_unstable();
            }
        }
        index
    }

    /// Returns the positions of all criteria that may match a request, in ascending order.
    pub fn candidates(&self, attributes: &Attributes) -> &[usize] {
        let at = operation_index(attributes.operation);
        self.by_plural[at].get(attributes.resource.resource.as_str()).unwrap_or(&self.for_all[at])
    }
}
