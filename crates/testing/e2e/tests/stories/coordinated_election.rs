//! Coordinated leader election: processes only create candidates, and the server elects the one with the oldest
//! version.

use binnacle_testkit::{Server, wait_until};
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use kube::api::{Api, DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use serde_json::json;

/// Returns the time in some seconds, in the format of the API.
fn at(seconds: i64) -> String {
    format!("{:.6}", Timestamp::now() + SignedDuration::from_secs(seconds))
}

fn candidates(client: &kube::Client) -> Api<DynamicObject> {
    let kind = ApiResource {
        group: "coordination.k8s.io".to_owned(),
        version: "v1beta1".to_owned(),
        api_version: "coordination.k8s.io/v1beta1".to_owned(),
        kind: "LeaseCandidate".to_owned(),
        plural: "leasecandidates".to_owned(),
    };
    Api::namespaced_with(client.clone(), "kube-system", &kind)
}

async fn stand(candidates: &Api<DynamicObject>, name: &str, lease: &str, version: &str, renewed: i64) {
    let candidate = serde_json::from_value(json!({
        "apiVersion": "coordination.k8s.io/v1beta1", "kind": "LeaseCandidate", "metadata": {"name": name},
        "spec": {"leaseName": lease, "binaryVersion": version, "emulationVersion": version,
                 "strategy": "OldestEmulationVersion", "renewTime": at(renewed)}
    }));
    candidates.create(&PostParams::default(), &candidate.unwrap()).await.unwrap();
}

async fn renew(candidates: &Api<DynamicObject>, name: &str) {
    let renewed = Patch::Merge(json!({"spec": {"renewTime": at(0)}}));
    candidates.patch(name, &PatchParams::default(), &renewed).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn elects_the_oldest_version() {
    let server = Server::start(&[
        "--ephemeral",
        "--feature-gates=CoordinatedLeaderElection=true",
        "--runtime-config=coordination.k8s.io/v1beta1=true",
        "--coordinated-leadership-lease-duration=3s",
        "--coordinated-leadership-renew-deadline=2s",
        "--coordinated-leadership-retry-period=1s",
    ]);
    let client = server.kube().await;
    let candidates = candidates(&client);
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let spec = async |name: &str| leases.get_opt(name).await.unwrap().and_then(|lease| lease.spec);

    // A candidate without a recent renewal is pinged, and elected when it responds.
    stand(&candidates, "early", "scheduling", "1.36.0", -60).await;
    wait_until("the candidate is asked", async || {
        candidates.get("early").await.unwrap().data["spec"]["pingTime"].is_string().then_some(())
    })
    .await;
    assert!(spec("scheduling").await.is_none());
    renew(&candidates, "early").await;
    let elected = wait_until("a leader", async || spec("scheduling").await).await;
    assert_eq!(elected.holder_identity.as_deref(), Some("early"));
    assert_eq!(elected.strategy.as_deref(), Some("OldestEmulationVersion"));

    // A better candidate does not take the lease: its holder is notified.
    renew(&candidates, "early").await;
    let held = json!({"spec": {"renewTime": at(0), "leaseDurationSeconds": 60}});
    leases.patch("scheduling", &PatchParams::default(), &Patch::Merge(held)).await.unwrap();
    stand(&candidates, "older", "scheduling", "1.35.0", 0).await;
    wait_until("the other is preferred", async || {
        renew(&candidates, "early").await;
        renew(&candidates, "older").await;
        spec("scheduling").await.filter(|spec| spec.preferred_holder.as_deref() == Some("older"))
    })
    .await;
    assert_eq!(spec("scheduling").await.unwrap().holder_identity.as_deref(), Some("early"));

    // The server itself holds the lease of the election controller.
    let own = wait_until("the lease of those who elect", async || spec("leader-election-controller").await).await;
    assert_eq!((own.lease_transitions, own.lease_duration_seconds), (Some(0), Some(3)));

    // It keeps its name when it has lost the lease and takes it back.
    let taken = json!({"spec": {"holderIdentity": "another", "leaseDurationSeconds": 1, "renewTime": at(0)}});
    leases.patch("leader-election-controller", &PatchParams::default(), &Patch::Merge(taken)).await.unwrap();
    let again = wait_until("the lease is taken back", async || {
        spec("leader-election-controller").await.filter(|spec| spec.holder_identity.as_deref() != Some("another"))
    })
    .await;
    assert_eq!(again.holder_identity, own.holder_identity);
}
