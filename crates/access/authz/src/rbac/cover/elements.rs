//! A list of a required rule, and which of its elements a held rule covers.

use binnacle_meta::Text;
use binnacle_work::{BudgetError, allocate, charge};

use crate::rule::ANY;

/// The elements of a list that a rule covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Cover {
    Nothing,
    All,
    /// Positions in ascending order, without duplicates.
    Some(Vec<u32>),
}

/// The elements of a list in their order and sorted, so that the elements that a held one covers can be looked up.
pub(super) struct Elements<'a> {
    texts: &'a [Text],
    /// Positions, sorted by text.
    sorted: Vec<u32>,
    /// The positions of the elements with a slash, sorted by the part after it.
    by_subresource: Vec<u32>,
}

impl<'a> Elements<'a> {
    pub(super) fn new(texts: &'a [Text]) -> Result<Self, BudgetError> {
        allocate(size_of_val(texts))?;
        let mut sorted: Vec<u32> = (0u32..).zip(texts).map(|(at, _)| at).collect();
        charge(steps_of_sort(sorted.len()))?;
        sorted.sort_by(|a, b| texts[*a as usize].cmp(&texts[*b as usize]));
        Ok(Self { texts, sorted, by_subresource: Vec::new() })
    }

    /// Creates the elements of a list of resources and subresources.
    pub(super) fn of_resources(texts: &'a [Text]) -> Result<Self, BudgetError> {
        let mut elements = Self::new(texts)?;
        let key = |at: &u32| subresource(&texts[*at as usize]);
        let mut sorted: Vec<u32> = elements.sorted.iter().copied().filter(|at| key(at).is_some()).collect();
        charge(steps_of_sort(sorted.len()))?;
        sorted.sort_by_key(key);
        elements.by_subresource = sorted;
        Ok(elements)
    }

    pub(super) fn len(&self) -> usize {
        self.texts.len()
    }

    /// Returns the elements that a list covers in which `*` matches everything.
    pub(super) fn covered(&self, held: &[Text]) -> Result<Cover, BudgetError> {
        if has_any(held)? { Ok(Cover::All) } else { self.covered_exactly(held) }
    }

    /// Returns the elements that a list without wildcards covers.
    pub(super) fn covered_exactly(&self, held: &[Text]) -> Result<Cover, BudgetError> {
        let mut found = Vec::new();
        for text in held {
            add(&mut found, self.equal(text))?;
        }
        self.cover(found)
    }

    /// Returns the elements that a list of resources covers. `*/scale` matches that subresource of all resources.
    pub(super) fn covered_resources(&self, held: &[Text]) -> Result<Cover, BudgetError> {
        if has_any(held)? {
            return Ok(Cover::All);
        }
        let mut found = Vec::new();
        for text in held {
            add(&mut found, self.equal(text))?;
            if let Some(required) = text.strip_prefix("*/") {
                let key = |at: &u32| subresource(&self.texts[*at as usize]).unwrap_or_default();
                add(&mut found, range(&self.by_subresource, |at| key(at) < required, |at| key(at) == required))?;
            }
        }
        self.cover(found)
    }

    /// Returns the elements that a list of paths covers. Several trailing stars count as one.
    pub(super) fn covered_paths(&self, held: &[Text]) -> Result<Cover, BudgetError> {
        let mut found = Vec::new();
        for pattern in held {
            let path = |at: &u32| self.texts[*at as usize].as_str();
            let covered = if pattern.ends_with('*') {
                let prefix = pattern.trim_end_matches('*');
                range(&self.sorted, |at| path(at) < prefix, |at| path(at).starts_with(prefix))
            } else {
                self.equal(pattern)
            };
            add(&mut found, covered)?;
        }
        self.cover(found)
    }

    fn equal(&self, required: &Text) -> &[u32] {
        let text = |at: &u32| &self.texts[*at as usize];
        range(&self.sorted, |at| text(at) < required, |at| text(at) == required)
    }

    fn cover(&self, mut found: Vec<u32>) -> Result<Cover, BudgetError> {
        charge(steps_of_sort(found.len()))?;
        found.sort_unstable();
        found.dedup();
        Ok(match found.len() {
            0 => Cover::Nothing,
            all if all == self.len() => Cover::All,
            _ => Cover::Some(found),
        })
    }
}

/// Skips the sorted positions for which `before` is true, and returns the following ones as long as `within` is true.
fn range(sorted: &[u32], before: impl Fn(&u32) -> bool, within: impl Fn(&u32) -> bool) -> &[u32] {
    let rest = &sorted[sorted.partition_point(before)..];
    &rest[..rest.partition_point(within)]
}

fn add(found: &mut Vec<u32>, more: &[u32]) -> Result<(), BudgetError> {
    // The cost of a binary search.
    charge(3 + more.len() as u64)?;
    allocate(size_of_val(more))?;
    found.extend_from_slice(more);
    Ok(())
}

fn has_any(held: &[Text]) -> Result<bool, BudgetError> {
    charge(1 + held.len() as u64 / 8)?;
    Ok(held.iter().any(|text| text == ANY))
}

fn steps_of_sort(len: usize) -> u64 {
    len as u64 * u64::from(1 + len.checked_ilog2().unwrap_or(0))
}

fn subresource(resource: &str) -> Option<&str> {
    resource.split_once('/').map(|(_, subresource)| subresource)
}
