//! `Node`: a machine that runs pods.

mod config_source;
mod validation;

use binnacle_fields::core::v1::{self, NodeSpec as Spec, NodeStatus as Status};
use binnacle_fields::{FieldMut, FieldRef, Route, route};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::ip;
use binnacle_validation::pod_resources as resources;

use crate::gated::{GatedFields, drop_disabled, in_use};
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(super) struct Node;

const GATED: &[GatedFields<v1::Node>] =
    &[GatedFields { feature: "NodeDeclaredFeatures", fields: &[route![v1::Node::STATUS, Status::DECLARED_FEATURES]] }];

const CONFIG_SOURCE: Route<v1::Node> = route![v1::Node::SPEC, Spec::CONFIG_SOURCE];
const CONFIG_STATUS: Route<v1::Node> = route![v1::Node::STATUS, Status::CONFIG];

impl Strategy for Node {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut node = FieldMut::<v1::Node>::root(object);
        if let Some(mut status) = node.structure(v1::Node::STATUS) {
            let capacity = status.get(Status::CAPACITY).clone();
            if !capacity.is_null() {
                status.default_nil(Status::ALLOCATABLE, capacity);
            }
            for list in [Status::CAPACITY, Status::ALLOCATABLE] {
                if let Some(list) = status.map(list) {
                    resources::round_up(list);
                }
            }
        }
        if let Some(spec) = node.structure(v1::Node::SPEC) {
            default_pod_cidrs(spec);
        }
    }

    /// Keeps the status, with which nodes register, and removes the dynamic configuration.
    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut node = FieldMut::root(object);
        node.remove_at(CONFIG_SOURCE);
        node.remove_at(CONFIG_STATUS);
        drop_disabled(ctx.features, &mut node, None, GATED);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut node = FieldMut::root(object);
        let old = FieldRef::root(old);
        node.keep(old, v1::Node::STATUS);
        if !in_use(old, CONFIG_SOURCE) {
            node.remove_at(CONFIG_SOURCE);
        }
        drop_disabled(ctx.features, &mut node, Some(old), GATED);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut node = FieldMut::root(object);
        let old = FieldRef::root(old);
        node.keep(old, v1::Node::SPEC);
        if !in_use(old, CONFIG_STATUS) {
            node.remove_at(CONFIG_STATUS);
        }
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE_OR_CHANGE
    }

    fn validate(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::node(ctx.features, FieldRef::root(object), &mut errors);
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        errors.extend(self.validate_metadata_change(object, old));
        validation::update(FieldRef::root(object), FieldRef::root(old), &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::update(FieldRef::root(object), FieldRef::root(old), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        let node = FieldRef::<v1::Node>::root(object);
        let spec = node.at(v1::Node::SPEC);
        if spec.at(Spec::CONFIG_SOURCE).is_set() {
            warnings.push("spec.configSource: the feature is removed".to_owned());
        }
        if !spec.at(Spec::EXTERNAL_ID).is_empty() {
            warnings.push("spec.externalID: this field is deprecated, and is unused by Kubernetes".to_owned());
        }
        for cidr in spec.at(Spec::POD_CIDRS).items() {
            warnings.extend(ip::cidr_warnings(&cidr, cidr.str()));
        }
        warnings
    }
}

/// Makes `podCIDR` and the first of `podCIDRs` equal. If they differ, the client only sets `podCIDR`, which takes
/// precedence.
fn default_pod_cidrs(mut spec: FieldMut<Spec>) {
    let one = spec.str(Spec::POD_CIDR).to_owned();
    let first = spec.get(Spec::POD_CIDRS).as_list().and_then(<[Value]>::first).and_then(Value::as_str);
    match (one.as_str(), first.map(str::to_owned)) {
        ("", Some(first)) => spec.set(Spec::POD_CIDR, first),
        ("", None) => {}
        (one, first) if first.as_deref() == Some(one) => {}
        (one, _) => spec.set(Spec::POD_CIDRS, vec![Value::from(one)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn sets_node_defaults() {
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
