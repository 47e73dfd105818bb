//! The admission plugins with real resources: the fields that they set, and the objects that they reject.

use std::time::{Duration, Instant};

use binnacle_registry::{DeleteOptions, ListOptions};
use binnacle_schema::{Value, value};
use binnacle_services::ServiceConfig;

use binnacle_test_cluster::{Server, user};

async fn server() -> Server {
    let server = Server::new(&ServiceConfig::default());
    server.create("namespaces", "", value!({"metadata": {"name": "ns"}})).await.unwrap();
    let account = value!({"metadata": {"name": "default"}, "imagePullSecrets": [{"name": "pull"}]});
    server.create("serviceaccounts", "ns", account).await.unwrap();
    server
}

fn pod(name: &str, more: Value) -> Value {
    let mut spec = value!({"containers": [{"name": "c", "image": "registry.test/app:1"}]});
    for (member, value) in more.as_object().cloned().unwrap_or_default() {
        spec.make_object().insert(member, value);
    }
    value!({"metadata": {"name": name}, "spec": spec})
}

#[tokio::test]
async fn completes_plain_pod() {
    let server = server().await;
    let created = server.create("pods", "ns", pod("a", value!({}))).await.unwrap();
    let spec = created.get("spec").unwrap();
    assert_eq!(spec.str_at(&["serviceAccountName"]), "default");
    assert_eq!(spec.str_at(&["serviceAccount"]), "default");
    assert_eq!(spec.get("imagePullSecrets"), Some(&value!([{"name": "pull"}])));
    assert_eq!(spec.int_at(&["priority"]), Some(0));
    assert_eq!(spec.str_at(&["preemptionPolicy"]), "PreemptLowerPriority");
    let tolerations: Vec<_> =
        spec.list_at(&["tolerations"]).iter().map(|t| (t.str_at(&["key"]), t.int_at(&["tolerationSeconds"]))).collect();
    assert_eq!(
        tolerations,
        [("node.kubernetes.io/not-ready", Some(300)), ("node.kubernetes.io/unreachable", Some(300))]
    );
    let [volume] = spec.list_at(&["volumes"]) else { panic!("{spec:?}") };
    let name = volume.str_at(&["name"]);
    assert!(name.starts_with("kube-api-access-") && name.len() == "kube-api-access-".len() + 5, "{name}");
    assert_eq!(
        volume.get("projected"),
        Some(&value!({
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607i64, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [{
                    "path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
                }]}}
            ],
            "defaultMode": 420i64
        }))
    );
    let mounts = spec.list_at(&["containers"])[0].list_at(&["volumeMounts"]);
    assert_eq!(
        mounts,
        [value!({
            "name": name, "readOnly": true, "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"
        })]
    );
}

#[tokio::test]
async fn rejects_pods_that_plugins_forbid() {
    let server = server().await;
    let class = value!({"metadata": {"name": "high"}, "value": 1000i64});
    server.create("scheduling.k8s.io/v1/priorityclasses", "", class).await.unwrap();
    let runtime = value!({
        "metadata": {"name": "vm"}, "handler": "vm", "overhead": {"podFixed": {"cpu": "250m"}},
        "scheduling": {"nodeSelector": {"runtime": "vm"}}
    });
    server.create("node.k8s.io/v1/runtimeclasses", "", runtime).await.unwrap();
    let limits = value!({
        "metadata": {"name": "lr"},
        "spec": {"limits": [{"type": "Container", "max": {"memory": "1Gi"}, "default": {"memory": "100Mi"}}]}
    });
    server.create("limitranges", "ns", limits).await.unwrap();
    // The watch cache receives the limits with a delay.
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        let probe = server.create("pods", "ns", pod("probe", value!({}))).await.unwrap();
        server.delete("pods", "ns", "probe").await.unwrap();
        if probe.at(&["metadata", "annotations"]).is_some() {
            let annotation = probe.str_at(&["metadata", "annotations", "kubernetes.io/limit-ranger"]);
            assert_eq!(
                annotation,
                "LimitRanger plugin set: memory request for container c; memory limit for container c"
            );
            break;
        }
        assert!(Instant::now() < until, "limits are never applied");
    }
    let memory = |amount: &str| value!({"containers": [{"name": "c", "image": "x", "resources": {"limits": {"memory": amount}}}]});
    for (spec, why) in [
        (
            value!({"serviceAccountName": "nope"}),
            "error looking up service account ns/nope: serviceaccount \"nope\" not found",
        ),
        (value!({"priorityClassName": "nope"}), "no PriorityClass with name nope was found"),
        (
            value!({"priorityClassName": "high", "priority": 1i64}),
            "the integer value of priority (1) must not be provided in pod spec; priority admission controller computed 1000 from the given PriorityClass name",
        ),
        (
            value!({"serviceAccountName": "a/b"}),
            "error looking up service account ns/a/b: invalid resource name \"a/b\": [may not contain '/']",
        ),
        (value!({"runtimeClassName": "nope"}), "pod rejected: RuntimeClass \"nope\" not found"),
        (
            value!({"runtimeClassName": "vm", "overhead": {"cpu": "1"}}),
            "pod rejected: Pod's Overhead doesn't match RuntimeClass's defined Overhead",
        ),
        (
            value!({"runtimeClassName": "vm", "nodeSelector": {"runtime": "other"}}),
            "conflict: runtimeClass.scheduling.nodeSelector[runtime] = vm; pod.spec.nodeSelector[runtime] = other",
        ),
        (
            value!({"overhead": {"cpu": "1"}}),
            "pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead",
        ),
        (memory("2Gi"), "maximum memory usage per Container is 1Gi, but limit is 2Gi"),
    ] {
        let refused = server.create("pods", "ns", pod("a", spec)).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (403, format!("pods \"a\" is forbidden: {why}").as_str()));
    }
    let refused = server.create("pods", "ns", pod("a", value!({"runtimeClassName": "a/b"}))).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (500, "invalid resource name \"a/b\": [may not contain '/']"));
    let created = server
        .create(
            "pods",
            "ns",
            pod("a", value!({"runtimeClassName": "vm", "priorityClassName": "high", "overhead": {"cpu": "0.25"}})),
        )
        .await
        .unwrap();
    assert_eq!(created.str_at(&["spec", "overhead", "cpu"]), "250m");
    assert_eq!(created.str_at(&["spec", "nodeSelector", "runtime"]), "vm");
    assert_eq!(created.int_at(&["spec", "priority"]), Some(1000));
}

#[tokio::test]
async fn completes_nodes_and_claims() {
    let server = server().await;
    let node = server.create("nodes", "", value!({"metadata": {"name": "n"}})).await.unwrap();
    assert_eq!(
        node.at(&["spec", "taints"]),
        Some(&value!([{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]))
    );
    let claim = |name: &str| {
        value!({
            "metadata": {"name": name},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        })
    };
    let created = server.create("persistentvolumeclaims", "ns", claim("a")).await.unwrap();
    assert_eq!(created.at(&["metadata", "finalizers"]), Some(&value!(["kubernetes.io/pvc-protection"])));
    assert!(created.at(&["spec", "storageClassName"]).is_none());
    let class = value!({
        "metadata": {"name": "fast", "annotations": {"storageclass.kubernetes.io/is-default-class": "true"}},
        "provisioner": "p.test"
    });
    server.create("storage.k8s.io/v1/storageclasses", "", class).await.unwrap();
    let until = Instant::now() + Duration::from_secs(10);
    for i in 0.. {
        let created = server.create("persistentvolumeclaims", "ns", claim(&format!("b{i}"))).await.unwrap();
        if created.str_at(&["spec", "storageClassName"]) == "fast" {
            break;
        }
        assert!(Instant::now() < until, "the default class is never set");
    }
}

/// A delete of jobs without a propagation policy returns one warning about their pods.
#[tokio::test]
async fn collection_delete_warns_once() {
    let server = server().await;
    let policies = [(None, 1), (Some("Background".into()), 0)];
    for (propagation_policy, warnings) in policies {
        let context = user("ns", false);
        let options = DeleteOptions { propagation_policy, ..DeleteOptions::default() };
        let jobs = server.resource("batch/v1/jobs");
        jobs.delete_collection(&context, &ListOptions::default(), &options).await.unwrap();
        let warnings_returned = context.notes.warnings().take();
        assert_eq!(warnings_returned.len(), warnings, "{warnings_returned:?}");
        assert!(warnings_returned.iter().all(|text| text.starts_with("child pods are preserved by default")));
    }
}
