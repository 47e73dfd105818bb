//! Evictions that race for the allowed disruptions of a budget.

use binnacle_testkit::Server;
use futures::future::join_all;
use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

const PODS: usize = 12;
const ALLOWED: usize = 3;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_evictions_respect_the_budget() {
    let server = Server::ephemeral();
    let client = server.kube().await;
    crate::namespace(&client, "race").await;
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "race");
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("default".to_owned());
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "race");
    let names: Vec<String> = (0..PODS).map(|n| format!("pod-{n}")).collect();
    join_all(names.iter().map(|name| ready_pod(&pods, name))).await;

    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), "race");
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"},
        "spec": {"minAvailable": PODS - ALLOWED, "selector": {"matchLabels": {"app": "race"}}}
    });
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    // Plain requests, because the client library would retry rejected ones.
    let race = || async {
        let evictions = names.iter().map(|name| evict(&server, name));
        join_all(evictions).await
    };

    // Before the controller has processed the budget, no disruption is allowed.
    for (code, retry_after, status) in race().await {
        assert_eq!((code, retry_after.as_str()), (429, "10"));
        assert_eq!(status["details"]["retryAfterSeconds"], 10);
        assert_eq!(
            status["details"]["causes"],
            json!([{
                "reason": "DisruptionBudget",
                "message": "The disruption budget budget is still being processed by the server."
            }])
        );
    }

    allow(&budgets, ALLOWED, PODS).await;
    let (mut evicted, mut refused) = (0, 0);
    for (code, retry_after, status) in race().await {
        if code == 201 {
            evicted += 1;
            continue;
        }
        assert_eq!((code, retry_after.as_str()), (429, ""));
        let cause = &status["details"]["causes"][0];
        assert_eq!(cause["message"], "The disruption budget budget does not allow evicting pods currently");
        refused += 1;
    }
    assert_eq!((evicted, refused), (ALLOWED, PODS - ALLOWED));
    let status = budgets.get_status("budget").await.unwrap().status.unwrap();
    assert_eq!(status.disruptions_allowed, Some(0));
    assert_eq!(status.disrupted_pods.unwrap_or_default().len(), ALLOWED);
    let condition = &status.conditions.unwrap()[0];
    assert_eq!((condition.type_.as_str(), condition.status.as_str()), ("DisruptionAllowed", "False"));
    assert_eq!(pods.list(&ListParams::default()).await.unwrap().items.len(), PODS - ALLOWED);
}

/// The options of the deletion are validated as those of a DELETE, and an eviction that fails for them has no effect: the
/// budget is not used and the pod has no condition (kube-apiserver uses the budget and writes the condition).
#[tokio::test]
async fn validates_the_options_of_evictions() {
    let server = Server::start(&["--ephemeral", "--disable-admission-plugins=ServiceAccount"]);
    let client = server.kube().await;
    crate::namespace(&client, "race").await;
    let pods: Api<Pod> = Api::namespaced(client.clone(), "race");
    ready_pod(&pods, "guarded").await;
    let budgets: Api<PodDisruptionBudget> = Api::namespaced(client.clone(), "race");
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "budget"},
        "spec": {"maxUnavailable": 1, "selector": {"matchLabels": {"app": "race"}}}
    });
    budgets.create(&PostParams::default(), &serde_json::from_value(budget).unwrap()).await.unwrap();
    allow(&budgets, 1, 2).await;
    let before = pods.get("guarded").await.unwrap();

    let invalid = |why: &str| (422, format!("DeleteOptions.meta.k8s.io \"\" is invalid: {why}"));
    let policies = r#"supported values: "Foreground", "Background", "Orphan", "nil""#;
    for (options, want) in [
        (
            json!({"propagationPolicy": "Sideways"}),
            invalid(&format!("propagationPolicy: Unsupported value: \"Sideways\": {policies}")),
        ),
        (json!({"propagationPolicy": ""}), invalid(&format!("propagationPolicy: Unsupported value: \"\": {policies}"))),
        (
            json!({"propagationPolicy": "Orphan", "orphanDependents": true}),
            invalid(
                r#"propagationPolicy: Invalid value: "Orphan": orphanDependents and deletionPropagation cannot be both set"#,
            ),
        ),
        (json!({"dryRun": ["Some"]}), invalid(r#"dryRun: Unsupported value: ["Some"]: supported values: "All""#)),
        (json!({"dryRun": [""]}), invalid(r#"dryRun: Unsupported value: [""]: supported values: "All""#)),
        (
            json!({"dryRun": ["All", "x"]}),
            invalid(r#"dryRun: Unsupported value: ["All","x"]: supported values: "All""#),
        ),
        // A precondition fails first.
        (
            json!({"propagationPolicy": "Sideways", "preconditions": {"uid": "other"}}),
            (
                409,
                format!(
                    "Operation cannot be fulfilled on Pod \"guarded\": the UID in the precondition (other) does not match the UID in record ({}). The object might have been deleted and then recreated",
                    before.metadata.uid.clone().unwrap()
                ),
            ),
        ),
    ] {
        let (code, status) = evict_with(&server, "guarded", &options).await;
        assert_eq!((code, status["message"].as_str().unwrap().to_owned()), want, "{options}");
    }
    let (code, _) = evict_with(&server, "missing", &json!({"propagationPolicy": "Sideways"})).await;
    assert_eq!(code, 404);
    assert_eq!(pods.get("guarded").await.unwrap(), before);
    let status = budgets.get_status("budget").await.unwrap().status.unwrap();
    assert_eq!(status.disruptions_allowed, Some(1));
    let (code, status) = evict_with(&server, "guarded", &json!({"propagationPolicy": "Background"})).await;
    assert_eq!(code, 201, "{status}");
}

/// Returns code and Status of an eviction with options.
async fn evict_with(server: &Server, pod: &str, options: &serde_json::Value) -> (u16, serde_json::Value) {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}, "deleteOptions": options
    });
    let path = format!("/api/v1/namespaces/race/pods/{pod}/eviction");
    let headers = [("content-type", "application/json")];
    let answer = server.client().await.send("POST", &path, &headers, eviction.to_string()).await.unwrap();
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

/// Returns code, `Retry-After` and Status of an eviction.
async fn evict(server: &Server, pod: &str) -> (u16, String, serde_json::Value) {
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod}}).to_string();
    let path = format!("/api/v1/namespaces/race/pods/{pod}/eviction");
    let headers = [("content-type", "application/json")];
    let answer = server.client().await.send("POST", &path, &headers, eviction).await.unwrap();
    let status = serde_json::from_str(&answer.body).unwrap();
    (answer.status, answer.header("retry-after").to_owned(), status)
}

async fn ready_pod(pods: &Api<Pod>, name: &str) {
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "race"}},
        "spec": {"containers": [{"name": "c", "image": "registry.test/app:1"}], "automountServiceAccountToken": false}
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let ready = json!({"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    pods.patch_status(name, &PatchParams::default(), &Patch::Merge(ready)).await.unwrap();
}

/// Writes the status of the budget, as the disruption controller does.
async fn allow(budgets: &Api<PodDisruptionBudget>, allowed: usize, healthy: usize) {
    let status = json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": healthy,
        "desiredHealthy": healthy - allowed, "expectedPods": healthy
    }});
    budgets.patch_status("budget", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
}
