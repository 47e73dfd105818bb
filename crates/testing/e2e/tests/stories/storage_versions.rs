//! Upgrades that can be rolled back: a server that emulates an older release writes data that this release can read.
//! Newer servers read it, and rewrite it by writes without a change, as storage migrations do.

use binnacle_testkit::{Etcd, Server};
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, PostParams};
use serde_json::{Value, json};

const KEY: &str = "/registry/deviceclasses/more.example.com";
/// It emulates the release that introduced `resource.k8s.io/v1`, which the previous one cannot read.
const EMULATING: &str = "--emulated-version=1.34";
/// The version that the emulated release still writes, as in kube-apiserver.
const BEFORE: &str = "resource.k8s.io/v1beta2";

fn classes(client: kube::Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("resource.k8s.io", "v1", "DeviceClass");
    Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, "deviceclasses"))
}

/// Returns the apiVersion in the envelope.
fn written(etcd: &Etcd) -> String {
    let stored = etcd.ctl(0, &["get", KEY, "--print-value-only"]);
    let from = stored.find("resource.k8s.io/").unwrap_or_else(|| panic!("{stored:?}"));
    stored[from..].chars().take_while(|c| c.is_ascii_alphanumeric() || "./".contains(*c)).collect()
}

async fn hash(server: &Server, resource: &str) -> String {
    let answer = server.client().await.get("/apis/resource.k8s.io/v1").await.unwrap();
    let list: Value = serde_json::from_str(&answer.body).unwrap();
    let found = list["resources"].as_array().unwrap().iter().find(|known| known["name"] == resource);
    found.unwrap()["storageVersionHash"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn upgrades_can_be_rolled_back() {
    let etcd = Etcd::single();
    let (older, before_v1) = {
        let server = Server::durable_with(&[&etcd.servers(), EMULATING]);
        let classes = classes(server.kube().await);
        let more = json!({
            "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": {"name": "more.example.com"},
            "spec": {"selectors": [{"cel": {"expression": "true"}}]}
        });
        let made = classes.create(&PostParams::default(), &serde_json::from_value(more).unwrap()).await.unwrap();
        assert_eq!(classes.get("more.example.com").await.unwrap(), made);
        (made, hash(&server, "deviceclasses").await)
    };
    assert_eq!(written(&etcd), BEFORE);

    {
        let server = Server::durable_with(&[&etcd.servers()]);
        let classes = classes(server.kube().await);
        let read = classes.get("more.example.com").await.unwrap();
        assert_eq!((&read.metadata.uid, &read.data["spec"]), (&older.metadata.uid, &older.data["spec"]));
        assert_ne!(hash(&server, "deviceclasses").await, before_v1);
        assert_eq!(written(&etcd), BEFORE);
        let before = read.metadata.resource_version.clone();
        let rewritten = classes.replace("more.example.com", &PostParams::default(), &read).await.unwrap();
        assert_ne!(rewritten.metadata.resource_version, before, "nothing was written");
        assert_eq!(written(&etcd), "resource.k8s.io/v1");
        let again = classes.replace("more.example.com", &PostParams::default(), &rewritten).await.unwrap();
        assert_eq!(again.metadata.resource_version, rewritten.metadata.resource_version);
    }

    let server = Server::durable_with(&[&etcd.servers(), EMULATING]);
    let classes = classes(server.kube().await);
    let read = classes.get("more.example.com").await.unwrap();
    assert_eq!(read.data["spec"], older.data["spec"]);
    classes.replace("more.example.com", &PostParams::default(), &read).await.unwrap();
    assert_eq!(written(&etcd), BEFORE);
}
