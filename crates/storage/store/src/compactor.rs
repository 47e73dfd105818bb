//! Periodic compaction, as kube-apiserver does it with etcd: every interval, the store is compacted to the revision
//! that was current one interval ago.
//!
//! Several servers may share one store. One key decides which of them compacts. It is kube-apiserver's key, so both
//! programs can share a store.

use std::sync::Arc;
use std::time::Duration;

use binnacle_supervise::supervise;
use bytes::Bytes;
use tokio::task::JoinHandle;

use crate::{Expect, Op, Revision, Store, StoreError, Txn, TxnResponse};

/// kube-apiserver's default interval between compactions (`--etcd-compaction-interval`).
pub const DEFAULT_COMPACTION_INTERVAL: Duration = Duration::from_secs(5 * 60);

const KEY: &[u8] = b"compact_rev_key";

/// A running compactor, which stops when it is dropped.
#[derive(Debug)]
pub struct Compactor {
    task: JoinHandle<()>,
}

/// Compacts `store` every `interval` until the returned value is dropped. Calls `on_compacted` with each compacted
/// revision, including revisions that another server's compactor compacted to.
pub fn spawn_compactor(
    store: Arc<dyn Store>,
    interval: Duration,
    on_compacted: impl Fn(Revision) + Send + Sync + 'static,
) -> Compactor {
    let on_compacted = Arc::new(on_compacted);
    let task = tokio::spawn(supervise("compactor", move || compact(store.clone(), interval, on_compacted.clone())));
    Compactor { task }
}

async fn compact(store: Arc<dyn Store>, interval: Duration, on_compacted: Arc<impl Fn(Revision)>) {
    let mut round = match Round::start(&*store).await {
        Ok(round) => round,
        Err(error) => {
            // The next round reads the same value, one interval later.
            tracing::warn!(%error, "failed to read revision for compaction");
            Round::default()
        }
    };
    loop {
        tokio::time::sleep(interval).await;
        match round.run(&*store).await {
            Ok(Some(revision)) => {
                tracing::debug!(revision = revision.0, "compacted the store");
                on_compacted(revision);
            }
            Ok(None) => {}
            Err(StoreError::Closed) => return,
            Err(error) => tracing::warn!(%error, "compaction failed"),
        }
    }
}

/// The state of the shared key and of the store in the previous round.
#[derive(Default)]
struct Round {
    /// The revision at which the shared key was last written, or 0 if it was never written.
    written: Revision,
    /// The revision of the store in that round.
    revision: Revision,
}

// === impl Round ===

impl Round {
    /// Returns the state at startup, so that the first interval ends with a compaction to the startup revision. A
    /// server that runs for little more than one interval must compact, too.
    async fn start(store: &dyn Store) -> Result<Self, StoreError> {
        let (kv, revision) = store.get(Bytes::from_static(KEY), None).await?;
        Ok(Self { written: kv.map_or(Revision(0), |kv| kv.mod_revision), revision })
    }

    /// Runs one round. Only the first server that writes the key compacts. Returns the compacted revision.
    async fn run(&mut self, store: &dyn Store) -> Result<Option<Revision>, StoreError> {
        let due = self.revision;
        let expect = if self.written == Revision(0) { Expect::Absent } else { Expect::ModRevision(self.written) };
        let value = Bytes::from(due.0.to_string());
        let put = Txn { key: Bytes::from_static(KEY), expect, op: Op::Put { value, lease: None } };
        let response = match store.txn(put).await {
            // Compaction is what frees space, so it must not depend on a write. Every server may compact to a revision
            // that is one interval old.
            Err(StoreError::NoSpace(_)) => {
                self.revision = store.current_revision().await?;
                return Self::compact(store, due).await;
            }
            response => response?,
        };
        match response {
            TxnResponse::Unmet { current, revision } => {
                self.written = current.as_ref().map_or(Revision(0), |kv| kv.mod_revision);
                self.revision = revision;
                // The value is the revision to which its writer compacts. It is 0 in a first round, which does not
                // compact.
                let other = current.and_then(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok());
                Ok(other.filter(|other| *other > 0).map(Revision))
            }
            TxnResponse::Done { revision, .. } => {
                self.written = revision;
                self.revision = revision;
                Self::compact(store, due).await
            }
        }
    }

    async fn compact(store: &dyn Store, due: Revision) -> Result<Option<Revision>, StoreError> {
        if due == Revision(0) {
            return Ok(None);
        }
        match store.compact(due).await {
            // Another server may have compacted to it already.
            Ok(()) | Err(StoreError::Compacted { .. }) => Ok(Some(due)),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Compactor {
    fn drop(&mut self) {
        self.task.abort();
    }
}
