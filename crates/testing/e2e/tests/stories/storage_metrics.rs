//! Metrics of lists, caches and leases, under kube-apiserver's names.

use binnacle_testkit::{Server, wait_until};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Returns the value of the line with this prefix.
fn value(metrics: &str, begins: &str) -> Option<f64> {
    metrics.lines().find_map(|line| line.strip_prefix(begins)?.trim().parse().ok())
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_lists_and_caches() {
    let server = tokio::task::block_in_place(|| {
        Server::start(&[
            "--ephemeral",
            "--event-ttl=60s",
            "--lease-reuse-duration-seconds=1",
            "--etcd-count-metric-poll-period=50ms",
            "--feature-gates=ListFromCacheSnapshot=false",
        ])
    });
    let mut client = server.client().await;
    let headers = [("content-type", "application/json")];
    let before = client.get("/metrics").await.unwrap().body;
    for n in 0..10 {
        let map = json!({"metadata": {"name": format!("m{n}"), "labels": {"n": n.to_string()}}, "data": {"a": "b"}});
        let answer = client.send("POST", MAPS, &headers, map.to_string()).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
    for query in ["", "?limit=3", "?labelSelector=n%3D7", "?resourceVersion=0"] {
        assert_eq!(client.get(&format!("{MAPS}{query}")).await.unwrap().status, 200);
    }
    // A past state is read from the store, as the flag requires.
    let version = client.get(&format!("{MAPS}/m4")).await.unwrap().body;
    let version: serde_json::Value = serde_json::from_str(&version).unwrap();
    let version = version["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    let exact = format!("{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact");
    assert_eq!(client.get(&exact).await.unwrap().status, 200);
    // The objects of a lease are counted when the next lease begins.
    let mut events = 0;
    wait_until("a second lease", async || {
        events += 1;
        let event = json!({
            "metadata": {"name": format!("e{events}")},
            "involvedObject": {"kind": "ConfigMap", "namespace": "default", "name": "m1"},
        });
        let path = "/api/v1/namespaces/default/events";
        assert_eq!(client.send("POST", path, &headers, event.to_string()).await.unwrap().status, 201);
        let metrics = client.get("/metrics").await.unwrap().body;
        (value(&metrics, "etcd_lease_object_counts_count")? >= 1.0).then_some(())
    })
    .await;

    let labels = "group=\"\",resource=\"configmaps\"";
    let metrics = wait_until("the counts are taken", async || {
        let metrics = client.get("/metrics").await.unwrap().body;
        let size = value(&metrics, &format!("apiserver_resource_size_estimate_bytes{{{labels}}}"));
        (size? > 500.0).then_some(metrics)
    })
    .await;
    let of = |name: &str, more: &str| {
        let begins = format!("{name}{{{labels}{more}}}");
        value(&metrics, &begins).unwrap_or_default() - value(&before, &begins).unwrap_or_default()
    };
    let unindexed = |name: &str| {
        let begins = format!("{name}{{group=\"\",index=\"\",resource=\"configmaps\"}}");
        value(&metrics, &begins).unwrap_or_default() - value(&before, &begins).unwrap_or_default()
    };
    // The server's own loops list config maps too, but less often.
    assert!(unindexed("apiserver_cache_list_total") >= 4.0, "{metrics}");
    assert!(unindexed("apiserver_cache_list_fetched_objects_total") >= 33.0, "{metrics}");
    assert!(of("apiserver_cache_list_returned_objects_total", "") >= 24.0, "{metrics}");
    assert_eq!(of("apiserver_storage_list_total", ""), 1.0, "{metrics}");
    assert!(of("apiserver_storage_list_fetched_objects_total", "") >= 5.0, "{metrics}");
    assert_eq!(of("apiserver_storage_list_returned_objects_total", ""), 5.0, "{metrics}");
    assert!(of("apiserver_watch_cache_events_received_total", "") >= 10.0, "{metrics}");
    assert!(of("apiserver_watch_cache_events_dispatched_total", "") >= 10.0, "{metrics}");
    // The store's metrics have etcd's names, for each store.
    for (operation, least) in [("create", 10.0), ("list", 1.0)] {
        let labels = format!("{{group=\"\",operation=\"{operation}\",resource=\"configmaps\"}}");
        for name in ["etcd_request_duration_seconds_count", "etcd_requests_total"] {
            assert!(value(&metrics, &format!("{name}{labels}")).unwrap_or_default() >= least, "{name} {metrics}");
        }
    }
    for (name, more, least) in [
        ("apiserver_watch_cache_initializations_total", "", 1.0),
        ("apiserver_watch_cache_resource_version", "", 10.0),
        ("watch_cache_capacity", "", 100.0),
        ("apiserver_watch_cache_read_wait_seconds_count", "", 4.0),
    ] {
        let begins = format!("{name}{{{labels}{more}}}");
        assert!(value(&metrics, &begins).is_some_and(|value| value >= least), "{begins}: {metrics}");
    }
    let consistent = "apiserver_watch_cache_consistent_read_total{fallback=\"false\",group=\"\",resource=\"configmaps\",success=\"true\"}";
    assert!(value(&metrics, consistent).is_some_and(|count| count >= 3.0), "{metrics}");
    let attached = value(&metrics, "etcd_lease_object_counts_sum");
    assert!(attached.is_some_and(|count| count >= 1.0 && count <= f64::from(events)), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reset_drops_series_with_labels() {
    let server = tokio::task::block_in_place(|| Server::start(&["--ephemeral"]));
    let mut client = server.client().await;
    let list = "apiserver_request_total{code=\"200\",component=\"apiserver\",dry_run=\"\",group=\"\",\
                resource=\"configmaps\",scope=\"namespace\",subresource=\"\",system_client=\"\",verb=\"LIST\",version=\"v1\"}";
    let cached = "apiserver_cache_list_total{group=\"\",index=\"\",resource=\"configmaps\"}";
    let admitted = "apiserver_request_filter_duration_seconds_count{filter=\"authorization\"}";
    let cpu = "process_cpu_seconds_total";
    for _ in 0..3 {
        assert_eq!(client.get(MAPS).await.unwrap().status, 200);
    }
    let before = client.get("/metrics").await.unwrap().body;
    assert_eq!(value(&before, list), Some(3.0));
    assert!(value(&before, cached) >= Some(3.0) && value(&before, admitted) >= Some(4.0));
    let reset = client.send("DELETE", "/metrics", &[], "").await.unwrap();
    assert_eq!((reset.status, &*reset.body), (200, "metrics reset\n"));
    assert_eq!(reset.header("content-type"), "text/plain; charset=utf-8");
    let after = client.get("/metrics").await.unwrap().body;
    assert_eq!((value(&after, list), value(&after, cached)), (None, None));
    assert!(!after.contains("kubernetes_build_info") && !after.contains("registered_metrics_total"));
    // Families without labels are not reset, and new observations are visible.
    assert!(value(&after, cpu) >= value(&before, cpu));
    assert!(value(&after, admitted).is_some_and(|count| count < 3.0), "{:?}", value(&after, admitted));
    assert_eq!(client.get(MAPS).await.unwrap().status, 200);
    let after = client.get("/metrics").await.unwrap().body;
    assert_eq!((value(&after, list), value(&after, cached)), (Some(1.0), Some(1.0)));
    let slis = client.send("DELETE", "/metrics/slis", &[], "").await.unwrap();
    assert_eq!(&*slis.body, "metrics reset\n");
    assert_eq!(client.get("/metrics/slis").await.unwrap().body, "");

    let without = tokio::task::block_in_place(|| Server::start(&["--ephemeral", "--profiling=false"]));
    let mut client = without.client().await;
    let metrics = client.send("DELETE", "/metrics", &[], "").await.unwrap().body;
    assert!(metrics.contains("kubernetes_build_info{") && metrics.contains("binnacle_crypto_provider_info{"));
}
