//! Restrictions on a node's own Node object, and on the status of claims that it resizes.

use std::collections::BTreeSet;

use binnacle_features::Features;
use binnacle_fields::core::v1::{
    Node, NodeSpec, PersistentVolumeClaim as Claim, PersistentVolumeClaimStatus as ClaimStatus,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::go_quote;
use binnacle_registry::admission::Operation;
use binnacle_schema::{Object, Value};

use super::{NodeRequest, Verdict, operation_name, refuse};

/// The labels of Kubernetes domains that kubelets may set.
const KUBELET_LABELS: [&str; 11] = [
    "kubernetes.io/hostname",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "failure-domain.beta.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region",
    "beta.kubernetes.io/instance-type",
    "node.kubernetes.io/instance-type",
    "kubernetes.io/os",
    "kubernetes.io/arch",
    "beta.kubernetes.io/os",
    "beta.kubernetes.io/arch",
];
const KUBELET_NAMESPACES: [&str; 2] = ["kubelet.kubernetes.io", "node.kubernetes.io"];
/// The domain of labels that isolate workloads, which kubelets must not set.
const RESTRICTION: &str = "node-restriction.kubernetes.io";

pub(super) fn check(node_request: NodeRequest<'_>) -> Verdict {
    let (node, name) = (go_quote(node_request.node), node_request.attributes.name.as_str());
    if name != node_request.node {
        return refuse(format!("node {node} is not allowed to modify node {}", go_quote(name)));
    }
    let new = FieldRef::<Node>::root(node_request.object);
    let spec = new.at(Node::SPEC);
    let source = spec.at(NodeSpec::CONFIG_SOURCE);
    match (node_request.attributes.operation, node_request.old) {
        (Operation::Create, _) => {
            // A `configSource` would give the node access to the object that it references.
            if source.is_set() {
                return refuse(format!("node {node} is not allowed to create pods with a non-nil configSource"));
            }
            let labels = forbidden_labels(new, None);
            if !labels.is_empty() {
                return refuse(format!("node {node} is not allowed to set the following labels: {labels}"));
            }
        }
        (Operation::Update, Some(old)) => {
            let old = FieldRef::<Node>::root(old);
            let old_spec = old.at(Node::SPEC);
            // Old kubelets may drop the field.
            if source.is_set() && source.value() != old_spec.at(NodeSpec::CONFIG_SOURCE).value() {
                return refuse(format!(
                    "node {node} is not allowed to update configSource to a new non-nil configSource"
                ));
            }
            if spec.at(NodeSpec::TAINTS).list() != old_spec.at(NodeSpec::TAINTS).list() {
                return refuse(format!("node {node} is not allowed to modify taints"));
            }
            // With an owner that does not exist, the node would be garbage-collected, and could then register again
            // with other taints and labels (CVE-2025-5187).
            let [owners, old_owners] =
                [new, old].map(|node| node.at(Node::METADATA).at(ObjectMeta::OWNER_REFERENCES).list());
            if owners != old_owners {
                return refuse(format!("node {node} is not allowed to modify ownerReferences"));
            }
            let labels = forbidden_labels(new, Some(old));
            if !labels.is_empty() {
                return refuse(format!("is not allowed to modify labels: {labels}"));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Returns the changed labels that kubelets must not change, sorted.
fn forbidden_labels(new: FieldRef<Node>, old: Option<FieldRef<Node>>) -> String {
    let labels = |node: FieldRef<Node>| -> BTreeSet<(String, String)> {
        let metadata = node.at(Node::METADATA);
        let labels = metadata.at(ObjectMeta::LABELS);
        labels.entries().map(|(key, value)| (key.to_owned(), value.str().to_owned())).collect()
    };
    let (new, old) = (labels(new), old.map(labels).unwrap_or_default());
    let changed: BTreeSet<&str> = new.symmetric_difference(&old).map(|(key, _)| key.as_str()).collect();
    let forbidden = |label: &&str| {
        let namespace = label.split_once('/').map_or("", |(namespace, _)| namespace);
        let is_in = |domain: &str| is_within(namespace, domain);
        let is_kubernetes = is_in("kubernetes.io") || is_in("k8s.io");
        let is_kubelets = KUBELET_LABELS.contains(label) || KUBELET_NAMESPACES.into_iter().any(is_in);
        is_in(RESTRICTION) || is_kubernetes && !is_kubelets
    };
    changed.into_iter().filter(forbidden).collect::<Vec<_>>().join(", ")
}

fn is_within(namespace: &str, domain: &str) -> bool {
    namespace.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// Checks a kubelet's update of a claim's status after a volume resize.
pub(super) fn claim_status(features: &Features, node_request: NodeRequest<'_>) -> Verdict {
    let Some(old) = node_request.old.filter(|_| node_request.attributes.operation == Operation::Update) else {
        return refuse(format!("unexpected operation {}", go_quote(operation_name(node_request.attributes.operation))));
    };
    let rest = |claim: &Value| {
        let mut rest = claim.clone();
        let mut claim = FieldMut::<Claim>::root(&mut rest);
        claim.remove_at(route![Claim::METADATA, ObjectMeta::RESOURCE_VERSION]);
        claim.remove_at(route![Claim::METADATA, ObjectMeta::MANAGED_FIELDS]);
        if let Some(mut status) = claim.structure(Claim::STATUS) {
            status.remove(ClaimStatus::CAPACITY);
            status.remove(ClaimStatus::CONDITIONS);
            if features.enabled("RecoverVolumeExpansionFailure") {
                status.remove(ClaimStatus::ALLOCATED_RESOURCE_STATUSES);
                status.remove(ClaimStatus::ALLOCATED_RESOURCES);
            }
        }
        rest
    };
    let mut differences = Vec::new();
    compare("", &rest(old), &rest(node_request.object), &mut differences);
    if differences.is_empty() {
        return Ok(());
    }
    let (node, differences) = (go_quote(node_request.node), differences.join(", "));
    refuse(format!(
        "node {node} is not allowed to update fields other than status.quantity and status.conditions: {differences}"
    ))
}

/// Appends the paths at which two values differ. An absent object equals an empty one.
fn compare(path: &str, old: &Value, new: &Value, differences: &mut Vec<String>) {
    let empty = Object::new();
    let members = |value: &'_ Value| match value {
        Value::Object(object) => Some(object.clone()),
        Value::Null => Some(empty.clone()),
        _ => None,
    };
    let (Some(before), Some(after)) = (members(old), members(new)) else {
        if old != new {
            differences.push(path.to_owned());
        }
        return;
    };
    let names: BTreeSet<&str> = before.keys().chain(after.keys()).map(|name| name.as_str()).collect();
    for name in names {
        let below = if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let part = |object: &Object| object.get(name).cloned().unwrap_or_default();
        compare(&below, &part(&before), &part(&after), differences);
    }
}
