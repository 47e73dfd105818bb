//! Role-based access control: bindings grant the rules of roles to users and groups.

mod cover;
mod escalation;
mod index;
mod rule;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::sync::Arc;

use binnacle_meta::{Text, aggregate};
use binnacle_request::{BoxFuture, Decision, User};

pub use cover::uncovered;
pub use escalation::{Escalation, confirm_no_escalation};
pub use index::{NoRole, RbacIndex, RbacKind, RoleRef};
pub use rule::{Rule, quoted};

use crate::{Attributes, Authorizer, AuthzError, PathRule, ResourceRule, Rules};
use index::Visit;

/// Authorizes requests by the roles and bindings of an index.
pub struct Rbac {
    index: Arc<RbacIndex>,
}

impl Rbac {
    pub fn new(index: Arc<RbacIndex>) -> Self {
        Self { index }
    }

    fn decide(&self, attributes: &Attributes<'_>) -> Decision {
        let (mut allowed, mut unknown) = (None, Vec::new());
        self.index.visit(attributes.user, attributes.namespace, |visit| {
            match visit {
                Visit::Rule(rule, source) if rule.allows(attributes) => {
                    allowed = Some(format!("RBAC: allowed by {source}"));
                    return ControlFlow::Break(());
                }
                Visit::Rule(..) => {}
                Visit::Unknown(why) => unknown.push(why.to_string()),
            }
            ControlFlow::Continue(())
        });
        match allowed {
            Some(reason) => Decision::Allow(reason.into()),
            None if unknown.is_empty() => Decision::NoOpinion(Text::default()),
            None => Decision::NoOpinion(format!("RBAC: {}", aggregate(&unknown)).into()),
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
            let mut listed = Rules::default();
            if !self.index.ready.wait().await {
                return Rules::unknown("roles and bindings have not been read yet");
            }
            let (rules, unknown) = self.index.rules_of(user, namespace);
            for rule in rules {
                let Rule { verbs, api_groups, resources, resource_names, paths } = rule;
                if !paths.is_empty() {
                    listed.paths.push(PathRule { verbs: verbs.clone(), paths });
                }
                if !resources.is_empty() {
                    listed.resources.push(ResourceRule { verbs, api_groups, resources, resource_names });
                }
            }
            if !unknown.is_empty() {
                let unknown: Vec<String> = unknown.iter().map(ToString::to_string).collect();
                listed.errors.push(aggregate(&unknown));
            }
            listed
        })
    }
}
