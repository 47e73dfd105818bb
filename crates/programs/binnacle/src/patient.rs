//! Access to an etcd that may be unavailable for a while: restarts of members, leader elections.

use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_store::{
    KeyValue, LeaseId, RangeRequest, RangeResponse, Revision, Store, StoreError, Txn, TxnResponse, Watch,
};
use bytes::Bytes;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::sleep;

/// The longest wait for a cluster without answers.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(200);
const DENIED: &str = "permission denied";

/// A store that retries calls without an answer. Writes are retried too, so they must be idempotent.
pub(crate) struct Patient(Arc<dyn Store>);

/// Retries calls without an answer. A denied call is not retried: it would be denied again.
pub(crate) async fn insist<T, F>(mut ask: impl FnMut() -> F) -> Result<T, StoreError>
where
    F: Future<Output = Result<T, StoreError>>,
{
    let begun = Instant::now();
    loop {
        match ask().await {
            Err(StoreError::Unavailable(reason)) if reason.ends_with(DENIED) => {
                return Err(StoreError::Unavailable(reason));
            }
            Err(StoreError::Unavailable(_) | StoreError::Timeout) if begun.elapsed() < PATIENCE => sleep(PAUSE).await,
            answer => return answer,
        }
    }
}

// === impl Patient ===

impl Patient {
    pub(crate) fn over(store: Arc<dyn Store>) -> Arc<dyn Store> {
        Arc::new(Self(store))
    }

    /// Retries one call of the store.
    fn repeat<'a, T: Send + 'a>(
        &'a self,
        ask: impl Fn(&'a dyn Store) -> BoxFuture<'a, Result<T, StoreError>> + Send + Sync + 'a,
    ) -> BoxFuture<'a, Result<T, StoreError>> {
        let store = &*self.0;
        insist(move || ask(store)).boxed()
    }
}

impl Store for Patient {
    fn current_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.repeat(|store| store.current_revision())
    }

    fn get(
        &self,
        key: Bytes,
        revision: Option<Revision>,
    ) -> BoxFuture<'_, Result<(Option<KeyValue>, Revision), StoreError>> {
        self.repeat(move |store| store.get(key.clone(), revision))
    }

    fn range(&self, request: RangeRequest) -> BoxFuture<'_, Result<RangeResponse, StoreError>> {
        self.repeat(move |store| store.range(request.clone()))
    }

    fn txn(&self, txn: Txn) -> BoxFuture<'_, Result<TxnResponse, StoreError>> {
        self.repeat(move |store| store.txn(txn.clone()))
    }

    fn watch(&self, range: Range<Bytes>, after: Revision) -> BoxFuture<'_, Result<Watch, StoreError>> {
        self.repeat(move |store| store.watch(range.clone(), after))
    }

    fn compact(&self, revision: Revision) -> BoxFuture<'_, Result<(), StoreError>> {
        self.repeat(move |store| store.compact(revision))
    }

    fn compacted_revision(&self) -> BoxFuture<'_, Result<Revision, StoreError>> {
        self.repeat(|store| store.compacted_revision())
    }

    fn grant_lease(&self, ttl_seconds: u64) -> BoxFuture<'_, Result<LeaseId, StoreError>> {
        self.repeat(move |store| store.grant_lease(ttl_seconds))
    }

    fn revoke_lease(&self, lease: LeaseId) -> BoxFuture<'_, Result<(), StoreError>> {
        self.repeat(move |store| store.revoke_lease(lease))
    }

    fn lease_remaining(&self, lease: LeaseId) -> BoxFuture<'_, Result<Duration, StoreError>> {
        self.repeat(move |store| store.lease_remaining(lease))
    }

    fn health(&self) -> BoxFuture<'_, Result<(), StoreError>> {
        self.0.health()
    }
}
