//! Handlers of resources that are not stored: reviews of users and their permissions, statuses of components, bindings
//! and evictions of pods, streams to containers, and proxies into the cluster. Each is a [`SubresourceHandler`] of the
//! API.
//!
//! Bodies are decoded, validated and admitted like those of stored objects; further steps depend on the handler.

mod component_statuses;
mod connect;
mod https;
mod pods;
mod posted_object;
mod proxies;
mod reviews;
mod streams;
mod token_request;

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_authn::Authenticator;
use binnacle_authz::Authorizer;
use binnacle_client::{Verification, client_config};
use binnacle_endpoints::{SubresourceHandler, SubresourceKey};
use binnacle_kubelet::Kubelets;
use binnacle_meta::Text;
use binnacle_metrics::Registry;
use binnacle_registry::Catalog;
use binnacle_registry::admission::Admission;
use binnacle_store::Store;
use rustls::ClientConfig;

use crate::component_statuses::ComponentStatuses;
use crate::pods::{Binding, Eviction};
use crate::proxies::{Proxy, ProxyKind};
use crate::reviews::{AccessReview, RulesReview, SelfReview, Subject, TokenReview};
use crate::streams::{Log, Nodes, RemoteHandler, Session, StreamMetrics};
use crate::token_request::TokenRequest;
pub use crate::token_request::{EXTENDED_SECONDS, INJECTED_SECONDS, TokenIssuer, TokenSigner};

/// The dependencies of the handlers.
#[derive(Clone)]
pub struct Dependencies {
    pub store: Arc<dyn Store>,
    pub resources: Catalog,
    pub admission: Arc<dyn Admission>,
    pub authenticator: Arc<dyn Authenticator>,
    pub authorizer: Arc<dyn Authorizer>,
    /// `--api-audiences`: the audiences of tokens for this server.
    pub api_audiences: Vec<Text>,
    pub token_issuer: TokenIssuer,
    pub outbound_clients: OutboundClients,
}

/// The clients of outbound connections: to kubelets, and to servers in the cluster.
#[derive(Clone)]
pub struct OutboundClients {
    kubelets: Arc<Kubelets>,
    /// For servers in the cluster, whose certificates cannot be verified since they are dialed by address.
    tls: Arc<ClientConfig>,
    metrics: StreamMetrics,
}

impl OutboundClients {
    /// Creates the clients and registers their metrics.
    ///
    /// # Errors
    ///
    /// Fails if the metrics are already registered.
    pub fn new(kubelets: Kubelets, registry: &Registry) -> Result<Self, OutboundError> {
        Ok(Self {
            kubelets: Arc::new(kubelets),
            tls: client_config(Verification::None, None)?,
            metrics: StreamMetrics::register(registry)?,
        })
    }
}

/// Errors of the creation of clients.
#[derive(Debug, thiserror::Error)]
pub enum OutboundError {
    #[error(transparent)]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Tls(#[from] rustls::Error),
}

/// Returns all handlers of built-in groups.
pub fn handlers(dependencies: &Dependencies) -> HashMap<SubresourceKey, Arc<dyn SubresourceHandler>> {
    let mut handlers: HashMap<SubresourceKey, Arc<dyn SubresourceHandler>> = HashMap::new();
    let mut add = |group, version, plural, subresource, handler: Arc<dyn SubresourceHandler>| {
        let text = Text::new_static;
        handlers.insert((text(group), text(version), text(plural), text(subresource)), handler);
    };
    let admission = || dependencies.admission.clone();
    add(
        "",
        "v1",
        "componentstatuses",
        "",
        Arc::new(ComponentStatuses::new(dependencies.store.clone(), dependencies.resources.features().clone())),
    );
    add("", "v1", "bindings", "", Arc::new(Binding::collection(dependencies.resources.clone(), admission())));
    add("", "v1", "pods", "binding", Arc::new(Binding::subresource(dependencies.resources.clone(), admission())));
    add("", "v1", "pods", "eviction", Arc::new(Eviction::new(dependencies.resources.clone(), admission())));
    let requests = TokenRequest::new(dependencies.resources.clone(), admission(), dependencies.token_issuer.clone());
    add("", "v1", "serviceaccounts", "token", Arc::new(requests));
    let nodes =
        Nodes { resources: dependencies.resources.clone(), kubelets: dependencies.outbound_clients.kubelets.clone() };
    let metrics = || dependencies.outbound_clients.metrics.clone();
    add("", "v1", "pods", "log", Arc::new(Log::new(nodes.clone(), metrics())));
    for (name, session) in [("exec", Session::Exec), ("attach", Session::Attach), ("portforward", Session::PortForward)]
    {
        let remote =
            RemoteHandler::new(session, nodes.clone(), admission(), dependencies.authorizer.clone(), metrics());
        add("", "v1", "pods", name, Arc::new(remote));
    }
    for (plural, kind) in [("pods", ProxyKind::Pod), ("services", ProxyKind::Service), ("nodes", ProxyKind::Node)] {
        let (authorizer, tls) = (dependencies.authorizer.clone(), dependencies.outbound_clients.tls.clone());
        let proxy = Proxy::new(kind, nodes.clone(), admission(), authorizer, tls);
        add("", "v1", plural, "proxy", Arc::new(proxy));
    }
    let authentication = "authentication.k8s.io";
    add(authentication, "v1", "selfsubjectreviews", "", Arc::new(SelfReview::new(admission())));
    let tokens = TokenReview::new(admission(), dependencies.authenticator.clone(), dependencies.api_audiences.clone());
    add(authentication, "v1", "tokenreviews", "", Arc::new(tokens));
    let authorization = "authorization.k8s.io";
    for (plural, subject) in [
        ("subjectaccessreviews", Subject::Named),
        ("localsubjectaccessreviews", Subject::NamedIn),
        ("selfsubjectaccessreviews", Subject::Caller),
    ] {
        let review = AccessReview::new(subject, admission(), dependencies.authorizer.clone());
        add(authorization, "v1", plural, "", Arc::new(review));
    }
    let rules = RulesReview::new(admission(), dependencies.authorizer.clone());
    add(authorization, "v1", "selfsubjectrulesreviews", "", Arc::new(rules));
    handlers
}
