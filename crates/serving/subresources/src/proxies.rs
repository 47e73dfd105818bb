//! `proxy` of pods, services and nodes: whole requests are forwarded to the named object.

mod location;
mod node;
mod pod;
mod service;

use std::sync::Arc;

use binnacle_authz::Authorizer;
use binnacle_client::Target;
use binnacle_endpoints::{Answer, UnstoredCall, UnstoredHandler};
use binnacle_meta::Status;
use binnacle_proxy::{Forward, forward};
use binnacle_registry::admission::Admission;
use binnacle_request::{BoxFuture, RequestInfo};
use binnacle_schema::value;
use binnacle_streams::is_upgrade;
use rustls::ClientConfig;

use crate::connect::{Caller, may_create, unless_stopped};
use crate::streams::Nodes;

/// The target of a proxy request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    Pod,
    Service,
    Node,
}

pub(crate) struct Proxy {
    behind: Behind,
    nodes: Nodes,
    admission: Arc<dyn Admission>,
    authorizer: Arc<dyn Authorizer>,
    tls: Arc<ClientConfig>,
}

impl Proxy {
    pub(crate) fn new(
        behind: Behind,
        nodes: Nodes,
        admission: Arc<dyn Admission>,
        authorizer: Arc<dyn Authorizer>,
        tls: Arc<ClientConfig>,
    ) -> Self {
        Self { behind, nodes, admission, authorizer, tls }
    }

    async fn connect(&self, call: UnstoredCall) -> Answer {
        let UnstoredCall { request, warnings, .. } = call;
        let caller = Caller::of(&request, warnings)?;
        let path = path(&caller.info);
        let options = value!({"kind": (self.behind.options_kind()), "apiVersion": "v1", "path": (path.as_str())});
        caller.admit(&self.admission, options).await?;
        // A kubelet runs commands for upgraded GETs. kube-apiserver allows that with `get` of nodes/proxy
        // (<https://issues.k8s.io/83465>), though it requires `create` for the same through the pod.
        if self.behind == Behind::Node && is_upgrade(&request.headers) {
            may_create(self.nodes.resources.features(), &*self.authorizer, &caller).await?;
        }
        let mut target = self.locate(&caller.info).await?;
        target.way = self.nodes.kubelets.way().clone();
        forward(request, Forward { target: &target, path: &path }).await
    }

    async fn locate(&self, info: &RequestInfo) -> Result<Target, Status> {
        match self.behind {
            Behind::Pod => pod::locate(&self.nodes, info, &self.tls).await,
            Behind::Service => service::locate(&self.nodes, info, &self.tls).await,
            Behind::Node => node::locate(&self.nodes, info, &self.tls).await,
        }
    }
}

impl UnstoredHandler for Proxy {
    fn handle(&self, call: UnstoredCall) -> BoxFuture<'_, Answer> {
        Box::pin(async move {
            let shutdown = call.request.shutdown.clone();
            unless_stopped(&shutdown, self.connect(call)).await
        })
    }

    fn negotiates(&self) -> bool {
        false
    }
}

impl Behind {
    fn options_kind(self) -> &'static str {
        match self {
            Self::Pod => "PodProxyOptions",
            Self::Service => "ServiceProxyOptions",
            Self::Node => "NodeProxyOptions",
        }
    }
}

/// Returns the path after `/proxy`: empty, or with a slash in front, and one at the end if the request's path has it.
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
    fn paths() {
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
