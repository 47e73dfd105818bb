//! Label selectors: requirements on the labels of an object.

use std::fmt;

use super::requirement::Requirement;
use super::{MAX_SELECTOR_BYTES, SelectorError, label_parser};

/// A list of requirements that must all be met. An empty list selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Sorted by key.
    requirements: Vec<Requirement>,
    /// True if no object is selected, such as by a null `labelSelector`.
    nothing: bool,
}

impl LabelSelector {
    /// Parses a `labelSelector` parameter.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.len() > MAX_SELECTOR_BYTES {
            return Err(SelectorError::too_long());
        }
        let requirements = label_parser::parse(text)?;
        SelectorError::check_terms(requirements.iter().map(|requirement| requirement.values().len().max(1)).sum())?;
        Ok(Self::new(requirements))
    }

    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key().cmp(b.key()));
        Self { requirements, nothing: false }
    }

    pub fn everything() -> Self {
        Self::default()
    }

    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Returns true if the selector has no requirements, so that it selects every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Returns true for [`LabelSelector::nothing`]. Does not detect other selectors that select no object.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Returns the requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns true if the selector selects an object, whose labels `lookup` returns.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(lookup(requirement.key())))
    }

    /// Returns the value of the first requirement on the label `key`, if that requires a single value.
    pub fn requires_exact_match(&self, key: &str) -> Option<&str> {
        self.requirements.iter().find(|requirement| requirement.key() == key)?.exact_value()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "labels_tests.rs"]
mod tests;
