//! The rules for a user that can be listed, for SelfSubjectRulesReviews.

use std::sync::Arc;

use crate::rule::{RoleRules, Rule};

/// Rules of one or several authorizers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    /// Shared with the authorizer. A rule may have resources, paths, or both.
    pub roles: Vec<Arc<RoleRules>>,
    /// True if the list may be incomplete.
    pub incomplete: bool,
    /// The reasons why rules could not be listed.
    pub errors: Vec<String>,
}

impl Rules {
    /// Creates the rules of an authorizer without roles.
    pub fn of(rules: Vec<Rule>) -> Self {
        Self { roles: vec![RoleRules::new(rules)], ..Self::default() }
    }

    /// Returns rules that allow everything.
    pub fn all() -> Self {
        Self::of(Rule::everything().into())
    }

    /// Returns the rules of an authorizer that cannot list them.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self { incomplete: true, errors: vec![why.into()], ..Self::default() }
    }

    /// Adds the rules of another authorizer.
    pub fn extend(&mut self, other: Self) {
        self.roles.extend(other.roles);
        self.incomplete |= other.incomplete;
        self.errors.extend(other.errors);
    }

    /// Returns the rules for resources.
    pub fn resources(&self) -> impl Iterator<Item = &Rule> {
        self.roles.iter().flat_map(|role| role.iter()).filter(|rule| !rule.resources.is_empty())
    }

    /// Returns the rules for paths.
    pub fn paths(&self) -> impl Iterator<Item = &Rule> {
        self.roles.iter().flat_map(|role| role.iter()).filter(|rule| !rule.paths.is_empty())
    }

    /// Returns the errors as one string, which is empty if there are none.
    pub fn error(&self) -> String {
        binnacle_meta::aggregate(&self.errors)
    }
}
