//! Definitions and their objects are created and deleted while the server is killed repeatedly. Acknowledged ones exist
//! and are served, deleted ones are gone with all their objects, and there are no others.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use binnacle_testkit::{Etcd, Server, wait_until};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

const WRITERS: usize = 4;
const ROUNDS: usize = 3;
const GROUP: &str = "killed.test";

/// The state of an object after requests that may not have been acknowledged.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ExpectedState {
    Present,
    Gone,
    /// A request for it got no response.
    Unsure,
}

#[derive(Clone, Debug)]
struct Definition {
    itself: ExpectedState,
    objects: BTreeMap<String, ExpectedState>,
}

/// By plural name.
type Definitions = Arc<Mutex<BTreeMap<String, Definition>>>;

#[tokio::test(flavor = "multi_thread")]
async fn definitions_survive_kills() {
    killed_again_and_again(Server::durable()).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn definitions_survive_kills_on_etcd() {
    let etcd = Etcd::single();
    killed_again_and_again(Server::durable_with(&[&etcd.servers()])).await;
}

async fn killed_again_and_again(mut server: Server) {
    let client = server.kube().await;
    let known = Definitions::default();
    for round in 0..ROUNDS {
        let done = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                tokio::spawn(write(client.clone(), format!("r{round}w{writer}"), known.clone(), done.clone()))
            })
            .collect();
        let before = known.lock().len();
        wait_until("definitions", async || (known.lock().len() > before + 5 + 2 * round).then_some(())).await;
        tokio::task::block_in_place(|| server.kill());
        done.store(true, Ordering::SeqCst);
        for writer in writers {
            writer.await.unwrap();
        }
        tokio::task::block_in_place(|| server.restart());
        check(&client, &known).await;
    }
    let known = known.lock();
    let objects: usize = known.values().map(|definition| definition.objects.len()).sum();
    println!("{} definitions and {objects} objects written through {ROUNDS} kills", known.len());
}

/// Compares the server's state with the acknowledged writes, and records the outcome of the others.
async fn check(client: &Client, known: &Definitions) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    let mut all = std::mem::take(&mut *known.lock());
    for (plural, definition) in &mut all {
        let name = format!("{plural}.{GROUP}");
        let there = wait_until("a definition that is there or gone", async || {
            let found = definitions.get_opt(&name).await.ok()?;
            // A deletion is completed, whether acknowledged or not.
            let deleting = found.as_ref().is_some_and(|found| found.metadata.deletion_timestamp.is_some());
            (!deleting).then_some(found.is_some())
        })
        .await;
        match definition.itself {
            ExpectedState::Present => assert!(there, "{name} is lost"),
            ExpectedState::Gone => assert!(!there, "{name} is back"),
            ExpectedState::Unsure => {}
        }
        definition.itself = if there { ExpectedState::Present } else { ExpectedState::Gone };
        if !there {
            definition.objects.clear();
            continue;
        }
        let api = objects(client, plural);
        let found = wait_until("the resource is served", async || api.list(&ListParams::default()).await.ok()).await;
        let mut found: Vec<String> = found.items.iter().map(ResourceExt::name_any).collect();
        for (object, state) in &mut definition.objects {
            let is = found.iter().position(|name| name == object).map(|at| found.swap_remove(at)).is_some();
            match *state {
                ExpectedState::Present => assert!(is, "{object} of {name} is lost"),
                ExpectedState::Gone => assert!(!is, "{object} of {name} is back"),
                ExpectedState::Unsure => {}
            }
            *state = if is { ExpectedState::Present } else { ExpectedState::Gone };
        }
        assert!(found.is_empty(), "nobody made {found:?} of {name}");
    }
    let listed = definitions.list(&ListParams::default()).await.unwrap();
    for name in listed.items.iter().map(ResourceExt::name_any) {
        let plural = name.split('.').next().unwrap();
        assert!(
            all.get(plural).is_some_and(|definition| definition.itself == ExpectedState::Present),
            "nobody made {name}"
        );
    }
    // The objects of a deleted definition must not reappear with a new definition of the same name.
    if let Some((plural, definition)) = all.iter_mut().find(|(_, definition)| definition.itself == ExpectedState::Gone)
    {
        definitions.create(&PostParams::default(), &manifest(plural)).await.unwrap();
        definition.itself = ExpectedState::Present;
        let api = objects(client, plural);
        let found = wait_until("the resource is served", async || api.list(&ListParams::default()).await.ok()).await;
        assert!(found.items.is_empty(), "objects of {plural} outlived it: {:?}", found.items);
    }
    *known.lock() = all;
}

/// Writes until the server is killed.
async fn write(client: Client, prefix: String, known: Definitions, done: Arc<AtomicBool>) {
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    for n in 0.. {
        let plural = format!("{prefix}n{n}s");
        let told = |state: ExpectedState| known.lock().get_mut(&plural).unwrap().itself = state;
        known.lock().insert(plural.clone(), Definition { itself: ExpectedState::Unsure, objects: BTreeMap::new() });
        if definitions.create(&PostParams::default(), &manifest(&plural)).await.is_err() {
            return;
        }
        told(ExpectedState::Present);
        let api = objects(&client, &plural);
        for i in 0..6 {
            let name = format!("o{i}");
            let told = |state| known.lock().get_mut(&plural).unwrap().objects.insert(name.clone(), state);
            told(ExpectedState::Unsure);
            let object: DynamicObject = serde_json::from_value(json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": kind(&plural),
                "metadata": {"name": name}, "spec": {"n": i}
            }))
            .unwrap();
            // The resource is served soon after its definition was created.
            while let Err(error) = api.create(&PostParams::default(), &object).await {
                let unknown = matches!(&error, kube::Error::Api(status) if status.code == 404);
                if done.load(Ordering::SeqCst) || !unknown {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            told(ExpectedState::Present);
            if i % 3 == 1 {
                told(ExpectedState::Unsure);
                if api.delete(&name, &DeleteParams::default()).await.is_err() {
                    return;
                }
                told(ExpectedState::Gone);
            }
        }
        let name = format!("{plural}.{GROUP}");
        if n % 3 == 0 {
            // Makes the server validate and publish it again.
            let names = json!({"spec": {"names": {"shortNames": [format!("{prefix}x{n}")]}}});
            if definitions.patch(&name, &PatchParams::default(), &Patch::Merge(names)).await.is_err() {
                return;
            }
        }
        if n % 2 == 1 {
            told(ExpectedState::Unsure);
            if definitions.delete(&name, &DeleteParams::default()).await.is_err() {
                return;
            }
            told(ExpectedState::Gone);
        }
    }
}

fn kind(plural: &str) -> String {
    format!("Kind{}", plural.trim_end_matches('s'))
}

fn objects(client: &Client, plural: &str) -> Api<DynamicObject> {
    let resource = ApiResource {
        group: GROUP.into(),
        version: "v1".into(),
        api_version: format!("{GROUP}/v1"),
        kind: kind(plural),
        plural: plural.into(),
    };
    Api::namespaced_with(client.clone(), "default", &resource)
}

fn manifest(plural: &str) -> CustomResourceDefinition {
    let definition = json!({
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind(plural)},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object",
                "properties": {"spec": {"type": "object", "properties": {"n": {"type": "integer"}}}}
            }}}]
        }
    });
    serde_json::from_value(definition).unwrap()
}
