//! Addresses and ports of services, which two servers on one etcd allocate to many clients that request the same ones:
//! none is allocated twice, and none is leaked in the end.
//!
//! `BINNACLE_SERVICES=5000` sets the number of services that are created and deleted.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use binnacle_testkit::{Etcd, Server, wait_until};
use futures::future::{join_all, try_join_all};
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::networking::v1::IPAddress;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

const CLIENTS: usize = 8;
/// The number of services that a client has at the same time.
const WINDOW: usize = 40;
const FIRST_PORT: i32 = 30_000;
const LAST_PORT: i32 = 31_999;
/// 1,022 addresses of one family and 1,023 of the other, which are reused repeatedly.
const RANGES: &str = "--service-cluster-ip-range=10.8.0.0/22,fd00:8::/118";
const NAMESPACE: &str = "many";

/// The owners of addresses and ports, according to the responses.
#[derive(Default)]
struct Ledger {
    held: Mutex<BTreeMap<String, String>>,
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn allocates_nothing_twice_and_loses_nothing() {
    let etcd = Etcd::single();
    let total = std::env::var("BINNACLE_SERVICES").map_or(400, |text| text.parse().unwrap());
    let ports = format!("--service-node-port-range={FIRST_PORT}-{LAST_PORT}");
    let starting = (0..2).map(|_| {
        let arguments = [etcd.servers(), RANGES.to_owned(), ports.clone()];
        tokio::task::spawn_blocking(move || Server::durable_with(&arguments.each_ref().map(String::as_str)))
    });
    let servers = try_join_all(starting).await.unwrap();
    let clients = join_all((0..CLIENTS).map(|n| servers[n % 2].kube())).await;
    crate::namespace(&clients[0], NAMESPACE).await;
    let own = wait_until("the service kubernetes has its address", async || {
        let addresses = addresses(&clients[0]).await;
        (addresses.len() == 1).then_some(addresses)
    })
    .await;

    let began = Instant::now();
    let ledger = Arc::new(Ledger::default());
    let work = (0..CLIENTS).map(|n| {
        let (client, ledger) = (clients[n].clone(), ledger.clone());
        tokio::spawn(async move { come_and_go(client, n, total / CLIENTS, &ledger).await })
    });
    let refused: usize = try_join_all(work).await.unwrap().into_iter().sum();
    let took = began.elapsed();

    // Both servers list the services that the clients have left.
    let services: Api<Service> = Api::namespaced(clients[1].clone(), NAMESPACE);
    let left = services.list(&ListParams::default()).await.unwrap().items;
    let mut held = BTreeMap::new();
    for service in &left {
        for thing in things(service) {
            let other = held.insert(thing.clone(), service.name_any());
            assert_eq!(other, None, "{thing} belongs to {} as well", service.name_any());
        }
    }
    assert_eq!(held, *ledger.held.lock());
    let objects: BTreeSet<_> = addresses(&clients[1]).await.difference(&own).cloned().collect();
    let given = held.keys().filter(|thing| !thing.starts_with("port ")).cloned().collect();
    assert_eq!(objects, given, "objects that hold addresses, and addresses of services");

    // After all are deleted, every port is free again.
    for name in left.iter().map(ResourceExt::name_any) {
        services.delete(&name, &DeleteParams::default()).await.unwrap();
    }
    assert_eq!(addresses(&clients[0]).await, own);
    let all: Vec<i32> = (FIRST_PORT..=LAST_PORT).collect();
    for (n, ports) in all.chunks(400).enumerate() {
        let ports: Vec<_> =
            ports.iter().map(|port| json!({"name": format!("p{port}"), "port": port, "nodePort": port})).collect();
        let service = json!({"metadata": {"name": format!("all-{n}")}, "spec": {"type": "NodePort", "ports": ports}});
        services.create(&PostParams::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    }
    println!("{total} services in {took:?}, {refused} were refused what another had");
}

/// Creates services and deletes the oldest. Returns the number of rejections because an address or port is in use.
async fn come_and_go(client: Client, n: usize, count: usize, ledger: &Ledger) -> usize {
    let services: Api<Service> = Api::namespaced(client, NAMESPACE);
    let mut there = VecDeque::new();
    let mut refused = 0;
    for turn in 0..count {
        let name = format!("s{n}-{turn}");
        let service: Service = serde_json::from_value(service(&name, n, turn)).unwrap();
        match services.create(&PostParams::default(), &service).await {
            Ok(made) => {
                ledger.enter(&made);
                there.push_back(made);
            }
            Err(kube::Error::Api(status)) if status.message.contains("is already allocated") => refused += 1,
            Err(error) => panic!("{error}"),
        }
        // Some change their type, and with it their addresses and ports.
        if turn % 5 == 3
            && let Some(old) = there.pop_back()
        {
            there.push_back(change(&services, old, ledger).await);
        }
        if there.len() > WINDOW {
            let oldest = there.pop_front().unwrap();
            // Others may get its address and ports before the response arrives.
            ledger.strike(&oldest);
            services.delete(&oldest.name_any(), &DeleteParams::default()).await.unwrap();
        }
    }
    refused
}

/// Removes the node port of a service that has one, and adds one otherwise.
async fn change(services: &Api<Service>, old: Service, ledger: &Ledger) -> Service {
    let spec = old.spec.as_ref().unwrap();
    if spec.cluster_ip.as_deref() == Some("None") {
        return old;
    }
    let had_ports = spec.type_.as_deref() != Some("ClusterIP");
    if had_ports {
        ledger.strike(&old);
    }
    let kind = if had_ports { "ClusterIP" } else { "NodePort" };
    let patch = json!({"spec": {
        "type": kind, "externalTrafficPolicy": if had_ports { None } else { Some("Cluster") },
        "healthCheckNodePort": null, "allocateLoadBalancerNodePorts": null
    }});
    let new = services.patch(&old.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    if !had_ports {
        ledger.strike(&old);
    }
    ledger.enter(&new);
    new
}

/// Returns a service of one of many kinds. A few request the same addresses or ports as others at the same time.
fn service(name: &str, n: usize, turn: usize) -> serde_json::Value {
    let dns = json!([
        {"name": "tcp", "port": 53}, {"name": "udp", "port": 53, "protocol": "UDP"}, {"name": "http", "port": 80}
    ]);
    let one = json!([{"port": 80}]);
    let spec = match (turn + n) % 8 {
        0 => json!({"type": "ClusterIP", "ports": one}),
        1 => json!({"type": "NodePort", "ports": dns, "ipFamilyPolicy": "PreferDualStack"}),
        2 => {
            json!({"type": "NodePort", "ports": one, "ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6", "IPv4"]})
        }
        3 => json!({"type": "LoadBalancer", "ports": one, "externalTrafficPolicy": "Local"}),
        4 => json!({"type": "ClusterIP", "ports": one, "ipFamilies": ["IPv6"]}),
        5 => json!({"type": "ClusterIP", "clusterIP": "None", "ports": one}),
        6 => json!({"type": "ClusterIP", "clusterIP": format!("10.8.0.{}", turn % 20 + 20), "ports": one}),
        _ => json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": FIRST_PORT + (turn % 20) as i32}]}),
    };
    json!({"metadata": {"name": name}, "spec": spec})
}

/// Returns the addresses and ports of a service, without duplicates.
fn things(service: &Service) -> BTreeSet<String> {
    let spec = service.spec.as_ref().unwrap();
    let addresses = spec.cluster_ips.iter().flatten().filter(|address| *address != "None").cloned();
    let ports = spec.ports.iter().flatten().filter_map(|port| port.node_port).chain(spec.health_check_node_port);
    addresses.chain(ports.filter(|port| *port != 0).map(|port| format!("port {port}"))).collect()
}

async fn addresses(client: &Client) -> BTreeSet<String> {
    let addresses: Api<IPAddress> = Api::all(client.clone());
    addresses.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect()
}

impl Ledger {
    fn enter(&self, service: &Service) {
        let mut held = self.held.lock();
        for thing in things(service) {
            let other = held.insert(thing.clone(), service.name_any());
            assert_eq!(other, None, "{thing} was given to {} as well", service.name_any());
        }
    }

    fn strike(&self, service: &Service) {
        let mut held = self.held.lock();
        things(service).iter().for_each(|thing| drop(held.remove(thing)));
    }
}
