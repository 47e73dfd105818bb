//! `ResourceQuota`: limits on the total resources of a namespace.

mod validation;

use binnacle_meta::FieldErrors;
use binnacle_schema::Value;

use crate::tree_names::{keep, struct_mut};
use crate::{Strategy, StrategyContext};
use binnacle_validation::pod_resources as resources;

pub(super) struct ResourceQuota;

impl Strategy for ResourceQuota {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        for (parent, list) in [("spec", "hard"), ("status", "hard"), ("status", "used")] {
            let parent = object.get_mut(parent).and_then(Value::as_object_mut);
            if let Some(list) = parent.and_then(|parent| struct_mut(parent, list)) {
                resources::round_up(list);
            }
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        object.make_object().remove("status");
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "status");
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::spec(object, &mut errors);
        validation::status(object, &mut errors);
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::update(object, old, &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::status(object, &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some() {
            return Vec::new();
        }
        ["cpu", "memory", "storage", "ephemeral-storage"].iter().filter_map(|name| unordered(object, name)).collect()
    }
}

/// Returns the warning about requests of a resource that are above its limits.
fn unordered(object: &Value, name: &str) -> Option<String> {
    let hard = |name: &str| object.at(&["spec", "hard", name]).and_then(resources::quantity);
    let (prefixed, limits) = (format!("requests.{name}"), format!("limits.{name}"));
    let bare = matches!(name, "cpu" | "memory");
    let (requests, request) = match hard(&prefixed) {
        Some(request) => (prefixed.as_str(), request),
        None => (name, hard(name).filter(|_| bare)?),
    };
    let limit = hard(&limits).filter(|limit| request > *limit)?;
    Some(format!("ResourceQuota {requests} ({request}) should be less than {limits} ({limit})"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn requests_above_limits_are_warned_of() {
        for (hard, want) in [
            (value!({"requests.cpu": "1", "limits.cpu": "1"}), vec![]),
            (value!({"cpu": "2", "limits.cpu": "1"}), vec!["ResourceQuota cpu (2) should be less than limits.cpu (1)"]),
            (value!({"storage": "2", "limits.storage": "1"}), vec![]),
            (
                value!({"requests.ephemeral-storage": "2", "limits.ephemeral-storage": "1"}),
                vec!["ResourceQuota requests.ephemeral-storage (2) should be less than limits.ephemeral-storage (1)"],
            ),
        ] {
            assert_eq!(ResourceQuota.warnings(&value!({"spec": {"hard": hard}}), None), want);
        }
    }
}
