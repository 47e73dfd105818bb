//! Prevention of privilege escalation: users may not write roles and bindings that grant permissions that they do not
//! have.

use std::sync::Arc;

use binnacle_meta::{aggregate, go_quote};
use binnacle_request::User;
use binnacle_work::BudgetError;

use super::cover::{Lines, uncovered_by};
use crate::rule::{RoleRules, Rule, quoted};

/// The reason why a user may not grant permissions.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Escalation {
    /// The user does not have the permissions.
    #[error("{0}")]
    NotHeld(String),
    #[error(transparent)]
    TooMuchWork(#[from] BudgetError),
}

/// Checks that `held`, the roles of `user` in the scope of the grant, cover `granted`. `unknown` are the user's roles
/// that could not be resolved.
pub fn confirm_no_escalation(
    user: &User,
    held: &[Arc<RoleRules>],
    unknown: &[String],
    granted: &[Rule],
) -> Result<(), Escalation> {
    let missing = uncovered_by(held.iter().flat_map(|role| role.iter()), granted)?;
    if missing.is_empty() {
        return Ok(());
    }
    let lines = Lines::of(&missing)?;
    let (name, groups) = (go_quote(&user.name), quoted(&user.groups));
    let mut message =
        format!("user {name} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{lines}");
    if !unknown.is_empty() {
        message.push_str(&format!("; resolution errors: [{}]", aggregate(unknown)));
    }
    Err(Escalation::NotHeld(message))
}
