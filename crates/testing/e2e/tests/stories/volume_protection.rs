//! Claims and volumes in use, which stay until nobody uses them: controllers of the server remove their finalizers.

use binnacle_testkit::{Server, wait_until};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{Api, DeleteParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn server() -> Server {
    tokio::task::block_in_place(|| Server::durable_with(&["--run-controllers=*"]))
}

fn object<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

async fn until_gone<T>(api: &Api<T>, name: &str)
where
    T: Clone + DeserializeOwned + std::fmt::Debug,
{
    wait_until(&format!("{name} is gone"), async || api.get_opt(name).await.unwrap().is_none().then_some(())).await;
}

async fn create_claim(claims: &Api<PersistentVolumeClaim>, name: &str, owners: Value) {
    let resources = json!({"requests": {"storage": "1Gi"}});
    let claim = json!({"metadata": {"name": name, "ownerReferences": owners},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": resources}});
    let claim = claims.create(&PostParams::default(), &object(claim)).await.unwrap();
    assert_eq!(claim.finalizers(), ["kubernetes.io/pvc-protection"]);
}

async fn create_pod(client: &Client, name: &str, node: Option<&str>, volume: Value) -> (Api<Pod>, Pod) {
    let pods: Api<Pod> = Api::namespaced(client.clone(), "default");
    let containers = json!([{"name": "c", "image": "i"}]);
    let pod = json!({"metadata": {"name": name}, "spec": {"nodeName": node, "containers": containers, "volumes": [volume],
        "automountServiceAccountToken": false}});
    let account = Api::<k8s_openapi::api::core::v1::ServiceAccount>::namespaced(client.clone(), "default");
    wait_until("the account exists", async || account.get_opt("default").await.unwrap()).await;
    let created = pods.create(&PostParams::default(), &object(pod)).await.unwrap();
    (pods, created)
}

#[tokio::test(flavor = "multi_thread")]
async fn claims_stay_as_long_as_pods_use_them() {
    let server = server();
    let client = server.kube().await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    create_claim(&claims, "unused", json!([])).await;
    claims.delete("unused", &DeleteParams::default()).await.unwrap();
    until_gone(&claims, "unused").await;

    create_claim(&claims, "used", json!([])).await;
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "used"}});
    let (pods, _) = create_pod(&client, "user", Some("node"), volume.clone()).await;
    claims.delete("used", &DeleteParams::default()).await.unwrap();
    // What is deleted later and not used goes first, so the one in use was checked before.
    create_claim(&claims, "later", json!([])).await;
    claims.delete("later", &DeleteParams::default()).await.unwrap();
    until_gone(&claims, "later").await;
    assert!(claims.get("used").await.unwrap().metadata.deletion_timestamp.is_some());
    pods.delete("user", &DeleteParams::default().grace_period(0)).await.unwrap();
    until_gone(&claims, "used").await;

    // A pod without a node does not use its claim yet.
    create_claim(&claims, "pending", json!([])).await;
    let volume = json!({"name": "v", "persistentVolumeClaim": {"claimName": "pending"}});
    create_pod(&client, "waiting", None, volume).await;
    claims.delete("pending", &DeleteParams::default()).await.unwrap();
    until_gone(&claims, "pending").await;
}

/// The claim of a pod that was shut down goes although a finalizer holds the pod.
#[tokio::test(flavor = "multi_thread")]
async fn ephemeral_claims_end_with_their_pods() {
    let server = server();
    let client = server.kube().await;
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), "default");
    let spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let volume = json!({"name": "data", "ephemeral": {"volumeClaimTemplate": {"spec": spec}}});
    let (pods, pod) = create_pod(&client, "p", Some("node"), volume).await;
    let hold = json!({"metadata": {"finalizers": ["example.com/hold"]}});
    pods.patch("p", &PatchParams::default(), &Patch::Merge(hold)).await.unwrap();
    let owner =
        json!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": pod.uid().unwrap(), "controller": true}]);
    create_claim(&claims, "p-data", owner).await;
    claims.delete("p-data", &DeleteParams::default()).await.unwrap();
    create_claim(&claims, "later", json!([])).await;
    claims.delete("later", &DeleteParams::default()).await.unwrap();
    until_gone(&claims, "later").await;
    claims.get("p-data").await.unwrap();
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    until_gone(&claims, "p-data").await;
    assert!(pods.get("p").await.unwrap().metadata.deletion_timestamp.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn volumes_stay_as_long_as_they_are_bound() {
    let server = server();
    let client = server.kube().await;
    let volumes: Api<PersistentVolume> = Api::all(client);
    for name in ["free", "bound"] {
        let volume = json!({"metadata": {"name": name}, "spec": {"capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"}}});
        let volume = volumes.create(&PostParams::default(), &object(volume)).await.unwrap();
        assert_eq!(volume.finalizers(), ["kubernetes.io/pv-protection"]);
    }
    let phase = |phase: &str| Patch::Merge(json!({"status": {"phase": phase}}));
    volumes.patch_status("bound", &PatchParams::default(), &phase("Bound")).await.unwrap();
    for name in ["bound", "free"] {
        volumes.delete(name, &DeleteParams::default()).await.unwrap();
    }
    until_gone(&volumes, "free").await;
    assert!(volumes.get("bound").await.unwrap().metadata.deletion_timestamp.is_some());
    volumes.patch_status("bound", &PatchParams::default(), &phase("Released")).await.unwrap();
    until_gone(&volumes, "bound").await;
}
