//! The informers of pods, volumes and other objects that relate to nodes, for the graph of the node authorizer.

use std::sync::Arc;

use binnacle_authz::{GraphKind, NodeFeatures, NodeGraph, Rule};
use binnacle_features::Features;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::Status;
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_schema::Value;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::bootstrap_roles;
use binnacle_controllers::{EventHandler, Informer};

struct GraphHandler {
    kind: GraphKind,
    graph: Arc<NodeGraph>,
}

impl EventHandler for GraphHandler {
    fn retain(&self, exists: &dyn Fn(&str, &str) -> bool) {
        self.graph.retain(self.kind, exists);
    }

    fn put(&self, object: Value) {
        self.graph.put(self.kind, &object);
    }

    fn remove(&self, namespace: &str, name: &str) {
        self.graph.remove(self.kind, namespace, name);
    }
}

/// Starts the informers of the graph at the first request of a node; they end with the shutdown signal. Resources that
/// are not served (`--runtime-config`) are omitted.
pub fn start_node_graph_informers(
    graph: &Arc<NodeGraph>,
    resources: &Catalog,
    tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
) {
    for kind in GraphKind::ALL {
        let (group, version, plural) = kind.resource();
        let Some(resource) = resources.find(group, version, plural) else {
            graph.ready.part();
            continue;
        };
        let informer = Informer::new(resource.clone(), GraphHandler { kind, graph: graph.clone() });
        let (graph, shutdown) = (graph.clone(), shutdown.clone());
        tasks.spawn(async move {
            tokio::select! {
                () = graph.requested() => {}
                () = shutdown.fired() => return,
            }
            let read = graph.clone();
            informer.run(shutdown, move || read.ready.part()).await;
        });
    }
}

/// Returns the rules of the role `system:node`, which apply to all nodes without a binding.
pub fn node_rules(features: &Features) -> Result<Arc<[Rule]>, Status> {
    /// Those of the last features: all logical clusters of a host have the same.
    static LAST: Mutex<Option<(Features, Arc<[Rule]>)>> = Mutex::new(None);
    let mut last = LAST.lock();
    if let Some((of, rules)) = &*last
        && of == features
    {
        return Ok(rules.clone());
    }
    let roles = bootstrap_roles::cluster_roles(features)?;
    let role = roles.iter().find(|role| metadata(role).at(ObjectMeta::NAME).str() == "system:node");
    let rules = role.map(Rule::read_all).ok_or_else(|| Status::internal("there is no role system:node"))?;
    let rules: Arc<[Rule]> = rules.into();
    *last = Some((features.clone(), rules.clone()));
    Ok(rules)
}

/// Returns the features of the node authorizer that the feature gates enable.
pub fn node_features(features: &Features) -> NodeFeatures {
    let pod_certificates = features.enabled("PodCertificateRequest");
    let service_accounts = pod_certificates || features.enabled("KubeletServiceAccountTokenForCredentialProviders");
    NodeFeatures { pod_certificates, service_accounts }
}
