//! Upgrades that can be taken back: what a server writes that emulates an older release, that release can read; what it
//! wrote is read by newer ones, and rewritten by a write that changes nothing, as storage migrations do.

use binnacle_testkit::{Etcd, Server};
use kube::api::{Api, ListParams, PostParams};
use serde_json::{Value, json};

use k8s_openapi::api::networking::v1::{IPAddress, ServiceCIDR};

const KEY: &str = "/registry/servicecidrs/more";

/// The apiVersion that stands in the envelope.
fn written(etcd: &Etcd) -> String {
    let stored = etcd.ctl(0, &["get", KEY, "--print-value-only"]);
    let from = stored.find("networking.k8s.io/").unwrap_or_else(|| panic!("{stored:?}"));
    stored[from..].chars().take_while(|c| c.is_ascii_alphanumeric() || "./".contains(*c)).collect()
}

async fn hash(server: &Server, resource: &str) -> String {
    let answer = server.client().await.get("/apis/networking.k8s.io/v1").await.unwrap();
    let list: Value = serde_json::from_str(&answer.body).unwrap();
    let found = list["resources"].as_array().unwrap().iter().find(|known| known["name"] == resource);
    found.unwrap()["storageVersionHash"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_upgrade_can_be_taken_back() {
    let Some(etcd) = Etcd::available().then(Etcd::single) else { return };
    let (older, v1beta1) = {
        let server = Server::durable_with(&[&etcd.servers(), "--emulated-version=1.33"]);
        let client = server.kube().await;
        let cidrs: Api<ServiceCIDR> = Api::all(client.clone());
        let more = json!({"metadata": {"name": "more"}, "spec": {"cidrs": ["10.9.0.0/24"]}});
        let made = cidrs.create(&PostParams::default(), &serde_json::from_value(more).unwrap()).await.unwrap();
        assert_eq!(cidrs.get("more").await.unwrap(), made);
        (made, hash(&server, "servicecidrs").await)
    };
    assert_eq!(written(&etcd), "networking.k8s.io/v1beta1");

    {
        let server = Server::durable_with(&[&etcd.servers()]);
        let client = server.kube().await;
        let cidrs: Api<ServiceCIDR> = Api::all(client.clone());
        let read = cidrs.get("more").await.unwrap();
        assert_eq!((&read.metadata.uid, &read.spec), (&older.metadata.uid, &older.spec));
        assert_ne!(hash(&server, "servicecidrs").await, v1beta1);
        assert_eq!(written(&etcd), "networking.k8s.io/v1beta1");
        let before = read.metadata.resource_version.clone();
        let rewritten = cidrs.replace("more", &PostParams::default(), &read).await.unwrap();
        assert_ne!(rewritten.metadata.resource_version, before, "nothing was written");
        assert_eq!(written(&etcd), "networking.k8s.io/v1");
        let again = cidrs.replace("more", &PostParams::default(), &rewritten).await.unwrap();
        assert_eq!(again.metadata.resource_version, rewritten.metadata.resource_version);
        let addresses: Api<IPAddress> = Api::all(client);
        assert_eq!(addresses.list(&ListParams::default()).await.unwrap().items.len(), 1);
    }

    let server = Server::durable_with(&[&etcd.servers(), "--emulated-version=1.33"]);
    let cidrs: Api<ServiceCIDR> = Api::all(server.kube().await);
    let read = cidrs.get("more").await.unwrap();
    assert_eq!(read.spec, older.spec);
    cidrs.replace("more", &PostParams::default(), &read).await.unwrap();
    assert_eq!(written(&etcd), "networking.k8s.io/v1beta1");
}
