//! Fills the watch caches before the server is ready: otherwise the first lists and watches after a start would get
//! "try again".

use std::sync::Arc;

use binnacle_meta::{GroupResource, Status};
use binnacle_registry::store_failure;
use binnacle_watchcache::Cache;
use futures::future::{join_all, try_join_all};
use tokio::time::Instant;

use crate::start::Work;

/// Waits until the caches are filled, at most for the initialization timeout (kube-apiserver's
/// `WatchCacheInitializationPostStartHook`). Resources without objects cost nothing until their first request.
pub(crate) async fn ensure(work: &Work) -> Result<(), Status> {
    let deadline = Instant::now() + work.config.storage_initialization;
    let mut caches: Vec<(GroupResource, &Arc<Cache>)> = Vec::new();
    let snapshot = work.resources.snapshot();
    for resource in snapshot.resources().filter(|resource| resource.collection.cached) {
        let cache = &resource.collection.cache;
        // Versions of a resource share their objects.
        if !caches.iter().any(|(_, known)| Arc::ptr_eq(known, cache)) {
            caches.push((resource.group_resource(), cache));
        }
    }
    let begin = caches.iter().map(|(_, cache)| cache.start_unless_empty());
    let stored = try_join_all(begin).await.map_err(store_failure)?;
    let waited = caches.into_iter().zip(stored).filter(|(_, stored)| *stored).map(|((name, cache), _)| async move {
        if let Err(error) = cache.ready(deadline).await {
            tracing::warn!(resource = %name, %error, "storage is not ready, the start goes on without it");
        }
    });
    join_all(waited).await;
    Ok(())
}
