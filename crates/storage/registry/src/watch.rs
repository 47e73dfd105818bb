//! Watches of a resource.

use binnacle_meta::Status;
use binnacle_request::waiting;
use binnacle_store::Revision;
use binnacle_watchcache::{CacheError, Start, WatchError, Watcher};

use crate::cache_waits::deadline;
use crate::context::Context;
use crate::list::ListOptions;
use crate::resource::Resource;

/// The start of a watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WatchFrom {
    /// The current objects as ADDED events (no version).
    Now,
    /// The objects of any state (version 0).
    Any,
    /// The first change after this revision.
    After(u64),
    /// `sendInitialEvents`: the objects at this revision or later, and a bookmark after them.
    InitialEvents { not_older_than: Option<u64> },
    /// `sendInitialEvents=false` without a version: only later changes.
    ChangesOnly,
}

impl Resource {
    /// Starts a watch. The inner error is for a start that is too old. It is sent in the stream, since kube-apiserver
    /// has already responded with 200 at that point.
    pub async fn watch(
        &self,
        context: &Context,
        options: &ListOptions,
        from: WatchFrom,
    ) -> Result<Result<Watcher, WatchError>, Status> {
        let collection = &self.collection;
        let namespace = if collection.kind.namespaced { context.namespace.as_str() } else { "" };
        let selection = collection.selection(namespace, options);
        let cache = &collection.cache;
        // A resourceVersion that is too new is an error in the stream as well.
        let failed = |error| match error {
            CacheError::TooLargeRevision { requested, current } => Ok(Err(WatchError::TooLarge { requested, current })),
            error => Err(collection.cache_failure(error)),
        };
        let from_snapshot =
            |snapshot| Start::Snapshot { snapshot, mark_end: matches!(from, WatchFrom::InitialEvents { .. }) };
        let start_result = match from {
            WatchFrom::After(revision) => {
                if !collection.cached {
                    // kube-apiserver watches the store, whose history may be longer. Failures are reported below.
                    let _ = cache.load_history(Revision(revision), deadline()).await;
                }
                Ok(Start::After(Revision(revision)))
            }
            WatchFrom::Now | WatchFrom::InitialEvents { not_older_than: None } => {
                waiting(cache.wait_consistent(deadline())).await?.map(from_snapshot)
            }
            WatchFrom::ChangesOnly => {
                let start_result = waiting(cache.wait_consistent(deadline())).await?;
                start_result.map(|snapshot| Start::After(snapshot.revision()))
            }
            WatchFrom::Any => waiting(cache.snapshot(deadline())).await?.map(from_snapshot),
            WatchFrom::InitialEvents { not_older_than: Some(revision) } => {
                collection.wait_for(Revision(revision)).await?.map(from_snapshot)
            }
        };
        let start = match start_result {
            Ok(start) => start,
            Err(error) => return failed(error),
        };
        match waiting(cache.subscribe(selection, start, deadline())).await? {
            Ok(watcher) => Ok(Ok(watcher)),
            Err(WatchError::NotReady | WatchError::Dismissed | WatchError::Closed) => failed(cache.not_ready()),
            Err(expired) => Ok(Err(expired)),
        }
    }
}
