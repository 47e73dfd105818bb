//! The authorizers in flags and files, and their data.

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_authz::{
    Abac, AlwaysAllowPaths, Attributes, AuthorizationConfig, Authorizer, AuthorizerDependencies, AuthorizerMode,
    ConfigFile, Decision, Metrics, Node, NodeGraph, Rbac, ReloadableAuthorizer,
};
use binnacle_config::{ReloadMetrics, WatchedFile};
use binnacle_controlplane::{RbacInformers, node_features, node_rules, start_node_graph_informers};
use binnacle_egress::Dialer;
use binnacle_endpoints::UnsafeDeleteAuthorizer;
use binnacle_meta::read_error;
use binnacle_registry::Catalog;
use binnacle_request::{BoxFuture, RequestInfo, Shutdown, User};
use binnacle_supervise::supervise;
use tokio::task::JoinSet;

use crate::settings::{Authorization, Source};

/// An error of the authorization flags or their files.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct AuthorizationError(String);

/// Authorization of deletes of unreadable objects by the verb `unsafe-delete-ignore-read-errors` (KEP-3926).
pub(crate) struct UnsafeDeletion(pub(crate) Arc<dyn Authorizer>);

const UNSAFE_DELETE: &str = "unsafe-delete-ignore-read-errors";

impl UnsafeDeleteAuthorizer for UnsafeDeletion {
    fn permit<'a>(&'a self, info: &'a RequestInfo, user: &'a User) -> BoxFuture<'a, Result<(), String>> {
        Box::pin(async move {
            let attributes = Attributes { verb: UNSAFE_DELETE, ..Attributes::of(info, user) };
            match self.0.authorize(&attributes).await {
                Ok(Decision::Allow(_)) => Ok(()),
                Ok(decision) => Err(format!("not permitted to do {UNSAFE_DELETE:?}, reason: {}", decision.reason())),
                Err(error) => Err(format!("error while checking permission for {UNSAFE_DELETE:?}, {error}")),
            }
        })
    }
}

/// Data read from files, before anything is changed that could be left behind.
pub(crate) struct AuthorizationFiles {
    config: AuthorizationConfig,
    /// The file of the configuration, and its bytes.
    file: Option<(PathBuf, Vec<u8>)>,
    abac: Option<Arc<Abac>>,
    paths: Option<Arc<AlwaysAllowPaths>>,
}

/// The authorizers of a server.
pub(crate) struct Authorizers {
    pub(crate) authorizer: Arc<dyn Authorizer>,
    pub(crate) roles: Arc<RbacInformers>,
    nodes: Option<Arc<NodeGraph>>,
    file: Option<(ConfigFile, Arc<ReloadableAuthorizer>)>,
}

impl AuthorizationFiles {
    pub(crate) fn load(flags: &Authorization) -> Result<Self, AuthorizationError> {
        let (config, file) = match &flags.source {
            Source::Flags(config) => (config.clone(), None),
            Source::File(path) => {
                let data =
                    std::fs::read(path).map_err(|error| failed(read_error(&path.display().to_string(), &error)))?;
                let config = AuthorizationConfig::parse(&data, &[]).map_err(failed)?;
                (config, Some((path.clone(), data)))
            }
        };
        let policies = has(&config, &AuthorizerMode::Abac).then_some(flags.policy_file.as_deref());
        let abac = match policies {
            None => None,
            Some(None) => return Err(failed("authorization-mode ABAC's authorization policy file not passed")),
            Some(Some(path)) => Some(Arc::new(Abac::load(path).map_err(invalid)?)),
        };
        let paths = match &flags.always_allow_paths[..] {
            [] => None,
            paths => Some(Arc::new(AlwaysAllowPaths::new(paths).map_err(failed)?)),
        };
        Ok(Self { config, file, abac, paths })
    }

    /// Creates the authorizers. They follow nothing before [`Authorizers::follow`].
    pub(crate) fn build(
        self,
        resources: &Catalog,
        dialer: Option<Arc<Dialer>>,
        server: &str,
        registry: &binnacle_metrics::Registry,
    ) -> Result<Authorizers, AuthorizationError> {
        let metrics = Arc::new(Metrics::register(registry).map_err(failed)?);
        // Writes of roles are checked against roles, even without the RBAC authorizer.
        let roles = RbacInformers::new(resources.clone());
        let rbac = has(&self.config, &AuthorizerMode::Rbac).then(|| Arc::new(Rbac::new(roles.index().clone())));
        let (mut nodes, mut node) = (None, None);
        if has(&self.config, &AuthorizerMode::Node) {
            let graph = NodeGraph::new(Some(metrics.clone()));
            let rules = node_rules(resources.features()).map_err(|status| failed(status.message()))?;
            node = Some(Arc::new(Node::new(graph.clone(), rules, node_features(resources.features()))));
            nodes = Some(graph);
        }
        let parts = AuthorizerDependencies { abac: self.abac, node, rbac, paths: self.paths, metrics, dialer };
        let union = parts.assemble(&self.config).map_err(invalid)?;
        let Some((path, data)) = self.file else {
            return Ok(Authorizers { authorizer: Arc::new(union), roles, nodes, file: None });
        };
        let reloading = ReloadableAuthorizer::new(union);
        let metrics = ReloadMetrics::of_authorization(registry, server).map_err(failed)?;
        let file = ConfigFile { file: WatchedFile::new(path, data), parts, config: self.config, metrics };
        Ok(Authorizers { authorizer: reloading.clone(), roles, nodes, file: Some((file, reloading)) })
    }
}

impl Authorizers {
    /// Starts to follow the objects and the file; the tasks end with the shutdown signal. With `on_demand`, roles are read
    /// when the first decision needs them.
    pub(crate) fn start_reloading(
        self,
        resources: &Catalog,
        on_demand: bool,
        tasks: &mut JoinSet<()>,
        shutdown: &Shutdown,
    ) {
        self.roles.start(on_demand, tasks, shutdown);
        if let Some(graph) = &self.nodes {
            start_node_graph_informers(graph, resources, tasks, shutdown);
        }
        if let Some((file, reloading)) = self.file {
            let (file, shutdown) = (Arc::new(tokio::sync::Mutex::new(file)), shutdown.clone());
            tasks.spawn(supervise("authorization config", move || {
                let (file, reloading, shutdown) = (file.clone(), reloading.clone(), shutdown.clone());
                async move { file.lock().await.reload_on_change(reloading, shutdown).await }
            }));
        }
    }
}

fn has(config: &AuthorizationConfig, mode: &AuthorizerMode) -> bool {
    config.authorizers.iter().any(|authorizer| authorizer.mode == *mode)
}

fn invalid(why: impl std::fmt::Display) -> AuthorizationError {
    AuthorizationError(format!("invalid authorization config: {why}"))
}

fn failed(why: impl ToString) -> AuthorizationError {
    AuthorizationError(why.to_string())
}
