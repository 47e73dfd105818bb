//! Coverage of rules by other rules: limits the permissions that a user may grant, and finds the rules that bootstrap
//! roles lack.
//!
//! A rule is the Cartesian product of its verbs, groups, resources and names. The product is never built: each held
//! rule covers a subset of every list, which divides the list into few classes of elements that are covered by the same
//! held rules.

mod elements;
mod lines;
mod missing;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;

use binnacle_meta::Text;
use binnacle_work::BudgetError;

use crate::rule::Rule;
use elements::{Cover, Elements};
pub(super) use lines::Lines;
use missing::MissingCombinations;

/// A single permission of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Permission<'a> {
    Resource { group: &'a Text, resource: &'a Text, verb: &'a Text, name: Option<&'a Text> },
    Path { path: &'a Text, verb: &'a Text },
}

/// A rule and its permissions that are not held.
pub(super) struct UncoveredRule<'a> {
    rule: &'a Rule,
    resources: MissingCombinations,
    paths: MissingCombinations,
}

/// Returns the permissions of `required` that no single rule of `held` grants, each as a rule with one verb, group,
/// resource and name, or one verb and path.
///
/// # Errors
///
/// Returns the limit of the current work budget that is exceeded.
pub fn uncovered(held: &[Rule], required: &[Rule]) -> Result<Vec<Rule>, BudgetError> {
    let mut permissions = Vec::new();
    for uncovered in uncovered_by(held.iter(), required)? {
        let _ = uncovered.visit(&mut |permission| {
            permissions.push(permission.rule());
            ControlFlow::Continue(())
        })?;
    }
    Ok(permissions)
}

/// Returns the rules of `required` that are not fully covered.
pub(super) fn uncovered_by<'a, 'h>(
    held: impl Iterator<Item = &'h Rule> + Clone,
    required: &'a [Rule],
) -> Result<Vec<UncoveredRule<'a>>, BudgetError> {
    let mut uncovered = Vec::new();
    for rule in required {
        let missing =
            UncoveredRule { rule, resources: resources(held.clone(), rule)?, paths: paths(held.clone(), rule)? };
        if missing.count() > 0 {
            uncovered.push(missing);
        }
    }
    Ok(uncovered)
}

/// Returns the missing combinations of group, resource, verb and name.
fn resources<'h>(held: impl Iterator<Item = &'h Rule>, required: &Rule) -> Result<MissingCombinations, BudgetError> {
    if required.api_groups.is_empty() || required.resources.is_empty() || required.verbs.is_empty() {
        return Ok(MissingCombinations::NOTHING);
    }
    let groups = Elements::new(&required.api_groups)?;
    let resources = Elements::of_resources(&required.resources)?;
    let verbs = Elements::new(&required.verbs)?;
    let names = Elements::new(&required.resource_names)?;
    let sizes = [groups.len(), resources.len(), verbs.len(), names.len().max(1)];
    MissingCombinations::of(&sizes, held, |rule, dimension| match dimension {
        0 => groups.covered(&rule.api_groups),
        1 => resources.covered_resources(&rule.resources),
        2 => verbs.covered(&rule.verbs),
        // A rule without names covers all names, which a rule with names does not.
        _ if rule.resource_names.is_empty() => Ok(Cover::All),
        _ => names.covered_exactly(&rule.resource_names),
    })
}

/// Returns the missing combinations of path and verb.
fn paths<'h>(held: impl Iterator<Item = &'h Rule>, required: &Rule) -> Result<MissingCombinations, BudgetError> {
    if required.paths.is_empty() || required.verbs.is_empty() {
        return Ok(MissingCombinations::NOTHING);
    }
    let (paths, verbs) = (Elements::new(&required.paths)?, Elements::new(&required.verbs)?);
    MissingCombinations::of(&[paths.len(), verbs.len()], held, |rule, dimension| match dimension {
        0 if !rule.resource_names.is_empty() => Ok(Cover::Nothing),
        0 => paths.covered_paths(&rule.paths),
        _ => verbs.covered(&rule.verbs),
    })
}

impl<'a> UncoveredRule<'a> {
    /// Returns the number of missing permissions.
    pub(super) fn count(&self) -> u64 {
        self.resources.count().saturating_add(self.paths.count())
    }

    /// Visits the missing permissions in the order of the rule's lists.
    pub(super) fn visit(
        &self,
        visitor: &mut dyn FnMut(Permission<'a>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, BudgetError> {
        let rule = self.rule;
        let resource = |at: &[usize]| Permission::Resource {
            group: &rule.api_groups[at[0]],
            resource: &rule.resources[at[1]],
            verb: &rule.verbs[at[2]],
            name: rule.resource_names.get(at[3]),
        };
        if self.resources.visit(&mut |at| visitor(resource(at)))?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        self.paths.visit(&mut |at| visitor(Permission::Path { path: &rule.paths[at[0]], verb: &rule.verbs[at[1]] }))
    }
}

impl Permission<'_> {
    fn rule(self) -> Rule {
        let one = |text: &Text| vec![text.clone()];
        match self {
            Self::Resource { group, resource, verb, name } => Rule {
                verbs: one(verb),
                api_groups: one(group),
                resources: one(resource),
                resource_names: name.map(one).unwrap_or_default(),
                ..Rule::default()
            },
            Self::Path { path, verb } => Rule { verbs: one(verb), paths: one(path), ..Rule::default() },
        }
    }
}
