//! NodeRestriction: restricts the writes of kubelets. The node authorizer decides by the objects that a node needs, but
//! does not see their contents. This plugin only lets a node change its own Node, the status of its pods and its own
//! lease, and prevents it from attracting workloads and obtaining permissions or tokens.

mod nodes;
mod pod_certificates;
mod pods;
mod tokens;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use binnacle_authz::{Authorizer, Node};
use binnacle_features::Features;
use binnacle_fields::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::resource::v1::{ResourceSlice, ResourceSliceSpec};
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{GroupResource, Status, go_quote};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use super::certificates::of_subject;
use crate::lookup::{Freshness, Lookup, LookupKind};
use crate::plugin::{Plugin, Request, Stage, forbidden};

const LEASES: &str = "kube-node-lease";
const MIRROR: &str = "kubernetes.io/config.mirror";
/// The signers of kubelets' serving and client certificates.
const KUBELET_SIGNERS: [&str; 2] = ["kubernetes.io/kubelet-serving", "kubernetes.io/kube-apiserver-client-kubelet"];

pub(crate) struct NodeRestriction {
    lookup: Arc<dyn Lookup>,
    authorizer: Arc<dyn Authorizer>,
    features: Arc<Features>,
}

/// The reason why a request is rejected.
enum Refusal {
    /// A 403 with the name of the object.
    Forbidden(String),
    /// The status as is.
    Status(Status),
}

type Verdict = Result<(), Refusal>;

/// A request of a node.
#[derive(Clone, Copy)]
struct NodeRequest<'a> {
    node: &'a str,
    attributes: &'a Attributes,
    /// `null` on delete.
    object: &'a Value,
    old: Option<&'a Value>,
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Self::Forbidden(why)
    }
}

impl From<&str> for Refusal {
    fn from(why: &str) -> Self {
        Self::Forbidden(why.to_owned())
    }
}

fn refuse(why: impl Into<Refusal>) -> Verdict {
    Err(why.into())
}

/// Returns an error without a specific code, so that clients retry: this server's cache may lag behind the node's.
fn retryable(why: impl AsRef<str>) -> Refusal {
    Refusal::Status(Status::unknown(500, why.as_ref()))
}

/// Returns the operation in kube-apiserver's spelling.
fn operation_name(operation: Operation) -> &'static str {
    match operation {
        Operation::Create => "CREATE",
        Operation::Update => "UPDATE",
        Operation::Delete => "DELETE",
        Operation::Connect => "CONNECT",
    }
}

impl NodeRestriction {
    pub(crate) fn new(lookup: Arc<dyn Lookup>, authorizer: Arc<dyn Authorizer>, features: Arc<Features>) -> Self {
        Self { lookup, authorizer, features }
    }

    async fn check(&self, node_request: NodeRequest<'_>) -> Verdict {
        let NodeRequest { node, attributes, .. } = node_request;
        if node.is_empty() {
            let user = go_quote(&attributes.user.name);
            return refuse(format!("could not determine node from user {user}"));
        }
        match (attributes.resource.group.as_str(), attributes.resource.resource.as_str()) {
            ("", "pods") => match attributes.subresource.as_str() {
                "" => self.pod(node_request).await,
                "status" => pods::status(node_request),
                "eviction" => self.eviction(node_request).await,
                other => refuse(format!(
                    "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                    go_quote(other)
                )),
            },
            ("", "nodes") => nodes::check(node_request),
            ("", "persistentvolumeclaims") => match attributes.subresource.as_str() {
                "status" => nodes::claim_status(&self.features, node_request),
                _ => refuse("may only update PVC status"),
            },
            ("", "serviceaccounts") => self.token(node_request).await,
            ("certificates.k8s.io", "podcertificaterequests") => self.pod_certificate(node_request).await,
            ("certificates.k8s.io", "certificatesigningrequests") => csr(&self.features, node_request),
            ("coordination.k8s.io", "leases") => lease(node_request),
            ("storage.k8s.io", "csinodes") => {
                own_name(node_request, "can only access CSINode with the same name as the requesting node")
            }
            ("resource.k8s.io", "resourceslices") => slice(node_request),
            _ => Ok(()),
        }
    }

    /// Returns an object from the cache. `singular` is the name of its kind in errors.
    async fn cached_object(
        &self,
        kind: LookupKind,
        singular: &str,
        namespace: &str,
        name: &str,
    ) -> Result<Arc<Value>, Status> {
        let group = if kind == LookupKind::CsiDriver { "storage.k8s.io" } else { "" };
        let found = self.lookup.get(kind, namespace, name, Freshness::Cached).await?;
        found.ok_or_else(|| Status::not_found(&GroupResource::new(group, singular), name))
    }
}

/// Checks that the request is for an object with the node's name. On create, the name in the object is used.
fn own_name(node_request: NodeRequest<'_>, why: &str) -> Verdict {
    let name = match node_request.attributes.operation {
        Operation::Create => metadata(node_request.object).at(ObjectMeta::NAME).str(),
        _ => node_request.attributes.name.as_str(),
    };
    if name == node_request.node { Ok(()) } else { refuse(why) }
}

fn lease(node_request: NodeRequest<'_>) -> Verdict {
    if node_request.attributes.namespace != LEASES {
        return refuse(format!("can only access leases in the {} system namespace", go_quote(LEASES)));
    }
    own_name(node_request, "can only access node lease with the same name as the requesting node")
}

/// Checks creates and deletes of a ResourceSlice. For updates, the node authorizer checks the node of the slice.
fn slice(node_request: NodeRequest<'_>) -> Verdict {
    let (slice, verb) = match node_request.attributes.operation {
        Operation::Create => (Some(node_request.object), "create"),
        Operation::Delete => (node_request.old, "delete"),
        _ => return Ok(()),
    };
    let slice = slice.map(FieldRef::<ResourceSlice>::root);
    if slice
        .is_some_and(|slice| slice.at(ResourceSlice::SPEC).at(ResourceSliceSpec::NODE_NAME).str() == node_request.node)
    {
        return Ok(());
    }
    refuse(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"))
}

fn csr(features: &Features, node_request: NodeRequest<'_>) -> Verdict {
    let request = FieldRef::<CertificateSigningRequest>::root(node_request.object);
    let signer = request.at(CertificateSigningRequest::SPEC).at(CertificateSigningRequestSpec::SIGNER_NAME).str();
    if node_request.attributes.operation != Operation::Create
        || !KUBELET_SIGNERS.contains(&signer)
        || features.enabled("AllowInsecureKubeletCertificateSigningRequests")
    {
        return Ok(());
    }
    let common_name = format!("system:node:{}", node_request.node);
    // As in Go, the last common name is used.
    let is_own = of_subject(node_request.object, |subject| {
        subject.iter_common_name().last().is_some_and(|name| name.as_str().is_ok_and(|name| name == common_name))
    });
    match is_own {
        Ok(true) => Ok(()),
        Ok(false) => refuse(format!("can only create a node CSR with CN={common_name}")),
        Err(why) => refuse(format!("unable to parse csr: {why}")),
    }
}

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    /// Handles the mutating stage, so that the checks precede those of other plugins, as in kube-apiserver.
    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate
            && attributes.operation != Operation::Connect
            && Node::identity(&attributes.user).is_some()
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let attributes = request.attributes;
            let Some(node) = Node::identity(&attributes.user) else { return Ok(()) };
            let node_request = NodeRequest { node, attributes, object, old: request.old };
            match self.check(node_request).await {
                Ok(()) => Ok(()),
                Err(Refusal::Forbidden(why)) => Err(forbidden(attributes, object, why)),
                Err(Refusal::Status(status)) => Err(status),
            }
        })
    }
}
