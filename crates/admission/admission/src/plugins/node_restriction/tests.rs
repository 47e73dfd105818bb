//! Allowed and rejected writes of nodes.

use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_authz::{Attributes as Access, AuthzError};
use binnacle_meta::{GroupVersionKind, GroupVersionResource, Status};
use binnacle_registry::RequestNotes;
use binnacle_registry::admission::{Admission, Attributes, Operation};
use binnacle_request::{BoxFuture, Decision, User};
use binnacle_schema::{Value, value};
use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

use super::*;
use crate::lookup::{Labels, Mapping, NamespaceState};

/// Looks up objects by kind and name, in any namespace.
struct Objects(Vec<(LookupKind, Value)>);

impl Lookup for Objects {
    fn namespace<'a>(&'a self, _: &'a str, _: Freshness) -> BoxFuture<'a, Result<NamespaceState, Status>> {
        Box::pin(async { Ok(NamespaceState::Active) })
    }

    fn get<'a>(
        &'a self,
        kind: LookupKind,
        _: &'a str,
        name: &'a str,
        _: Freshness,
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>> {
        let named = |(of, object): &&(LookupKind, Value)| *of == kind && object.str_at(&["metadata", "name"]) == name;
        let found = self.0.iter().find(named).map(|(_, object)| Arc::new(object.clone()));
        Box::pin(async { Ok(found) })
    }

    fn labels<'a>(
        &'a self,
        _: LookupKind,
        _: &'a str,
        _: &'a str,
        _: Freshness,
    ) -> BoxFuture<'a, Result<Option<Labels>, Status>> {
        Box::pin(async { Ok(None) })
    }

    fn list<'a>(&'a self, _: LookupKind, _: &'a str, _: Freshness) -> BoxFuture<'a, Result<Vec<Arc<Value>>, Status>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn charge<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    fn create_namespace<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    fn is_known(&self, _: &str, _: &str, _: &str) -> bool {
        false
    }

    fn mapping(&self, _: &str, _: &str, _: &str) -> Option<Mapping> {
        None
    }
}

/// An authorizer that allows nodes to request tokens for one audience.
struct AccessListAuthorizer(&'static str);

impl Authorizer for AccessListAuthorizer {
    fn authorize<'a>(&'a self, access: &'a Access<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        let allowed =
            access.verb == "request-serviceaccounts-token-audience" && access.resource == self.0 && access.name == "sa";
        Box::pin(async move { Ok(if allowed { Decision::Allow("".into()) } else { Decision::NoOpinion("".into()) }) })
    }
}

fn pod(name: &str, node: &str, volumes: &Value) -> Value {
    value!({
        "metadata": {"name": name, "namespace": "ns", "uid": (format!("{name}-uid"))},
        "spec": {"nodeName": node, "serviceAccountName": "sa", "volumes": (volumes.clone())}
    })
}

fn objects() -> Objects {
    let token =
        |audience: &str| value!([{"projected": {"sources": [{"serviceAccountToken": {"audience": audience}}]}}]);
    let volumes = value!([
        {"name": "claim", "persistentVolumeClaim": {"claimName": "claim"}}, {"name": "old", "azureFile": {"secretName": "s"}}
    ]);
    Objects(vec![
        (LookupKind::Node, value!({"metadata": {"name": "n1", "uid": "n1-uid"}})),
        (LookupKind::Pod, pod("mine", "n1", &token("vault"))),
        (LookupKind::Pod, pod("stored", "n1", &volumes)),
        (LookupKind::Pod, pod("lost", "n1", &value!([{"persistentVolumeClaim": {"claimName": "none"}}]))),
        (LookupKind::Pod, pod("other", "n2", &token("vault"))),
        (LookupKind::PersistentVolumeClaim, value!({"metadata": {"name": "claim"}, "spec": {"volumeName": "volume"}})),
        (LookupKind::PersistentVolume, value!({"metadata": {"name": "volume"}, "spec": {"csi": {"driver": "d.test"}}})),
        (
            LookupKind::CsiDriver,
            value!({"metadata": {"name": "d.test"}, "spec": {"tokenRequests": [{"audience": "disk"}]}}),
        ),
        (
            LookupKind::CsiDriver,
            value!({"metadata": {"name": "file.csi.azure.com"}, "spec": {"tokenRequests": [{"audience": "azure"}]}}),
        ),
    ])
}

/// A request for `resource` (`group/plural/subresource`), with the name in its path.
struct Case<'a> {
    operation: Operation,
    resource: &'a str,
    namespace: &'a str,
    name: &'a str,
    object: Value,
    old: Option<Value>,
}

async fn admit_as(user: &User, case: &Case<'_>) -> Result<(), (u16, String)> {
    let mut parts = case.resource.split('/');
    let mut part = || parts.next().unwrap_or_default();
    let (group, plural, subresource) = (part(), part(), part());
    let plugin = NodeRestriction::new(Arc::new(objects()), Arc::new(AccessListAuthorizer("extra")), Arc::default());
    let chain = crate::Chain::new(vec![Arc::new(plugin)], &crate::Metrics::fresh()).unwrap();
    let attributes = Attributes {
        operation: case.operation,
        kind: GroupVersionKind::new(group, "v1", "Kind"),
        resource: GroupVersionResource::new(group, "v1", plural),
        subresource: subresource.into(),
        namespace: case.namespace.into(),
        name: case.name.into(),
        user: user.clone(),
        ..crate::testing::pods(case.operation)
    };
    let mut object = case.object.clone().into();
    let outcome = chain.mutate(&attributes, &mut object, case.old.as_ref(), &RequestNotes::default()).await;
    outcome.map_err(|status| (status.code(), status.message().to_owned()))
}

async fn check(cases: Vec<(Case<'_>, Result<(), &str>)>) {
    let node = User::new("system:node:n1", &["system:nodes"]);
    let somebody = User::new("system:node:n1", &["system:authenticated"]);
    for (case, want) in cases {
        let (resource, object) = (case.resource, &case.object);
        let got = admit_as(&node, &case).await.map_err(|(_, message)| message);
        let got = got.map_err(|message| {
            let why = message.split_once(" is forbidden: ").map(|(_, why)| why.to_owned());
            why.unwrap_or(message)
        });
        assert_eq!(got, want.map_err(str::to_owned), "{:?} {resource} {object:?}", case.operation);
        // Other users are not restricted.
        assert_eq!(admit_as(&somebody, &case).await, Ok(()), "{resource}");
    }
}

fn create<'a>(resource: &'a str, namespace: &'a str, object: Value) -> Case<'a> {
    Case { operation: Operation::Create, resource, namespace, name: "", object, old: None }
}

fn update<'a>(resource: &'a str, name: &'a str, old: &Value, change: impl FnOnce(&mut Value)) -> Case<'a> {
    let mut object = old.clone();
    change(&mut object);
    Case { operation: Operation::Update, resource, namespace: "ns", name, object, old: Some(old.clone()) }
}

fn delete<'a>(resource: &'a str, name: &'a str, old: Value) -> Case<'a> {
    Case { operation: Operation::Delete, resource, namespace: "ns", name, object: Value::Null, old: Some(old) }
}

fn set(object: &mut Value, path: &[&str], member: &str, value: impl Into<Value>) {
    object.make_at(path).insert(member, value);
}

#[tokio::test]
async fn rejects_user_without_node_name() {
    let case = create("/pods", "ns", value!({"metadata": {"name": "p"}}));
    let user = User::new("system:node:", &["system:nodes"]);
    let want = "pods \"p\" is forbidden: could not determine node from user \"system:node:\"";
    assert_eq!(admit_as(&user, &case).await, Err((403, want.to_owned())));
}

#[tokio::test]
async fn restricts_mirror_pods() {
    let owner = value!({"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "n1-uid", "controller": true});
    let mirror = value!({
        "metadata": {"name": "p", "annotations": {"kubernetes.io/config.mirror": "x"}, "ownerReferences": [(owner.clone())]},
        "spec": {"nodeName": "n1", "containers": [{"name": "c"}]}
    });
    let owners = |change: &dyn Fn(&mut Value)| {
        let (mut pod, mut owner) = (mirror.clone(), owner.clone());
        change(&mut owner);
        set(&mut pod, &["metadata"], "ownerReferences", vec![owner]);
        pod
    };
    let with = |member: &str, value: Value| {
        let mut pod = mirror.clone();
        set(&mut pod, &["spec"], member, value);
        pod
    };
    let volume = |volume: Value| with("volumes", Value::List(vec![volume]));
    let refused_reference = |what: &str| format!("node \"n1\" can not create pods that reference {what}");
    let mut cases = vec![
        (mirror.clone(), Ok(())),
        (
            value!({"metadata": {"name": "p"}}),
            Err(
                "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"n1\" can only create mirror pods"
                    .to_owned(),
            ),
        ),
        (
            with("nodeName", "n2".into()),
            Err("node \"n1\" can only create pods with spec.nodeName set to itself".to_owned()),
        ),
        (
            owners(&|owner| set(owner, &[], "name", "n2")),
            Err("node \"n1\" can only create pods with an owner reference set to itself".to_owned()),
        ),
        (
            owners(&|owner| set(owner, &[], "controller", false)),
            Err("node \"n1\" can only create pods with a controller owner reference set to itself".to_owned()),
        ),
        (
            owners(&|owner| set(owner, &[], "blockOwnerDeletion", true)),
            Err("node \"n1\" must not set blockOwnerDeletion on an owner reference".to_owned()),
        ),
        (
            owners(&|owner| set(owner, &[], "uid", "former")),
            Err("node n1 UID mismatch: expected former got n1-uid".to_owned()),
        ),
        (with("serviceAccountName", "sa".into()), Err(refused_reference("serviceaccounts"))),
        (with("imagePullSecrets", value!([{"name": "s"}])), Err(refused_reference("secrets"))),
        (
            with("ephemeralContainers", value!([{"env": [{"valueFrom": {"secretKeyRef": {"name": "s"}}}]}])),
            Err(refused_reference("secrets")),
        ),
        (
            with("initContainers", value!([{"envFrom": [{"configMapRef": {"name": "c"}}]}])),
            Err(refused_reference("configmaps")),
        ),
        // Resource claims in a mirror pod (CVE-2025-4563).
        (
            with("resourceClaims", value!([{"name": "c", "resourceClaimName": "theirs"}])),
            Err(refused_reference("resourceclaims")),
        ),
        (volume(value!({"name": "v", "hostPath": {"path": "/"}})), Ok(())),
        (volume(value!({"name": "v", "secret": {"secretName": "s"}})), Err(refused_reference("secrets"))),
        (volume(value!({"name": "v", "csi": {"driver": "d"}})), Err(refused_reference("csidrivers (via CSI volumes)"))),
        (
            volume(value!({"name": "v", "persistentVolumeClaim": {"claimName": "c"}})),
            Err(refused_reference("persistentvolumeclaims")),
        ),
        (volume(value!({"name": "v", "projected": {"sources": [{"downwardAPI": {}}]}})), Ok(())),
        (
            volume(value!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}})),
            Err(refused_reference("serviceaccounts (via projected volumes)")),
        ),
        (
            volume(value!({"name": "v", "holo": {}})),
            Err("error checking mirror pod for API references: unknown volume type for volume  \"v\"".to_owned()),
        ),
    ];
    let mut two = mirror.clone();
    set(&mut two, &["metadata"], "ownerReferences", vec![owner.clone(), owner.clone()]);
    cases.push((two, Err("node \"n1\" can only create pods with a single owner reference set to itself".to_owned())));
    let mut none = mirror.clone();
    none.make_at(&["metadata"]).remove("ownerReferences");
    cases.push((none, Err("node \"n1\" can only create pods with an owner reference set to itself".to_owned())));
    let cases = cases.iter().map(|(pod, want)| {
        let want = want.as_ref().copied().map_err(String::as_str);
        (create("/pods", "ns", pod.clone()), want)
    });
    check(cases.collect()).await;
}

#[tokio::test]
async fn restricts_pods_to_those_of_the_node() {
    let mine = pod("mine", "n1", &Value::Null);
    let other = pod("other", "n2", &Value::Null);
    let mut claimed = mine.clone();
    set(&mut claimed, &["status"], "resourceClaimStatuses", value!([{"name": "a", "resourceClaimName": "a-1"}]));
    let evict = |name| Case { name, ..create("/pods/eviction", "ns", value!({"metadata": {"name": name}})) };
    check(vec![
        (delete("/pods", "mine", mine.clone()), Ok(())),
        (
            delete("/pods", "other", other.clone()),
            Err("node \"n1\" can only delete pods with spec.nodeName set to itself"),
        ),
        (
            update("/pods", "mine", &mine, |_| {}),
            Err("unexpected operation \"UPDATE\", node \"n1\" can only create and delete mirror pods"),
        ),
        (
            update("/pods/ephemeralcontainers", "mine", &mine, |_| {}),
            Err("unexpected pod subresource \"ephemeralcontainers\", only 'status' and 'eviction' are allowed"),
        ),
        (update("/pods/status", "mine", &mine, |pod| set(pod, &["status"], "phase", "Running")), Ok(())),
        (
            update("/pods/status", "other", &other, |_| {}),
            Err("node \"n1\" can only update pod status for pods with spec.nodeName set to itself"),
        ),
        (
            update("/pods/status", "mine", &mine, |pod| set(pod, &["metadata", "labels"], "app", "x")),
            Err("node \"n1\" cannot update labels through pod status"),
        ),
        (
            update("/pods/status", "mine", &claimed, |pod| {
                set(pod, &["status"], "resourceClaimStatuses", value!([{"name": "a", "resourceClaimName": "b-1"}]));
            }),
            Err("node \"n1\" cannot update resource claim statues"),
        ),
        (update("/pods/status", "mine", &claimed, |_| {}), Ok(())),
        (
            update("/pods/status", "mine", &mine, |pod| {
                set(pod, &["status"], "extendedResourceClaimStatus", value!({"resourceClaimName": "x"}));
            }),
            Err("node \"n1\" cannot update extended resource claim status"),
        ),
        (evict("mine"), Ok(())),
        (evict("other"), Err("node n1 can only evict pods with spec.nodeName set to itself")),
        (evict("gone"), Err("pod \"gone\" not found")),
        (create("/pods/eviction", "ns", value!({})), Err("could not determine pod from request data")),
    ])
    .await;
}

#[tokio::test]
async fn restricts_changes_of_the_node() {
    let node = value!({
        "metadata": {"name": "n1", "labels": {"kubernetes.io/hostname": "n1", "foo.k8s.io/kept": "1"}},
        "spec": {"taints": [{"key": "a", "effect": "NoSchedule"}]}
    });
    let label = |label: &'static str| move |node: &mut Value| set(node, &["metadata", "labels"], label, "x");
    let new = |object: Value| Case { name: "n1", ..create("/nodes", "", object) };
    let labelled = |label: &str| {
        let mut node = value!({"metadata": {"name": "n1"}});
        set(&mut node, &["metadata", "labels"], label, "x");
        node
    };
    check(vec![
        (new(labelled("topology.kubernetes.io/zone")), Ok(())),
        (new(labelled("a.node.kubernetes.io/x")), Ok(())),
        (new(labelled("example.org/x")), Ok(())),
        (
            new(labelled("node-role.kubernetes.io/control-plane")),
            Err("node \"n1\" is not allowed to set the following labels: node-role.kubernetes.io/control-plane"),
        ),
        (
            new(labelled("a.node-restriction.kubernetes.io/x")),
            Err("node \"n1\" is not allowed to set the following labels: a.node-restriction.kubernetes.io/x"),
        ),
        (
            new(value!({"metadata": {"name": "n1"}, "spec": {"configSource": {"configMap": {}}}})),
            Err("node \"n1\" is not allowed to create pods with a non-nil configSource"),
        ),
        (
            Case { name: "n2", ..create("/nodes", "", value!({"metadata": {"name": "n2"}})) },
            Err("node \"n1\" is not allowed to modify node \"n2\""),
        ),
        (update("/nodes", "n1", &node, label("example.org/x")), Ok(())),
        (update("/nodes", "n1", &node, label("kubernetes.io/hostname")), Ok(())),
        (update("/nodes", "n1", &node, |node| set(node, &["status"], "phase", "x")), Ok(())),
        (
            update("/nodes", "n1", &node, |node| {
                node.make_at(&["metadata", "labels"]).remove("foo.k8s.io/kept");
                set(node, &["metadata", "labels"], "bar.k8s.io/new", "");
            }),
            Err("is not allowed to modify labels: bar.k8s.io/new, foo.k8s.io/kept"),
        ),
        (
            update("/nodes/status", "n1", &node, |node| set(node, &["spec"], "taints", Value::List(Vec::new()))),
            Err("node \"n1\" is not allowed to modify taints"),
        ),
        (
            update("/nodes", "n1", &node, |node| {
                set(node, &["metadata"], "ownerReferences", value!([{"kind": "Node", "name": "gone", "uid": "1"}]));
            }),
            Err("node \"n1\" is not allowed to modify ownerReferences"),
        ),
        (
            update("/nodes", "n1", &node, |node| set(node, &["spec"], "configSource", value!({"configMap": {}}))),
            Err("node \"n1\" is not allowed to update configSource to a new non-nil configSource"),
        ),
        (delete("/nodes", "n2", value!({})), Err("node \"n1\" is not allowed to modify node \"n2\"")),
    ])
    .await;
}

#[tokio::test]
async fn restricts_claims_leases_and_other_resources() {
    let claim = value!({
        "metadata": {"name": "c", "resourceVersion": "1"}, "status": {"capacity": {"storage": "1Gi"}, "phase": "Bound"}
    });
    let named = |name: &str| value!({"metadata": {"name": name}});
    let lease = "can only access node lease with the same name as the requesting node";
    let slice = |node: &str| value!({"metadata": {"name": "s"}, "spec": {"nodeName": node}});
    let csr = |name: &str, signer: &str| {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        value!({"metadata": {"name": "r"}, "spec": {"signerName": signer, "request": (BASE64_STANDARD.encode(pem))}})
    };
    let requests = "certificates.k8s.io/certificatesigningrequests";
    check(vec![
        (
            update("/persistentvolumeclaims/status", "c", &claim, |claim| {
                set(claim, &["status"], "capacity", value!({"storage": "2Gi"}));
                set(claim, &["status"], "allocatedResources", value!({"storage": "2Gi"}));
                set(claim, &["status"], "conditions", value!([{"type": "Resizing"}]));
                set(claim, &["metadata"], "resourceVersion", "");
            }),
            Ok(()),
        ),
        (
            update("/persistentvolumeclaims/status", "c", &claim, |claim| {
                set(claim, &["status"], "phase", "Lost");
                set(claim, &["metadata", "labels"], "a", "b");
            }),
            Err("node \"n1\" is not allowed to update fields other than status.quantity and status.conditions: \
                 metadata.labels.a, status.phase"),
        ),
        (update("/persistentvolumeclaims", "c", &claim, |_| {}), Err("may only update PVC status")),
        (create("coordination.k8s.io/leases", LEASES, named("n1")), Ok(())),
        (create("coordination.k8s.io/leases", LEASES, named("n2")), Err(lease)),
        (
            create("coordination.k8s.io/leases", "ns", named("n1")),
            Err("can only access leases in the \"kube-node-lease\" system namespace"),
        ),
        (Case { namespace: LEASES, ..update("coordination.k8s.io/leases", "n2", &named("n2"), |_| {}) }, Err(lease)),
        (update("storage.k8s.io/csinodes", "n1", &named("n1"), |_| {}), Ok(())),
        (
            create("storage.k8s.io/csinodes", "", named("n2")),
            Err("can only access CSINode with the same name as the requesting node"),
        ),
        (create("resource.k8s.io/resourceslices", "", slice("n1")), Ok(())),
        (
            create("resource.k8s.io/resourceslices", "", slice("n2")),
            Err("can only create ResourceSlice with the same NodeName as the requesting node"),
        ),
        (
            delete("resource.k8s.io/resourceslices", "s", slice("n2")),
            Err("can only delete ResourceSlice with the same NodeName as the requesting node"),
        ),
        (create(requests, "", csr("system:node:n1", KUBELET_SIGNERS[0])), Ok(())),
        (create(requests, "", csr("system:node:n2", "other.test/signer")), Ok(())),
        (
            create(requests, "", csr("system:node:n2", KUBELET_SIGNERS[1])),
            Err("can only create a node CSR with CN=system:node:n1"),
        ),
        (
            create(requests, "", value!({"spec": {"signerName": "kubernetes.io/kubelet-serving", "request": "AAAA"}})),
            Err("unable to parse csr: PEM block type must be CERTIFICATE REQUEST"),
        ),
        (
            create("certificates.k8s.io/podcertificaterequests", "ns", named("r")),
            Err("PodCertificateRequest feature gate is disabled"),
        ),
        (create("/configmaps", "ns", named("c")), Ok(())),
    ])
    .await;
}

#[tokio::test]
async fn restricts_tokens_to_pods_and_audiences() {
    let request = |pod: &str, audiences: Value| {
        let bound = value!({"apiVersion": "v1", "kind": "Pod", "name": pod, "uid": (format!("{pod}-uid"))});
        let object = value!({"spec": {"audiences": audiences, "boundObjectRef": bound}});
        Case { name: "sa", ..create("/serviceaccounts/token", "ns", object) }
    };
    let bound = |bound: Value| {
        let object = value!({"spec": {"boundObjectRef": bound}});
        Case { name: "sa", ..create("/serviceaccounts/token", "ns", object) }
    };
    check(vec![
        (request("mine", value!(["vault"])), Ok(())),
        (request("mine", value!(["extra"])), Ok(())),
        (
            request("mine", value!(["bank"])),
            Err("audience \"bank\" not found in pod spec volume, system:node:n1 is not authorized to request tokens for this \
                 audience"),
        ),
        (request("mine", value!(["vault", "extra"])), Err("node may only request 0 or 1 audiences")),
        (request("stored", value!(["disk"])), Ok(())),
        (request("stored", value!(["azure"])), Ok(())),
        (
            request("lost", value!(["disk"])),
            Err("error validating audience \"disk\": persistentvolumeclaim \"none\" not found"),
        ),
        (request("other", value!(["vault"])), Err("node requested token bound to a pod scheduled on a different node")),
        (request("gone", value!(["vault"])), Err("pod \"gone\" not found")),
        (bound(Value::Null), Err("node requested token not bound to a pod")),
        (bound(value!({"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "1"})), Err("node requested token not bound to a pod")),
        (
            bound(value!({"apiVersion": "v1", "kind": "Pod", "name": "mine"})),
            Err("node requested token with a pod binding without a uid"),
        ),
        (
            bound(value!({"apiVersion": "v1", "kind": "Pod", "name": "mine", "uid": "former"})),
            Err("the UID in the bound object reference (former) does not match the UID in record. The object might have been \
                 deleted and then recreated"),
        ),
    ])
    .await;
}
