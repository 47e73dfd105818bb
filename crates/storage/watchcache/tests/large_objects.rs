//! A store that sends no answer above a size, as etcd does by gRPC's limit on messages.

#![allow(clippy::unwrap_used, reason = "a test fails where something is missing")]

mod support;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use binnacle_store::{
    Answer, KeyValue, PageSize, Pages, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse,
    Watch, prefix_range,
};
use binnacle_store_embedded::EmbeddedStore;
use binnacle_watchcache::{Cache, WindowLimits};
use bytes::Bytes;
use support::{PREFIX, Things, put, soon};
use tokio::time::{Instant, sleep};

struct BoundedAnswers {
    inner: EmbeddedStore,
    limit: usize,
    refused: AtomicUsize,
}

impl BoundedAnswers {
    fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { inner: EmbeddedStore::ephemeral(), limit, refused: 0.into() })
    }
}

impl Store for BoundedAnswers {
    binnacle_store::delegate_maintenance_to!(inner);

    fn get(&self, key: Bytes, at: Option<Revision>) -> Answer<'_, (Option<KeyValue>, Revision)> {
        self.inner.get(key, at)
    }

    fn range(&self, request: RangeRequest) -> Answer<'_, RangeResponse> {
        Box::pin(async move {
            let response = self.inner.range(request).await?;
            if response.kvs.iter().map(|kv| kv.value.len()).sum::<usize>() > self.limit {
                self.refused.fetch_add(1, Ordering::Relaxed);
                return Err(StoreError::TooLarge);
            }
            Ok(response)
        })
    }

    fn txn(&self, txn: Txn) -> Answer<'_, TxnResponse> {
        self.inner.txn(txn)
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> Answer<'_, Watch> {
        self.inner.watch(range, after)
    }
}

/// Writes small objects, and large ones whose keys come after them.
async fn fill(store: &dyn Store, small: usize, large: usize, bytes: usize) {
    for n in 0..small {
        put(store, &format!("a/{n:04}"), "||1").await;
    }
    let value = format!("||{}", "x".repeat(bytes));
    for n in 0..large {
        put(store, &format!("b/{n:04}"), &value).await;
    }
}

#[tokio::test]
async fn caches_start_though_a_page_of_large_objects_is_refused() {
    let store = BoundedAnswers::new(100_000);
    fill(&*store, 600, 60, 30_000).await;
    let cache = Cache::new(store.clone(), PREFIX, Things::new(), WindowLimits::default());
    cache.start();
    let deadline = soon();
    while cache.stats().objects < 660 {
        assert!(Instant::now() < deadline, "the cache has {} objects", cache.stats().objects);
        sleep(Duration::from_millis(5)).await;
    }
    assert!(store.refused.load(Ordering::Relaxed) > 0, "small objects made no page of large ones");
}

#[tokio::test]
async fn pages_shrink_with_the_size_of_objects() {
    let store = BoundedAnswers::new(usize::MAX);
    fill(&*store, 40, 40, 10_000).await;
    let size = PageSize { objects: 100, bytes: 50_000 };
    let mut pages = Pages::new(&*store, prefix_range(PREFIX.as_bytes()), Revision(0)).sized(size);
    let (mut keys, mut sizes) = (Vec::new(), Vec::new());
    while let Some(page) = pages.next().await.unwrap() {
        sizes.push(page.len());
        keys.extend(page.into_iter().map(|kv| kv.key));
    }
    assert_eq!(sizes, [32, 48]);
    assert!(keys.is_sorted() && keys.len() == 80);
    let mut pages = Pages::new(&*store, prefix_range(b"/registry/things/b/"), Revision(0)).sized(size);
    let mut sizes = Vec::new();
    while let Some(page) = pages.next().await.unwrap() {
        sizes.push(page.len());
    }
    assert_eq!(sizes, [32, 4, 4]);
}

#[tokio::test]
async fn an_object_above_the_limit_is_an_error() {
    let store = BoundedAnswers::new(1_000);
    fill(&*store, 1, 1, 2_000).await;
    let mut pages = Pages::new(&*store, prefix_range(PREFIX.as_bytes()), Revision(0));
    // The first page is refused, and so is the large object on its own.
    assert_eq!(pages.next().await.unwrap().unwrap().len(), 1);
    assert!(matches!(pages.next().await, Err(StoreError::TooLarge)));
}
