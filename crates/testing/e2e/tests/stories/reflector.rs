//! Informers: a reflector for thousands of objects that change during its list ends up with the contents of a list.

use std::collections::BTreeMap;

use binnacle_testkit::{Server, wait_until};
use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher;
use kube::{Client, ResourceExt};
use serde_json::json;

const OBJECTS: usize = 5_000;
/// The number of concurrent requests.
const PARALLEL: usize = 16;

#[tokio::test(flavor = "multi_thread")]
async fn lists_and_watches_five_thousand_objects() {
    let server = Server::ephemeral();
    let client = server.kube().await;
    for namespace in ["even", "odd"] {
        crate::namespace(&client, namespace).await;
    }
    // Half of them exist before the first list, the others are created during it.
    create(&client, 0..OBJECTS / 2).await;
    let api: Api<ConfigMap> = Api::all(client.clone());
    // One reflector lists in pages and then watches, the other lists by watching (WatchList).
    let paged = follow(api.clone(), watcher::Config::default().page_size(500));
    let streamed = follow(api.clone(), watcher::Config::default().streaming_lists());
    let selected = follow(api.clone(), watcher::Config::default().labels("third=0"));
    create(&client, OBJECTS / 2..OBJECTS).await;
    // Changes and deletions, including objects that start or stop matching the selector.
    stream::iter((0..OBJECTS).step_by(7))
        .for_each_concurrent(PARALLEL, async |n| {
            let patch = Patch::Merge(
                json!({"metadata": {"labels": {"third": (n + 1).to_string()}}, "data": {"changed": "yes"}}),
            );
            api_of(&client, n).patch(&name(n), &PatchParams::default(), &patch).await.unwrap();
        })
        .await;
    stream::iter((0..OBJECTS).step_by(11))
        .for_each_concurrent(PARALLEL, async |n| {
            let _ = api_of(&client, n).delete(&name(n), &Default::default()).await.unwrap();
        })
        .await;

    let want = keyed(api.list(&ListParams::default()).await.unwrap().items);
    assert_eq!(want.len(), OBJECTS - OBJECTS.div_ceil(11));
    let matching: BTreeMap<_, _> = want
        .iter()
        .filter(|(_, object)| object.labels()["third"] == "0")
        .map(|(k, v)| (k.clone(), v.clone()))
        .collect();
    assert!(matching.len() > 1_000 && matching.len() < OBJECTS / 2);
    for (how, store, want) in
        [("paged", &paged, &want), ("streamed", &streamed, &want), ("selected", &selected, &matching)]
    {
        wait_until(how, async || (stored(store) == *want).then_some(())).await;
    }
    // The same in pages, from one snapshot.
    let mut pages = Vec::new();
    let mut parameters = ListParams::default().limit(700);
    loop {
        let page = api.list(&parameters).await.unwrap();
        pages.extend(page.items);
        match page.metadata.continue_.filter(|token| !token.is_empty()) {
            Some(token) => parameters = parameters.continue_token(&token),
            None => break,
        }
    }
    assert_eq!(keyed(pages), want);
}

/// Starts a reflector. Returns its store.
fn follow(api: Api<ConfigMap>, config: watcher::Config) -> Store<ConfigMap> {
    let (reader, writer) = reflector::store();
    let events = reflector::reflector(writer, watcher::watcher(api, config)).default_backoff();
    tokio::spawn(events.for_each(async |event| {
        if let Err(error) = &event {
            println!("watcher: {error}");
        }
    }));
    reader
}

fn name(n: usize) -> String {
    format!("object-{n:05}")
}

fn api_of(client: &Client, n: usize) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), if n.is_multiple_of(2) { "even" } else { "odd" })
}

async fn create(client: &Client, range: std::ops::Range<usize>) {
    stream::iter(range)
        .for_each_concurrent(PARALLEL, async |n| {
            let object = json!({
                "metadata": {"name": name(n), "labels": {"third": (n % 3).to_string()}},
                "data": {"n": n.to_string(), "text": "x".repeat(200)},
            });
            let object: ConfigMap = serde_json::from_value(object).unwrap();
            api_of(client, n).create(&PostParams::default(), &object).await.unwrap();
        })
        .await;
}

/// Returns the objects of this test: the server itself has config maps in kube-system.
fn keyed(objects: Vec<ConfigMap>) -> BTreeMap<(String, String), ConfigMap> {
    objects
        .into_iter()
        .filter(|object| object.name_any().starts_with("object-"))
        .map(|object| ((object.namespace().unwrap(), object.name_any()), object))
        .collect()
}

fn stored(store: &Store<ConfigMap>) -> BTreeMap<(String, String), ConfigMap> {
    keyed(store.state().iter().map(|object| (**object).clone()).collect())
}
