//! Restrictions on pods: a node may create mirror pods, delete and evict its own pods, and write their status.

use std::sync::Arc;

use binnacle_fields::core::v1::{
    ConfigMapEnvSource, ConfigMapKeySelector, ConfigMapProjection, ConfigMapVolumeSource, Container, EnvFromSource,
    EnvVar, EnvVarSource, LocalObjectReference, Pod, PodExtendedResourceClaimStatus as ExtendedClaim,
    PodResourceClaimStatus as Claim, PodSpec, PodStatus, ProjectedVolumeSource, SecretEnvSource, SecretKeySelector,
    SecretProjection, Volume, VolumeProjection,
};
use binnacle_fields::meta::v1::{ObjectMeta, OwnerReference};
use binnacle_fields::{FieldRef, Route, metadata, route};
use binnacle_meta::{Status, StatusReason, go_quote};
use binnacle_registry::admission::Operation;
use binnacle_schema::Value;

use super::{MIRROR, NodeRequest, NodeRestriction, Refusal, Verdict, operation_name, refuse};
use crate::lookup::LookupKind;
use crate::plugins::pod::{self, VOLUME_SECRETS};

/// Volume sources that do not reference API objects.
const HARMLESS_VOLUMES: [Route<Volume>; 22] = [
    route![Volume::AWS_ELASTIC_BLOCK_STORE],
    route![Volume::AZURE_DISK],
    route![Volume::CEPHFS],
    route![Volume::CINDER],
    route![Volume::DOWNWARD_API],
    route![Volume::EMPTY_DIR],
    route![Volume::FC],
    route![Volume::FLEX_VOLUME],
    route![Volume::FLOCKER],
    route![Volume::GCE_PERSISTENT_DISK],
    route![Volume::GIT_REPO],
    route![Volume::HOST_PATH],
    route![Volume::IMAGE],
    route![Volume::ISCSI],
    route![Volume::NFS],
    route![Volume::PHOTON_PERSISTENT_DISK],
    route![Volume::PORTWORX_VOLUME],
    route![Volume::QUOBYTE],
    route![Volume::RBD],
    route![Volume::SCALE_IO],
    route![Volume::STORAGEOS],
    route![Volume::VSPHERE_VOLUME],
];
/// Volume sources that reference API objects, and the names of the resources in errors.
const API_VOLUMES: [(Route<Volume>, &str); 7] = [
    (route![Volume::CONFIG_MAP], "configmaps (via configmap volumes)"),
    (route![Volume::SECRET], "secrets (via secret volumes)"),
    (route![Volume::CSI], "csidrivers (via CSI volumes)"),
    (route![Volume::GLUSTERFS], "endpoints (via glusterFS volumes)"),
    (route![Volume::PERSISTENT_VOLUME_CLAIM], "persistentvolumeclaims"),
    (route![Volume::EPHEMERAL], "persistentvolumeclaims (via ephemeral volumes)"),
    (route![Volume::AZURE_FILE], "secrets (via azureFile volumes)"),
];
const API_PROJECTIONS: [(Route<VolumeProjection>, &str); 5] = [
    (route![VolumeProjection::CONFIG_MAP], "configmaps (via projected volumes)"),
    (route![VolumeProjection::SECRET], "secrets (via projected volumes)"),
    (route![VolumeProjection::SERVICE_ACCOUNT_TOKEN], "serviceaccounts (via projected volumes)"),
    (route![VolumeProjection::CLUSTER_TRUST_BUNDLE], "clustertrustbundles"),
    (route![VolumeProjection::POD_CERTIFICATE], "podcertificates"),
];

impl NodeRestriction {
    pub(super) async fn pod(&self, node_request: NodeRequest<'_>) -> Verdict {
        let node = go_quote(node_request.node);
        match node_request.attributes.operation {
            Operation::Create => self.mirror_pod(node_request).await,
            Operation::Delete => match node_request.old {
                Some(old) if is_bound_to(old, node_request.node) => Ok(()),
                _ => refuse(format!("node {node} can only delete pods with spec.nodeName set to itself")),
            },
            other => {
                let operation = go_quote(operation_name(other));
                refuse(format!("unexpected operation {operation}, node {node} can only create and delete mirror pods"))
            }
        }
    }

    async fn mirror_pod(&self, node_request: NodeRequest<'_>) -> Verdict {
        let (pod, node) = (node_request.object, go_quote(node_request.node));
        let metadata = metadata(pod);
        if !metadata.at(ObjectMeta::ANNOTATIONS).key(MIRROR).is_set() {
            let annotation = go_quote(MIRROR);
            return refuse(format!(
                "pod does not have {annotation} annotation, node {node} can only create mirror pods"
            ));
        }
        let only_with = |resource: &str| refuse(format!("node {node} can only create pods with {resource}"));
        if !is_bound_to(pod, node_request.node) {
            return only_with("spec.nodeName set to itself");
        }
        let mut owners = metadata.at(ObjectMeta::OWNER_REFERENCES).values();
        let owner = match (owners.next(), owners.next()) {
            (Some(owner), None) => owner,
            (None, _) => return only_with("an owner reference set to itself"),
            _ => return only_with("a single owner reference set to itself"),
        };
        let text = |field| owner.at(field).str();
        if (text(OwnerReference::API_VERSION), text(OwnerReference::KIND), text(OwnerReference::NAME))
            != ("v1", "Node", node_request.node)
        {
            return only_with("an owner reference set to itself");
        }
        if !owner.at(OwnerReference::CONTROLLER).bool() {
            return only_with("a controller owner reference set to itself");
        }
        if owner.at(OwnerReference::BLOCK_OWNER_DELETION).bool() {
            return refuse(format!("node {node} must not set blockOwnerDeletion on an owner reference"));
        }
        let found = match self.cached_object(LookupKind::Node, "node", "", node_request.node).await {
            Ok(found) => found,
            Err(status) if status.is(StatusReason::NotFound) => return Err(Refusal::Status(status)),
            Err(status) => {
                let (node, why) = (node_request.node, status.message());
                return refuse(format!("error looking up node {node} to verify uid: {why}"));
            }
        };
        let uid = binnacle_fields::metadata(&found).at(ObjectMeta::UID).str();
        if text(OwnerReference::UID) != uid {
            let (node, owner) = (node_request.node, text(OwnerReference::UID));
            return refuse(format!("node {node} UID mismatch: expected {owner} got {uid}"));
        }
        match api_reference(pod::spec(pod)) {
            Ok(None) => Ok(()),
            Ok(Some(resource)) => refuse(format!("node {node} can not create pods that reference {resource}")),
            Err(why) => refuse(format!("error checking mirror pod for API references: {why}")),
        }
    }

    pub(super) async fn eviction(&self, node_request: NodeRequest<'_>) -> Verdict {
        let attributes = node_request.attributes;
        if attributes.operation != Operation::Create {
            return refuse(format!("unexpected operation {}", operation_name(attributes.operation)));
        }
        let named = [attributes.name.as_str(), metadata(node_request.object).at(ObjectMeta::NAME).str()];
        let Some(name) = named.into_iter().find(|name| !name.is_empty()) else {
            return refuse("could not determine pod from request data");
        };
        let pod = self.cached_pod(&attributes.namespace, name).await?;
        match is_bound_to(&pod, node_request.node) {
            true => Ok(()),
            false => refuse(format!("node {} can only evict pods with spec.nodeName set to itself", node_request.node)),
        }
    }

    pub(super) async fn cached_pod(&self, namespace: &str, name: &str) -> Result<Arc<Value>, Refusal> {
        self.cached_object(LookupKind::Pod, "pod", namespace, name).await.map_err(absent_or_forbidden)
    }
}

fn absent_or_forbidden(status: Status) -> Refusal {
    match status.is(StatusReason::NotFound) {
        true => Refusal::Status(status),
        false => Refusal::Forbidden(status.message().to_owned()),
    }
}

pub(super) fn is_bound_to(pod: &Value, node: &str) -> bool {
    pod::spec(pod).at(PodSpec::NODE_NAME).str() == node
}

pub(super) fn status(node_request: NodeRequest<'_>) -> Verdict {
    let node = go_quote(node_request.node);
    let Some(old) = node_request.old.filter(|_| node_request.attributes.operation == Operation::Update) else {
        return refuse(format!("unexpected operation {}", go_quote(operation_name(node_request.attributes.operation))));
    };
    if !is_bound_to(old, node_request.node) {
        return refuse(format!("node {node} can only update pod status for pods with spec.nodeName set to itself"));
    }
    let [new, old] = [node_request.object, old].map(FieldRef::<Pod>::root);
    let labels = |pod: FieldRef<Pod>| -> Vec<(String, String)> {
        let metadata = pod.at(Pod::METADATA);
        let labels = metadata.at(ObjectMeta::LABELS);
        let mut labels: Vec<_> =
            labels.entries().map(|(key, value)| (key.to_owned(), value.str().to_owned())).collect();
        labels.sort();
        labels
    };
    if labels(old) != labels(new) {
        return refuse(format!("node {node} cannot update labels through pod status"));
    }
    let (status, old_status) = (new.at(Pod::STATUS), old.at(Pod::STATUS));
    // These claims could give a node access to objects of other nodes (CVE-2025-4563).
    let claims = |status: FieldRef<PodStatus>| -> Vec<[Value; 2]> {
        let claims = status.at(PodStatus::RESOURCE_CLAIM_STATUSES).values();
        claims.map(|claim| [Claim::NAME, Claim::RESOURCE_CLAIM_NAME].map(|f| claim.at(f).value().clone())).collect()
    };
    if claims(old_status) != claims(status) {
        return refuse(format!("node {node} cannot update resource claim statues"));
    }
    let extended = |status: FieldRef<PodStatus>| {
        let claim = status.at(PodStatus::EXTENDED_RESOURCE_CLAIM_STATUS).detached().set()?;
        let mappings = claim.at(ExtendedClaim::REQUEST_MAPPINGS).list().to_vec();
        Some((claim.at(ExtendedClaim::RESOURCE_CLAIM_NAME).str().to_owned(), mappings))
    };
    if extended(old_status) != extended(status) {
        return refuse(format!("node {node} cannot update extended resource claim status"));
    }
    Ok(())
}

/// Returns the resource of an API object that a pod references, if any. An unknown volume source is an error.
fn api_reference(spec: FieldRef<PodSpec>) -> Result<Option<&'static str>, String> {
    if !spec.at(PodSpec::SERVICE_ACCOUNT_NAME).is_empty() {
        return Ok(Some("serviceaccounts"));
    }
    if names_secret(spec) {
        return Ok(Some("secrets"));
    }
    if names_config_map(spec) {
        return Ok(Some("configmaps"));
    }
    if !spec.at(PodSpec::RESOURCE_CLAIMS).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in spec.at(PodSpec::VOLUMES).values() {
        if HARMLESS_VOLUMES.iter().any(|source| !volume.value_at(*source).is_null()) {
            continue;
        }
        if let Some((_, resource)) = API_VOLUMES.iter().find(|(source, _)| !volume.value_at(*source).is_null()) {
            return Ok(Some(resource));
        }
        let name = go_quote(volume.at(Volume::NAME).str());
        let Some(projected) = volume.at(Volume::PROJECTED).set() else {
            return Err(format!("unknown volume type for volume  {name}"));
        };
        for source in projected.at(ProjectedVolumeSource::SOURCES).values() {
            if let Some((_, resource)) = API_PROJECTIONS.iter().find(|(field, _)| !source.value_at(*field).is_null()) {
                return Ok(Some(resource));
            }
            if !source.at(VolumeProjection::DOWNWARD_API).is_set() {
                return Err(format!("unknown source for projected volume {name}"));
            }
        }
    }
    Ok(None)
}

fn names_secret(spec: FieldRef<PodSpec>) -> bool {
    spec.at(PodSpec::IMAGE_PULL_SECRETS).values().any(|secret| !secret.at(LocalObjectReference::NAME).is_empty())
        || any_container(
            spec,
            route![EnvFromSource::SECRET_REF, SecretEnvSource::NAME],
            route![EnvVarSource::SECRET_KEY_REF, SecretKeySelector::NAME],
        )
        || spec.at(PodSpec::VOLUMES).values().any(|volume| {
            VOLUME_SECRETS.iter().any(|route| is_name(volume.value_at(*route)))
                || any_projected(volume, route![VolumeProjection::SECRET, SecretProjection::NAME])
        })
}

fn names_config_map(spec: FieldRef<PodSpec>) -> bool {
    any_container(
        spec,
        route![EnvFromSource::CONFIG_MAP_REF, ConfigMapEnvSource::NAME],
        route![EnvVarSource::CONFIG_MAP_KEY_REF, ConfigMapKeySelector::NAME],
    ) || spec.at(PodSpec::VOLUMES).values().any(|volume| {
        !volume.at(Volume::CONFIG_MAP).at(ConfigMapVolumeSource::NAME).is_empty()
            || any_projected(volume, route![VolumeProjection::CONFIG_MAP, ConfigMapProjection::NAME])
    })
}

/// Returns true if any source of a projected volume references an object by `name`.
fn any_projected(volume: FieldRef<Volume>, name: Route<VolumeProjection>) -> bool {
    let mut sources = volume.at(Volume::PROJECTED).at(ProjectedVolumeSource::SOURCES).values();
    sources.any(|source| is_name(source.value_at(name)))
}

/// Returns true if any container references an object by `whole` in `envFrom` or by `one` in `env`.
fn any_container(spec: FieldRef<PodSpec>, whole: Route<EnvFromSource>, one: Route<EnvVarSource>) -> bool {
    pod::all_containers(spec).any(|container| {
        container.at(Container::ENV_FROM).values().any(|source| is_name(source.value_at(whole)))
            || container.at(Container::ENV).values().any(|env| is_name(env.at(EnvVar::VALUE_FROM).value_at(one)))
    })
}

fn is_name(value: &Value) -> bool {
    value.as_str().is_some_and(|name| !name.is_empty())
}
