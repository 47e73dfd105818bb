//! etcd executes a write and its response is lost. It is unknown to the server whether the object exists, so values that it
//! may use are not allocated again.

use binnacle_testkit::https::{Answer, Client};
use binnacle_testkit::{Etcd, Server};
use serde_json::{Value, json};

const JSON: [(&str, &str); 1] = [("content-type", "application/json")];
const SERVICES: &str = "/api/v1/namespaces/default/services";
/// Only the write that gets no response contains this.
const MARK: &str = "nobody-hears-of-this";

fn service(name: &str, address: &str, node_port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
        "spec": {"type": "NodePort", "clusterIP": address, "ports": [{"port": 80, "nodePort": node_port}]}
    })
}

async fn send(client: &mut Client, method: &str, path: &str, service: &Value) -> Answer {
    client.send(method, path, &JSON, service.to_string()).await.unwrap()
}

/// Sends a write whose response is lost, of a service that exists afterwards.
async fn lose(etcd: &Etcd, client: &mut Client, method: &str, path: &str, mut service: Value) {
    service["metadata"]["annotations"] = json!({"mark": MARK});
    etcd.lose_answer(MARK);
    let answer = send(client, method, path, &service).await;
    assert!(answer.status >= 500, "{} {}", answer.status, answer.body);
    assert!(etcd.has_lost_answer());
    let name = service["metadata"]["name"].as_str().unwrap();
    let there = client.get(&format!("{SERVICES}/{name}")).await.unwrap();
    assert!(there.status == 200 && there.body.contains(MARK), "it was carried out: {}", there.body);
}

/// Checks that a service with the same address or port is rejected.
async fn refuse(client: &mut Client, address: &str, node_port: u16, why: &str) {
    let answer = send(client, "POST", SERVICES, &service("another", address, node_port)).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    assert!(answer.body.contains(why), "{}", answer.body);
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn services_of_unknown_outcome_keep_their_allocations() {
    const ADDRESS: &str = "provided IP is already allocated";
    const PORT: &str = "provided port is already allocated";
    let etcd = Etcd::forgetful();
    let server = Server::durable_with(&[&etcd.servers()]);
    let mut client = server.connect(&server.admin()).await;

    lose(&etcd, &mut client, "POST", SERVICES, service("created", "10.0.0.77", 30_077)).await;
    refuse(&mut client, "10.0.0.77", 30_078, ADDRESS).await;
    refuse(&mut client, "10.0.0.78", 30_077, PORT).await;

    // An update that allocates an address and a port.
    let plain = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "changed"},
        "spec": {"type": "ExternalName", "externalName": "example.com"}
    });
    let answer = send(&mut client, "POST", SERVICES, &plain).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
    let made: Value = serde_json::from_str(&answer.body).unwrap();
    let mut changed = service("changed", "10.0.0.88", 30_088);
    changed["metadata"]["resourceVersion"] = made["metadata"]["resourceVersion"].clone();
    lose(&etcd, &mut client, "PUT", &format!("{SERVICES}/changed"), changed).await;
    refuse(&mut client, "10.0.0.88", 30_089, ADDRESS).await;
    refuse(&mut client, "10.0.0.89", 30_088, PORT).await;

    // A write that had no effect for certain releases its address and port.
    let mut invalid = service("invalid", "10.0.0.99", 30_099);
    invalid["spec"]["sessionAffinity"] = "no such thing".into();
    let answer = send(&mut client, "POST", SERVICES, &invalid).await;
    assert_eq!(answer.status, 422, "{}", answer.body);
    let answer = send(&mut client, "POST", SERVICES, &service("valid", "10.0.0.99", 30_099)).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
}
