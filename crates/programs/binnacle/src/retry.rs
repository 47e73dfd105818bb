//! Access to an etcd that may be unavailable for a while: restarts of members, leader elections.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_store::{
    Chunks, KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse, Watch,
};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::sleep;

/// The longest wait for a cluster without answers.
pub(crate) const RETRY_TIMEOUT: Duration = Duration::from_secs(60);
const RETRY_INTERVAL: Duration = Duration::from_millis(200);
const DENIED: &str = "permission denied";

/// A store that retries calls without an answer. Writes are retried too, so they must be idempotent.
pub(crate) struct RetryingStore(Arc<dyn Store>);

/// Retries calls without an answer. A denied call is not retried: it would be denied again.
pub(crate) async fn retry<T, F>(mut call: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let started = Instant::now();
    loop {
        match call().await {
            Err(StoreError::Unavailable(reason)) if reason.ends_with(DENIED) => {
                return Err(StoreError::Unavailable(reason));
            }
            Err(StoreError::Unavailable(_) | StoreError::Timeout) if started.elapsed() < RETRY_TIMEOUT => {
                sleep(RETRY_INTERVAL).await
            }
            answer => return answer,
        }
    }
}

// === impl RetryingStore ===

impl RetryingStore {
    pub(crate) fn over(store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Self(store))
    }

    /// Retries one call of the store.
    fn retry<'a, T: Send + 'a>(
        &'a self,
        call: impl Fn(&'a dyn Store) -> BoxFuture<'a, Result<T, StoreError>> + Send + Sync + 'a,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        let store = &*self.0;
        retry(move || call(store)).boxed()
    }
}

impl Store for RetryingStore {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.retry(|store| store.current_revision())
    }

    fn get(
        &self,
        key: Bytes,
        revision: Option<Revision>,
    ) -> BoxFuture<'_, Result<(Option<KeyValue>, Revision), StoreError>> {
        self.retry(move |store| store.get(key.clone(), revision))
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, StoreError>> {
        self.retry(move |store| store.range(request.clone()))
    }

    fn stream(&self, range: Range<Bytes>, revision: Revision) -> BoxFuture<'_, Result<Option<Chunks<'_>>, StoreError>> {
        // Not retried: the reader continues with ranges, which are.
        self.0.stream(range, revision)
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, StoreError>> {
        self.retry(move |store| store.txn(txn.clone()))
    }

    fn delete_range(&self, range: Range<Bytes>) -> BoxFuture<'_, Result<u64, StoreError>> {
        self.retry(move |store| store.delete_range(range.clone()))
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        self.retry(move |store| store.watch(range.clone(), after))
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        self.retry(move |store| store.compact(revision))
    }

    fn compacted_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.retry(|store| store.compacted_revision())
    }

    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.retry(move |store| store.grant_lease(ttl_seconds))
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.retry(move |store| store.revoke_lease(lease))
    }

    fn lease_remaining(&self, lease: LeaseId) -> BoxFuture<'_, Result<Duration, StoreError>> {
        self.retry(move |store| store.lease_remaining(lease))
    }

    fn health(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.health()
    }
}
