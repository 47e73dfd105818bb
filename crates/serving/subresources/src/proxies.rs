//! The `proxy` subresource of pods, services and nodes, which forwards whole requests.

mod location;
mod node;
mod pod;
mod service;

use std::sync::Arc;

use binnacle_authz::Authorizer;
use binnacle_client::Target;
use binnacle_endpoints::{HandlerResult, SubresourceCall, SubresourceHandler};
use binnacle_meta::Status;
use binnacle_proxy::{Forward, forward};
use binnacle_registry::admission::Admission;
use binnacle_request::{BoxFuture, RequestInfo};
use binnacle_schema::value;
use binnacle_streams::is_upgrade;
use rustls::ClientConfig;

use crate::connect::{Caller, require_create, until_shutdown};
use crate::streams::Nodes;

/// The target of a proxy request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProxyKind {
    Pod,
    Service,
    Node,
}

pub(crate) struct Proxy {
    kind: ProxyKind,
    nodes: Nodes,
    admission: Arc<dyn Admission>,
    authorizer: Arc<dyn Authorizer>,
    tls: Arc<ClientConfig>,
}

impl Proxy {
    pub(crate) fn new(
        kind: ProxyKind,
        nodes: Nodes,
        admission: Arc<dyn Admission>,
        authorizer: Arc<dyn Authorizer>,
        tls: Arc<ClientConfig>,
    ) -> Self {
        Self { kind, nodes, admission, authorizer, tls }
    }

    async fn connect(&self, call: SubresourceCall) -> HandlerResult {
        let SubresourceCall { request, warnings, .. } = call;
        let caller = Caller::of(&request, warnings)?;
        let path = path(&caller.info);
        let options = value!({"kind": (self.kind.options_kind()), "apiVersion": "v1", "path": (path.as_str())});
        caller.admit(&self.admission, options).await?;
        // A kubelet runs commands for upgraded GET requests. kube-apiserver allows that with `get` of nodes/proxy
        // (<https://issues.k8s.io/83465>), although it requires `create` for the same through the pod.
        if self.kind == ProxyKind::Node && is_upgrade(&request.headers) {
            require_create(self.nodes.resources.features(), &*self.authorizer, &caller).await?;
        }
        let mut target = self.locate(&caller.info).await?;
        target.connection = self.nodes.kubelets.connection().clone();
        forward(request, Forward { target: &target, path: &path }).await
    }

    async fn locate(&self, info: &RequestInfo) -> Result<Target, Status> {
        match self.kind {
            ProxyKind::Pod => pod::locate(&self.nodes, info, &self.tls).await,
            ProxyKind::Service => service::locate(&self.nodes, info, &self.tls).await,
            ProxyKind::Node => node::locate(&self.nodes, info, &self.tls).await,
        }
    }
}

impl SubresourceHandler for Proxy {
    fn handle(&self, call: SubresourceCall) -> BoxFuture<'_, HandlerResult> {
        Box::pin(async move {
            let shutdown = call.request.shutdown.clone();
            until_shutdown(&shutdown, self.connect(call)).await
        })
    }

    fn negotiates(&self) -> bool {
        false
    }
}

impl ProxyKind {
    fn options_kind(self) -> &'static str {
        match self {
            Self::Pod => "PodProxyOptions",
            Self::Service => "ServiceProxyOptions",
            Self::Node => "NodeProxyOptions",
        }
    }
}

/// Returns the path after `/proxy`: empty, or with a leading slash; a trailing slash is kept.
fn path(info: &RequestInfo) -> String {
    let mut path = info.parts.get(3..).unwrap_or_default().join("/");
    if !path.is_empty() && !path.starts_with('/') {
        path.insert(0, '/');
    }
    if info.path.ends_with('/') && !path.ends_with('/') {
        path.push('/');
    }
    path
}

#[cfg(test)]
mod tests {
    use binnacle_request::Query;
    use http::Method;

    use super::*;

    #[test]
    fn extracts_path_after_proxy() {
        for (url, want) in [
            ("/api/v1/namespaces/n/pods/p/proxy", ""),
            ("/api/v1/namespaces/n/pods/p/proxy/", "/"),
            ("/api/v1/namespaces/n/pods/p/proxy/a/b", "/a/b"),
            ("/api/v1/namespaces/n/pods/p/proxy/a//b/", "/a//b/"),
            ("/api/v1/nodes/n/proxy/metrics/cadvisor", "/metrics/cadvisor"),
        ] {
            let info = RequestInfo::parse(&Method::GET, url, &Query::default(), url).unwrap();
            assert_eq!(path(&info), want, "{url}");
        }
    }
}
