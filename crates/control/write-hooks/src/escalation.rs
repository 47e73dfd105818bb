//! Privilege escalation checks: users may grant only permissions that they hold themselves, unless they may `escalate`
//! the role or `bind` the role that the binding references.

use std::sync::Arc;

use binnacle_authz::{Attributes, Authorizer, Escalation, NoRole, RbacKind, RoleRef, Rule, confirm_no_escalation};
use binnacle_controlplane::RolesFeed;
use binnacle_fields::FieldRef;
use binnacle_fields::rbac::v1::{AggregationRule, ClusterRole, ClusterRoleBinding, RoleRef as RoleRefFields};
use binnacle_meta::{GroupResource, Status};
use binnacle_registry::hooks::Hooks;
use binnacle_registry::{Context, object};
use binnacle_request::{BoxFuture, Decision, User};
use binnacle_schema::Value;

const GROUP: &str = "rbac.authorization.k8s.io";
const AGGREGATION: &str = "must have cluster-admin privileges to use the aggregationRule";

/// The hooks of one of the four kinds.
pub(crate) struct EscalationHooks {
    kind: RbacKind,
    feed: Arc<RolesFeed>,
    authorizer: Arc<dyn Authorizer>,
}

/// Group and kind.
type KindName = (&'static str, &'static str);

/// Returns the hooks by group and kind.
pub fn escalation_hooks(feed: &Arc<RolesFeed>, authorizer: &Arc<dyn Authorizer>) -> [(KindName, Arc<dyn Hooks>); 4] {
    let hooks = |kind| -> Arc<dyn Hooks> {
        Arc::new(EscalationHooks { kind, feed: feed.clone(), authorizer: authorizer.clone() })
    };
    [
        ((GROUP, "ClusterRole"), hooks(RbacKind::ClusterRole)),
        ((GROUP, "Role"), hooks(RbacKind::Role)),
        ((GROUP, "ClusterRoleBinding"), hooks(RbacKind::ClusterRoleBinding)),
        ((GROUP, "RoleBinding"), hooks(RbacKind::RoleBinding)),
    ]
}

impl Hooks for EscalationHooks {
    fn begin_create<'a>(&'a self, context: &'a Context, object: &'a mut Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.check(context, object, None))
    }

    fn begin_update<'a>(
        &'a self,
        context: &'a Context,
        object: &'a mut Value,
        old: &'a Value,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.check(context, object, Some(old)))
    }
}

impl EscalationHooks {
    async fn check(&self, context: &Context, object: &Value, old: Option<&Value>) -> Result<(), Status> {
        // The server's own controllers are in this group: they repair the roles on which all other permissions depend.
        if context.user.is_in(User::MASTERS) {
            return Ok(());
        }
        // Earlier writes of roles and bindings must be in the index.
        self.feed.catch_up().await?;
        match self.kind {
            RbacKind::ClusterRole | RbacKind::Role => self.role(context, object, old).await,
            RbacKind::ClusterRoleBinding | RbacKind::RoleBinding => self.binding(context, object, old).await,
        }
    }

    async fn role(&self, context: &Context, object: &Value, old: Option<&Value>) -> Result<(), Status> {
        // The name in the request; a creation has none yet.
        if self.is_allowed(context, "escalate", self.kind.plural(), &context.name, &context.namespace).await {
            return Ok(());
        }
        if old.is_some_and(|old| object::only_for_the_garbage_collector(object, old)) {
            return Ok(());
        }
        let name = object::name(object);
        self.check_held(context, name, &Rule::read_all(object))?;
        let aggregates = |role: &Value| {
            let rule = FieldRef::<ClusterRole>::root(role).at(ClusterRole::AGGREGATION_RULE).detached();
            !rule.at(AggregationRule::CLUSTER_ROLE_SELECTORS).is_empty()
        };
        if self.kind == RbacKind::ClusterRole && (aggregates(object) || old.is_some_and(aggregates)) {
            // An aggregated role can later contain any rules.
            return self.compare(context, &Rule::everything()).map_err(|why| match why {
                Escalation::NotHeld(_) => Status::forbidden(&self.resource(), name, AGGREGATION),
                Escalation::TooMuchWork(exceeded) => exceeded.into(),
            });
        }
        Ok(())
    }

    async fn binding(&self, context: &Context, object: &Value, old: Option<&Value>) -> Result<(), Status> {
        if old.is_some_and(|old| object::only_for_the_garbage_collector(object, old)) {
            return Ok(());
        }
        // RoleBindings have the same field.
        let role = FieldRef::<ClusterRoleBinding>::root(object).at(ClusterRoleBinding::ROLE_REF).detached();
        let role = RoleRef { kind: role.at(RoleRefFields::KIND).str(), name: role.at(RoleRefFields::NAME).str() };
        // The permission to bind may be limited to one namespace.
        let namespace = if self.kind == RbacKind::RoleBinding { context.namespace.as_str() } else { "" };
        let resource = match role.kind {
            "ClusterRole" => Some(RbacKind::ClusterRole.plural()),
            "Role" => Some(RbacKind::Role.plural()),
            _ => None,
        };
        if let Some(resource) = resource
            && self.is_allowed(context, "bind", resource, role.name, namespace).await
        {
            return Ok(());
        }
        if role.kind == "Role" && namespace.is_empty() {
            return Err(Status::bad_request("Namespace parameter required."));
        }
        if role.name.is_empty() && matches!(role.kind, "Role" | "ClusterRole") {
            return Err(Status::bad_request("Name parameter required."));
        }
        let rules = self.feed.index().role_rules(role, namespace).map_err(|why| match why {
            // As in kube-apiserver, the error names the resource of the request instead of that of the missing role.
            NoRole::Missing { name, .. } => Status::not_found(&self.resource(), &name),
            NoRole::Unsupported(_) | NoRole::More(_) => Status::unknown(500, &why.to_string()),
        })?;
        self.check_held(context, object::name(object), &rules)
    }

    /// Returns true if the authorizers allow a verb on a role.
    async fn is_allowed(&self, context: &Context, verb: &str, resource: &str, name: &str, namespace: &str) -> bool {
        let attributes = Attributes {
            verb,
            is_resource_request: true,
            api_group: GROUP,
            api_version: "*",
            resource,
            name,
            namespace,
            ..Attributes::nothing(&context.user)
        };
        match self.authorizer.authorize(&attributes).await {
            Ok(decision) => matches!(decision, Decision::Allow(_)),
            Err(error) => {
                tracing::error!(user = %context.user.name, verb, resource, name, namespace, %error, "cannot authorize");
                false
            }
        }
    }

    /// Checks that the requesting user holds all granted rules.
    fn check_held(&self, context: &Context, name: &str, granted: &[Rule]) -> Result<(), Status> {
        self.compare(context, granted).map_err(|why| match why {
            Escalation::NotHeld(_) => Status::forbidden(&self.resource(), name, why),
            Escalation::TooMuchWork(exceeded) => exceeded.into(),
        })
    }

    fn compare(&self, context: &Context, granted: &[Rule]) -> Result<(), Escalation> {
        let (held, unknown) = self.feed.index().roles_of(&context.user, &context.namespace);
        let message = |why: &NoRole| match why {
            NoRole::Missing { name, .. } => Status::not_found(&self.resource(), name).message().to_owned(),
            NoRole::Unsupported(_) | NoRole::More(_) => why.to_string(),
        };
        let unknown: Vec<String> = unknown.iter().map(message).collect();
        confirm_no_escalation(&context.user, &held, &unknown, granted)
    }

    fn resource(&self) -> GroupResource {
        GroupResource::new(GROUP, self.kind.plural())
    }
}

#[cfg(test)]
mod tests;
