//! Rollouts. No controllers run here, so the tests write the status in their place.

use binnacle_testkit::{Kubectl, Server};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{Api, Patch, PatchParams};
use serde_json::{Value, json};

use crate::kubectl_changes::shop;

async fn set_status<K>(client: &kube::Client, name: &str, status: Value) -> K
where
    K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned,
    K::DynamicType: Default,
{
    let api: Api<K> = Api::namespaced(client.clone(), "shop");
    let patch = Patch::Merge(json!({"status": status}));
    api.patch_status(name, &PatchParams::default(), &patch).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn kubectl_rolls_out_deployments() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    shop(&kubectl);
    let client = server.kube().await;
    let status = |generation: i64, updated: i64, available: i64| {
        json!({
            "observedGeneration": generation, "replicas": 3, "updatedReplicas": updated, "readyReplicas": available,
            "availableReplicas": available,
            "conditions": [{
                "type": "Available", "status": if available == 3 { "True" } else { "False" }, "reason": "Test",
                "message": "", "lastUpdateTime": "2026-01-15T08:30:00Z", "lastTransitionTime": "2026-01-15T08:30:00Z",
            }],
        })
    };
    let rollout = ["rollout", "status", "--namespace=shop", "deployment/shop-web"];

    let mut follow = kubectl.spawn(&rollout);
    follow.until("Waiting for deployment spec update to be observed");
    set_status::<Deployment>(&client, "shop-web", status(1, 2, 0)).await;
    follow.until("2 out of 3 new replicas have been updated");
    set_status::<Deployment>(&client, "shop-web", status(1, 3, 1)).await;
    follow.until("1 of 3 updated replicas are available");
    let shown = kubectl.ok(&["get", "deployment", "--namespace=shop"]);
    assert!(crate::manifests::squeezed(&shown).contains("\nshop-web 1/3 3 1 "), "{shown}");
    let mut wait = kubectl.spawn(&["wait", "--namespace=shop", "--for=condition=Available", "deployment/shop-web"]);
    let done = set_status::<Deployment>(&client, "shop-web", status(1, 3, 3)).await;
    wait.until("deployment.apps/shop-web condition met");
    follow.until("successfully rolled out");
    assert!(follow.end().0 && wait.end().0);
    // A status update does not increase the generation, and a change of the spec keeps the status.
    assert_eq!(done.metadata.generation, Some(1));

    kubectl.ok(&["set", "image", "--namespace=shop", "deployment/shop-web", "web=registry.example.com/shop/web:5"]);
    let changed = kubectl.json(&["get", "--namespace=shop", "deployment/shop-web"]);
    assert_eq!((&changed["metadata"]["generation"], &changed["status"]["availableReplicas"]), (&json!(2), &json!(3)));
    let mut follow = kubectl.spawn(&rollout);
    follow.until("Waiting for deployment spec update to be observed");
    set_status::<Deployment>(&client, "shop-web", status(2, 3, 3)).await;
    follow.until("successfully rolled out");

    // Restart and pause set an annotation and a field of the spec.
    kubectl.ok(&["rollout", "restart", "--namespace=shop", "deployment/shop-web"]);
    kubectl.ok(&["rollout", "pause", "--namespace=shop", "deployment/shop-web"]);
    let paused = kubectl.json(&["get", "--namespace=shop", "deployment/shop-web"]);
    assert!(paused["spec"]["template"]["metadata"]["annotations"]["kubectl.kubernetes.io/restartedAt"].is_string());
    assert_eq!((&paused["spec"]["paused"], &paused["metadata"]["generation"]), (&json!(true), &json!(4)));
    kubectl.ok(&["rollout", "resume", "--namespace=shop", "deployment/shop-web"]);
    assert!(kubectl.json(&["get", "--namespace=shop", "deployment/shop-web"])["spec"]["paused"].is_null());
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn kubectl_rolls_out_other_workloads() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    shop(&kubectl);
    let client = server.kube().await;

    let mut follow = kubectl.spawn(&["rollout", "status", "--namespace=shop", "daemonset/node-metrics"]);
    follow.until("Waiting for daemon set spec update to be observed");
    let status = json!({
        "observedGeneration": 1, "desiredNumberScheduled": 2, "currentNumberScheduled": 2, "numberMisscheduled": 0,
        "numberReady": 2, "updatedNumberScheduled": 2, "numberAvailable": 2,
    });
    set_status::<DaemonSet>(&client, "node-metrics", status).await;
    follow.until("successfully rolled out");

    let mut follow = kubectl.spawn(&["rollout", "status", "--namespace=shop", "statefulset/shop-db"]);
    follow.until("Waiting for statefulset spec update to be observed");
    let status = json!({
        "observedGeneration": 1, "replicas": 2, "readyReplicas": 2, "currentReplicas": 1, "updatedReplicas": 1,
        "availableReplicas": 2, "currentRevision": "shop-db-1", "updateRevision": "shop-db-2",
    });
    set_status::<StatefulSet>(&client, "shop-db", status).await;
    follow.until("partitioned roll out complete: 1 new pods have been updated");

    let mut wait = kubectl.spawn(&["wait", "--namespace=shop", "--for=condition=Complete", "job/shop-migrate"]);
    let time = "2026-01-15T08:30:00Z";
    let condition =
        |kind: &str| json!({"type": kind, "status": "True", "lastProbeTime": time, "lastTransitionTime": time});
    let status = json!({
        "startTime": time, "completionTime": "2026-01-15T08:31:30Z", "succeeded": 4, "completedIndexes": "0-3",
        "uncountedTerminatedPods": {}, "conditions": [condition("SuccessCriteriaMet"), condition("Complete")],
    });
    set_status::<Job>(&client, "shop-migrate", status).await;
    wait.until("job.batch/shop-migrate condition met");
    let shown = crate::manifests::squeezed(&kubectl.ok(&["get", "job", "--namespace=shop"]));
    assert!(shown.contains("shop-migrate Complete 4/4 90s "), "{shown}");
}
