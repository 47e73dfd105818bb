//! The rules for a user, as far as they can be listed, for SelfSubjectRulesReviews.

use binnacle_meta::Text;

/// Rules of one or several authorizers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules {
    pub resources: Vec<ResourceRule>,
    pub paths: Vec<PathRule>,
    /// True if the list may be incomplete.
    pub incomplete: bool,
    /// The reasons why rules could not be listed.
    pub errors: Vec<String>,
}

/// The verbs that are allowed for resources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ResourceRule {
    pub verbs: Vec<Text>,
    pub api_groups: Vec<Text>,
    pub resources: Vec<Text>,
    pub resource_names: Vec<Text>,
}

/// The verbs that are allowed for paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PathRule {
    pub verbs: Vec<Text>,
    pub paths: Vec<Text>,
}

impl Rules {
    /// Returns rules that allow everything.
    pub fn all() -> Self {
        let any = || vec![Text::new_static("*")];
        Self {
            resources: vec![ResourceRule {
                verbs: any(),
                api_groups: any(),
                resources: any(),
                resource_names: Vec::new(),
            }],
            paths: vec![PathRule { verbs: any(), paths: any() }],
            ..Self::default()
        }
    }

    /// Returns the rules of an authorizer that cannot list them.
    pub fn unknown(why: impl Into<String>) -> Self {
        Self { incomplete: true, errors: vec![why.into()], ..Self::default() }
    }

    /// Adds the rules of another authorizer.
    pub fn extend(&mut self, other: Self) {
        self.resources.extend(other.resources);
        self.paths.extend(other.paths);
        self.incomplete |= other.incomplete;
        self.errors.extend(other.errors);
    }

    /// Returns the errors as one text, empty if there are none.
    pub fn error(&self) -> String {
        binnacle_meta::aggregate(&self.errors)
    }
}
