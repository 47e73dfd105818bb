//! Addresses and ports of services: allocated once, released, and never allocated twice, even by concurrent requests.

#![allow(clippy::unwrap_used, reason = "a test may break off")]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use binnacle_schema::{Value, value};
use binnacle_services::ServiceConfig;
use binnacle_store::Store;
use binnacle_store_embedded::EmbeddedStore;
use binnacle_validation::ip::parse_cidr;
use futures::future::join_all;

use binnacle_test_cluster::{Server, user};

async fn server() -> Server {
    prepared(&ServiceConfig::default(), &["10.0.0.0/24"]).await
}

async fn prepared(config: &ServiceConfig, cidrs: &[&str]) -> Server {
    let server = Server::new(config);
    server.create("namespaces", "", value!({"metadata": {"name": "ns"}})).await.unwrap();
    let cidr = value!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": (cidrs.to_vec())}});
    server.create("networking.k8s.io/v1/servicecidrs", "", cidr).await.unwrap();
    server
}

fn named(name: &str, spec: Value) -> Value {
    value!({"metadata": {"name": name}, "spec": spec})
}

fn web(name: &str) -> Value {
    named(name, value!({"selector": {"app": "a"}, "ports": [{"port": 80i64}]}))
}

fn node_ports(service: &Value) -> Vec<i64> {
    service.list_at(&["spec", "ports"]).iter().filter_map(|port| port.int_at(&["nodePort"])).collect()
}

async fn addresses(server: &Server) -> Vec<String> {
    server.names("networking.k8s.io/v1/ipaddresses").await
}

#[tokio::test]
async fn allocates_and_releases_cluster_ip() {
    let server = server().await;
    let service = server.create("services", "ns", web("a")).await.unwrap();
    let ip = service.str_at(&["spec", "clusterIP"]).to_owned();
    let range = parse_cidr("10.0.0.0/24").unwrap();
    assert!(range.contains(ip.parse().unwrap()), "{ip}");
    assert_eq!(service.at(&["spec", "clusterIPs"]), Some(&value!([(ip.as_str())])));
    assert_eq!(service.at(&["spec", "ipFamilies"]), Some(&value!(["IPv4"])));
    assert_eq!(service.str_at(&["spec", "ipFamilyPolicy"]), "SingleStack");

    let address = server.get("networking.k8s.io/v1/ipaddresses", "", &ip).await.unwrap();
    assert_eq!(
        address.get("spec"),
        Some(&value!({"parentRef": {"resource": "services", "namespace": "ns", "name": "a"}}))
    );
    assert_eq!(
        address.at(&["metadata", "labels"]),
        Some(&value!({
            "ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"
        }))
    );
    assert_eq!(address.list_at(&["metadata", "managedFields"])[0].str_at(&["manager"]), "kube-apiserver");

    server.create("endpoints", "ns", value!({"metadata": {"name": "a"}})).await.unwrap();
    server.delete("services", "ns", "a").await.unwrap();
    assert_eq!(addresses(&server).await, Vec::<String>::new());
    assert_eq!(server.get("endpoints", "ns", "a").await.unwrap_err().code(), 404);
}

#[tokio::test]
async fn refused_services_leave_no_allocations() {
    let server = server().await;
    let requested = |ip: &str| named("b", value!({"clusterIP": ip, "ports": [{"port": 80i64}]}));
    server
        .create("services", "ns", named("a", value!({"clusterIP": "10.0.0.15", "ports": [{"port": 80i64}]})))
        .await
        .unwrap();
    let taken = named("n", value!({"type": "NodePort", "ports": [{"port": 80i64, "nodePort": 30011i64}]}));
    server.create("services", "ns", taken).await.unwrap();
    let before = addresses(&server).await;
    for (service, code, message) in [
        (
            requested("10.0.0.15"),
            422,
            "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.15\"]: failed to allocate IP 10.0.0.15: provided IP is already allocated",
        ),
        (
            requested("10.0.1.15"),
            422,
            "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.1.15\"]: failed to allocate IP 10.0.1.15: the provided network does not match the current range",
        ),
        (
            requested("10.0.0.255"),
            422,
            "Service \"b\" is invalid: spec.clusterIPs: Invalid value: [\"10.0.0.255\"]: failed to allocate IP 10.0.0.255: the provided network does not match the current range",
        ),
        (
            named("b", value!({"type": "NodePort", "ports": [{"port": 80i64, "nodePort": 30011i64}]})),
            422,
            "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 30011: provided port is already allocated",
        ),
        (
            named("b", value!({"type": "NodePort", "ports": [{"port": 80i64, "nodePort": 80i64}]})),
            422,
            "Service \"b\" is invalid: spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767",
        ),
        (
            named(
                "b",
                value!({
                    "type": "LoadBalancer", "externalTrafficPolicy": "Local", "healthCheckNodePort": 30011i64,
                    "ports": [{"port": 80i64}]
                }),
            ),
            500,
            "Internal error occurred: failed to allocate requested HealthCheck NodePort 30011: provided port is already allocated",
        ),
        (web("a"), 409, "services \"a\" already exists"),
    ] {
        let refused = server.create("services", "ns", service).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (code, message));
        assert_eq!(addresses(&server).await, before, "after {message}");
    }
}

#[tokio::test]
async fn type_change_allocates_and_releases() {
    let server = server().await;
    let set_type = |kind: &'static str| {
        move |service: &mut Value| {
            service.make_at(&["spec"]).insert("type", kind);
        }
    };
    server.create("services", "ns", web("a")).await.unwrap();
    let service = server.update("services", "ns", "a", set_type("NodePort")).await.unwrap();
    let [port] = node_ports(&service)[..] else { panic!("{service:?}") };
    assert!((30086..=32767).contains(&port), "{port} is not of those left to who asks");
    let taken = |name: &str| named(name, value!({"type": "NodePort", "ports": [{"port": 80i64, "nodePort": port}]}));
    assert_eq!(server.create("services", "ns", taken("b")).await.unwrap_err().code(), 422);

    let service = server.update("services", "ns", "a", set_type("ClusterIP")).await.unwrap();
    assert_eq!(node_ports(&service), Vec::<i64>::new());
    server.create("services", "ns", taken("b")).await.unwrap();

    let service = server
        .update("services", "ns", "a", |service| {
            let spec = service.make_at(&["spec"]);
            spec.insert("type", "LoadBalancer");
            spec.insert("externalTrafficPolicy", "Local");
        })
        .await
        .unwrap();
    let health_check = service.int_at(&["spec", "healthCheckNodePort"]).unwrap();
    assert!(health_check != 0 && !node_ports(&service).contains(&health_check));

    let before = addresses(&server).await.len();
    let service = server
        .update("services", "ns", "a", |service| {
            let spec = service.make_at(&["spec"]);
            spec.insert("type", "ExternalName");
            spec.insert("externalName", "db.example.test");
            for member in [
                "clusterIP",
                "clusterIPs",
                "ipFamilies",
                "ipFamilyPolicy",
                "healthCheckNodePort",
                "externalTrafficPolicy",
                "allocateLoadBalancerNodePorts",
                "internalTrafficPolicy",
            ] {
                spec.remove(member);
            }
            let ports = spec.get_mut("ports").and_then(Value::as_list_mut).unwrap();
            ports.iter_mut().for_each(|port| drop(port.make_object().remove("nodePort")));
        })
        .await
        .unwrap();
    assert_eq!(service.str_at(&["spec", "clusterIP"]), "");
    assert_eq!(addresses(&server).await.len(), before - 1);
    let freed = named("h", value!({"type": "NodePort", "ports": [{"port": 80i64, "nodePort": health_check}]}));
    server.create("services", "ns", freed).await.unwrap();
    let service = server.update("services", "ns", "a", set_type("ClusterIP")).await.unwrap();
    assert_ne!(service.str_at(&["spec", "clusterIP"]), "");
}

#[tokio::test]
async fn ports_with_equal_number_share_node_port() {
    let server = server().await;
    let spec = |node_port: Option<i64>| {
        let mut dns = value!({
            "type": "NodePort",
            "ports": [
                {"name": "t", "port": 53i64}, {"name": "u", "port": 53i64, "protocol": "UDP"}, {"name": "w", "port": 80i64}
            ]
        });
        if let Some(port) = node_port {
            let ports = dns.get_mut("ports").and_then(Value::as_list_mut).unwrap();
            ports[1].make_object().insert("nodePort", port);
        }
        dns
    };
    let ports = node_ports(&server.create("services", "ns", named("a", spec(None))).await.unwrap());
    assert!(ports[0] == ports[1] && ports[1] != ports[2], "{ports:?}");
    let ports = node_ports(&server.create("services", "ns", named("b", spec(Some(30012)))).await.unwrap());
    assert_eq!(ports[..2], [30012, 30012]);
    server.delete("services", "ns", "b").await.unwrap();
    let ports = node_ports(&server.create("services", "ns", named("c", spec(Some(30012)))).await.unwrap());
    assert_eq!(ports[..2], [30012, 30012]);
}

#[tokio::test]
async fn dry_runs_allocate_nothing() {
    let server = server().await;
    let service = named(
        "a",
        value!({"type": "NodePort", "ports": [{"name": "a", "port": 80i64}, {"name": "b", "port": 81i64, "nodePort": 30001i64}]}),
    );
    let tried = server.create_as(&user("ns", true), "services", service.clone()).await.unwrap();
    assert_eq!(tried.str_at(&["spec", "clusterIP"]), "10.0.0.0");
    assert_eq!(node_ports(&tried), [32769, 30001]);
    assert_eq!(addresses(&server).await, Vec::<String>::new());
    server.create("services", "ns", service).await.unwrap();
    let requested = named("b", value!({"type": "NodePort", "ports": [{"port": 80i64, "nodePort": 30001i64}]}));
    assert_eq!(server.create_as(&user("ns", true), "services", requested).await.unwrap_err().code(), 422);
}

#[tokio::test]
async fn allocates_and_releases_second_family() {
    let cidrs = ["10.0.0.0/24", "fd00::/112"];
    let config =
        ServiceConfig { cidrs: cidrs.iter().filter_map(|cidr| parse_cidr(cidr)).collect(), ..ServiceConfig::default() };
    let server = prepared(&config, &cidrs).await;
    let dual = named("a", value!({"ipFamilyPolicy": "RequireDualStack", "ports": [{"port": 80i64}]}));
    let service = server.create("services", "ns", dual).await.unwrap();
    assert_eq!(service.list_at(&["spec", "clusterIPs"]).len(), 2);
    let second = service.list_at(&["spec", "clusterIPs"])[1].as_str().unwrap().to_owned();
    assert!(second.starts_with("fd00::"), "{second}");
    let single = |service: &mut Value| drop(service.make_at(&["spec"]).insert("ipFamilyPolicy", "SingleStack"));
    let service = server.update("services", "ns", "a", single).await.unwrap();
    assert_eq!(service.list_at(&["spec", "clusterIPs"]).len(), 1);
    assert_eq!(addresses(&server).await.len(), 1);
    let prefer = |service: &mut Value| drop(service.make_at(&["spec"]).insert("ipFamilyPolicy", "PreferDualStack"));
    let service = server.update("services", "ns", "a", prefer).await.unwrap();
    assert_eq!(service.list_at(&["spec", "clusterIPs"]).len(), 2);
}

/// Two servers over one store, many clients: no address or port is allocated twice, and none is left at the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_requests_allocate_nothing_twice() {
    let store: Arc<dyn Store> = Arc::new(EmbeddedStore::ephemeral());
    let config = ServiceConfig::default();
    let servers = [Server::over(store.clone(), &config), Server::over(store.clone(), &config)];
    servers[0].create("namespaces", "", value!({"metadata": {"name": "ns"}})).await.unwrap();
    // The range has 62 usable addresses.
    let cidr = value!({"metadata": {"name": "kubernetes"}, "spec": {"cidrs": ["10.0.0.0/26"]}});
    servers[0].create("networking.k8s.io/v1/servicecidrs", "", cidr).await.unwrap();

    const WANTED: usize = 80;
    let created = join_all((0..WANTED).map(|i| {
        let server = servers[i % 2].clone();
        tokio::spawn(async move {
            let service = named(&format!("s{i}"), value!({"type": "NodePort", "ports": [{"port": 80i64}]}));
            (i, server.create("services", "ns", service).await)
        })
    }))
    .await;
    let mut allocated = BTreeMap::new();
    let mut ports = HashSet::new();
    for (i, result) in created.into_iter().map(Result::unwrap) {
        match result {
            Ok(service) => {
                let ip = service.str_at(&["spec", "clusterIP"]).to_owned();
                assert!(allocated.insert(ip.clone(), i).is_none(), "{ip} was given twice");
                let [port] = node_ports(&service)[..] else { panic!("{service:?}") };
                assert!(ports.insert(port), "{port} was given twice");
            }
            Err(status) => {
                let name = format!("s{i}");
                let full = format!(
                    "Internal error occurred: failed to allocate a serviceIP for Service \"{name}\": range is full"
                );
                assert_eq!(status.message(), full);
            }
        }
    }
    assert_eq!(allocated.len(), 62);
    let mut stored = addresses(&servers[0]).await;
    stored.sort();
    assert_eq!(stored, allocated.keys().cloned().collect::<Vec<_>>());

    join_all(allocated.into_values().map(|i| {
        let server = servers[(i + 1) % 2].clone();
        tokio::spawn(async move { server.delete("services", "ns", &format!("s{i}")).await.map(|_| ()).unwrap() })
    }))
    .await;
    assert_eq!(addresses(&servers[1]).await, Vec::<String>::new());
    for port in ports {
        let name = format!("p{port}");
        let service = named(&name, value!({"type": "NodePort", "ports": [{"port": 80i64, "nodePort": port}]}));
        servers[0].create("services", "ns", service).await.unwrap();
        servers[1].delete("services", "ns", &name).await.unwrap();
    }
}
