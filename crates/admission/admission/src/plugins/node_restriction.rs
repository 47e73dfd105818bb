//! NodeRestriction: restricts the writes of kubelets. The node authorizer decides by the objects that a node needs, but
//! does not see contents: here a node may change only itself, the status of its pods and its own lease, and cannot give
//! itself workloads, rights or tokens.

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

/// The reason of a refusal.
enum Refusal {
    /// 403 that names the object.
    Forbidden(String),
    /// The status as it is.
    Status(Status),
}

type Verdict = Result<(), Refusal>;

/// A request of a node, with the node's name.
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

fn no(why: impl Into<Refusal>) -> Verdict {
    Err(why.into())
}

/// Returns an error without a code of its own, so that clients retry: this server's cache may lag behind the node's.
fn not_yet(why: impl AsRef<str>) -> Refusal {
    Refusal::Status(Status::unknown(500, why.as_ref()))
}

/// Returns the operation in Go's spelling.
fn shown(operation: Operation) -> &'static str {
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

    async fn judge(&self, asked: NodeRequest<'_>) -> Verdict {
        let NodeRequest { node, attributes, .. } = asked;
        if node.is_empty() {
            let user = go_quote(&attributes.user.name);
            return no(format!("could not determine node from user {user}"));
        }
        match (attributes.resource.group.as_str(), attributes.resource.resource.as_str()) {
            ("", "pods") => match attributes.subresource.as_str() {
                "" => self.pod(asked).await,
                "status" => pods::status(asked),
                "eviction" => self.eviction(asked).await,
                other => no(format!(
                    "unexpected pod subresource {}, only 'status' and 'eviction' are allowed",
                    go_quote(other)
                )),
            },
            ("", "nodes") => nodes::check(asked),
            ("", "persistentvolumeclaims") => match attributes.subresource.as_str() {
                "status" => nodes::claim_status(&self.features, asked),
                _ => no("may only update PVC status"),
            },
            ("", "serviceaccounts") => self.token(asked).await,
            ("certificates.k8s.io", "podcertificaterequests") => self.pod_certificate(asked).await,
            ("certificates.k8s.io", "certificatesigningrequests") => csr(&self.features, asked),
            ("coordination.k8s.io", "leases") => lease(asked),
            ("storage.k8s.io", "csinodes") => {
                own_name(asked, "can only access CSINode with the same name as the requesting node")
            }
            ("resource.k8s.io", "resourceslices") => slice(asked),
            _ => Ok(()),
        }
    }

    /// Returns an object of the cache. `singular` is the name of its kind in errors.
    async fn known(&self, kind: LookupKind, singular: &str, namespace: &str, name: &str) -> Result<Arc<Value>, Status> {
        let group = if kind == LookupKind::CsiDriver { "storage.k8s.io" } else { "" };
        let found = self.lookup.get(kind, namespace, name, Freshness::Cached).await?;
        found.ok_or_else(|| Status::not_found(&GroupResource::new(group, singular), name))
    }
}

/// Checks that the request is for an object with the node's name; on create, the name in the object counts.
fn own_name(asked: NodeRequest<'_>, why: &str) -> Verdict {
    let name = match asked.attributes.operation {
        Operation::Create => metadata(asked.object).at(ObjectMeta::NAME).str(),
        _ => asked.attributes.name.as_str(),
    };
    if name == asked.node { Ok(()) } else { no(why) }
}

fn lease(asked: NodeRequest<'_>) -> Verdict {
    if asked.attributes.namespace != LEASES {
        return no(format!("can only access leases in the {} system namespace", go_quote(LEASES)));
    }
    own_name(asked, "can only access node lease with the same name as the requesting node")
}

/// Checks creates and deletes of a ResourceSlice; for updates the node authorizer checks the slice's node.
fn slice(asked: NodeRequest<'_>) -> Verdict {
    let (slice, verb) = match asked.attributes.operation {
        Operation::Create => (Some(asked.object), "create"),
        Operation::Delete => (asked.old, "delete"),
        _ => return Ok(()),
    };
    let slice = slice.map(FieldRef::<ResourceSlice>::root);
    if slice.is_some_and(|slice| slice.at(ResourceSlice::SPEC).at(ResourceSliceSpec::NODE_NAME).str() == asked.node) {
        return Ok(());
    }
    no(format!("can only {verb} ResourceSlice with the same NodeName as the requesting node"))
}

fn csr(features: &Features, asked: NodeRequest<'_>) -> Verdict {
    let request = FieldRef::<CertificateSigningRequest>::root(asked.object);
    let signer = request.at(CertificateSigningRequest::SPEC).at(CertificateSigningRequestSpec::SIGNER_NAME).str();
    if asked.attributes.operation != Operation::Create
        || !KUBELET_SIGNERS.contains(&signer)
        || features.enabled("AllowInsecureKubeletCertificateSigningRequests")
    {
        return Ok(());
    }
    let wanted = format!("system:node:{}", asked.node);
    // Go uses the last common name.
    let is_own = of_subject(asked.object, |subject| {
        subject.iter_common_name().last().is_some_and(|name| name.as_str().is_ok_and(|name| name == wanted))
    });
    match is_own {
        Ok(true) => Ok(()),
        Ok(false) => no(format!("can only create a node CSR with CN={wanted}")),
        Err(why) => no(format!("unable to parse csr: {why}")),
    }
}

impl Plugin for NodeRestriction {
    fn name(&self) -> &'static str {
        "NodeRestriction"
    }

    /// Handles the mutating stage, to precede all other decisions about the object, as in kube-apiserver.
    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate
            && attributes.operation != Operation::Connect
            && Node::identity(&attributes.user).is_some()
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let attributes = request.attributes;
            let Some(node) = Node::identity(&attributes.user) else { return Ok(()) };
            let asked = NodeRequest { node, attributes, object, old: request.old };
            match self.judge(asked).await {
                Ok(()) => Ok(()),
                Err(Refusal::Forbidden(why)) => Err(forbidden(attributes, object, why)),
                Err(Refusal::Status(status)) => Err(status),
            }
        })
    }
}
