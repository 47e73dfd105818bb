//! `Node`: a machine that runs pods.

mod config_source;
mod validation;

use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::ip;

use crate::gated_names::{Gated, drop_disabled};
use crate::tree_names::{is_nil, keep, remove_at, struct_mut, text};
use crate::{MetadataChecks, Strategy, StrategyContext};
use binnacle_validation::pod_resources as resources;

pub(super) struct Node;

const GATED: &[Gated] = &[Gated { feature: "NodeDeclaredFeatures", fields: &[&["status", "declaredFeatures"]] }];

impl Strategy for Node {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
            if is_nil(status, "allocatable")
                && let Some(capacity) = status.get("capacity").filter(|capacity| !capacity.is_null()).cloned()
            {
                status.insert("allocatable", capacity);
            }
            for name in ["capacity", "allocatable"] {
                if let Some(list) = struct_mut(status, name) {
                    resources::round_up(list);
                }
            }
        }
        agree_on_pod_cidrs(object);
    }

    /// Keeps the status, with which nodes register, and removes the dynamic configuration.
    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        remove_at(object, &["spec", "configSource"]);
        remove_at(object, &["status", "config"]);
        drop_disabled(situation.features, object, None, GATED);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "status");
        if old.at(&["spec", "configSource"]).is_none_or(Value::is_null) {
            remove_at(object, &["spec", "configSource"]);
        }
        drop_disabled(situation.features, object, Some(old), GATED);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
        if old.at(&["status", "config"]).is_none_or(Value::is_null) {
            remove_at(object, &["status", "config"]);
        }
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_WITHIN_CHANGE
    }

    fn validate(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::node(situation.features, object, &mut errors);
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(situation, object);
        validation::update(object, old, &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::update(object, old, &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        if object.at(&["spec", "configSource"]).is_some_and(|source| !source.is_null()) {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !object.str_at(&["spec", "externalID"]).is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        let path = FieldPath::new("spec").child("podCIDRs");
        for (i, cidr) in object.list_at(&["spec", "podCIDRs"]).iter().filter_map(Value::as_str).enumerate() {
            warnings.extend(ip::cidr_warnings(&path.index(i), cidr));
        }
        warnings
    }
}

/// Makes `podCIDR` and the first of `podCIDRs` equal. If they differ, the client only knows `podCIDR`, so it wins.
fn agree_on_pod_cidrs(object: &mut Value) {
    let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) else { return };
    let one = text(spec, "podCIDR").to_owned();
    let first = spec.get("podCIDRs").and_then(Value::as_list).and_then(<[Value]>::first).and_then(Value::as_str);
    match (one.as_str(), first.map(str::to_owned)) {
        ("", Some(first)) => {
            spec.insert("podCIDR", first);
        }
        ("", None) => {}
        (one, first) if first.as_deref() == Some(one) => {}
        (one, _) => {
            spec.insert("podCIDRs", vec![one]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn defaults() {
        for (given, want) in [
            (
                value!({"status": {"capacity": {"cpu": "1500u"}}}),
                value!({"status": {"capacity": {"cpu": "2m"}, "allocatable": {"cpu": "2m"}}}),
            ),
            (
                value!({"spec": {"podCIDR": "10.0.0.0/24"}}),
                value!({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24"]}}),
            ),
            (
                value!({"spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}),
                value!({"spec": {"podCIDR": "10.0.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}),
            ),
            (
                value!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}),
                value!({"spec": {"podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}}),
            ),
        ] {
            let mut object = given;
            Node.set_defaults("v1", &mut object);
            assert_eq!(object, want);
        }
    }
}
