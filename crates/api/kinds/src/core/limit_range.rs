//! `LimitRange`: limits on the resources of single pods, containers or claims of a namespace.

mod validation;

use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value};

use crate::tree_names::{struct_mut, structs_mut, text};
use crate::{MetadataChecks, Strategy, StrategyContext};
use binnacle_validation::pod_resources as resources;

const LISTS: [&str; 5] = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];

pub(super) struct LimitRange;

impl Strategy for LimitRange {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
        for limit in structs_mut(spec, "limits") {
            if text(limit, "type") == "Container" {
                set_container_defaults(limit);
            }
            for name in LISTS {
                if let Some(list) = struct_mut(limit, name) {
                    resources::round_up(list);
                }
            }
        }
    }

    /// An object without `name` and `generateName` is named as uids are, but not by its own.
    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        if object.str_at(&["metadata", "name"]).is_empty() {
            object.make_at(&["metadata"]).insert("name", uuid::Uuid::new_v4().to_string());
        }
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(object)
    }
}

/// Sets the default limit to the maximum, and the default request to the default limit or else the minimum.
fn set_container_defaults(limit: &mut Object) {
    fill(limit, "default", "max");
    fill(limit, "defaultRequest", "default");
    fill(limit, "defaultRequest", "min");
}

fn fill(limit: &mut Object, to: &str, from: &str) {
    let Some(source) = limit.get(from).and_then(Value::as_object).cloned() else { return };
    let list = limit.object_entry(to);
    for (name, quantity) in source {
        list.entry(&name, || quantity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn container_defaults() {
        let mut object = value!({"spec": {"limits": [
            {"type": "Container", "max": {"cpu": "2", "memory": "1Gi"}, "default": {"cpu": "1"}, "min": {"storage": "1"}},
            {"type": "Pod", "max": {"cpu": "100u"}}
        ]}});
        LimitRange.set_defaults("v1", &mut object);
        assert_eq!(
            object,
            value!({"spec": {"limits": [
                {
                    "type": "Container",
                    "max": {"cpu": "2", "memory": "1Gi"},
                    "min": {"storage": "1"},
                    "default": {"cpu": "1", "memory": "1Gi"},
                    "defaultRequest": {"cpu": "1", "memory": "1Gi", "storage": "1"}
                },
                {"type": "Pod", "max": {"cpu": "1m"}}
            ]}})
        );
    }
}
