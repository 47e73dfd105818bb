//! Migration of stored objects to a new storage version, as by the controller manager's storage version migrator: the
//! definition's status has the condition, each object is applied without a change, and the old version is removed from
//! `storedVersions`.

use binnacle_testkit::{Etcd, Server, wait_until};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

const MIGRATING: &str = "migration-runner-controller";
const NAME: &str = "sails.shop.test";
const KEY: &str = "/registry/shop.test/sails/one";

fn definition() -> CustomResourceDefinition {
    let version = |name: &str, storage: bool| {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        json!({"name": name, "served": true, "storage": storage, "schema": schema})
    };
    let definition = json!({
        "metadata": {"name": NAME},
        "spec": {
            "group": "shop.test", "scope": "Cluster", "names": {"plural": "sails", "kind": "Sail"},
            "versions": [version("v1", true), version("v2", false)]
        }
    });
    serde_json::from_value(definition).unwrap()
}

fn sails(client: kube::Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("shop.test", "v2", "Sail");
    Api::all_with(client, &ApiResource::from_gvk_with_plural(&kind, "sails"))
}

fn stored_version(etcd: &Etcd) -> String {
    let stored: Value = serde_json::from_str(&etcd.ctl(0, &["get", KEY, "--print-value-only"])).unwrap();
    stored["apiVersion"].as_str().unwrap().to_owned()
}

/// Applies the condition of the migration, and the versions in which objects may be stored; returns the status.
async fn apply_status(definitions: &Api<CustomResourceDefinition>, status: &str, stored: Option<&str>) -> Value {
    let read = definitions.get(NAME).await.unwrap();
    let mut wanted = json!({"conditions": [{
        "type": "StorageMigrating", "status": status, "reason": "MigrationRunning", "message": "Migration m is running",
        "lastTransitionTime": "2026-01-02T03:04:05Z", "observedGeneration": read.metadata.generation
    }]});
    if let Some(stored) = stored {
        wanted["storedVersions"] = json!([stored]);
    }
    let applied = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": NAME, "resourceVersion": read.metadata.resource_version}, "status": wanted
    });
    let params = PatchParams::apply(MIGRATING).force();
    let written = definitions.patch_status(NAME, &params, &Patch::Apply(applied.clone())).await.unwrap();
    // An apply with a stale resourceVersion is a conflict.
    let stale = definitions.patch_status(NAME, &params, &Patch::Apply(applied)).await.unwrap_err();
    assert!(matches!(&stale, kube::Error::Api(status) if status.code == 409), "{stale}");
    serde_json::to_value(written).unwrap()["status"].clone()
}

fn migrating(status: &Value) -> &Value {
    let conditions = status["conditions"].as_array().unwrap();
    conditions.iter().find(|condition| condition["type"] == "StorageMigrating").unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn rewrites_objects_in_the_new_version() {
    let etcd = Etcd::single();
    let gate = "--feature-gates=StorageVersionMigrator=true";
    let served = "--runtime-config=storagemigration.k8s.io/v1beta1=true";
    let server = Server::durable_with(&[&etcd.servers(), gate, served]);
    let client = server.kube().await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition()).await.unwrap();
    let sails = sails(client.clone());
    let sail = json!({"apiVersion": "shop.test/v2", "kind": "Sail", "metadata": {"name": "one"}, "area": 3});
    let sail: DynamicObject = serde_json::from_value(sail).unwrap();
    wait_until("the resource is served", async || sails.create(&PostParams::default(), &sail).await.ok()).await;
    assert_eq!(stored_version(&etcd), "shop.test/v1");

    let other = json!({"spec": {"versions": [
        {"name": "v1", "served": true, "storage": false, "schema": definition().spec.versions[0].schema},
        {"name": "v2", "served": true, "storage": true, "schema": definition().spec.versions[0].schema}
    ]}});
    definitions.patch(NAME, &PatchParams::default(), &Patch::Merge(other)).await.unwrap();
    let status = apply_status(&definitions, "True", None).await;
    assert_eq!(status["storedVersions"], json!(["v1", "v2"]));
    assert_eq!((&migrating(&status)["status"], &migrating(&status)["observedGeneration"]), (&json!("True"), &json!(2)));

    // A StorageVersionMigration; its status is written by the controllers.
    let orders = GroupVersionKind::gvk("storagemigration.k8s.io", "v1beta1", "StorageVersionMigration");
    let orders = ApiResource::from_gvk_with_plural(&orders, "storageversionmigrations");
    let orders: Api<DynamicObject> = Api::all_with(client, &orders);
    let order = json!({
        "apiVersion": "storagemigration.k8s.io/v1beta1", "kind": "StorageVersionMigration",
        "metadata": {"name": "m"}, "spec": {"resource": {"group": "shop.test", "resource": "sails"}}
    });
    orders.create(&PostParams::default(), &serde_json::from_value(order).unwrap()).await.unwrap();
    let running = json!({"status": {"resourceVersion": "7", "conditions": [{
        "type": "Running", "status": "True", "reason": "MigrationRunning", "message": "",
        "lastTransitionTime": "2026-01-02T03:04:05Z"
    }]}});
    orders.patch_status("m", &PatchParams::default(), &Patch::Merge(running)).await.unwrap();

    let read = sails.get("one").await.unwrap();
    let unchanged = json!({"apiVersion": "shop.test/v2", "kind": "Sail", "metadata": {
        "uid": read.metadata.uid, "resourceVersion": read.metadata.resource_version
    }});
    let params = PatchParams::apply("storage-version-migrator-controller");
    let migrate = || async {
        wait_until("objects are written in the new version", async || {
            let moved = sails.patch("one", &params, &Patch::Apply(unchanged.clone())).await;
            // Until the server uses the new version, an apply writes nothing.
            match moved {
                Ok(_) if stored_version(&etcd) == "shop.test/v1" => None,
                other => Some(other),
            }
        })
        .await
    };
    let moved = migrate().await.unwrap();
    assert_eq!((&moved.data["area"], moved.metadata.generation), (&json!(3), Some(1)));
    assert_ne!(moved.metadata.resource_version, read.metadata.resource_version);
    assert_eq!(stored_version(&etcd), "shop.test/v2");

    let status = apply_status(&definitions, "False", Some("v2")).await;
    assert_eq!(status["storedVersions"], json!(["v2"]));
    assert_eq!(migrating(&status)["status"], "False");
    let after = sails.get("one").await.unwrap();
    assert_eq!(after.metadata.resource_version, moved.metadata.resource_version);
}
