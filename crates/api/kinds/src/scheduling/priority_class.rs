//! PriorityClass: a named priority of pods.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use crate::checks::{immutable_value, one_of, present};
use crate::prepare::{default_to, first_generation};
use crate::{Strategy, StrategyContext};

/// The highest value of user-defined classes.
const HIGHEST: i64 = 1_000_000_000;

/// Classes for Kubernetes' own components, with their values.
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2 * HIGHEST + 1000), ("system-cluster-critical", 2 * HIGHEST)];

pub(crate) struct PriorityClass;

impl Strategy for PriorityClass {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        default_to(object.make_object(), "preemptionPolicy", "PreemptLowerPriority");
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let name = object.str_at(&["metadata", "name"]);
        if name.starts_with("system-") {
            if let Some(problem) = system_class_problem(object, name) {
                let detail = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
                );
                errors.push(FieldError::forbidden(&FieldPath::new("metadata").child("name"), detail));
            }
        } else if value(object) > HIGHEST {
            let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
            errors.push(FieldError::forbidden(&FieldPath::new("value"), detail));
        }
        if let Some(policy) = present(object, "preemptionPolicy").and_then(Value::as_str) {
            let path = FieldPath::new("preemptionPolicy");
            if policy.is_empty() {
                errors.push(FieldError::required(&path, ""));
            } else {
                one_of(&path, policy, &["PreemptLowerPriority", "Never"], &mut errors);
            }
        }
        errors
    }

    fn forbids_delete(&self, name: &str) -> Option<&'static str> {
        let is_system = SYSTEM.iter().any(|(known, _)| *known == name);
        is_system.then_some("this is a system priority class and cannot be deleted")
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        if value(object) != value(old) {
            errors.push(FieldError::forbidden(&FieldPath::new("value"), "may not be changed in an update."));
        }
        let path = FieldPath::new("preemptionPolicy");
        immutable_value(&path, object.get("preemptionPolicy"), old.get("preemptionPolicy"), &mut errors);
        errors
    }
}

fn value(class: &Value) -> i64 {
    class.int_at(&["value"]).unwrap_or(0)
}

fn system_class_problem(class: &Value, name: &str) -> Option<String> {
    let Some((_, wanted)) = SYSTEM.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if value(class) != *wanted {
        return Some(format!("value of {name} PriorityClass must be {wanted}"));
    }
    class.bool_at(&["globalDefault"]).then(|| format!("globalDefault of {name} PriorityClass must be false"))
}
