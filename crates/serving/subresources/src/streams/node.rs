//! Look-up of pods, and of the kubelets of their nodes.

use std::sync::Arc;

use binnacle_kubelet::{Kubelet, Kubelets};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Catalog, Context, Match};
use binnacle_request::RequestInfo;
use binnacle_schema::Value;

/// Looks up pods, nodes and kubelets.
#[derive(Clone)]
pub(crate) struct Nodes {
    pub(crate) resources: Catalog,
    pub(crate) kubelets: Arc<Kubelets>,
}

impl Nodes {
    /// Returns the object of a request, or one that it refers to. As in kube-apiserver, the error for a missing object
    /// names the resource of the request.
    pub(crate) async fn find(&self, info: &RequestInfo, plural: &str, name: &str) -> Result<Value, Status> {
        let resource = self.resources.require("", "v1", plural)?;
        let namespace = if resource.description.namespaced { info.namespace.as_str() } else { "" };
        let found = resource.get_object(&Context::internal(namespace), name, Match::Consistent).await;
        match found {
            Ok(stored) => Ok(stored.object),
            Err(status) if status.is(StatusReason::NotFound) => Err(Status::not_found(&info.group_resource(), name)),
            Err(status) => Err(status),
        }
    }

    /// Returns the pod of a request.
    pub(super) async fn pod(&self, info: &RequestInfo) -> Result<Value, Status> {
        self.find(info, "pods", &info.name).await
    }

    /// Returns the kubelet of a node.
    pub(crate) async fn kubelet(&self, info: &RequestInfo, node: &str) -> Result<Kubelet, Status> {
        let node = self.find(info, "nodes", node).await?;
        self.kubelets.of_node(&node).map_err(|why| Status::unknown(500, &why))
    }
}
