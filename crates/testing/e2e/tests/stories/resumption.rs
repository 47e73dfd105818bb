//! Watches across restarts: a client that resumes from the last resourceVersion gets all events once; a client that is
//! too late gets an error.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use binnacle_testkit::{Server, TIMEOUT, wait_until};
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::{Client, ResourceExt};
use parking_lot::Mutex;
use serde_json::json;

/// A watch event: its version, its type and the object's name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct WatchedEvent {
    version: u64,
    what: &'static str,
    name: String,
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_resume_after_a_kill() {
    across_restarts(|server| {
        server.kill();
        server.restart();
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_resume_after_a_shutdown() {
    across_restarts(|server| {
        server.terminate();
        server.restart();
    })
    .await;
}

/// Runs writers and a watcher through several restarts.
async fn across_restarts(restart: impl Fn(&mut Server)) {
    let mut server = Server::durable();
    let client = server.kube().await;
    crate::namespace(&client, "watched").await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "watched");
    let start = api.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();

    let acknowledged = Arc::new(Mutex::new(BTreeSet::new()));
    let done = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> =
        (0..4).map(|writer| tokio::spawn(write(client.clone(), writer, acknowledged.clone(), done.clone()))).collect();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let watcher = tokio::spawn(follow(client.clone(), start.clone(), seen.clone()));

    for _ in 0..4 {
        let before = acknowledged.lock().len();
        wait_until("writes", async || (acknowledged.lock().len() > before + 60).then_some(())).await;
        tokio::task::block_in_place(|| restart(&mut server));
    }
    let before = acknowledged.lock().len();
    wait_until("writes after the restarts", async || (acknowledged.lock().len() > before + 30).then_some(())).await;
    done.store(true, Ordering::SeqCst);
    for writer in writers {
        writer.await.unwrap();
    }
    let acknowledged = acknowledged.lock().clone();
    let last = acknowledged.last().unwrap().version;
    wait_until("the watcher has seen all", async || (seen.lock().last()?.version >= last).then_some(())).await;
    watcher.abort();
    let seen = seen.lock().clone();

    assert!(seen.windows(2).all(|pair| pair[0].version < pair[1].version), "an event came twice or out of order");
    let known: BTreeSet<_> = seen.iter().cloned().collect();
    let missed: Vec<_> = acknowledged.difference(&known).collect();
    assert!(missed.is_empty(), "{missed:?} missed of {} writes", acknowledged.len());
    // The whole history in one watch: the same events, including those whose response was cut off.
    let whole = Arc::new(Mutex::new(Vec::new()));
    let again = tokio::spawn(follow(client, start, whole.clone()));
    let last = seen.last().unwrap().version;
    wait_until("the whole history", async || (whole.lock().last()?.version >= last).then_some(())).await;
    again.abort();
    // Deletions come after the last recorded write, and the second watch may have more of them.
    whole.lock().truncate(seen.len());
    assert_eq!(*whole.lock(), seen);
    println!("{} writes acknowledged, {} events seen", acknowledged.len(), seen.len());
}

/// Creates, changes and deletes objects, and records the acknowledged writes with their versions.
async fn write(client: Client, writer: usize, acknowledged: Arc<Mutex<BTreeSet<WatchedEvent>>>, done: Arc<AtomicBool>) {
    let api: Api<ConfigMap> = Api::namespaced(client, "watched");
    let note = |what, object: &ConfigMap| {
        let version = object.resource_version().unwrap().parse().unwrap();
        acknowledged.lock().insert(WatchedEvent { version, what, name: object.name_any() });
    };
    for n in 0.. {
        if done.load(Ordering::SeqCst) {
            break;
        }
        let name = format!("w{writer}-{n}");
        let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": name}})).unwrap();
        match api.create(&PostParams::default(), &object).await {
            Ok(made) => note("ADDED", &made),
            Err(_) => {
                tokio::time::sleep(Duration::from_millis(5)).await;
                continue;
            }
        }
        let patch = Patch::Merge(json!({"data": {"n": n.to_string()}}));
        if let Ok(changed) = api.patch(&name, &PatchParams::default(), &patch).await {
            note("MODIFIED", &changed);
        }
        // The response to a delete contains the old object: only the watch has the version of the deletion.
        if n % 3 == 0 {
            drop(api.delete(&name, &DeleteParams::default()).await);
        }
    }
}

/// Watches from a version, and resumes from the last one seen whenever the watch ends.
async fn follow(client: Client, start: String, seen: Arc<Mutex<Vec<WatchedEvent>>>) {
    let api: Api<ConfigMap> = Api::namespaced(client, "watched");
    let mut version = start;
    loop {
        let Ok(events) = api.watch(&WatchParams::default(), &version).await else {
            tokio::time::sleep(Duration::from_millis(5)).await;
            continue;
        };
        let mut events = std::pin::pin!(events);
        while let Some(event) = events.next().await {
            let (what, object) = match event {
                Ok(WatchEvent::Added(object)) => ("ADDED", object),
                Ok(WatchEvent::Modified(object)) => ("MODIFIED", object),
                Ok(WatchEvent::Deleted(object)) => ("DELETED", object),
                Ok(WatchEvent::Bookmark(mark)) => {
                    version = mark.metadata.resource_version;
                    continue;
                }
                Ok(WatchEvent::Error(error)) => panic!("from {version}: {error:?}"),
                Err(_) => break,
            };
            version = object.resource_version().unwrap();
            seen.lock().push(WatchedEvent { version: version.parse().unwrap(), what, name: object.name_any() });
        }
    }
}

/// After a compaction, earlier watches and pages get an error and have to start over, and reflectors do.
#[tokio::test(flavor = "multi_thread")]
async fn watches_of_compacted_versions_expire() {
    let mut server = Server::durable_with(&["--etcd-compaction-interval=300ms"]);
    let client = server.kube().await;
    crate::namespace(&client, "watched").await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "watched");
    let object = |name: String| -> ConfigMap { serde_json::from_value(json!({"metadata": {"name": name}})).unwrap() };
    let first = api.create(&PostParams::default(), &object("first".to_owned())).await.unwrap();
    api.create(&PostParams::default(), &object("second".to_owned())).await.unwrap();
    let old = first.resource_version().unwrap();
    let page = api.list(&ListParams::default().limit(1)).await.unwrap();
    let token = page.metadata.continue_.unwrap();

    // After a restart the cache starts with the stored objects: a client behind the compaction gets an error.
    let mut n = 0;
    let refusal = wait_until("the old version is refused", async || {
        n += 1;
        api.create(&PostParams::default(), &object(format!("filler-{n}"))).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        if n % 10 == 0 {
            tokio::task::block_in_place(|| server.restart());
        }
        let events = api.watch(&WatchParams::default().timeout(1), &old).await;
        let mut events = std::pin::pin!(events.ok()?);
        match tokio::time::timeout(TIMEOUT, events.next()).await.unwrap()? {
            Ok(WatchEvent::Error(error)) => Some(error),
            _ => None,
        }
    })
    .await;
    assert_eq!((refusal.code, refusal.reason.as_str()), (410, "Expired"), "{refusal:?}");
    assert!(refusal.message.starts_with("too old resource version: "), "{refusal:?}");

    // The error of an expired page has a token that continues with the current objects.
    let error = api.list(&ListParams::default().limit(1).continue_token(&token)).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"), "{status:?}");
    let exact = ListParams::default().at(&old).matching(kube::api::VersionMatch::Exact);
    let kube::Error::Api(status) = api.list(&exact).await.unwrap_err() else { panic!("no status") };
    assert_eq!((status.code, status.reason.as_str()), (410, "Expired"), "{status:?}");
    // "Not older than" that version is fine: the list is newer.
    let newer = ListParams::default().at(&old).matching(kube::api::VersionMatch::NotOlderThan);
    assert!(api.list(&newer).await.unwrap().items.len() > 2);
}

/// A paged list expires with its history, as slow clients expect, even if nothing of its kind has changed and every
/// page could still be served. The error has a token to continue.
#[tokio::test(flavor = "multi_thread")]
async fn continue_tokens_expire_after_compaction() {
    let server = Server::durable_with(&["--etcd-compaction-interval=100ms"]);
    let mut client = server.client().await;
    let path = "/api/v1/namespaces/default/podtemplates";
    for name in ["a", "b", "c"] {
        let template =
            json!({"metadata": {"name": name}, "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}});
        let answer =
            client.send("POST", path, &[("content-type", "application/json")], template.to_string()).await.unwrap();
        assert_eq!(answer.status, 201, "{}", answer.body);
    }
    let parse = |body: &str| -> serde_json::Value { serde_json::from_str(body).unwrap() };
    let names = |list: &serde_json::Value| -> Vec<String> {
        let items = list["items"].as_array().unwrap().iter();
        items.map(|item| item["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let page = parse(&client.get(&format!("{path}?limit=1")).await.unwrap().body);
    let token = page["metadata"]["continue"].as_str().unwrap().to_owned();
    let refusal = wait_until("the page is refused", async || {
        let answer = client.get(&format!("{path}?limit=1&continue={token}")).await.unwrap();
        let answer = parse(&answer.body);
        match answer["kind"].as_str().unwrap() {
            "Status" => Some(answer),
            _ => {
                assert_eq!(names(&answer), ["b"]);
                tokio::time::sleep(Duration::from_millis(20)).await;
                None
            }
        }
    })
    .await;
    assert_eq!((&refusal["code"], &refusal["reason"]), (&json!(410), &json!("Expired")), "{refusal}");
    let token = refusal["metadata"]["continue"].as_str().unwrap();
    let rest = parse(&client.get(&format!("{path}?continue={token}")).await.unwrap().body);
    assert_eq!(names(&rest), ["b", "c"]);
}
