//! Measures authorization decisions: `cargo run --release -p binnacle-authz --example decisions`.
//!
//! Prints the time per decision of a warm chain (`system:masters`, Node, RBAC; with metrics as in the server) with
//! 10,000 role bindings, and per query of a node graph with 100,000 pods.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use binnacle_authz::{
    Attributes, AuthorizationConfig, Authorizer, AuthorizerConfig, AuthorizerDependencies, AuthorizerMode, GraphKind,
    Metrics, Node, NodeFeatures, NodeGraph, Rbac, RbacIndex, RbacKind, Union,
};
use binnacle_request::User;
use binnacle_schema::{Value, value};

const BINDINGS: usize = 10_000;
const PODS: usize = 100_000;
const ROUNDS: u32 = 200_000;

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async {
        let (index, graph) = (Arc::new(index()), graph());
        let chain = chain(index, graph);
        let authenticated = "system:authenticated";
        let one = User::new("user-77", &["group-77", authenticated]);
        let many = User::new("x", &["everywhere", authenticated]);
        let stranger = User::new("stranger", &["a", "b", "c", authenticated]);
        let node = User::new("system:node:n77", &["system:nodes", authenticated]);
        let master = User::new("root", &["system:masters", authenticated]);
        let get = |user, namespace, resource, name| Attributes {
            verb: "get",
            is_resource_request: true,
            api_version: "v1",
            namespace,
            resource,
            name,
            ..Attributes::nothing(user)
        };
        for (case, attributes, allowed) in [
            ("an administrator", get(&master, "n-77", "pods", "p"), true),
            ("allowed by a role binding", get(&one, "n-77", "pods", "p"), true),
            ("allowed by a cluster role binding", get(&one, "other", "nodes", "p"), true),
            ("refused", get(&stranger, "n-77", "pods", "p"), false),
            ("refused to one with 1,000 cluster role bindings", get(&many, "n-77", "secrets", "p"), false),
            ("a node's own secret", get(&node, "n-77", "secrets", "s-77"), true),
            ("a node that is refused", get(&node, "n-77", "secrets", "s-78"), false),
        ] {
            measure(case, &chain, &attributes, allowed).await;
        }
    });
}

async fn measure(case: &str, chain: &Union, attributes: &Attributes<'_>, allowed: bool) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        let rounds = if case.contains("1,000") { ROUNDS / 100 } else { ROUNDS };
        for _ in 0..rounds {
            let decision = chain.authorize(black_box(attributes)).await.expect("a decision");
            assert_eq!(decision.is_allow(), allowed, "{case}");
        }
        best = best.min(began.elapsed().as_secs_f64() / f64::from(rounds));
    }
    println!("{case:50} {:8.3} us", best * 1e6);
}

fn chain(index: Arc<RbacIndex>, graph: Arc<NodeGraph>) -> Union {
    let metrics = Arc::new(Metrics::register(&binnacle_metrics::Registry::new()).expect("metrics"));
    let (node, rbac) = (Arc::new(Node::new(graph, Vec::new(), NodeFeatures::default())), Arc::new(Rbac::new(index)));
    let parts =
        AuthorizerDependencies { abac: None, node: Some(node), rbac: Some(rbac), paths: None, metrics, dialer: None };
    let authorizers = [AuthorizerMode::Node, AuthorizerMode::Rbac].map(AuthorizerConfig::of).to_vec();
    parts.assemble(&AuthorizationConfig { authorizers }).expect("a chain")
}

/// Returns an index with a role binding in each namespace, a cluster role binding for each user, and another 1,000 for
/// one group.
fn index() -> RbacIndex {
    let index = RbacIndex::default();
    let role = |namespace: &str, name: &str, resource: &str| {
        value!({"metadata": {"namespace": namespace, "name": name},
            "rules": [{"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": [resource]}]})
    };
    index.put(RbacKind::ClusterRole, &role("", "nodes", "nodes"));
    let binding = |namespace: &str, name: &str, kind: &str, role: &str, subject: Value| {
        value!({"metadata": {"namespace": namespace, "name": name}, "subjects": [subject],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role}})
    };
    let began = Instant::now();
    for number in 0..BINDINGS / 2 {
        let (namespace, name) = (format!("n-{number}"), format!("b-{number}"));
        index.put(RbacKind::Role, &role(&namespace, "pods", "pods"));
        let group = value!({"kind": "Group", "name": (format!("group-{number}"))});
        index.put(RbacKind::RoleBinding, &binding(&namespace, &name, "Role", "pods", group));
        let user = value!({"kind": "User", "name": (format!("user-{number}"))});
        index.put(RbacKind::ClusterRoleBinding, &binding("", &name, "ClusterRole", "nodes", user));
    }
    let took = began.elapsed().as_secs_f64() / BINDINGS as f64;
    println!("{:50} {:8.3} us", "taking in a binding", took * 1e6);
    for number in 0..1_000 {
        let group = value!({"kind": "Group", "name": "everywhere"});
        let name = format!("everywhere-{number}");
        index.put(RbacKind::ClusterRoleBinding, &binding("", &name, "ClusterRole", "nodes", group));
    }
    index.ready.all();
    index
}

fn graph() -> Arc<NodeGraph> {
    let graph = NodeGraph::new(None);
    let began = Instant::now();
    for number in 0..PODS {
        let (namespace, node) = (format!("n-{}", number % 1_000), format!("n{}", number % 1_000));
        let secret = format!("s-{}", number % 1_000);
        let pod = value!({
            "metadata": {"namespace": namespace, "name": (format!("p-{number}"))},
            "spec": {"nodeName": node, "serviceAccountName": "default", "volumes": [{"secret": {"secretName": secret}}]}
        });
        graph.put(GraphKind::Pod, &pod);
    }
    println!("{:50} {:8.3} us", "taking in a pod", began.elapsed().as_secs_f64() / PODS as f64 * 1e6);
    graph.ready.all();
    graph
}
