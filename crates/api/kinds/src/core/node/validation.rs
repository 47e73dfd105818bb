//! Validation of nodes, and of changes to them.

use std::collections::BTreeSet;

use binnacle_fields::core::v1::{
    Node, NodeAddress, NodeSpec as Spec, NodeStatus as Status, NodeSwapStatus, NodeSystemInfo, Taint,
};
use binnacle_fields::meta::v1::{ObjectMeta, OwnerReference};
use binnacle_fields::types::{List, Map, Str};
use binnacle_fields::{FieldRef, messages};
use binnacle_meta::{FieldError, FieldErrors, go_quote};
use binnacle_schema::{Limits, json};
use binnacle_validation::ip::LegacyIpRules;
use binnacle_validation::{checks, ip, names, repeated, resource_names};

use super::config_source;
use crate::{Features, internal};

messages! {
    /// The annotation that lists controllers whose pods should avoid the node.
    AvoidPods { PREFER_AVOID_PODS: List<AvoidPodsEntry> = "preferAvoidPods" }

    AvoidPodsEntry { POD_SIGNATURE: PodSignature = "podSignature" }

    PodSignature { POD_CONTROLLER: OwnerReference = "podController" }
}

const TAINTS_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/taints";
const AVOID_PODS_ANNOTATION: &str = "scheduler.alpha.kubernetes.io/preferAvoidPods";
const FEATURE_NAME_MAX: usize = 253;
const CIDRS_ARE_KEPT: &str = "node updates may not change podCIDR except from \"\" to valid";
const PROVIDER_IS_KEPT: &str = "node updates may not change providerID except from \"\" to valid";

/// Validates any node. The paths of taints and swap are those that kube-apiserver reports.
pub(super) fn node(features: &Features, node: FieldRef<Node>, errors: &mut FieldErrors) {
    let (metadata, spec, status) = (node.at(Node::METADATA), node.at(Node::SPEC), node.at(Node::STATUS));
    annotations(metadata.at(ObjectMeta::ANNOTATIONS), errors);
    taints(spec.reported_as("metadata").at(Spec::TAINTS), errors);
    resources(status, errors);
    let swap = status.at(Status::NODE_INFO).at(NodeSystemInfo::SWAP).at(NodeSwapStatus::CAPACITY).int();
    if let Some(capacity) = swap.filter(|capacity| *capacity <= 0) {
        let at = metadata.path().child("nodeSwapStatus").child("capacity");
        errors.push(FieldError::invalid(&at, capacity, "must be greater than zero"));
    }
    declared_features(status.at(Status::DECLARED_FEATURES), errors);
    pod_cidrs(features, spec.at(Spec::POD_CIDRS), errors);
}

/// Validates an update, which includes many of the rules for new nodes.
pub(super) fn update(node: FieldRef<Node>, old: FieldRef<Node>, errors: &mut FieldErrors) {
    let (metadata, spec, status) = (node.at(Node::METADATA), node.at(Node::SPEC), node.at(Node::STATUS));
    let old = old.at(Node::SPEC);
    annotations(metadata.at(ObjectMeta::ANNOTATIONS), errors);
    resources(status, errors);
    declared_features(status.at(Status::DECLARED_FEATURES), errors);
    addresses(status.at(Status::ADDRESSES), errors);
    let (cidrs, old_cidrs) = (spec.at(Spec::POD_CIDRS), old.at(Spec::POD_CIDRS));
    if !old_cidrs.is_empty() {
        let changes = if cidrs.len() == old_cidrs.len() {
            cidrs.list().iter().zip(old_cidrs.list()).filter(|(new, old)| new != old).count()
        } else {
            1
        };
        errors.extend((0..changes).map(|_| cidrs.forbidden(CIDRS_ARE_KEPT)));
    }
    let (provider, old_provider) = (spec.at(Spec::PROVIDER_ID), old.at(Spec::PROVIDER_ID));
    if !old_provider.is_empty() && old_provider.str() != provider.str() {
        errors.push(provider.forbidden(PROVIDER_IS_KEPT));
    }
    config_source::spec(spec.at(Spec::CONFIG_SOURCE), errors);
    config_source::status(status.at(Status::CONFIG), errors);
    taints(spec.reported_as("metadata").at(Spec::TAINTS), errors);
    let id = spec.at(Spec::EXTERNAL_ID);
    if id.str() != old.at(Spec::EXTERNAL_ID).str() {
        errors.push(id.forbidden("may not be updated"));
    }
}

fn addresses(addresses: FieldRef<List<NodeAddress>>, errors: &mut FieldErrors) {
    let addresses: Vec<FieldRef<NodeAddress>> = addresses.items().collect();
    let fields = [NodeAddress::TYPE, NodeAddress::ADDRESS];
    let repeated = repeated(&addresses, |address| fields.map(|field| address.at(field).str()));
    for (address, is_repeated) in errors.while_room(addresses.iter().zip(repeated)) {
        if is_repeated {
            errors.push(FieldError::duplicate(address, internal::shown(*address)));
        }
    }
}

fn taints(taints: FieldRef<List<Taint>>, errors: &mut FieldErrors) {
    let mut seen = BTreeSet::new();
    for taint in errors.while_room(taints.items()) {
        let (key, value, effect) = (taint.at(Taint::KEY), taint.at(Taint::VALUE), taint.at(Taint::EFFECT));
        checks::qualified_name(&key, key.str(), errors);
        let messages = names::label_value(value.str());
        if !messages.is_empty() {
            errors.push(value.invalid(messages.join(";")));
        }
        checks::required_one_of(&effect, effect.str(), &["NoSchedule", "PreferNoSchedule", "NoExecute"], errors);
        if !seen.insert((effect.str(), key.str())) {
            let why = "taints must be unique by key and effect pair";
            errors.push(FieldError::duplicate_because(&taint, internal::shown(taint), why));
        }
    }
}

/// Validates annotations that fields have replaced.
fn annotations(annotations: FieldRef<Map<Str>>, errors: &mut FieldErrors) {
    let parse = |text: &str| json::parse(text.as_bytes(), &Limits::default()).map_err(|error| error.to_string());
    let annotation = annotations.key(TAINTS_ANNOTATION);
    if !annotation.is_empty() {
        match parse(annotation.str()) {
            Ok(list) => {
                let path = annotation.reported_as(TAINTS_ANNOTATION).path();
                taints(FieldRef::located(&list, &path), errors);
            }
            Err(why) => errors.push(annotations.invalid_as(TAINTS_ANNOTATION, why)),
        }
    }
    let annotation = annotations.key(AVOID_PODS_ANNOTATION);
    if annotation.is_empty() {
        return;
    }
    let path = annotations.path();
    let avoid = match parse(annotation.str()) {
        Ok(avoid) => avoid,
        Err(why) => return errors.push(FieldError::invalid(&path.child("AvoidPods"), AVOID_PODS_ANNOTATION, why)),
    };
    let entries = FieldRef::<AvoidPods>::root(&avoid).at(AvoidPods::PREFER_AVOID_PODS).values();
    for (i, entry) in errors.while_room(entries.enumerate()) {
        // kube-apiserver reports the names of Go.
        let at = path.child(AVOID_PODS_ANNOTATION).index(i).child("PodSignature");
        let signature = entry.at(AvoidPodsEntry::POD_SIGNATURE);
        let controller = signature.at(PodSignature::POD_CONTROLLER);
        if !controller.is_set() {
            errors.push(FieldError::required(&at, ""));
        } else if !controller.at(OwnerReference::CONTROLLER).bool() {
            let at = at.child("PodController").child("Controller");
            errors.push(FieldError::invalid(&at, false, "must point to a controller"));
        }
    }
}

fn resources(status: FieldRef<Status>, errors: &mut FieldErrors) {
    for list in [Status::CAPACITY, Status::ALLOCATABLE] {
        for (name, amount) in errors.while_room(status.at(list).entries()) {
            // kube-apiserver reports `status.capacity.cpu`.
            resource_names::amount(&amount.reported_as(name), name, amount.str(), errors);
        }
    }
}

/// Validates the features that the node declares, which are sorted and unique (KEP-5328).
fn declared_features(features: FieldRef<List<Str>>, errors: &mut FieldErrors) {
    for (i, feature) in errors.while_room(features.items().enumerate()) {
        let name = feature.str();
        if name.len() > FEATURE_NAME_MAX {
            let quoted = go_quote(name);
            let why = format!("invalid feature name {quoted}: must be no more than {FEATURE_NAME_MAX} characters");
            errors.push(feature.invalid(why));
        } else if !is_feature_name(name) {
            let quoted = go_quote(name);
            let why = format!(
                "invalid feature name {quoted}: must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
            );
            errors.push(feature.invalid(why));
        }
        let Some(next) = features.item(i + 1) else { continue };
        if name == next.str() {
            errors.push(next.duplicate());
        } else if name > next.str() {
            errors.push(next.invalid("list must be sorted alphabetically"));
        }
    }
}

fn is_feature_name(name: &str) -> bool {
    name.split('/').enumerate().all(|(i, segment)| {
        let first = segment.bytes().next();
        let begins = first.is_some_and(|c| c.is_ascii_uppercase() || (i > 0 && c.is_ascii_lowercase()));
        begins && segment.bytes().all(|c| c.is_ascii_alphanumeric())
    })
}

fn pod_cidrs(features: &Features, cidrs: FieldRef<List<Str>>, errors: &mut FieldErrors) {
    let legacy = LegacyIpRules::of(features);
    for cidr in errors.while_room(cidrs.items()) {
        ip::legacy_cidr(&cidr, cidr.str(), &legacy, errors);
    }
    if cidrs.len() < 2 {
        return;
    }
    let parsed: Vec<_> = cidrs.strs().map(ip::parse_cidr).collect();
    if let Some((i, (bad, _))) = cidrs.strs().zip(&parsed).enumerate().find(|(_, (_, parsed))| parsed.is_none()) {
        let why = format!(
            "invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{i}]: <nil> (invalid CIDR address: {bad})"
        );
        errors.push(FieldError::internal(&cidrs, why));
    }
    let v6 = |cidr: &Option<ip::Cidr>| cidr.is_some_and(|cidr| cidr.is_ipv6());
    let dual = parsed.iter().all(Option::is_some) && parsed.iter().any(v6) && !parsed.iter().all(v6);
    if !dual || parsed.len() > 2 {
        errors.push(cidrs.invalid("may specify no more than one CIDR for each IP family"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    fn texts(errors: &FieldErrors) -> Vec<String> {
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn validates_nodes() {
        for (object, want) in [
            (
                value!({"spec": {"taints": [{"key": "a", "effect": "NoExecute"}, {"key": "a", "effect": "NoSchedule"}]}}),
                vec![],
            ),
            (value!({"spec": {"taints": [{"key": "a"}]}}), vec!["metadata.taints[0].effect: Required value"]),
            (
                value!({"status": {"capacity": {"cpu": "-1", "pods": "1500m"}}}),
                vec![
                    "status.capacity.cpu: Invalid value: \"-1\": must be greater than or equal to 0",
                    "status.capacity.pods: Invalid value: \"1500m\": must be an integer",
                ],
            ),
            (
                value!({"status": {"nodeInfo": {"swap": {"capacity": 0i64}}}}),
                vec!["metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than zero"],
            ),
            (value!({"status": {"declaredFeatures": ["A", "B/c", "B/d"]}}), vec![]),
            (
                value!({"status": {"declaredFeatures": ["B", "A", "A"]}}),
                vec![
                    "status.declaredFeatures[1]: Invalid value: \"A\": list must be sorted alphabetically",
                    "status.declaredFeatures[2]: Duplicate value: \"A\"",
                ],
            ),
            (
                value!({"status": {"declaredFeatures": ["a"]}}),
                vec![
                    "status.declaredFeatures[0]: Invalid value: \"a\": invalid feature name \"a\": must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes",
                ],
            ),
            (value!({"spec": {"podCIDRs": ["10.0.0.0/24", "fd00::/64"]}}), vec![]),
            (
                value!({"spec": {"podCIDRs": ["10.0.0.0/24", "10.0.1.0/24"]}}),
                vec![
                    "spec.podCIDRs: Invalid value: [\"10.0.0.0/24\",\"10.0.1.0/24\"]: may specify no more than one CIDR for each IP family",
                ],
            ),
            (
                value!({"metadata": {"annotations": {"scheduler.alpha.kubernetes.io/preferAvoidPods":
                    "{\"preferAvoidPods\": [{}, {\"podSignature\": {\"podController\": {\"controller\": false}}}]}"}}}),
                vec![
                    "metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[0].PodSignature: Required value",
                    "metadata.annotations.scheduler.alpha.kubernetes.io/preferAvoidPods[1].PodSignature.PodController.Controller: Invalid value: false: must point to a controller",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            node(&Features::default(), FieldRef::root(&object), &mut errors);
            assert_eq!(texts(&errors), want, "{object:?}");
        }
    }

    #[test]
    fn validates_node_updates() {
        let old = value!({"spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "p"}});
        for (new, want) in [
            (value!({"spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "p", "unschedulable": true}}), vec![]),
            (
                value!({"spec": {"podCIDRs": ["10.0.1.0/24"], "providerID": "q", "externalID": "x"}}),
                vec![
                    "spec.podCIDRs: Forbidden: node updates may not change podCIDR except from \"\" to valid",
                    "spec.providerID: Forbidden: node updates may not change providerID except from \"\" to valid",
                    "spec.externalID: Forbidden: may not be updated",
                ],
            ),
            (
                value!({"spec": {"podCIDRs": ["10.0.0.0/24"], "providerID": "p"},
                    "status": {"addresses": [{"type": "InternalIP", "address": "1"}, {"type": "InternalIP", "address": "1"}]}}),
                vec!["status.addresses[1]: Duplicate value: {\"Type\":\"InternalIP\",\"Address\":\"1\"}"],
            ),
        ] {
            let mut errors = FieldErrors::new();
            update(FieldRef::root(&new), FieldRef::root(&old), &mut errors);
            assert_eq!(texts(&errors), want, "{new:?}");
        }
    }
}
