//! Conditions of a status, as kube-apiserver's helpers set them.

use binnacle_schema::{Object, Value};

/// Sets a condition of a pod: it replaces that of its type, and keeps the time of the last transition unless the status
/// changes.
pub(super) fn set(status: &mut Object, mut condition: Object, now: &str) {
    let of_type = condition.get("type").and_then(Value::as_str).unwrap_or("").to_owned();
    condition.insert("lastProbeTime", Value::Null);
    condition.insert("lastTransitionTime", now);
    let conditions = list(status);
    match conditions.iter_mut().find(|there| there.str_at(&["type"]) == of_type) {
        None => conditions.push(Value::Object(condition)),
        Some(there) => {
            if there.get("status") == condition.get("status")
                && let Some(since) = there.get("lastTransitionTime")
            {
                condition.insert("lastTransitionTime", since.clone());
            }
            *there = Value::Object(condition);
        }
    }
}

/// Sets a `metav1.Condition`: as [`set`], but in place and without the time of a probe.
pub(super) fn set_meta(status: &mut Object, mut condition: Object, now: &str) {
    let of_type = condition.get("type").and_then(Value::as_str).unwrap_or("").to_owned();
    let conditions = list(status);
    let Some(there) = conditions.iter_mut().find(|there| there.str_at(&["type"]) == of_type) else {
        condition.insert("lastTransitionTime", now);
        conditions.push(Value::Object(condition));
        return;
    };
    let members = there.make_object();
    let changed = members.get("status") != condition.get("status");
    if changed {
        members.insert("lastTransitionTime", now);
    }
    for (name, value) in condition {
        members.insert(name, value);
    }
}

fn list(status: &mut Object) -> &mut Vec<Value> {
    let conditions = status.entry("conditions", || Value::List(Vec::new()));
    if conditions.as_list().is_none() {
        *conditions = Value::List(Vec::new());
    }
    match conditions {
        Value::List(list) => list,
        _ => unreachable!("was made a list above"),
    }
}

/// Returns the condition of a type.
pub(super) fn find<'a>(object: &'a Value, of_type: &str) -> Option<&'a Value> {
    object.list_at(&["status", "conditions"]).iter().find(|condition| condition.str_at(&["type"]) == of_type)
}
