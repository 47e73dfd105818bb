//! Prevention of escalation: users who write roles and bindings may not grant rights that they do not have.

use binnacle_meta::{aggregate, go_quote};
use binnacle_request::User;

use super::cover::{compact_lines, uncovered};
use super::rule::{Rule, quoted};

/// Rights that somebody tried to grant without holding them, in the words of the refusal.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Escalation(String);

/// Checks that `held`, all rules of `user` where the new ones would apply, cover what would be granted. `unknown` says
/// which of the user's own roles could not be looked at.
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
