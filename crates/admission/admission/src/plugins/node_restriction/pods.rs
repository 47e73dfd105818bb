//! Restrictions of pods: a node creates mirror pods, deletes and evicts its own pods, and writes their status.

use std::sync::Arc;

use binnacle_meta::{Status, StatusReason, go_quote};
use binnacle_registry::admission::Operation;
use binnacle_schema::{Object, Value};

use super::{MIRROR, NodeRequest, NodeRestriction, Refusal, Verdict, no, shown};
use crate::lookup::LookupKind;

/// Volume sources that refer to no API objects, by their JSON names.
const HARMLESS_VOLUMES: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];
/// Volume sources that refer to API objects, with the names of these in errors.
const API_VOLUMES: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];
const API_PROJECTIONS: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];
/// Volume sources with a `secretRef`.
const SECRET_REF_SOURCES: [&str; 7] = ["cephfs", "cinder", "flexVolume", "rbd", "scaleIO", "iscsi", "storageos"];

impl NodeRestriction {
    pub(super) async fn pod(&self, asked: NodeRequest<'_>) -> Verdict {
        let node = go_quote(asked.node);
        match asked.attributes.operation {
            Operation::Create => self.mirror_pod(asked).await,
            Operation::Delete => match asked.old {
                Some(old) if is_bound_to(old, asked.node) => Ok(()),
                _ => no(format!("node {node} can only delete pods with spec.nodeName set to itself")),
            },
            other => {
                let operation = go_quote(shown(other));
                no(format!("unexpected operation {operation}, node {node} can only create and delete mirror pods"))
            }
        }
    }

    async fn mirror_pod(&self, asked: NodeRequest<'_>) -> Verdict {
        let (pod, node) = (asked.object, go_quote(asked.node));
        if pod.at(&["metadata", "annotations", MIRROR]).is_none() {
            let annotation = go_quote(MIRROR);
            return no(format!("pod does not have {annotation} annotation, node {node} can only create mirror pods"));
        }
        let only = |what: &str| no(format!("node {node} can only create pods with {what}"));
        if !is_bound_to(pod, asked.node) {
            return only("spec.nodeName set to itself");
        }
        let owner = match pod.list_at(&["metadata", "ownerReferences"]) {
            [owner] => owner,
            [] => return only("an owner reference set to itself"),
            _ => return only("a single owner reference set to itself"),
        };
        let text = |member: &str| owner.str_at(&[member]);
        if (text("apiVersion"), text("kind"), text("name")) != ("v1", "Node", asked.node) {
            return only("an owner reference set to itself");
        }
        if !owner.bool_at(&["controller"]) {
            return only("a controller owner reference set to itself");
        }
        if owner.bool_at(&["blockOwnerDeletion"]) {
            return no(format!("node {node} must not set blockOwnerDeletion on an owner reference"));
        }
        let found = match self.known(LookupKind::Node, "node", "", asked.node).await {
            Ok(found) => found,
            Err(status) if status.is(StatusReason::NotFound) => return Err(Refusal::Status(status)),
            Err(status) => {
                let (node, why) = (asked.node, status.message());
                return no(format!("error looking up node {node} to verify uid: {why}"));
            }
        };
        let uid = found.str_at(&["metadata", "uid"]);
        if text("uid") != uid {
            let (node, owner) = (asked.node, text("uid"));
            return no(format!("node {node} UID mismatch: expected {owner} got {uid}"));
        }
        match api_reference(pod) {
            Ok(None) => Ok(()),
            Ok(Some(what)) => no(format!("node {node} can not create pods that reference {what}")),
            Err(why) => no(format!("error checking mirror pod for API references: {why}")),
        }
    }

    pub(super) async fn eviction(&self, asked: NodeRequest<'_>) -> Verdict {
        let attributes = asked.attributes;
        if attributes.operation != Operation::Create {
            return no(format!("unexpected operation {}", shown(attributes.operation)));
        }
        let named = [attributes.name.as_str(), asked.object.str_at(&["metadata", "name"])];
        let Some(name) = named.into_iter().find(|name| !name.is_empty()) else {
            return no("could not determine pod from request data");
        };
        let pod = self.known_pod(&attributes.namespace, name).await?;
        match is_bound_to(&pod, asked.node) {
            true => Ok(()),
            false => no(format!("node {} can only evict pods with spec.nodeName set to itself", asked.node)),
        }
    }

    pub(super) async fn known_pod(&self, namespace: &str, name: &str) -> Result<Arc<Value>, Refusal> {
        self.known(LookupKind::Pod, "pod", namespace, name).await.map_err(absent_or_forbidden)
    }
}

fn absent_or_forbidden(status: Status) -> Refusal {
    match status.is(StatusReason::NotFound) {
        true => Refusal::Status(status),
        false => Refusal::Forbidden(status.message().to_owned()),
    }
}

pub(super) fn is_bound_to(pod: &Value, node: &str) -> bool {
    pod.str_at(&["spec", "nodeName"]) == node
}

pub(super) fn status(asked: NodeRequest<'_>) -> Verdict {
    let node = go_quote(asked.node);
    let Some(old) = asked.old.filter(|_| asked.attributes.operation == Operation::Update) else {
        return no(format!("unexpected operation {}", go_quote(shown(asked.attributes.operation))));
    };
    if !is_bound_to(old, asked.node) {
        return no(format!("node {node} can only update pod status for pods with spec.nodeName set to itself"));
    }
    let labels = |pod: &Value| -> Vec<(String, String)> {
        let labels = pod.object_at(&["metadata", "labels"]).into_iter().flat_map(Object::iter);
        let mut labels: Vec<_> =
            labels.map(|(key, value)| (key.to_string(), value.as_str().unwrap_or_default().to_owned())).collect();
        labels.sort();
        labels
    };
    if labels(old) != labels(asked.object) {
        return no(format!("node {node} cannot update labels through pod status"));
    }
    // Through these claims a node could read objects of others (CVE-2025-4563).
    let claims = |pod: &Value| -> Vec<(Option<Value>, Option<Value>)> {
        let claims = pod.list_at(&["status", "resourceClaimStatuses"]).iter();
        claims.map(|claim| (claim.get("name").cloned(), claim.get("resourceClaimName").cloned())).collect()
    };
    if claims(old) != claims(asked.object) {
        return no(format!("node {node} cannot update resource claim statues"));
    }
    let extended = |pod: &Value| {
        let claim = pod.at(&["status", "extendedResourceClaimStatus"]).filter(|claim| !claim.is_null())?;
        let mappings = claim.list_at(&["requestMappings"]).to_vec();
        Some((claim.str_at(&["resourceClaimName"]).to_owned(), mappings))
    };
    if extended(old) != extended(asked.object) {
        return no(format!("node {node} cannot update extended resource claim status"));
    }
    Ok(())
}

/// Returns the resource of an API object that a pod refers to, if any. A volume of an unknown kind is an error.
fn api_reference(pod: &Value) -> Result<Option<&'static str>, String> {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let is_there = |value: &Value, member: &str| value.get(member).is_some_and(|source| !source.is_null());
    if !spec.str_at(&["serviceAccountName"]).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if names_secret(spec) {
        return Ok(Some("secrets"));
    }
    if names_config_map(spec) {
        return Ok(Some("configmaps"));
    }
    if !spec.list_at(&["resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in spec.list_at(&["volumes"]) {
        if HARMLESS_VOLUMES.iter().any(|source| is_there(volume, source)) {
            continue;
        }
        if let Some((_, what)) = API_VOLUMES.iter().find(|(source, _)| is_there(volume, source)) {
            return Ok(Some(what));
        }
        let name = go_quote(volume.str_at(&["name"]));
        if !is_there(volume, "projected") {
            return Err(format!("unknown volume type for volume  {name}"));
        }
        for source in volume.list_at(&["projected", "sources"]) {
            if let Some((_, what)) = API_PROJECTIONS.iter().find(|(member, _)| is_there(source, member)) {
                return Ok(Some(what));
            }
            if !is_there(source, "downwardAPI") {
                return Err(format!("unknown source for projected volume {name}"));
            }
        }
    }
    Ok(None)
}

fn names_secret(spec: &Value) -> bool {
    let named = |value: &Value, path: &[&str]| !value.str_at(path).is_empty();
    spec.list_at(&["imagePullSecrets"]).iter().any(|secret| named(secret, &["name"]))
        || any_container(spec, "secretRef", "secretKeyRef")
        || spec.list_at(&["volumes"]).iter().any(|volume| {
            named(volume, &["secret", "secretName"])
                || named(volume, &["azureFile", "secretName"])
                || named(volume, &["csi", "nodePublishSecretRef", "name"])
                || SECRET_REF_SOURCES.iter().any(|source| named(volume, &[source, "secretRef", "name"]))
                || projected(volume).any(|source| named(source, &["secret", "name"]))
        })
}

fn names_config_map(spec: &Value) -> bool {
    let named = |value: &Value, path: &[&str]| !value.str_at(path).is_empty();
    any_container(spec, "configMapRef", "configMapKeyRef")
        || spec.list_at(&["volumes"]).iter().any(|volume| {
            named(volume, &["configMap", "name"])
                || projected(volume).any(|source| named(source, &["configMap", "name"]))
        })
}

fn projected(volume: &Value) -> impl Iterator<Item = &Value> {
    volume.list_at(&["projected", "sources"]).iter()
}

/// Returns true if any container refers to an object by `whole` in `envFrom` or `one` in `env`.
fn any_container(spec: &Value, whole: &str, one: &str) -> bool {
    let containers = ["initContainers", "containers", "ephemeralContainers"].into_iter();
    containers.flat_map(|member| spec.list_at(&[member])).any(|container| {
        container.list_at(&["envFrom"]).iter().any(|source| !source.str_at(&[whole, "name"]).is_empty())
            || container.list_at(&["env"]).iter().any(|one_of| !one_of.str_at(&["valueFrom", one, "name"]).is_empty())
    })
}
