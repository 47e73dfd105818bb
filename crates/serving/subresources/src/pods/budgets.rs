//! The PodDisruptionBudgets of a pod, and their use by evictions.

use std::time::SystemTime;

use binnacle_fields::core::v1::Pod;
use binnacle_fields::meta::v1::{Condition, ObjectMeta};
use binnacle_fields::policy::v1::{
    PodDisruptionBudget as Budget, PodDisruptionBudgetSpec as BudgetSpec, PodDisruptionBudgetStatus as BudgetStatus,
};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{GroupResource, Status};
use binnacle_patch::apply::track_update;
use binnacle_registry::{Context, ListOptions, MANAGER, Resource, UpdateOptions, object, rfc3339};
use binnacle_schema::{Value, value};
use binnacle_validation::selectors;

use super::conditions;

/// The maximum number of evictions that the disruption controller has not processed.
const MAX_DISRUPTED: usize = 2000;
const VIOLATION: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// Returns the budgets that select a pod.
pub(super) async fn for_pod(budgets: &Resource, pod: &Value) -> Result<Vec<Value>, Status> {
    let context = Context::internal(object::namespace(pod));
    let mut page = budgets.list(&context, &ListOptions::default()).await?;
    let mut found = Vec::new();
    while let Some(chunk) = page.next_chunk() {
        for entry in chunk {
            let budget = budgets.collection.decode_entry(&entry)?;
            if selects(&budget, pod) {
                found.push(budget);
            }
        }
    }
    Ok(found)
}

/// Uses one disruption of a budget and records the pod, or rejects the eviction. A dry run writes nothing.
pub(super) async fn use_disruption(
    budgets: &Resource,
    budget: &Value,
    pod: &Value,
    dry_run: bool,
) -> Result<(), Status> {
    let name = object::name(budget);
    if dry_run {
        return check_disruption_allowed(budget);
    }
    let context = Context::internal(object::namespace(pod));
    let options = UpdateOptions { subresource: "status".into(), ..UpdateOptions::default() };
    let now = SystemTime::now();
    let mut change = |live: Option<&Value>| {
        let live = live.ok_or_else(|| Status::not_found(&budgets.group_resource(), name))?;
        check_disruption_allowed(live)?;
        let mut budget = live.clone();
        decrement(&mut budget, object::name(pod), &rfc3339(now));
        track_update(&budgets.update_by(&context, MANAGER, "status"), Some(live), &mut budget);
        Ok(budget.into())
    };
    budgets.update(&context, name, &options, &mut change).await.map(|_| ())
}

/// Returns the error for an eviction that can be retried later.
pub(super) fn retry_later(name: &str) -> Status {
    let cause = format!("The disruption budget {name} is still being processed by the server.");
    Status::too_many_requests(VIOLATION, 10).with_cause("DisruptionBudget", &cause, "")
}

/// Returns true if the budget selects the pod; false for an invalid selector.
fn selects(budget: &Value, pod: &Value) -> bool {
    let (budget, pod) = (FieldRef::<Budget>::root(budget), FieldRef::<Pod>::root(pod));
    let Ok(selector) = selectors::parse(budget.at(Budget::SPEC).at(BudgetSpec::SELECTOR).get()) else { return false };
    let metadata = pod.at(Pod::METADATA);
    let labels = metadata.at(ObjectMeta::LABELS);
    selector.matches(|key| labels.key(key).get_str())
}

/// Checks that the budget allows a disruption.
fn check_disruption_allowed(budget: &Value) -> Result<(), Status> {
    let name = object::name(budget);
    let budget_ref = FieldRef::<Budget>::root(budget);
    let status = budget_ref.at(Budget::STATUS);
    let number = |field| status.at(field).int_or_zero();
    // The status refers to an older spec.
    if number(BudgetStatus::OBSERVED_GENERATION) < object::generation(budget) {
        return Err(retry_later(name));
    }
    let forbidden = |why: &str| Status::forbidden(&GroupResource::new("policy", "poddisruptionbudget"), name, why);
    let allowed = number(BudgetStatus::DISRUPTIONS_ALLOWED);
    if allowed < 0 {
        return Err(forbidden("pdb disruptions allowed is negative"));
    }
    if status.at(BudgetStatus::DISRUPTED_PODS).len() > MAX_DISRUPTED {
        return Err(forbidden("DisruptedPods map too big - too many evictions not confirmed by PDB controller"));
    }
    if allowed > 0 {
        return Ok(());
    }
    let (current, desired) = (number(BudgetStatus::CURRENT_HEALTHY), number(BudgetStatus::DESIRED_HEALTHY));
    let conditions = status.at(BudgetStatus::CONDITIONS);
    let why = conditions
        .items()
        .find(|condition| condition.at(Condition::TYPE).str() == "DisruptionAllowed")
        .filter(|condition| condition.at(Condition::STATUS).str() == "False")
        .map(|condition| (condition.at(Condition::REASON).str(), condition.at(Condition::MESSAGE).str()))
        .filter(|(_, message)| !message.is_empty());
    let cause = match why {
        // After a failed sync, the numbers may be outdated.
        Some(("SyncFailed", message)) => {
            format!(
                "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
            )
        }
        _ if current <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {current} currently")
        }
        Some((reason, message)) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    };
    Err(Status::too_many_requests(VIOLATION, 0).with_cause("DisruptionBudget", &cause, ""))
}

/// Decrements the allowed disruptions, and records the pod for the controller, which then does not count it as healthy.
fn decrement(budget: &mut Value, pod: &str, now: &str) {
    let mut budget = FieldMut::<Budget>::root(budget);
    let mut status = budget.entry(Budget::STATUS);
    let remaining = status.read().at(BudgetStatus::DISRUPTIONS_ALLOWED).int_or_zero() - 1;
    let observed = status.read().at(BudgetStatus::OBSERVED_GENERATION).int_or_zero();
    status.set(BudgetStatus::DISRUPTIONS_ALLOWED, remaining);
    if remaining == 0 {
        let condition = value!({
            "type": "DisruptionAllowed", "status": "False", "observedGeneration": observed,
            "reason": "InsufficientPods", "message": ""
        });
        conditions::set_of_budget(status.reborrow(), condition, now);
    }
    status.map_entry(BudgetStatus::DISRUPTED_PODS).insert(pod, now);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selects_pods_by_label_selector() {
        let pod = value!({"metadata": {"labels": {"app": "a", "tier": "x"}}});
        for (selector, want) in [
            (Value::Null, false),
            (value!({}), true),
            (value!({"matchLabels": {"app": "a"}}), true),
            (value!({"matchLabels": {"app": "b"}}), false),
            (value!({"matchExpressions": [{"key": "tier", "operator": "Exists"}]}), true),
            (value!({"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["x"]}]}), false),
            (value!({"matchExpressions": [{"key": "tier", "operator": "Broken"}]}), false),
        ] {
            assert_eq!(selects(&value!({"spec": {"selector": (selector.clone())}}), &pod), want, "{selector:?}");
        }
    }

    #[test]
    fn refuses_disruptions_beyond_the_budget() {
        let budget = |generation: i64, status: Value| value!({"metadata": {"name": "b", "generation": generation}, "status": status});
        let condition = |reason: &str, message: &str| value!([{"type": "DisruptionAllowed", "status": "False", "reason": reason, "message": message}]);
        let cases = [
            (budget(1, value!({"observedGeneration": 1i64, "disruptionsAllowed": 1i64})), None),
            (
                budget(2, value!({"observedGeneration": 1i64, "disruptionsAllowed": 1i64})),
                Some((429, 10, "The disruption budget b is still being processed by the server.")),
            ),
            (
                budget(0, value!({"disruptionsAllowed": (-1i64)})),
                Some((403, 0, "poddisruptionbudget.policy \"b\" is forbidden: pdb disruptions allowed is negative")),
            ),
            (
                budget(0, value!({"currentHealthy": 2i64, "desiredHealthy": 3i64})),
                Some((429, 0, "The disruption budget b needs 3 healthy pods and has 2 currently")),
            ),
            (
                budget(0, value!({"currentHealthy": 3i64, "desiredHealthy": 2i64})),
                Some((429, 0, "The disruption budget b does not allow evicting pods currently")),
            ),
            (
                budget(
                    0,
                    value!({"currentHealthy": 3i64, "desiredHealthy": 2i64, "conditions": (condition("R", "m"))}),
                ),
                Some((429, 0, "The disruption budget b does not allow evicting pods currently (R): m")),
            ),
            (
                budget(0, value!({"conditions": (condition("SyncFailed", "m"))})),
                Some((
                    429,
                    0,
                    "The disruption budget b does not allow evicting pods currently because it failed sync: m",
                )),
            ),
        ];
        for (budget, want) in cases {
            let found = check_disruption_allowed(&budget).err().map(|status| {
                let details = status.details().cloned().unwrap_or_default();
                let cause = details.causes.first().map_or(status.message(), |cause| cause.message.as_str()).to_owned();
                (status.code(), details.retry_after_seconds, cause)
            });
            assert_eq!(found, want.map(|(code, seconds, cause)| (code, seconds, cause.to_owned())));
        }
    }

    #[test]
    fn last_disruption_sets_condition() {
        let mut budget = value!({"status": {"disruptionsAllowed": 1i64, "observedGeneration": 3i64}});
        decrement(&mut budget, "p", "now");
        let want = value!({"status": {
            "disruptionsAllowed": 0i64, "observedGeneration": 3i64, "disruptedPods": {"p": "now"},
            "conditions": [{
                "type": "DisruptionAllowed", "status": "False", "observedGeneration": 3i64,
                "lastTransitionTime": "now", "reason": "InsufficientPods", "message": ""
            }]
        }});
        assert_eq!(budget, want);
    }
}
