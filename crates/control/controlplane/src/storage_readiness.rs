//! Fills the watch caches before the server is ready. Otherwise it would respond to the first lists and watches after a
//! start with "try again".

use std::sync::Arc;

use binnacle_meta::{GroupResource, Status};
use binnacle_registry::ResourceStore;
use binnacle_watchcache::{Cache, CacheError};
use futures::future::join_all;
use tokio::time::{Instant, sleep, timeout_at};

use crate::context::ControllerContext;
use binnacle_controllers::{RETRY_FIRST, RETRY_LAST};

/// Waits until the caches are filled, at most for the initialization timeout (kube-apiserver's
/// `WatchCacheInitializationPostStartHook`). Caches of resources without objects are not started before their first
/// request.
pub(crate) async fn ensure(ctx: &ControllerContext) -> Result<(), Status> {
    let deadline = Instant::now() + ctx.config.storage_initialization;
    let mut caches: Vec<(GroupResource, &Arc<Cache>)> = Vec::new();
    let snapshot = ctx.resources.snapshot();
    for resource in snapshot.resources().filter(|resource| is_waited_for(&resource.collection)) {
        let cache = &resource.collection.cache;
        // Versions of a resource share their objects.
        if !caches.iter().any(|(_, known)| Arc::ptr_eq(known, cache)) {
            caches.push((resource.group_resource(), cache));
        }
    }
    let fills = caches.into_iter().map(|(name, cache)| async move {
        // A cache that cannot be filled delays neither the others nor the start.
        match timeout_at(deadline, fill(cache, deadline)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                tracing::warn!(resource = %name, %error, "storage readiness check failed, continuing")
            }
            Err(_) => tracing::warn!(resource = %name, "timed out waiting for storage readiness, continuing"),
        }
    });
    join_all(fills).await;
    Ok(())
}

/// Returns false for objects that a webhook converts, since the webhook itself may depend on this server. The first
/// request fills such a cache.
fn is_waited_for(collection: &ResourceStore) -> bool {
    let converter = collection.kind.custom.as_ref().and_then(|custom| custom.converter());
    collection.cached && converter.is_none()
}

/// Starts a cache, unless it is empty, and waits until it is filled.
async fn fill(cache: &Cache, deadline: Instant) -> Result<(), CacheError> {
    let mut retry = RETRY_FIRST;
    loop {
        match cache.start_unless_empty().await {
            Ok(true) => return cache.ready(deadline).await,
            Ok(false) => return Ok(()),
            Err(error) => tracing::debug!(%error, "the store does not answer yet"),
        }
        sleep(retry).await;
        retry = (retry * 2).min(RETRY_LAST);
    }
}
