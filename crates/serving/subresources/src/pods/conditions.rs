//! Conditions of a status, set like kube-apiserver's helpers do.

use binnacle_fields::core::v1::{PodCondition, PodStatus};
use binnacle_fields::meta::v1::Condition;
use binnacle_fields::policy::v1::PodDisruptionBudgetStatus;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_schema::Value;

/// Sets a condition of a pod: it replaces the one of its type, and keeps the last transition time unless the status
/// changes.
pub(super) fn set(mut status: FieldMut<PodStatus>, mut condition: Value, now: &str) {
    let mut new = FieldMut::<PodCondition>::root(&mut condition);
    new.set(PodCondition::LAST_PROBE_TIME, Value::Null);
    new.set(PodCondition::LAST_TRANSITION_TIME, now);
    let conditions = status.list_entry(PodStatus::CONDITIONS);
    let of_type = new.str(PodCondition::TYPE);
    match conditions.iter_mut().find(|existing| FieldRef::root(existing).at(PodCondition::TYPE).str() == of_type) {
        None => conditions.push(condition),
        Some(existing) => {
            let mut old = FieldMut::<PodCondition>::root(existing);
            if old.get(PodCondition::STATUS) == new.get(PodCondition::STATUS)
                && let Some(since) = old.remove(PodCondition::LAST_TRANSITION_TIME)
            {
                new.set(PodCondition::LAST_TRANSITION_TIME, since);
            }
            *existing = condition;
        }
    }
}

/// Sets a condition of a budget: like [`set`], but in place and without a probe time.
pub(super) fn set_of_budget(mut status: FieldMut<PodDisruptionBudgetStatus>, mut condition: Value, now: &str) {
    let mut new = FieldMut::<Condition>::root(&mut condition);
    let conditions = status.list_entry(PodDisruptionBudgetStatus::CONDITIONS);
    let of_type = new.str(Condition::TYPE);
    let found = conditions.iter_mut().find(|existing| FieldRef::root(existing).at(Condition::TYPE).str() == of_type);
    let Some(existing) = found else {
        new.set(Condition::LAST_TRANSITION_TIME, now);
        conditions.push(condition);
        return;
    };
    let mut old = FieldMut::<Condition>::root(existing);
    if old.get(Condition::STATUS) != new.get(Condition::STATUS) {
        old.set(Condition::LAST_TRANSITION_TIME, now);
    }
    for (name, value) in condition.into_object().into_iter().flatten() {
        old.object().insert(name, value);
    }
}
