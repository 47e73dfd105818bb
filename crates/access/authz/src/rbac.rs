//! Role-based access control: bindings grant the rules of roles to users and groups.

mod binding;
mod cover;
mod escalation;
mod grants;
mod index;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use binnacle_meta::{Text, aggregate};
use binnacle_request::{BoxFuture, Decision, User};
use binnacle_work::charge;

pub use binding::RoleRef;
pub use cover::uncovered;
pub use escalation::{Escalation, confirm_no_escalation};
pub use index::{RbacIndex, RbacKind, UnresolvedRole};

use crate::{Attributes, Authorizer, AuthzError, Rules};
use index::{UnknownRoles, Visit};

/// Authorizes requests by the roles and bindings of an index.
pub struct Rbac {
    index: Arc<RbacIndex>,
}

impl Rbac {
    pub fn new(index: Arc<RbacIndex>) -> Self {
        Self { index }
    }

    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let (mut allowed, mut unknown) = (None, UnknownRoles::default());
        self.index.visit(attributes.user, attributes.namespace, |visit| {
            match visit {
                Visit::Role(role, binding) => {
                    charge(role.steps()).map_or(ControlFlow::Break(()), ControlFlow::Continue)?;
                    if role.iter().any(|rule| rule.allows(attributes)) {
                        allowed = Some(binding.reason(attributes.user));
                        return ControlFlow::Break(());
                    }
                }
                Visit::Unknown(why) => unknown.add(why),
            }
            ControlFlow::Continue(())
        });
        match (allowed, unknown.into_list()) {
            (Some(reason), _) => Decision::Allow(reason.into()),
            (None, unknown) if unknown.is_empty() => Decision::NoOpinion(Text::default()),
            (None, unknown) => Decision::NoOpinion(format!("RBAC: {}", aggregate(&unknown)).into()),
        }
    }
}

impl Authorizer for Rbac {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async move {
            if !self.index.ready.wait().await {
                return Ok(Decision::NoOpinion(Text::new_static("RBAC: roles and bindings have not been read yet")));
            }
            Ok(self.decide(attributes))
        })
    }

    fn rules_for<'a>(&'a self, user: &'a User, namespace: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async move {
            if !self.index.ready.wait().await {
                return Rules::unknown("roles and bindings have not been read yet");
            }
            let (roles, unknown) = self.index.roles_of(user, namespace);
            let errors = if unknown.is_empty() { Vec::new() } else { vec![aggregate(&unknown)] };
            Rules { roles, errors, incomplete: false }
        })
    }
}
