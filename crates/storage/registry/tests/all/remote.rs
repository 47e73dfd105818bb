//! Tests of updates that begin with the object in the cache, since the store is another process.

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use binnacle_meta::Status;
use binnacle_registry::UpdateOptions;
use binnacle_schema::Value;
use binnacle_store::{
    Answer, KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Store, Txn, TxnResponse, Watch,
};
use binnacle_store_embedded::EmbeddedStore;
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value as Json, json};
use tokio::sync::watch;

use crate::support::Want::{Fails, Has};
use crate::support::{Cluster, check, context, dry_run, to_json};

const CONFIG_MAPS: &str = "/v1/configmaps";

/// A store that counts the reads of single keys, and whose watches can be held back.
struct RemoteStore {
    inner: EmbeddedStore,
    reads: AtomicUsize,
    is_watched: watch::Sender<bool>,
}

impl Store for RemoteStore {
    fn is_remote(&self) -> bool {
        true
    }

    fn get(&self, key: Bytes, revision: Option<Revision>) -> Answer<'_, (Option<KeyValue>, Revision)> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.inner.get(key, revision)
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> Answer<'_, Watch> {
        let is_watched = self.is_watched.subscribe();
        Box::pin(async move {
            let Watch { messages, control } = self.inner.watch(range, after).await?;
            let messages = messages.then(move |message| {
                let mut is_watched = is_watched.clone();
                async move {
                    is_watched.wait_for(|is_watched| *is_watched).await.unwrap();
                    message
                }
            });
            Ok(Watch { messages: messages.boxed(), control })
        })
    }

    fn current_revision(&self) -> Answer<'_, Revision> {
        self.inner.current_revision()
    }

    fn range(&self, request: RangeRequest) -> Answer<'_, RangeResponse> {
        self.inner.range(request)
    }

    fn txn(&self, txn: Txn) -> Answer<'_, TxnResponse> {
        self.inner.txn(txn)
    }

    fn delete_range(&self, range: Range<Bytes>) -> Answer<'_, u64> {
        self.inner.delete_range(range)
    }

    fn compact(&self, revision: Revision) -> Answer<'_, ()> {
        self.inner.compact(revision)
    }

    fn compacted_revision(&self) -> Answer<'_, Revision> {
        self.inner.compacted_revision()
    }

    fn grant_lease(&self, ttl_seconds: u64) -> Answer<'_, LeaseId> {
        self.inner.grant_lease(ttl_seconds)
    }

    fn revoke_lease(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.inner.revoke_lease(lease)
    }

    fn lease_remaining(&self, lease: LeaseId) -> Answer<'_, Duration> {
        self.inner.lease_remaining(lease)
    }

    fn health(&self) -> Answer<'_, ()> {
        self.inner.health()
    }
}

/// A cluster with the config map `a`, which the cache has.
struct Remote {
    cluster: Cluster,
    store: Arc<RemoteStore>,
}

impl Remote {
    async fn new() -> Self {
        let (inner, is_watched) = (EmbeddedStore::ephemeral(), watch::Sender::new(true));
        let store = Arc::new(RemoteStore { inner, reads: AtomicUsize::new(0), is_watched });
        let cluster = Cluster::with_store(store.clone());
        cluster.create(&context(), CONFIG_MAPS, "{metadata: {name: a}, data: {k: old}}").await.unwrap();
        let remote = Self { cluster, store };
        remote.fill_cache().await;
        remote
    }

    /// Waits until the cache has the newest object, and resets the number of reads.
    async fn fill_cache(&self) -> Value {
        let object = self.cluster.get(CONFIG_MAPS, "a").await.unwrap();
        self.store.reads.store(0, Ordering::Relaxed);
        object
    }

    /// From now on, the cache does not see changes.
    fn hold_watches(&self) {
        self.store.is_watched.send_replace(false);
    }

    async fn update(&self, change: &Json) -> Result<Value, Status> {
        self.cluster.update(&context(), CONFIG_MAPS, "a", &UpdateOptions::default(), change).await
    }

    #[track_caller]
    fn assert_reads(&self, expected: usize) {
        assert_eq!(self.store.reads.swap(0, Ordering::Relaxed), expected, "reads of the store");
    }
}

fn version(object: &Value) -> Json {
    to_json(object)["metadata"]["resourceVersion"].clone()
}

#[tokio::test]
async fn update_does_not_read_the_store() {
    let remote = Remote::new().await;
    let got = remote.update(&json!({"data": {"k": "new"}})).await;
    check("a change", &got, &Has(json!({"data": {"k": "new"}})));
    remote.assert_reads(0);
}

#[tokio::test]
async fn update_of_an_outdated_object_is_made_again_with_the_newer_one() {
    let remote = Remote::new().await;
    remote.hold_watches();
    remote.update(&json!({"data": {"first": "1"}})).await.unwrap();
    let got = remote.update(&json!({"data": {"second": "2"}})).await;
    check("both changes", &got, &Has(json!({"data": {"k": "old", "first": "1", "second": "2"}})));
    // The conflict of the store says what it has.
    remote.assert_reads(0);
}

#[tokio::test]
async fn error_that_an_outdated_object_causes_is_not_returned() {
    let remote = Remote::new().await;
    remote.hold_watches();
    let newest = remote.update(&json!({"data": {"k": "newer"}})).await.unwrap();
    let change = json!({"metadata": {"resourceVersion": version(&newest)}, "data": {"k": "newest"}});
    check("the newest version", &remote.update(&change).await, &Has(json!({"data": {"k": "newest"}})));
    remote.assert_reads(1);
}

#[tokio::test]
async fn error_of_the_newest_object_is_returned() {
    let remote = Remote::new().await;
    let change = json!({"metadata": {"resourceVersion": "1"}});
    check("an old version", &remote.update(&change).await, &Fails(409, "*the object has been modified*"));
    remote.assert_reads(1);
}

#[tokio::test]
async fn change_that_an_outdated_object_already_has_is_written() {
    let remote = Remote::new().await;
    remote.hold_watches();
    let newer = remote.update(&json!({"data": {"k": "new"}})).await.unwrap();
    let got = remote.update(&json!({"data": {"k": "old"}})).await;
    check("back to the state in the cache", &got, &Has(json!({"data": {"k": "old"}})));
    assert_ne!(version(&got.unwrap()), version(&newer));
    remote.assert_reads(1);
}

#[tokio::test]
async fn unchanged_object_keeps_its_version_after_a_read() {
    let remote = Remote::new().await;
    let before = remote.fill_cache().await;
    let got = remote.update(&json!({"data": {"k": "old"}})).await.unwrap();
    assert_eq!(version(&got), version(&before));
    remote.assert_reads(1);
}

#[tokio::test]
async fn deleted_object_is_not_found() {
    let remote = Remote::new().await;
    remote.hold_watches();
    remote.cluster.delete(&context(), CONFIG_MAPS, "a", &Default::default()).await.unwrap();
    let got = remote.update(&json!({"data": {"k": "new"}})).await;
    check("a deleted object", &got, &Fails(404, "configmaps \"a\" not found"));
}

#[tokio::test]
async fn dry_run_reads_the_store() {
    let remote = Remote::new().await;
    remote.hold_watches();
    remote.update(&json!({"data": {"first": "1"}})).await.unwrap();
    let options = UpdateOptions::default();
    let change = json!({"data": {"second": "2"}});
    let got = remote.cluster.update(&dry_run(), CONFIG_MAPS, "a", &options, &change).await;
    check("both changes", &got, &Has(json!({"data": {"first": "1", "second": "2"}})));
    remote.assert_reads(1);
}
