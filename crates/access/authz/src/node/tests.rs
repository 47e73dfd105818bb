//! The permissions of nodes in a small cluster.

use std::sync::Arc;

use binnacle_request::User;
use binnacle_schema::{Value, value};
use binnacle_work::{WorkBudget, WorkLimits};

use super::graph::Vertex;
use super::references::Referent;
use super::{GraphKind, Node, NodeFeatures, NodeGraph};
use crate::{Attributes, Authorizer, Rule};

fn pod(name: &str, node: &str, spec: Value) -> Value {
    let mut spec = spec;
    spec.make_object().insert("nodeName", node);
    value!({"metadata": {"namespace": "ns", "name": name}, "spec": spec})
}

fn claiming(claim: &str) -> Value {
    value!({"volumes": [{"persistentVolumeClaim": {"claimName": claim}}]})
}

fn with_secret(secret: &str) -> Value {
    value!({"serviceAccountName": "sa", "volumes": [{"secret": {"secretName": secret}}]})
}

fn cluster() -> Arc<NodeGraph> {
    let graph = NodeGraph::new(None);
    graph.put(GraphKind::Pod, &pod("a", "n1", with_secret("s1")));
    graph.put(GraphKind::Pod, &pod("b", "n2", with_secret("s2")));
    graph.put(GraphKind::Pod, &pod("c", "n1", claiming("claim")));
    graph.put(GraphKind::Pod, &pod("pending", "", with_secret("s3")));
    graph.put(
        GraphKind::PersistentVolume,
        &value!({"metadata": {"name": "pv"}, "spec": {
            "claimRef": {"namespace": "ns", "name": "claim"},
            "csi": {"nodeStageSecretRef": {"namespace": "csi", "name": "key"}}
        }}),
    );
    graph.put(GraphKind::PersistentVolume, &value!({"metadata": {"name": "free"}, "spec": {}}));
    let on = |name: &str, node: &str| value!({"metadata": {"name": name}, "spec": {"nodeName": node}});
    graph.put(GraphKind::VolumeAttachment, &on("va", "n1"));
    graph.put(GraphKind::ResourceSlice, &on("slice", "n1"));
    graph.put(GraphKind::ResourceSlice, &on("shared", ""));
    graph.ready.all();
    graph
}

fn node(name: &str) -> User {
    User::new(format!("system:node:{name}"), &["system:nodes", "system:authenticated"])
}

fn refused(why: &str) -> Result<(), String> {
    Err(why.to_owned())
}

fn unrelated() -> Result<(), String> {
    refused("no relationship found between node 'n1' and this object")
}

/// The verb, resource, name and field selector of a request as in [`Fixture::authorize`], and the decision.
type Case<'a> = (&'a str, &'a str, &'a str, &'a str, Result<(), String>);

struct Fixture {
    graph: Arc<NodeGraph>,
    features: NodeFeatures,
}

impl From<Arc<NodeGraph>> for Fixture {
    fn from(graph: Arc<NodeGraph>) -> Self {
        Self { graph, features: NodeFeatures::default() }
    }
}

impl Fixture {
    async fn decide(&self, user: &User, attributes: Attributes<'_>) -> Result<(), String> {
        let rules = vec![
            Rule::read(&value!({"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["services"]})),
            // The graph decides about these regardless of the rules.
            Rule::read(&value!({"verbs": ["*"], "apiGroups": [""], "resources": ["secrets", "pods"]})),
        ];
        let node = Node::new(self.graph.clone(), rules, self.features);
        let decision = node.authorize(&Attributes { user, ..attributes }).await.unwrap();
        assert!(!matches!(decision, binnacle_request::Decision::Deny(_)));
        if decision.is_allow() { Ok(()) } else { Err(decision.reason().to_owned()) }
    }

    /// Authorizes a request, with `resource` as `group/plural/subresource` and `name` as `namespace/name`.
    async fn authorize(&self, user: &User, verb: &str, resource: &str, name: &str, fields: &str) -> Result<(), String> {
        let nobody = User::default();
        let parts: Vec<&str> = resource.split('/').collect();
        let (namespace, name) = name.split_once('/').unwrap_or(("", name));
        let attributes = Attributes {
            verb,
            is_resource_request: true,
            api_group: parts[0],
            resource: parts[1],
            subresource: parts.get(2).copied().unwrap_or_default(),
            namespace,
            name,
            field_selector: fields,
            ..Attributes::nothing(&nobody)
        };
        self.decide(user, attributes).await
    }

    /// Checks the decisions about requests of a user.
    async fn check<'a>(&self, user: &User, cases: impl IntoIterator<Item = Case<'a>>) {
        for (verb, resource, name, fields, want) in cases {
            assert_eq!(
                self.authorize(user, verb, resource, name, fields).await,
                want,
                "{verb} {resource} {name} {fields}"
            );
        }
    }
}

#[tokio::test]
async fn allows_only_secrets_and_config_maps_of_own_pods() {
    let cases = [
        ("get", "/secrets", "ns/s1", "", Ok(())),
        ("watch", "/secrets", "ns/s1", "metadata.name=s1", Ok(())),
        ("get", "/secrets", "ns/s2", "", unrelated()),
        ("get", "/secrets", "ns/s3", "", unrelated()),
        ("get", "/secrets", "other/s1", "", unrelated()),
        ("list", "/secrets", "ns/", "", refused("No Object name found")),
        ("list", "/secrets", "", "", refused("can only read namespaced object of this type")),
        ("update", "/secrets", "ns/s1", "", refused("can only read resources of this type")),
        ("get", "/secrets/x", "ns/s1", "", refused("cannot read subresource")),
        ("get", "/configmaps", "ns/s1", "", unrelated()),
    ];
    Fixture::from(cluster()).check(&node("n1"), cases).await;
}

#[tokio::test]
async fn allows_only_volumes_of_own_pods() {
    let cases = [
        ("get", "/persistentvolumeclaims", "ns/claim", "", Ok(())),
        ("list", "/persistentvolumeclaims", "ns/claim", "", refused("can only get individual resources of this type")),
        ("patch", "/persistentvolumeclaims/status", "ns/claim", "", Ok(())),
        ("get", "/persistentvolumeclaims/status", "ns/claim", "", refused("can only get/update/patch this type")),
        ("get", "/persistentvolumes", "pv", "", Ok(())),
        ("get", "/persistentvolumes", "free", "", unrelated()),
        ("get", "/secrets", "csi/key", "", Ok(())),
        ("get", "storage.k8s.io/volumeattachments", "va", "", Ok(())),
        ("get", "storage.k8s.io/volumeattachments", "vb", "", unrelated()),
    ];
    Fixture::from(cluster()).check(&node("n1"), cases).await;
}

#[tokio::test]
async fn allows_only_service_accounts_of_own_pods() {
    let cases = [
        ("get", "/serviceaccounts", "ns/sa", "", Ok(())),
        ("get", "/serviceaccounts", "ns/other", "", unrelated()),
        ("create", "/serviceaccounts/token", "ns/sa", "", Ok(())),
        ("create", "/serviceaccounts/token", "ns/other", "", unrelated()),
        (
            "create",
            "/serviceaccounts/status",
            "ns/sa",
            "",
            refused("can only create token subresource of serviceaccount"),
        ),
        ("delete", "/serviceaccounts", "ns/sa", "", refused("can only create tokens for individual service accounts")),
    ];
    Fixture::from(cluster()).check(&node("n1"), cases).await;
}

#[tokio::test]
async fn allows_only_own_leases_and_csi_nodes() {
    let cases = [
        ("update", "coordination.k8s.io/leases", "kube-node-lease/n1", "", Ok(())),
        ("create", "coordination.k8s.io/leases", "kube-node-lease/", "", Ok(())),
        (
            "update",
            "coordination.k8s.io/leases",
            "kube-node-lease/n2",
            "",
            refused("can only access node lease with the same name as the requesting node"),
        ),
        (
            "get",
            "coordination.k8s.io/leases",
            "kube-system/n1",
            "",
            refused("can only access leases in the \"kube-node-lease\" system namespace"),
        ),
        (
            "list",
            "coordination.k8s.io/leases",
            "kube-node-lease/",
            "",
            refused("can only get, create, update, patch, or delete a node lease"),
        ),
        ("patch", "storage.k8s.io/csinodes", "n1", "", Ok(())),
        (
            "patch",
            "storage.k8s.io/csinodes",
            "n2",
            "",
            refused("can only access CSINode with the same name as the requesting node"),
        ),
    ];
    Fixture::from(cluster()).check(&node("n1"), cases).await;
}

#[tokio::test]
async fn allows_only_own_resource_slices() {
    let cases = [
        ("get", "resource.k8s.io/resourceslices", "slice", "", Ok(())),
        ("get", "resource.k8s.io/resourceslices", "shared", "", unrelated()),
        ("list", "resource.k8s.io/resourceslices", "", "spec.nodeName=n1", Ok(())),
        (
            "list",
            "resource.k8s.io/resourceslices",
            "",
            "spec.nodeName!=n1",
            refused("can only list/watch/deletecollection resourceslices with nodeName field selector"),
        ),
    ];
    Fixture::from(cluster()).check(&node("n1"), cases).await;
}

#[tokio::test]
async fn allows_reads_of_own_node_only() {
    let cases = [
        ("get", "/nodes", "n1", "", Ok(())),
        ("get", "/nodes", "n2", "", refused("node 'n1' cannot read 'n2', only its own Node object")),
        ("list", "/nodes", "", "", refused("node 'n1' cannot read all nodes, only its own Node object")),
        ("patch", "/nodes/status", "n2", "", Ok(())),
        ("get", "/nodes/proxy", "n1", "", refused("")),
    ];
    Fixture::from(cluster()).check(&node("n1"), cases).await;
}

#[tokio::test]
async fn allows_reads_of_own_pods_only() {
    let cases = [
        ("get", "/pods", "ns/a", "", Ok(())),
        ("get", "/pods", "ns/b", "", unrelated()),
        ("list", "/pods", "", "spec.nodeName=n1", Ok(())),
        ("watch", "/pods", "", "spec.nodeName=n1,status.phase=Running", Ok(())),
        (
            "list",
            "/pods",
            "",
            "spec.nodeName=n2",
            refused("can only list/watch pods with spec.nodeName field selector"),
        ),
        ("list", "/pods", "", "spec.nodeName", refused("can only list/watch pods with spec.nodeName field selector")),
        ("list", "/pods", "ns/a", "", Ok(())),
        ("patch", "/pods/status", "ns/b", "", Ok(())),
        ("create", "/pods/eviction", "ns/b", "", Ok(())),
        ("get", "/pods/log", "ns/a", "", refused("")),
        ("deletecollection", "/pods", "ns/", "", refused("")),
    ];
    Fixture::from(cluster()).check(&node("n1"), cases).await;
}

#[tokio::test]
async fn applies_rules_to_other_resources() {
    let cases = [
        ("list", "certificates.k8s.io/podcertificaterequests", "", "spec.nodeName=n1", refused("")),
        ("list", "/services", "", "", Ok(())),
        ("delete", "/services", "ns/x", "", refused("")),
    ];
    Fixture::from(cluster()).check(&node("n1"), cases).await;
}

#[tokio::test]
async fn obeys_feature_gates() {
    let n1 = node("n1");
    let (resource, other) = ("certificates.k8s.io/podcertificaterequests", "ns/other");
    let graph = cluster();
    let of =
        |name: &str, node: &str| value!({"metadata": {"namespace": "ns", "name": name}, "spec": {"nodeName": node}});
    graph.put(GraphKind::PodCertificateRequest, &of("own", "n1"));
    graph.put(GraphKind::PodCertificateRequest, &of("other", "n2"));
    let mut fixture = Fixture::from(graph);
    assert_eq!(fixture.authorize(&n1, "create", resource, "ns/", "").await, refused(""));
    assert_eq!(fixture.authorize(&n1, "get", "/serviceaccounts", "ns/sa", "").await, Ok(()));
    fixture.features.service_accounts = false;
    let no_access = refused("not allowed to get service accounts");
    assert_eq!(fixture.authorize(&n1, "get", "/serviceaccounts", "ns/sa", "").await, no_access);
    assert_eq!(fixture.authorize(&n1, "create", "/serviceaccounts/token", "ns/sa", "").await, Ok(()));

    fixture.features.pod_certificates = true;
    let status = "certificates.k8s.io/podcertificaterequests/status";
    let unselected = refused("can only list/watch podcertificaterequests with nodeName field selector");
    let cases = [
        ("create", resource, "ns/", "", Ok(())),
        ("get", resource, "ns/own", "", Ok(())),
        ("get", resource, other, "", unrelated()),
        ("list", resource, "", "spec.nodeName=n1", Ok(())),
        ("watch", resource, "", "spec.nodeName=n2", unselected.clone()),
        ("list", resource, "ns/", "", unselected),
        ("delete", resource, "ns/own", "", refused("nodes may not delete podcertificaterequests")),
        (
            "patch",
            status,
            "ns/own",
            "",
            refused("nodes may not access the status subresource of PodCertificateRequests"),
        ),
    ];
    fixture.check(&n1, cases).await;
    fixture.graph.retain(GraphKind::PodCertificateRequest, |_, name| name == "other");
    assert_eq!(fixture.authorize(&n1, "get", resource, "ns/own", "").await, unrelated());
}

#[tokio::test]
async fn applies_only_to_node_identities() {
    let fixture = Fixture::from(cluster());
    for (user, want) in [
        (node("n1"), Ok(())),
        (User::new("system:node:n1", &[]), Err("")),
        (User::new("n1", &["system:nodes"]), Err("")),
        (node(""), Err("unknown node for user \"system:node:\"")),
    ] {
        let got = fixture.authorize(&user, "get", "/secrets", "ns/s1", "").await;
        assert_eq!(got, want.map_err(str::to_owned), "{user:?}");
    }
    let listed = Node::new(cluster(), Vec::new(), NodeFeatures::default());
    let rules = listed.rules_for(&node("n1"), "ns").await;
    assert_eq!(
        (rules.incomplete, rules.error().as_str()),
        (true, "node authorizer does not support user rule resolution")
    );
    assert!(!listed.rules_for(&User::new("x", &[]), "ns").await.incomplete);
}

#[tokio::test]
async fn applies_changes_immediately() {
    let fixture = Fixture::from(cluster());
    let (n1, n2) = (node("n1"), node("n2"));
    let may = async |user: &User, resource: &str, name: &str| {
        fixture.authorize(user, "get", resource, name, "").await.is_ok()
    };
    // Two pods on a node need a secret: the second one still does after the first one is deleted.
    fixture.graph.put(GraphKind::Pod, &pod("a2", "n1", with_secret("s1")));
    fixture.graph.remove(GraphKind::Pod, "ns", "a");
    assert!(may(&n1, "/secrets", "ns/s1").await);
    fixture.graph.remove(GraphKind::Pod, "ns", "a2");
    fixture.graph.remove(GraphKind::Pod, "ns", "a2");
    assert!(!may(&n1, "/secrets", "ns/s1").await && !may(&n1, "/serviceaccounts", "ns/sa").await);
    assert!(may(&n2, "/serviceaccounts", "ns/sa").await);
    // The pod is created again on another node.
    fixture.graph.put(GraphKind::Pod, &pod("b", "n1", with_secret("s2")));
    assert!(may(&n1, "/secrets", "ns/s2").await && !may(&n2, "/secrets", "ns/s2").await);
    // The volume is bound to another claim.
    assert!(may(&n1, "/secrets", "csi/key").await);
    let other = value!({"metadata": {"name": "pv"}, "spec": {"claimRef": {"namespace": "ns", "name": "other"},
        "csi": {"nodeStageSecretRef": {"namespace": "csi", "name": "key"}}}});
    fixture.graph.put(GraphKind::PersistentVolume, &other);
    assert!(!may(&n1, "/secrets", "csi/key").await && !may(&n1, "/persistentvolumes", "pv").await);
    fixture.graph.put(GraphKind::Pod, &pod("d", "n2", claiming("other")));
    assert!(may(&n2, "/secrets", "csi/key").await && may(&n2, "/persistentvolumes", "pv").await);
    fixture.graph.remove(GraphKind::PersistentVolume, "", "pv");
    assert!(!may(&n2, "/secrets", "csi/key").await);
    // Objects that are not retained are removed.
    fixture.graph.retain(GraphKind::Pod, |_, name| name == "d");
    fixture.graph.retain(GraphKind::VolumeAttachment, |_, _| false);
    assert!(may(&n2, "/persistentvolumeclaims", "ns/other").await && !may(&n1, "/secrets", "ns/s2").await);
    assert!(!may(&n1, "storage.k8s.io/volumeattachments", "va").await);
}

/// The graph is built when the first node makes a request.
#[tokio::test]
async fn builds_graph_on_the_first_request_of_a_node() {
    let graph = NodeGraph::new(None);
    let request = tokio::spawn({
        let fixture = Fixture::from(graph.clone());
        async move { fixture.authorize(&node("n1"), "get", "/secrets", "ns/s1", "").await }
    });
    graph.requested().await;
    graph.put(GraphKind::Pod, &pod("a", "n1", with_secret("s1")));
    graph.ready.all();
    assert_eq!(request.await.unwrap(), Ok(()));
}

/// A pod with many references is changed in chunks; the node never loses access to those that remain.
#[test]
fn keeps_common_references_during_an_update() {
    let graph = NodeGraph::new(None);
    let large = |prefix: &str| {
        let secret = |number: usize| value!({"name": (format!("{prefix}{number:04}"))});
        let mut secrets: Vec<Value> = (0..1_000).map(secret).collect();
        secrets.push(value!({"name": "m"}));
        pod("large", "n1", value!({"imagePullSecrets": secrets}))
    };
    let (one, other) = (large("a"), large("z"));
    let needs = |name: &str| graph.relates("n1", Vertex::Named(Referent::Secret), "ns", name);
    graph.put(GraphKind::Pod, &one);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..20 {
                graph.put(GraphKind::Pod, if round % 2 == 0 { &other } else { &one });
            }
        });
        while !writer.is_finished() {
            assert!(needs("m") && graph.relates("n1", Vertex::Pod, "ns", "large"));
        }
    });
    assert!(needs("a0000") && needs("a0999") && !needs("z0000"));
    let budget = WorkBudget::new(WorkLimits::NONE);
    budget.enter(|| graph.remove(GraphKind::Pod, "ns", "large"));
    assert!(budget.steps() > 10_000, "the work is charged");
    assert!(!needs("a0000") && !needs("m") && !graph.relates("n1", Vertex::Pod, "ns", "large"));
}

/// All volumes of a storage system may have the same secret.
#[test]
fn charges_the_search_of_the_volumes_of_a_secret() {
    let graph = NodeGraph::new(None);
    for number in 0..2_000 {
        let volume = value!({"metadata": {"name": (format!("pv-{number}"))}, "spec": {
            "claimRef": {"namespace": "ns", "name": (format!("claim-{number}"))},
            "csi": {"nodeStageSecretRef": {"namespace": "csi", "name": "key"}}}});
        graph.put(GraphKind::PersistentVolume, &volume);
    }
    let budget = WorkBudget::new(WorkLimits::REQUEST);
    let needs = || budget.enter(|| graph.relates("n1", Vertex::Named(Referent::Secret), "csi", "key"));
    assert!(!needs() && budget.steps() > 50_000, "{}", budget.steps());
    graph.put(GraphKind::Pod, &pod("a", "n1", claiming("claim-77")));
    assert!(needs());
    graph.remove(GraphKind::PersistentVolume, "", "pv-77");
    assert!(!needs());
    let few = WorkBudget::new(WorkLimits { steps: 1_000, memory: 1 << 20 });
    assert!(!few.enter(|| graph.relates("n1", Vertex::Named(Referent::Secret), "csi", "key")) && few.check().is_err());
}
