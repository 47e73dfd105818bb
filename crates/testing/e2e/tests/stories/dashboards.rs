//! After requests of all kinds the metrics for dashboards and alerts exist, with the labels that their queries use.

use binnacle_testkit::https::Client;
use binnacle_testkit::{Server, wait_until};
use serde_json::{Value, json};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const LAMPS: &str = "/apis/light.example/v1/namespaces/default/lamps";

async fn send(client: &mut Client, method: &str, path: &str, body: &Value) -> u16 {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    client.send(method, path, &[("content-type", kind)], body.to_string()).await.unwrap().status
}

/// Returns the value of the first series of a family with all of these labels.
fn value(metrics: &str, family: &str, labels: &[&str]) -> Option<f64> {
    metrics.lines().find_map(|line| {
        let (series, value) = line.strip_prefix(family)?.rsplit_once(' ')?;
        let is_family = series.is_empty() || series.starts_with('{');
        let has = |label: &&str| [format!("{{{label}"), format!(",{label}")].iter().any(|text| series.contains(text));
        if is_family && labels.iter().all(has) { value.parse().ok() } else { None }
    })
}

/// Sends requests that change each family of the test.
async fn provoke(client: &mut Client) {
    let service = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
    for (name, spec, want) in [
        ("any", json!({"ports": [{"port": 80}], "type": "NodePort"}), 201),
        ("asked", json!({"ports": [{"port": 80}], "clusterIP": "10.0.0.77"}), 201),
        ("taken", json!({"ports": [{"port": 80}], "clusterIP": "10.0.0.77"}), 422),
        ("port", json!({"ports": [{"port": 80, "nodePort": 30111}], "type": "NodePort"}), 201),
        ("same-port", json!({"ports": [{"port": 80, "nodePort": 30111}], "type": "NodePort"}), 422),
    ] {
        assert_eq!(send(client, "POST", SERVICES, &service(name, spec)).await, want, "{name}");
    }
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "lamps.light.example"},
        "spec": {
            "group": "light.example", "scope": "Namespaced",
            "names": {"plural": "lamps", "singular": "lamp", "kind": "Lamp"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {
                    "type": "object",
                    "properties": {"watts": {"type": "integer", "maximum": 100}, "name": {"type": "string"}},
                    "x-kubernetes-validations": [{"rule": "self.watts < 60"}],
                }},
            }}}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(send(client, "POST", definitions, &definition).await, 201);
    wait_until("lamps are served", async || (client.get(LAMPS).await.ok()?.status == 200).then_some(())).await;
    let lamp = json!({
        "apiVersion": "light.example/v1", "kind": "Lamp", "metadata": {"name": "a"}, "spec": {"watts": 40, "name": "x"}
    });
    assert_eq!(send(client, "POST", LAMPS, &lamp).await, 201);
    assert_eq!(send(client, "PATCH", &format!("{LAMPS}/a"), &json!({"spec": {"name": "y"}})).await, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn exposes_the_families_of_dashboards_and_alerts() {
    let server =
        tokio::task::block_in_place(|| Server::start(&["--ephemeral", "--service-cluster-ip-range=10.0.0.0/24"]));
    let mut client = server.client().await;
    provoke(&mut client).await;
    for path in ["/api/v1/namespaces/default", "/api/v1/namespaces", SERVICES, "/api/v1/namespaces/none"] {
        client.get(path).await.unwrap();
    }
    let metrics = wait_until("the addresses are counted", async || {
        let metrics = client.get("/metrics").await.unwrap().body;
        // The service `kubernetes` has an address, too.
        let given = value(&metrics, "kube_apiserver_clusterip_allocator_allocated_ips", &["cidr=\"10.0.0.0/24\""]);
        (given >= Some(4.0)).then_some(metrics)
    })
    .await;

    // The rules, alerts and panels of kubernetes-mixin for the API server.
    let sli = "apiserver_request_sli_duration_seconds_bucket";
    for (family, labels) in [
        (
            "apiserver_request_total",
            &["code=\"200\"", "verb=\"GET\"", "resource=\"namespaces\"", "scope=\"resource\""][..],
        ),
        ("apiserver_request_total", &["code=\"404\"", "verb=\"GET\""]),
        ("apiserver_request_total", &["code=\"201\"", "verb=\"POST\"", "resource=\"services\""]),
        (sli, &["verb=\"GET\"", "scope=\"resource\"", "le=\"1\""]),
        (sli, &["verb=\"LIST\"", "scope=\"namespace\"", "le=\"5\""]),
        (sli, &["verb=\"LIST\"", "scope=\"cluster\"", "le=\"30\""]),
        (sli, &["verb=\"POST\"", "subresource=\"\"", "le=\"+Inf\""]),
        ("apiserver_request_duration_seconds_bucket", &["verb=\"PATCH\"", "le=\"0.05\""]),
        ("apiserver_client_certificate_expiration_seconds_count", &[]),
        ("apiserver_client_certificate_expiration_seconds_bucket", &["le=\"3.1104e+07\""]),
        ("kubernetes_build_info", &["git_version=\"v1.36"]),
        ("process_resident_memory_bytes", &[]),
        ("process_cpu_seconds_total", &[]),
        ("go_goroutines", &[]),
        ("apiserver_flowcontrol_demand_seats_count", &["priority_level=\"exempt\""]),
        ("apiserver_flowcontrol_priority_level_seat_utilization_count", &["phase=\"executing\""]),
        ("apiserver_flowcontrol_priority_level_request_utilization_count", &["phase=\"waiting\""]),
        ("apiserver_flowcontrol_work_estimated_seats_bucket", &["le=\"64\""]),
    ] {
        assert!(value(&metrics, family, labels).is_some(), "{family} {labels:?} in {metrics}");
    }

    // The allocators of addresses and ports for services.
    let (range, given) = ("cidr=\"10.0.0.0/24\"", "kube_apiserver_clusterip_allocator_allocation_total");
    for (family, labels, want) in [
        (given, &[range, "scope=\"static\""][..], 1.0),
        ("kube_apiserver_clusterip_allocator_allocation_errors_total", &[range, "scope=\"static\""], 1.0),
        ("kube_apiserver_nodeport_allocator_allocation_total", &["scope=\"static\""], 1.0),
        ("kube_apiserver_nodeport_allocator_allocation_total", &["scope=\"dynamic\""], 1.0),
        ("kube_apiserver_nodeport_allocator_allocation_errors_total", &["scope=\"static\""], 1.0),
        ("kube_apiserver_nodeport_allocator_allocated_ports", &[], 2.0),
        ("kube_apiserver_nodeport_allocator_available_ports", &[], 2766.0),
    ] {
        // The service `kubernetes` counts, too.
        assert!(value(&metrics, family, labels) >= Some(want), "{family} {labels:?}");
    }
    // Validation rules of custom resources, and changes of their objects.
    for family in [
        "apiserver_cel_compilation_duration_seconds_count",
        "apiserver_cel_evaluation_duration_seconds_count",
        "apiextensions_apiserver_validation_ratcheting_seconds_count",
        "kube_apiserver_clusterip_allocator_allocation_duration_seconds_count",
    ] {
        assert!(value(&metrics, family, &[]) >= Some(1.0), "{family}");
    }
}
