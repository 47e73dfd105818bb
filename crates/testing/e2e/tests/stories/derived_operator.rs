//! An operator as Rust programs implement it: its definition is derived from a struct, and it uses server-side apply.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use binnacle_testkit::{Server, wait_until};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams, ListParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::watcher;
use kube::{Client, CustomResource, CustomResourceExt, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

const FINALIZER: &str = "shop.test/strike";
const SAILS: i32 = 12;

/// The desired sails of a ship.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "shop.test", version = "v1", kind = "Rig", namespaced, status = "RigStatus", shortname = "rg")]
#[kube(printcolumn = r#"{"name":"Sails","type":"integer","jsonPath":".spec.sails"}"#)]
struct RigSpec {
    #[schemars(range(min = 0, max = 100))]
    sails: i32,
    #[serde(default = "canvas")]
    cloth: Cloth,
    #[serde(default)]
    notes: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
enum Cloth {
    Canvas,
    Linen,
}

fn canvas() -> Cloth {
    Cloth::Canvas
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct RigStatus {
    set: i32,
    observed_generation: i64,
}

type Failure = kube::runtime::finalizer::Error<kube::Error>;

fn own() -> PatchParams {
    PatchParams::apply("rigger").force()
}

async fn reconcile(rig: Arc<Rig>, client: Arc<Client>) -> Result<Action, Failure> {
    let namespace = rig.namespace().unwrap_or_default();
    let rigs: Api<Rig> = Api::namespaced((*client).clone(), &namespace);
    let maps: Api<ConfigMap> = Api::namespaced((*client).clone(), &namespace);
    finalizer(&rigs, FINALIZER, rig, async |event| match event {
        Event::Apply(rig) => {
            for n in 0..rig.spec.sails {
                let map = ConfigMap {
                    metadata: ObjectMeta {
                        name: Some(format!("{}-{n}", rig.name_any())),
                        owner_references: rig.controller_owner_ref(&()).map(|owner| vec![owner]),
                        labels: Some([("rig".to_owned(), rig.name_any())].into()),
                        ..ObjectMeta::default()
                    },
                    data: Some([("cloth".to_owned(), format!("{:?}", rig.spec.cloth))].into()),
                    ..ConfigMap::default()
                };
                maps.patch(&map.name_any(), &own(), &Patch::Apply(&map)).await?;
            }
            let found = maps.list(&ListParams::default().labels(&format!("rig={}", rig.name_any()))).await?.items;
            let too_many = found.iter().filter(|map| {
                let number = map.name_any().rsplit('-').next().and_then(|n| n.parse::<i32>().ok());
                number.is_some_and(|n| n >= rig.spec.sails)
            });
            for map in too_many {
                maps.delete(&map.name_any(), &DeleteParams::default()).await?;
            }
            let status = json!({
                "apiVersion": Rig::api_version(&()), "kind": Rig::kind(&()),
                "status": RigStatus { set: rig.spec.sails, observed_generation: rig.metadata.generation.unwrap_or_default() }
            });
            rigs.patch_status(&rig.name_any(), &own(), &Patch::Apply(status)).await?;
            Ok(Action::await_change())
        }
        Event::Cleanup(rig) => {
            let all = ListParams::default().labels(&format!("rig={}", rig.name_any()));
            maps.delete_collection(&DeleteParams::default(), &all).await?;
            Ok(Action::await_change())
        }
    })
    .await
}

fn retry(_: Arc<Rig>, _: &Failure, _: Arc<Client>) -> Action {
    Action::requeue(Duration::from_millis(20))
}

#[tokio::test(flavor = "multi_thread")]
async fn applies_the_objects_of_a_derived_kind() {
    let server = Server::ephemeral();
    let client = server.kube().await;
    crate::namespace(&client, "yard").await;
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.patch("rigs.shop.test", &own(), &Patch::Apply(Rig::crd())).await.unwrap();
    let rigs: Api<Rig> = Api::namespaced(client.clone(), "yard");
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "yard");
    wait_until("the resource is served", async || rigs.list(&ListParams::default()).await.ok()).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller = Controller::new(rigs.clone(), watcher::Config::default())
        .owns(maps.clone(), watcher::Config::default().labels("rig"))
        .graceful_shutdown_on(async { drop(stopped.await) })
        .run(reconcile, retry, Arc::new(client.clone()))
        .for_each(async |_| {});
    let controller = tokio::spawn(controller);

    // The derived schema validates objects and sets defaults.
    let rig = |sails: i32| json!({"apiVersion": "shop.test/v1", "kind": "Rig", "metadata": {"name": "main"}, "spec": {"sails": sails}});
    let many = rigs.patch("main", &PatchParams::apply("owner"), &Patch::Apply(rig(101))).await.unwrap_err();
    assert!(many.to_string().contains("should be less than or equal to 100"), "{many}");
    let made = rigs.patch("main", &PatchParams::apply("owner"), &Patch::Apply(rig(SAILS))).await.unwrap();
    assert_eq!((&made.spec.cloth, made.metadata.generation), (&Cloth::Canvas, Some(1)));
    let settled = async |sails: i32, generation: i64| {
        let rig = rigs.get("main").await.unwrap();
        let found = maps.list(&ListParams::default().labels("rig=main")).await.unwrap().items;
        let status = rig.status.clone().unwrap_or_default();
        let done = (status.set, status.observed_generation) == (sails, generation);
        (done && found.len() == usize::try_from(sails).unwrap()).then_some((rig, found))
    };
    let (rig_found, found) = wait_until("the sails are set", async || settled(SAILS, 1).await).await;
    assert_eq!(rig_found.finalizers(), [FINALIZER]);
    let owner = rig_found.controller_owner_ref(&()).unwrap();
    assert!(found.iter().all(|map| map.owner_references() == [owner.clone()]));
    let managers: Vec<_> = rig_found.managed_fields().iter().map(|entry| entry.manager.clone().unwrap()).collect();
    assert!(managers.iter().any(|manager| manager == "owner") && managers.iter().any(|manager| manager == "rigger"));

    // A deleted object is recreated, and objects that are no longer wanted are deleted.
    maps.delete("main-3", &DeleteParams::default()).await.unwrap();
    wait_until("a sail is set again", async || settled(SAILS, 1).await).await;
    rigs.patch("main", &PatchParams::apply("owner"), &Patch::Apply(rig(2))).await.unwrap();
    wait_until("sails are struck", async || settled(2, 2).await).await;
    // The operator owns the status: applying another one is a conflict.
    let other = json!({"apiVersion": "shop.test/v1", "kind": "Rig", "status": {"set": 9, "observedGeneration": 2}});
    let conflict = rigs.patch_status("main", &PatchParams::apply("owner"), &Patch::Apply(other)).await.unwrap_err();
    assert!(conflict.to_string().contains("conflict with \"rigger\""), "{conflict}");

    rigs.delete("main", &DeleteParams::default()).await.unwrap();
    wait_until("the rig is gone", async || rigs.get_opt("main").await.unwrap().is_none().then_some(())).await;
    assert_eq!(maps.list(&ListParams::default().labels("rig")).await.unwrap().items.len(), 0);
    let mut second = Rig::new("second", RigSpec { sails: 1, cloth: Cloth::Linen, notes: BTreeMap::new() });
    second.spec.notes.insert("by".into(), "hand".into());
    rigs.create(&PostParams::default(), &second).await.unwrap();
    let linen = async || {
        maps.get_opt("second-0")
            .await
            .unwrap()
            .filter(|map| map.data.as_ref().is_some_and(|data| data["cloth"] == "Linen"))
    };
    wait_until("its sail is set", linen).await;
    drop(stop);
    controller.await.unwrap();
}
