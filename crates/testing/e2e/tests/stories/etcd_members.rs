//! The members of etcd change while a server uses it: a learner is promoted, a member is removed, and another replaces
//! it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use binnacle_testkit::{Etcd, Server, wait_until};
use futures::{StreamExt, TryStreamExt};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

fn maps(client: &Client) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), "default")
}

/// Creates one object after the other. A write without a response is retried, and may turn out to have been executed.
async fn write(client: Client, written: Arc<AtomicUsize>, done: Arc<AtomicBool>) {
    let mut n = 0;
    while !done.load(Ordering::SeqCst) {
        let map: ConfigMap = serde_json::from_value(json!({"metadata": {"name": format!("m{n}")}})).unwrap();
        match maps(&client).create(&PostParams::default(), &map).await {
            Ok(_) => n += 1,
            Err(kube::Error::Api(status)) if status.reason == "AlreadyExists" => n += 1,
            Err(_) => {}
        }
        written.store(n, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

async fn more_is_written(written: &AtomicUsize, what: &str) {
    let before = written.load(Ordering::SeqCst);
    wait_until(what, async || (written.load(Ordering::SeqCst) >= before + 20).then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn serves_requests_while_etcd_members_change() {
    let mut etcd = tokio::task::block_in_place(|| Etcd::cluster(3));
    let learner = tokio::task::block_in_place(|| etcd.add_learner());
    // It is used like the others from the start, and rejects nearly all requests.
    let server = tokio::task::block_in_place(|| Server::durable_with(&[&etcd.servers()]));
    let client = server.kube().await;
    let version = maps(&client).list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    let mut watch = maps(&client).watch(&WatchParams::default(), &version).await.unwrap().boxed();
    let (written, done) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicBool::new(false)));
    let writer = tokio::spawn(write(client.clone(), written.clone(), done.clone()));
    more_is_written(&written, "writes go on beside a learner").await;

    tokio::task::block_in_place(|| etcd.promote(learner));
    more_is_written(&written, "writes go on with four members").await;
    // The first one is removed. The server still has its address.
    tokio::task::block_in_place(|| etcd.remove(0));
    more_is_written(&written, "writes go on without the member that was removed").await;
    // Of the remaining three, the promoted one is needed.
    tokio::task::block_in_place(|| etcd.kill(1));
    more_is_written(&written, "the promoted member votes").await;
    tokio::task::block_in_place(|| etcd.restart(1));
    // A new member replaces the removed one, at an address that the server does not have.
    let replacement = tokio::task::block_in_place(|| {
        let replacement = etcd.add_learner();
        etcd.promote(replacement);
        etcd.kill(2);
        replacement
    });
    more_is_written(&written, "a member votes that the server does not know").await;
    tokio::task::block_in_place(|| etcd.restart(2));
    assert_eq!(replacement, 4);

    done.store(true, Ordering::SeqCst);
    writer.await.unwrap();
    let count = written.load(Ordering::SeqCst);
    let heard = async {
        let mut next = 0;
        while next < count {
            if let WatchEvent::Added(map) = watch.try_next().await.unwrap().expect("the watch goes on")
                && map.metadata.name == Some(format!("m{next}"))
            {
                next += 1;
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(60), heard).await.expect("every write is told in its turn");
    let answer = server.client().await.get("/readyz").await.unwrap();
    assert_eq!(answer.status, 200);
}
