//! Restrictions of a node's own Node object, and of the status of claims that it resizes.

use std::collections::BTreeSet;

use binnacle_features::Features;
use binnacle_meta::go_quote;
use binnacle_registry::admission::Operation;
use binnacle_schema::{Object, Value};

use super::{NodeRequest, Verdict, no, shown};

/// Kubernetes' own labels that kubelets set.
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
/// The domain of labels that keep workloads off nodes.
const RESTRICTION: &str = "node-restriction.kubernetes.io";

pub(super) fn check(asked: NodeRequest<'_>) -> Verdict {
    let (node, name) = (go_quote(asked.node), asked.attributes.name.as_str());
    if name != asked.node {
        return no(format!("node {node} is not allowed to modify node {}", go_quote(name)));
    }
    let source = |of: &Value| of.at(&["spec", "configSource"]).filter(|source| !source.is_null()).cloned();
    match (asked.attributes.operation, asked.old) {
        (Operation::Create, _) => {
            // A `configSource` would give the node rights.
            if source(asked.object).is_some() {
                return no(format!("node {node} is not allowed to create pods with a non-nil configSource"));
            }
            let labels = forbidden_labels(asked.object, None);
            if !labels.is_empty() {
                return no(format!("node {node} is not allowed to set the following labels: {labels}"));
            }
        }
        (Operation::Update, Some(old)) => {
            let new = asked.object;
            // Old kubelets may drop the field.
            if source(new).is_some() && source(new) != source(old) {
                return no(format!("node {node} is not allowed to update configSource to a new non-nil configSource"));
            }
            if new.list_at(&["spec", "taints"]) != old.list_at(&["spec", "taints"]) {
                return no(format!("node {node} is not allowed to modify taints"));
            }
            // A node whose owner is gone is deleted, and then registers with other taints (CVE-2025-5187).
            if new.list_at(&["metadata", "ownerReferences"]) != old.list_at(&["metadata", "ownerReferences"]) {
                return no(format!("node {node} is not allowed to modify ownerReferences"));
            }
            let labels = forbidden_labels(new, Some(old));
            if !labels.is_empty() {
                return no(format!("is not allowed to modify labels: {labels}"));
            }
        }
        _ => {}
    }
    Ok(())
}

/// Returns the changed labels that kubelets must not change, sorted.
fn forbidden_labels(new: &Value, old: Option<&Value>) -> String {
    let labels = |of: Option<&'_ Value>| -> BTreeSet<(String, String)> {
        let labels = of.and_then(|of| of.object_at(&["metadata", "labels"])).into_iter().flat_map(Object::iter);
        labels.map(|(key, value)| (key.to_string(), value.as_str().unwrap_or_default().to_owned())).collect()
    };
    let (new, old) = (labels(Some(new)), labels(old));
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

/// Checks a kubelet's update of a claim's status after it has resized the volume.
pub(super) fn claim_status(features: &Features, asked: NodeRequest<'_>) -> Verdict {
    let Some(old) = asked.old.filter(|_| asked.attributes.operation == Operation::Update) else {
        return no(format!("unexpected operation {}", go_quote(shown(asked.attributes.operation))));
    };
    let rest = |claim: &Value| {
        let mut claim = claim.clone();
        let mut drop = |path: &[&str], members: &[&str]| {
            if let Some(object) = claim.at_mut(path).and_then(Value::as_object_mut) {
                members.iter().for_each(|member| {
                    object.remove(member);
                });
            }
        };
        drop(&["metadata"], &["resourceVersion", "managedFields"]);
        drop(&["status"], &["capacity", "conditions"]);
        if features.enabled("RecoverVolumeExpansionFailure") {
            drop(&["status"], &["allocatedResourceStatuses", "allocatedResources"]);
        }
        claim
    };
    let mut differences = Vec::new();
    compare("", &rest(old), &rest(asked.object), &mut differences);
    if differences.is_empty() {
        return Ok(());
    }
    let (node, differences) = (go_quote(asked.node), differences.join(", "));
    no(format!(
        "node {node} is not allowed to update fields other than status.quantity and status.conditions: {differences}"
    ))
}

/// Appends the paths of the differences of two trees. An absent object equals an empty one.
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
