//! A store that is restored from a backup reuses revisions for another history.

#![allow(clippy::unwrap_used, reason = "tests panic on errors")]

mod support;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binnacle_store::{
    Answer, KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse, Watch,
};
use binnacle_store_embedded::EmbeddedStore;
use binnacle_watchcache::{Cache, Start, WatchError, WindowLimits};
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::once;
use tokio::sync::Notify;

use crate::support::{PREFIX, Things, interest, list, put, soon};

/// One store before the restore, and another store after it.
struct RestorableStore {
    stores: [EmbeddedStore; 2],
    is_restored: AtomicBool,
    restored: Arc<Notify>,
}

impl RestorableStore {
    fn new() -> Arc<Self> {
        let stores = [EmbeddedStore::ephemeral(), EmbeddedStore::ephemeral()];
        Arc::new(Self { stores, is_restored: false.into(), restored: Arc::default() })
    }

    fn now(&self) -> &EmbeddedStore {
        &self.stores[usize::from(self.is_restored.load(Ordering::SeqCst))]
    }

    fn restore(&self) {
        self.is_restored.store(true, Ordering::SeqCst);
        self.restored.notify_waiters();
    }
}

impl Store for RestorableStore {
    fn get(&self, key: Bytes, at: Option<Revision>) -> Answer<'_, (Option<KeyValue>, Revision)> {
        self.now().get(key, at)
    }

    fn range(&self, request: RangeRequest) -> Answer<'_, RangeResponse> {
        self.now().range(request)
    }

    fn txn(&self, txn: Txn) -> Answer<'_, TxnResponse> {
        self.now().txn(txn)
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> Answer<'_, Watch> {
        Box::pin(async move {
            let watch = self.now().watch(range, after).await?;
            let restored = self.restored.clone().notified_owned();
            let messages = watch.messages.take_until(restored).chain(once(async { Err(StoreError::Restored) }));
            Ok(Watch { messages: messages.boxed(), control: watch.control })
        })
    }

    fn delete_range(&self, range: Range<Bytes>) -> Answer<'_, u64> {
        self.now().delete_range(range)
    }

    fn current_revision(&self) -> Answer<'_, Revision> {
        self.now().current_revision()
    }

    fn compact(&self, revision: Revision) -> Answer<'_, ()> {
        self.now().compact(revision)
    }

    fn compacted_revision(&self) -> Answer<'_, Revision> {
        self.now().compacted_revision()
    }

    fn grant_lease(&self, ttl_seconds: u64) -> Answer<'_, LeaseId> {
        self.now().grant_lease(ttl_seconds)
    }

    fn revoke_lease(&self, lease: LeaseId) -> Answer<'_, ()> {
        self.now().revoke_lease(lease)
    }

    fn lease_remaining(&self, lease: LeaseId) -> Answer<'_, std::time::Duration> {
        self.now().lease_remaining(lease)
    }

    fn health(&self) -> Answer<'_, ()> {
        self.now().health()
    }

    fn readiness(&self) -> Answer<'_, ()> {
        self.now().readiness()
    }
}

/// The other history has the same revisions, and may be shorter, equally long or longer. Nothing of the first one may
/// be served.
#[tokio::test(flavor = "multi_thread")]
async fn restored_store_shows_nothing_of_replaced_history() {
    for more in 0..4 {
        let store = RestorableStore::new();
        let [before, after] = &store.stores;
        put(before, "a/same", "||1").await;
        put(after, "a/same", "||1").await;
        let changed = put(before, "a/one", "||old").await;
        assert_eq!(put(after, "a/one", "||new").await, changed);
        let latest = put(before, "/registry/elsewhere", "").await;
        for _ in 0..more {
            put(after, "/registry/elsewhere", "").await;
        }
        let cache = Cache::new(store.clone(), PREFIX, Things::new(), WindowLimits::default());
        let snapshot = cache.wait_for(latest, soon()).await.unwrap();
        cache.retain(&snapshot);
        let selection = cache.selection(interest("", "", ""));
        let mut watcher = cache.subscribe(selection, Start::After(latest), soon()).await.unwrap();
        store.restore();
        let mut items = Vec::new();
        let ended = watcher.next_batch(10, &mut items).await;
        assert!(matches!(ended, Err(WatchError::Expired { .. })), "{more} more: {ended:?}");
        let last = put(&*store, "a/two", "||2").await;
        let (revision, objects) = list(&cache, interest("a", "", "")).await;
        assert_eq!(revision, last, "{more} more");
        let values: Vec<_> = objects.iter().map(|(path, (_, value))| (path.as_str(), value.as_str())).collect();
        assert_eq!(values, [("a/one", "||new"), ("a/same", "||1"), ("a/two", "||2")], "{more} more");
        // A reader that started before would retain its snapshot for the next page.
        cache.retain(&snapshot);
        for revision in changed.0..last.0 {
            let past = [cache.snapshot_at(Revision(revision)), cache.rewind(Revision(revision), 100, soon()).await];
            for shown in past.iter().flatten() {
                let value = shown.get("a/one").map(|entry| entry.value().clone());
                assert_eq!(value.as_deref(), Some("||new".as_bytes()), "{more} more, at {revision}");
            }
        }
    }
}
