//! Prevention of privilege escalation: users may not write roles and bindings that grant rights that they do not have.

use binnacle_meta::{aggregate, go_quote};
use binnacle_request::User;

use super::cover::{compact_lines, uncovered};
use super::rule::{Rule, quoted};

/// The error for rights that the user does not hold.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Escalation(String);

/// Checks that `held`, the rules of `user` in the scope of the grant, cover `granted`. `unknown` are errors about roles
/// of the user that could not be read.
pub fn confirm_no_escalation(
    user: &User,
    held: &[Rule],
    unknown: &[String],
    granted: &[Rule],
) -> Result<(), Escalation> {
    let missing = uncovered(held, granted);
    if missing.is_empty() {
        return Ok(());
    }
    let lines = compact_lines(missing).into_iter().collect::<Vec<_>>().join("\n");
    let (name, groups) = (go_quote(&user.name), quoted(&user.groups));
    let mut message =
        format!("user {name} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{lines}");
    if !unknown.is_empty() {
        message.push_str(&format!("; resolution errors: [{}]", aggregate(unknown)));
    }
    Err(Escalation(message))
}
