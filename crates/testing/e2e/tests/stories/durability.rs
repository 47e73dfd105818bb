//! AcknowledgedWrites writes exist after kill -9, as observed through the API.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use binnacle_testkit::{Server, wait_until};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

/// The last acknowledged write of each name. A request without a response may or may not have taken effect.
type AcknowledgedWrites = Arc<Mutex<BTreeMap<String, ExpectedState>>>;

#[derive(Clone, Debug, PartialEq)]
enum ExpectedState {
    Value(usize),
    Gone,
    /// One of the two; `None` is a deleted object.
    Unsure(Option<usize>, Option<usize>),
}

const WRITERS: usize = 8;
const ROUNDS: usize = 5;

#[tokio::test(flavor = "multi_thread")]
async fn loses_no_acknowledged_write() {
    killed_again_and_again(Server::durable()).await;
}

/// The history is compacted continuously, so that every kill interrupts a compaction or comes soon after one.
#[tokio::test(flavor = "multi_thread")]
async fn compaction_loses_no_acknowledged_write() {
    killed_again_and_again(Server::durable_with(&["--etcd-compaction-interval=20ms"])).await;
}

async fn killed_again_and_again(mut server: Server) {
    let client = server.kube().await;
    crate::namespace(&client, "kept").await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "kept");
    let known = AcknowledgedWrites::default();
    let mut version = 0;
    for round in 0..ROUNDS {
        let done = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                tokio::spawn(write(client.clone(), format!("r{round}-w{writer}"), known.clone(), done.clone()))
            })
            .collect();
        let before = known.lock().len();
        wait_until("writes", async || (known.lock().len() > before + 40 + 17 * round).then_some(())).await;
        tokio::task::block_in_place(|| server.kill());
        done.store(true, Ordering::SeqCst);
        for writer in writers {
            writer.await.unwrap();
        }
        tokio::task::block_in_place(|| server.restart());

        let list = api.list(&ListParams::default()).await.unwrap();
        let now: u64 = list.metadata.resource_version.unwrap().parse().unwrap();
        assert!(now > version, "the version went from {version} to {now}");
        version = now;
        let mut found: BTreeMap<String, usize> = list
            .items
            .iter()
            .map(|object| (object.name_any(), object.data.as_ref().unwrap()["n"].parse().unwrap()))
            .collect();
        let mut known = known.lock();
        for (name, known) in known.iter_mut() {
            let is = found.remove(name);
            match *known {
                ExpectedState::Value(n) => assert_eq!(is, Some(n), "{name}"),
                ExpectedState::Gone => assert_eq!(is, None, "{name}"),
                ExpectedState::Unsure(before, after) => {
                    assert!(is == before || is == after, "{name}: {is:?} is not {known:?}")
                }
            }
            *known = is.map_or(ExpectedState::Gone, ExpectedState::Value);
        }
        assert!(found.is_empty(), "nobody wrote {found:?}");
    }
    println!("{} objects written through {ROUNDS} kills", known.lock().len());
}

/// Writes until the server is killed.
async fn write(client: Client, prefix: String, known: AcknowledgedWrites, done: Arc<AtomicBool>) {
    let api: Api<ConfigMap> = Api::namespaced(client, "kept");
    for n in 0.. {
        if done.load(Ordering::SeqCst) {
            return;
        }
        let name = format!("{prefix}-{n}");
        let object: ConfigMap =
            serde_json::from_value(json!({"metadata": {"name": name}, "data": {"n": n.to_string()}})).unwrap();
        known.lock().insert(name.clone(), ExpectedState::Unsure(None, Some(n)));
        match api.create(&PostParams::default(), &object).await {
            Ok(_) => known.lock().insert(name.clone(), ExpectedState::Value(n)),
            Err(_) => return,
        };
        let mut value = n;
        if n % 3 == 0 {
            value = n + 1;
            known.lock().insert(name.clone(), ExpectedState::Unsure(Some(n), Some(value)));
            let patch = Patch::Merge(json!({"data": {"n": value.to_string()}}));
            match api.patch(&name, &PatchParams::default(), &patch).await {
                Ok(_) => known.lock().insert(name.clone(), ExpectedState::Value(value)),
                Err(_) => return,
            };
        }
        if n % 4 == 1 {
            known.lock().insert(name.clone(), ExpectedState::Unsure(Some(value), None));
            match api.delete(&name, &DeleteParams::default()).await {
                Ok(_) => known.lock().insert(name.clone(), ExpectedState::Gone),
                Err(_) => return,
            };
        }
        tokio::time::sleep(Duration::from_micros(100)).await;
    }
}
