//! `exec`, `attach` and `portforward`: a client's upgraded connection is connected to the kubelet.

use std::sync::Arc;

use binnacle_authz::Authorizer;
use binnacle_endpoints::{HandlerResult, SubresourceCall, SubresourceHandler};
use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Pod, PodSpec};
use binnacle_kubelet::Kubelet;
use binnacle_meta::Status;
use binnacle_registry::admission::Admission;
use binnacle_registry::object;
use binnacle_request::{BoxFuture, Request, RequestInfo};
use binnacle_streams::{Streams, is_upgrade, pass_through, translate, tunnel, wants_translation, wants_tunnel};

use super::{Nodes, StreamMetrics, StreamOptions, container};
use crate::connect::{Caller, require_create, until_shutdown};

/// The subresource of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Session {
    Exec,
    Attach,
    PortForward,
}

pub(crate) struct RemoteHandler {
    session: Session,
    nodes: Nodes,
    admission: Arc<dyn Admission>,
    authorizer: Arc<dyn Authorizer>,
    metrics: StreamMetrics,
}

impl RemoteHandler {
    pub(crate) fn new(
        session: Session,
        nodes: Nodes,
        admission: Arc<dyn Admission>,
        authorizer: Arc<dyn Authorizer>,
        metrics: StreamMetrics,
    ) -> Self {
        Self { session, nodes, admission, authorizer, metrics }
    }

    async fn connect(&self, call: SubresourceCall) -> HandlerResult {
        let SubresourceCall { request, warnings, .. } = call;
        let options = match self.session {
            Session::Exec => StreamOptions::of_command(&request.query, true),
            Session::Attach => StreamOptions::of_command(&request.query, false),
            Session::PortForward => StreamOptions::of_ports(&request.query)?,
        };
        let caller = Caller::of(&request, warnings)?;
        caller.admit(&self.admission, options.object(self.session.options_kind())).await?;
        require_create(self.nodes.resources.features(), &*self.authorizer, &caller).await?;
        let (kubelet, path_and_query) = self.locate(&caller.info, &options).await?;
        self.stream(request, kubelet, path_and_query, &options).await
    }

    /// Returns the kubelet of the session, and the path of its request.
    async fn locate(&self, info: &RequestInfo, options: &StreamOptions) -> Result<(Kubelet, String), Status> {
        let pod = self.nodes.pod(info).await?;
        let container = match self.session {
            Session::PortForward => String::new(),
            _ => format!("/{}", container::choose(&options.container, &pod)?),
        };
        let node = FieldRef::<Pod>::root(&pod).at(Pod::SPEC).at(PodSpec::NODE_NAME).str();
        if node.is_empty() {
            return Err(Status::bad_request(format!("pod {} does not have a host assigned", info.name)));
        }
        let kubelet = self.nodes.kubelet(info, node).await?;
        let endpoint = self.session.path();
        let path = format!("/{endpoint}/{}/{}{container}{}", info.namespace, object::name(&pod), options.query());
        Ok((kubelet, path))
    }

    async fn stream(
        &self,
        request: Request,
        kubelet: Kubelet,
        path_and_query: String,
        options: &StreamOptions,
    ) -> HandlerResult {
        let headers = &request.headers;
        let (gate, features) = (self.session.gate(), self.nodes.resources.features());
        if features.enabled(gate) {
            let passes_through = kubelet.accepts_websockets && features.enabled("ExtendWebSocketsToKubelet");
            let proxy_type = if passes_through { "proxied_to_kubelet" } else { "translated_at_apiserver" };
            self.metrics.websockets.with_label_values(&[self.session.subresource(), proxy_type]).inc();
            if passes_through && is_upgrade(headers) {
                return pass_through(request, &kubelet.target, &path_and_query).await;
            }
        }
        if !is_upgrade(headers) {
            return Err(Status::bad_request("Upgrade request required"));
        }
        match self.session {
            Session::Exec | Session::Attach if features.enabled(gate) && wants_translation(headers) => {
                let StreamOptions { stdin, stdout, stderr, tty, .. } = *options;
                let streams = Streams { stdin, stdout, stderr, tty };
                let counter = self.metrics.translated.clone();
                let count_result = move |code: u16| counter.with_label_values(&[code.to_string().as_str()]).inc();
                translate(request, kubelet.target, path_and_query, streams, count_result)
            }
            Session::PortForward if features.enabled(gate) && wants_tunnel(headers) => {
                let count_result =
                    |code: u16| self.metrics.tunnelled.with_label_values(&[code.to_string().as_str()]).inc();
                tunnel(request, &kubelet.target, &path_and_query, count_result).await
            }
            _ => pass_through(request, &kubelet.target, &path_and_query).await,
        }
    }
}

impl SubresourceHandler for RemoteHandler {
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

impl Session {
    fn subresource(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portforward",
        }
    }

    /// Returns the feature gate for translating WebSockets.
    fn gate(self) -> &'static str {
        match self {
            Self::Exec | Self::Attach => "TranslateStreamCloseWebsocketRequests",
            Self::PortForward => "PortForwardWebsockets",
        }
    }

    fn options_kind(self) -> &'static str {
        match self {
            Self::Exec => "PodExecOptions",
            Self::Attach => "PodAttachOptions",
            Self::PortForward => "PodPortForwardOptions",
        }
    }

    /// Returns the first segment of the kubelet's path.
    fn path(self) -> &'static str {
        match self {
            Self::Exec => "exec",
            Self::Attach => "attach",
            Self::PortForward => "portForward",
        }
    }
}
