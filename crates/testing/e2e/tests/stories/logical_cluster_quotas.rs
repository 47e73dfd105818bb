//! Quotas of logical clusters: what one of them stores and does has limits, and the others notice nothing.

use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Etcd, wait_until, wait_until_blocking};
use serde_json::{Value, json};

use crate::logical_cluster_host::{Host, make_map, maps};

/// Returns the usage in the status of a cluster.
fn usage(host: &Host, name: &str) -> Value {
    let object = host.kubectl.ok(&["get", "logicalcluster", name, "--output=json"]);
    serde_json::from_str::<Value>(&object).unwrap()["status"]["usage"].clone()
}

fn set_quota(host: &Host, name: &str, quota: &Value) {
    let patch = json!({"spec": {"quota": quota}}).to_string();
    host.kubectl.ok(&["patch", "logicalcluster", name, "--type=merge", "--patch", &patch]);
}

fn objects_are_limited(host: &Host) {
    let [a, b] = ["a", "b"].map(|name| host.create(name, &json!({"quota": {"objects": 1000}})));
    let own = usage(host, "a")["objects"].as_u64().unwrap();
    // Without those of all new clusters, which they share.
    assert!((5..50).contains(&own), "{own}");
    make_map(&a, "one");
    // Objects that existed before the limit count, too.
    set_quota(host, "a", &json!({"objects": 5}));
    let create = ["create", "configmap", "two", "--namespace=default"];
    let refused = wait_until_blocking("the limit applies", || {
        let refused = a.run(&create);
        match refused.success {
            true => {
                a.ok(&["delete", "configmap", "two", "--namespace=default"]);
                None
            }
            false => Some(refused.err),
        }
    });
    assert!(refused.contains("exceeded quota of this cluster: objects, requested: 1, used: "), "{refused}");
    assert!(refused.contains(", limited: 5"), "{refused}");
    // Changes and deletions are possible, reads as well.
    a.ok(&["label", "configmap", "one", "--namespace=default", "color=blue"]);
    assert_eq!(maps(&a), "configmap/one\n");
    a.ok(&["delete", "configmap", "one", "--namespace=default"]);
    make_map(&b, "of-b");
    let metrics = host.kubectl.ok(&["get", "--raw", "/metrics"]);
    assert!(metrics.contains("\nbinnacle_logical_cluster_starts_total{logical_cluster=\"a\"} 1\n"), "{metrics}");
    assert!(metrics.contains("\nbinnacle_logical_cluster_stored_objects{logical_cluster=\"a\"} "), "{metrics}");
    set_quota(host, "a", &json!({"objects": null}));
    wait_until_blocking("there is no limit", || a.run(&create).success.then_some(()));
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn objects_of_a_cluster_have_a_limit() {
    objects_are_limited(&Host::start(&[]));
}

#[test]
#[cfg_attr(not(all(has_etcd, has_kubectl)), ignore = "needs etcd and kubectl")]
fn objects_of_a_cluster_in_etcd_have_a_limit() {
    let [etcd, events] = [Etcd::single(), Etcd::single()];
    let overrides = format!("--etcd-servers-overrides=/events#{}", events.endpoints()[0]);
    objects_are_limited(&Host::start(&[&etcd.servers(), &overrides]));
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn bytes_of_a_cluster_have_a_limit() {
    let host = Host::start(&[]);
    let a = host.create("a", &json!({"idleAfter": "1s", "quota": {"bytes": "800Ki"}}));
    let map = |name: &str, bytes: usize| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"},
            "data": {"text": "x".repeat(bytes)}})
        .to_string()
    };
    a.ok_with(&["create", "-f", "-"], &map("large", 600_000));
    let refused = a.run_with(&["create", "-f", "-"], &map("larger", 400_000));
    assert!(refused.err.contains("exceeded quota of this cluster: bytes, requested: 400"), "{refused}");
    assert!(refused.err.contains("limited: 819200"), "{refused}");
    let refused = a.run_with(&["replace", "-f", "-"], &map("large", 1_040_000));
    assert!(refused.err.contains("exceeded quota of this cluster: bytes, requested: 4400"), "{refused}");
    a.ok_with(&["replace", "-f", "-"], &map("large", 500_000));
    // What is stored is counted again when the cluster wakes.
    host.wait_for_awake(0);
    let refused = a.run_with(&["create", "-f", "-"], &map("larger", 500_000));
    assert!(refused.err.contains("exceeded quota of this cluster: bytes"), "{refused}");
    a.ok_with(&["create", "-f", "-"], &map("small", 100_000));
}

/// The limit of watches holds for administrators of the cluster, and names itself.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn requests_of_a_cluster_have_limits() {
    let (host, [of_a, of_b]) = tokio::task::block_in_place(|| {
        let host = Host::start(&[]);
        host.create("a", &json!({"quota": {"watches": 2}}));
        host.create("b", &json!({"quota": {"requestsInFlight": 0}}));
        let files = ["a", "b"].map(|name| std::fs::read_to_string(host.kubeconfig(name)).unwrap());
        (host, files.map(|file| Handshake::of_kubeconfig(&file)))
    });
    let mut watching = Vec::new();
    for _ in 0..2 {
        let mut client = host.server.connect(&of_a).await;
        let opened = client.open("GET", "/clusters/a/api/v1/pods?watch=1", &[], "").await.unwrap();
        assert_eq!(opened.status(), 200);
        watching.push((client, opened));
    }
    let mut client = host.server.connect(&of_a).await;
    let refused = client.get("/clusters/a/api/v1/pods?watch=1").await.unwrap();
    assert_eq!((refused.status, refused.header("retry-after")), (429, "1"), "{}", refused.body);
    assert!(refused.body.contains("exceeded quota of this cluster: watches, requested: 1, used: 2, limited: 2"));
    assert_eq!(client.get("/clusters/a/api/v1/pods").await.unwrap().status, 200);
    let mut client = host.server.connect(&of_b).await;
    let refused = client.get("/clusters/b/livez").await.unwrap();
    assert_eq!(refused.status, 429, "{}", refused.body);
    assert!(refused.body.contains("requestsInFlight, requested: 1, used: 0, limited: 0"), "{}", refused.body);
    drop(watching);
    wait_until("the watches have ended", async || {
        let mut client = host.server.connect(&of_a).await;
        let opened = client.open("GET", "/clusters/a/api/v1/pods?watch=1", &[], "").await.unwrap();
        (opened.status() == 200).then_some(())
    })
    .await;
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn rejects_quotas_that_are_no_numbers() {
    let host = Host::start(&[]);
    host.create("fine", &json!({}));
    for (quota, want) in [
        (json!({"objects": -1}), "spec.quota.objects: Invalid value: -1"),
        (json!({"bytes": "many"}), "spec.quota.bytes: Invalid value: \"many\""),
        (json!({"watches": 1.5}), "spec.quota.watches: Invalid value: \"float64\""),
    ] {
        let object = json!({"apiVersion": "binnacle.dev/v1alpha1", "kind": "LogicalCluster",
            "metadata": {"name": "bad"}, "spec": {"quota": quota}});
        let refused = host.kubectl.run_with(&["create", "-f", "-"], &object.to_string());
        assert!(refused.err.contains(want), "{refused}");
    }
}
