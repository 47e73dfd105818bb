//! An etcd without space, or with values that cannot be decoded, does not prevent a server from starting.

use binnacle_testkit::{Etcd, Server, wait_until};
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Namespace};
use kube::api::{Api, DeleteParams, PostParams};
use serde_json::json;

/// An address that endpoints may contain.
const ADVERTISED: &str = "--advertise-address=10.9.8.7";

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(json!({"metadata": {"name": name}, "data": {"v": "1"}})).unwrap()
}

async fn ready(server: &Server) {
    let mut client = server.client().await;
    wait_until("it is ready", async || (client.get("/readyz").await.unwrap().status == 200).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn starts_beside_an_etcd_with_the_nospace_alarm() {
    let etcd = Etcd::small(8 << 20);
    let flag = etcd.servers();
    let mut server = Server::durable_with(&[&flag, ADVERTISED]);
    let maps = Api::<ConfigMap>::namespaced(server.kube().await, "default");
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    // The objects of every cluster must exist: they cannot be written later.
    ready(&server).await;
    server.kill();
    // On a slow disk a put can also time out.
    let value = vec![b'x'; 1 << 20];
    let is_full = || etcd.ctl(0, &["alarm", "list"]).contains("NOSPACE");
    let mut puts = 0;
    while !is_full() && puts < 100 {
        etcd.try_put(&format!("/other/{puts}"), &value);
        puts += 1;
    }
    assert!(is_full(), "etcd took {puts} puts");

    // Its lease cannot be renewed.
    server.restart();
    ready(&server).await;
    assert_eq!(server.client().await.get("/livez").await.unwrap().status, 200);
    let maps = Api::<ConfigMap>::namespaced(server.kube().await, "default");
    assert!(maps.get("a").await.is_ok());
    let refused = maps.create(&PostParams::default(), &config_map("b")).await.unwrap_err();
    assert!(refused.to_string().contains("etcdserver: mvcc: database space exceeded"), "{refused}");
    maps.delete("a", &DeleteParams::default()).await.unwrap();

    // An operator frees space.
    let _ = etcd.ctl(0, &["del", "--prefix", "/other/"]);
    let status = etcd.ctl(0, &["endpoint", "status", "--write-out=json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    let _ = etcd.ctl(0, &["compact", &status[0]["Status"]["header"]["revision"].to_string()]);
    let _ = etcd.ctl(0, &["defrag"]);
    let _ = etcd.ctl(0, &["alarm", "disarm"]);
    maps.create(&PostParams::default(), &config_map("b")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn ignores_an_undecodable_lease_of_another_server() {
    let etcd = Etcd::single();
    etcd.put("/registry/masterleases/10.1.2.3", b"no object");
    let server = Server::durable_with(&[&etcd.servers(), ADVERTISED]);
    ready(&server).await;
    let client = server.kube().await;
    assert!(Api::<Namespace>::all(client.clone()).get("default").await.is_ok());
    let endpoints = Api::<Endpoints>::namespaced(client, "default");
    let published =
        wait_until("its endpoints are there", async || endpoints.get_opt("kubernetes").await.unwrap()).await;
    let addresses = serde_json::to_value(published.subsets).unwrap()[0]["addresses"].clone();
    assert_eq!(addresses, json!([{"ip": "10.9.8.7"}]));
}
