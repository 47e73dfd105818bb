//! The aggregation of cluster roles: a role with an aggregation rule has the rules of all roles that it selects.

use std::sync::Arc;

use binnacle_controllers::Objects;
use binnacle_fields::FieldRef;
use binnacle_fields::rbac::v1::{AggregationRule, ClusterRole};
use binnacle_meta::{LabelSelector, Status, StatusReason};
use binnacle_registry::{Context, ListOptions};
use binnacle_schema::{Value, value};
use binnacle_validation::selectors;
use binnacle_watchcache::Entry;

use crate::changes::{Position, Receiver, follow};
use crate::context::ClusterContext;
use crate::queue::Queue;

pub(crate) const NAME: &str = "clusterrole-aggregation-controller";

struct Controller {
    roles: Objects,
    queue: Queue<()>,
}

pub(crate) async fn run(context: ClusterContext) {
    let Ok(roles) = context.objects(NAME, ("rbac.authorization.k8s.io", "v1", "clusterroles")) else { return };
    let controller = Controller { roles, queue: Queue::new(context.queues.queue("ClusterRoleAggregator")) };
    let ClusterContext { leadership, shutdown, .. } = &context;
    let (position, all) = (Position::default(), ListOptions::default());
    tokio::join!(
        follow(controller.roles.resource(), &all, &controller, &position, shutdown),
        // Each role can be selected by any other, so all of them are computed after a change.
        controller.queue.work(NAME, 1, leadership, shutdown, |()| async { controller.aggregate().await.into() }),
    );
}

impl Receiver for Controller {
    fn changed(&self, _: Option<&Arc<Entry>>, _: Option<&Arc<Entry>>) {
        self.queue.add(());
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {}
}

impl Controller {
    /// Computes the rules of all roles with an aggregation rule.
    async fn aggregate(&self) -> Result<(), Status> {
        let mut page = self.roles.resource().list(&Context::internal(""), &ListOptions::default()).await?;
        let mut roles = Vec::new();
        while let Some(chunk) = page.next_chunk() {
            for entry in chunk {
                roles.push((entry.clone(), self.roles.decode(&entry)?));
            }
        }
        let mut failure = None;
        for (entry, role) in &roles {
            let rule = FieldRef::<ClusterRole>::root(role).at(ClusterRole::AGGREGATION_RULE).detached();
            if rule.is_set()
                && let Err(status) = self.update(entry.name(), role, rule, &roles).await
            {
                failure = Some(status);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    async fn update(
        &self,
        name: &str,
        role: &Value,
        rule: FieldRef<'_, '_, AggregationRule>,
        roles: &[(Arc<Entry>, Value)],
    ) -> Result<(), Status> {
        let selectors: Result<Vec<LabelSelector>, _> = rule
            .at(AggregationRule::CLUSTER_ROLE_SELECTORS)
            .list()
            .iter()
            .map(|selector| selectors::parse(Some(selector)))
            .collect();
        let selectors = selectors.map_err(|error| Status::internal(format!("{error:?}")))?;
        let rules = aggregated(name, &selectors, roles);
        if FieldRef::<ClusterRole>::root(role).at(ClusterRole::RULES).list() == rules {
            return Ok(());
        }
        let config = value!({"metadata": {"name": name}, "rules": (Value::List(rules))});
        match self.roles.apply((name, ""), NAME, config).await {
            Err(status) if status.is(StatusReason::NotFound) => Ok(()),
            applied => applied,
        }
    }
}

/// Returns the rules of the selected roles in the order of selectors and names, each once.
fn aggregated(name: &str, selectors: &[LabelSelector], roles: &[(Arc<Entry>, Value)]) -> Vec<Value> {
    let mut rules: Vec<Value> = Vec::new();
    for selector in selectors {
        // The list is in the order of names.
        for (entry, role) in roles.iter().filter(|(entry, _)| entry.name() != name) {
            if !selector.matches(|key| entry.label(key)) {
                continue;
            }
            for rule in FieldRef::<ClusterRole>::root(role).at(ClusterRole::RULES).list() {
                if !rules.contains(rule) {
                    rules.push(rule.clone());
                }
            }
        }
    }
    rules
}
