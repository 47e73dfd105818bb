//! The Node authorizer: kubelets may only access what the pods on their node need.
//!
//! The NodeRestriction admission plugin checks the writes of nodes.

mod graph;
mod references;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use binnacle_meta::{FieldSelector, Text};
use binnacle_request::{BoxFuture, Decision, User};

pub use graph::{GraphKind, NodeGraph};

use crate::{Attributes, Authorizer, AuthzError, Rule, Rules};
use graph::Vertex;
use references::Referent;

const LEASES: &str = "kube-node-lease";

/// Authorizes nodes by the graph, and by rules common to all nodes for requests that the graph does not cover.
pub struct Node {
    graph: Arc<NodeGraph>,
    rules: Arc<[Rule]>,
    features: NodeFeatures,
}

/// The permissions of nodes that depend on feature gates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeFeatures {
    /// Nodes may request certificates for their pods (`PodCertificateRequest`).
    pub pod_certificates: bool,
    /// Nodes may read the service accounts of their pods.
    pub service_accounts: bool,
}

impl Default for NodeFeatures {
    fn default() -> Self {
        Self { pod_certificates: false, service_accounts: true }
    }
}

/// The decision about a request; the error is the reason why it is not allowed.
type Verdict = Result<(), Text>;

impl Node {
    /// Creates the authorizer. `rules` are those of the role `system:node`.
    pub fn new(graph: Arc<NodeGraph>, rules: impl Into<Arc<[Rule]>>, features: NodeFeatures) -> Self {
        Self { graph, rules: rules.into(), features }
    }

    /// Returns the node name if the user is a node.
    pub fn identity(user: &User) -> Option<&str> {
        user.name.strip_prefix("system:node:").filter(|_| user.is_in("system:nodes"))
    }

    async fn decide(&self, node: &str, attributes: &Attributes<'_>) -> Verdict {
        if node.is_empty() {
            return refuse(format!("unknown node for user {}", binnacle_meta::go_quote(&attributes.user.name)));
        }
        if attributes.is_resource_request {
            match (attributes.api_group, attributes.resource) {
                ("", "secrets") => return self.read(node, Referent::Secret, attributes).await,
                ("", "configmaps") => return self.read(node, Referent::ConfigMap, attributes).await,
                ("", "persistentvolumeclaims") => {
                    let claim = Vertex::Named(Referent::Claim);
                    return match (attributes.subresource, attributes.verb) {
                        ("status", "update" | "patch") => self.related(node, claim, attributes).await,
                        ("status", _) => refuse("can only get/update/patch this type"),
                        _ => self.get(node, claim, attributes).await,
                    };
                }
                ("", "persistentvolumes") => return self.get(node, Vertex::PersistentVolume, attributes).await,
                ("resource.k8s.io", "resourceclaims") => {
                    return self.get(node, Vertex::Named(Referent::ResourceClaim), attributes).await;
                }
                ("storage.k8s.io", "volumeattachments") => {
                    return self.get(node, Vertex::VolumeAttachment, attributes).await;
                }
                ("", "serviceaccounts") => return self.service_account(node, attributes).await,
                ("coordination.k8s.io", "leases") => return lease(node, attributes),
                ("storage.k8s.io", "csinodes") => return csi_node(node, attributes),
                ("resource.k8s.io", "resourceslices") => return self.slice(node, attributes).await,
                ("", "nodes") => return own_node(node, attributes),
                ("", "pods") => return self.pod(node, attributes).await,
                ("certificates.k8s.io", "podcertificaterequests") if self.features.pod_certificates => {
                    return self.pod_certificate(node, attributes).await;
                }
                ("certificates.k8s.io", "podcertificaterequests") => return refuse(""),
                _ => {}
            }
        }
        if self.rules.iter().any(|rule| rule.allows(attributes)) { Ok(()) } else { refuse("") }
    }

    /// Allows `get` of a single object that the node needs.
    async fn get(&self, node: &str, vertex: Vertex, attributes: &Attributes<'_>) -> Verdict {
        if attributes.verb != "get" {
            return refuse("can only get individual resources of this type");
        }
        if !attributes.subresource.is_empty() {
            return refuse("cannot get subresource");
        }
        self.related(node, vertex, attributes).await
    }

    /// Allows `get`, and `list` and `watch` of a single object that the node needs.
    async fn read(&self, node: &str, referent: Referent, attributes: &Attributes<'_>) -> Verdict {
        if !matches!(attributes.verb, "get" | "list" | "watch") {
            return refuse("can only read resources of this type");
        }
        if !attributes.subresource.is_empty() {
            return refuse("cannot read subresource");
        }
        if attributes.namespace.is_empty() {
            return refuse("can only read namespaced object of this type");
        }
        self.related(node, Vertex::Named(referent), attributes).await
    }

    async fn related(&self, node: &str, vertex: Vertex, attributes: &Attributes<'_>) -> Verdict {
        if attributes.name.is_empty() {
            return refuse("No Object name found");
        }
        self.needs(node, vertex, attributes).await
    }

    async fn needs(&self, node: &str, vertex: Vertex, attributes: &Attributes<'_>) -> Verdict {
        if self.graph.request().await && self.graph.relates(node, vertex, attributes.namespace, attributes.name) {
            return Ok(());
        }
        refuse(format!("no relationship found between node '{node}' and this object"))
    }

    async fn service_account(&self, node: &str, attributes: &Attributes<'_>) -> Verdict {
        if attributes.verb == "get" && attributes.subresource.is_empty() {
            if !self.features.service_accounts {
                return refuse("not allowed to get service accounts");
            }
            return self.read(node, Referent::ServiceAccount, attributes).await;
        }
        if attributes.verb != "create" || attributes.name.is_empty() {
            return refuse("can only create tokens for individual service accounts");
        }
        if attributes.subresource != "token" {
            return refuse("can only create token subresource of serviceaccount");
        }
        self.needs(node, Vertex::Named(Referent::ServiceAccount), attributes).await
    }

    async fn slice(&self, node: &str, attributes: &Attributes<'_>) -> Verdict {
        if !attributes.subresource.is_empty() {
            return refuse("cannot authorize ResourceSlice subresources");
        }
        match attributes.verb {
            // Admission checks the node of the slice.
            "create" => Ok(()),
            "get" | "update" | "patch" | "delete" => self.related(node, Vertex::ResourceSlice, attributes).await,
            "watch" | "list" | "deletecollection" if selects(attributes, "spec.nodeName", node) => Ok(()),
            "watch" | "list" | "deletecollection" => {
                refuse("can only list/watch/deletecollection resourceslices with nodeName field selector")
            }
            _ => refuse(
                "only the following verbs are allowed for a ResourceSlice: get, watch, list, create, update, patch, \
                 delete, deletecollection",
            ),
        }
    }

    async fn pod_certificate(&self, node: &str, attributes: &Attributes<'_>) -> Verdict {
        if !attributes.subresource.is_empty() {
            return refuse("nodes may not access the status subresource of PodCertificateRequests");
        }
        match attributes.verb {
            // Admission checks the pod and its node.
            "create" => Ok(()),
            "get" => self.related(node, Vertex::PodCertificateRequest, attributes).await,
            "list" | "watch" if selects(attributes, "spec.nodeName", node) => Ok(()),
            "list" | "watch" => refuse("can only list/watch podcertificaterequests with nodeName field selector"),
            verb => refuse(format!("nodes may not {verb} podcertificaterequests")),
        }
    }

    async fn pod(&self, node: &str, attributes: &Attributes<'_>) -> Verdict {
        match (attributes.subresource, attributes.verb) {
            ("", "get") => self.get(node, Vertex::Pod, attributes).await,
            ("", "list" | "watch") if selects(attributes, "spec.nodeName", node) => Ok(()),
            ("", "list" | "watch") if !attributes.name.is_empty() => self.related(node, Vertex::Pod, attributes).await,
            ("", "list" | "watch") => refuse("can only list/watch pods with spec.nodeName field selector"),
            // Admission checks that mirror pods, statuses and evictions belong to the node.
            ("", "create" | "delete") | ("status", "update" | "patch") | ("eviction", "create") => Ok(()),
            _ => refuse(""),
        }
    }
}

/// Allows access to the node's own Node object, even before it exists. Admission checks its writes.
fn own_node(node: &str, attributes: &Attributes<'_>) -> Verdict {
    match (attributes.subresource, attributes.verb) {
        ("", "create" | "update" | "patch") | ("status", "update" | "patch") => Ok(()),
        ("", "get" | "list" | "watch") => match attributes.name {
            name if name == node => Ok(()),
            "" => refuse(format!("node '{node}' cannot read all nodes, only its own Node object")),
            name => refuse(format!("node '{node}' cannot read '{name}', only its own Node object")),
        },
        _ => refuse(""),
    }
}

fn lease(node: &str, attributes: &Attributes<'_>) -> Verdict {
    if !matches!(attributes.verb, "get" | "create" | "update" | "patch" | "delete") {
        return refuse("can only get, create, update, patch, or delete a node lease");
    }
    if attributes.namespace != LEASES {
        return refuse(format!("can only access leases in the \"{LEASES}\" system namespace"));
    }
    // Only admission sees the name of a created object.
    if attributes.verb != "create" && attributes.name != node {
        return refuse("can only access node lease with the same name as the requesting node");
    }
    Ok(())
}

fn csi_node(node: &str, attributes: &Attributes<'_>) -> Verdict {
    if !matches!(attributes.verb, "get" | "create" | "update" | "patch" | "delete") {
        return refuse("can only get, create, update, patch, or delete a CSINode");
    }
    if !attributes.subresource.is_empty() {
        return refuse("cannot authorize CSINode subresources");
    }
    if attributes.verb != "create" && attributes.name != node {
        return refuse("can only access CSINode with the same name as the requesting node");
    }
    Ok(())
}

/// Returns true if the field selector selects only objects with this value (KEP-4601); false if it cannot be parsed.
fn selects(attributes: &Attributes<'_>, field: &str, value: &str) -> bool {
    let Ok(selector) = FieldSelector::parse(attributes.field_selector) else { return false };
    selector.terms().iter().any(|term| term.field == field && !term.negated && term.value == value)
}

fn refuse(why: impl Into<Text>) -> Verdict {
    Err(why.into())
}

impl Authorizer for Node {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async move {
            let Some(node) = Self::identity(attributes.user) else {
                return Ok(Decision::NoOpinion(Text::default()));
            };
            Ok(match self.decide(node, attributes).await {
                Ok(()) => Decision::Allow(Text::default()),
                Err(why) => Decision::NoOpinion(why),
            })
        })
    }

    fn rules_for<'a>(&'a self, user: &'a User, _: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async move {
            match Self::identity(user) {
                Some(_) => Rules::unknown("node authorizer does not support user rule resolution"),
                None => Rules::default(),
            }
        })
    }
}
