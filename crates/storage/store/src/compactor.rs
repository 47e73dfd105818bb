//! Periodic compaction, as kube-apiserver does it with etcd: every interval, the store is compacted to the revision
//! that was current one interval ago.
//!
//! Several servers may share one store. One key decides which of them compacts. It is kube-apiserver's key, so both
//! programs can share a store.

use std::collections::VecDeque;
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

/// Compacts `store` every `interval` to the revision of at least `retention` ago until the returned value is dropped. Calls `on_compacted` with each compacted
/// revision, including revisions that another server's compactor compacted to.
pub fn spawn_compactor(
    store: Arc<dyn Store>,
    interval: Duration,
    retention: Duration,
    on_compacted: impl Fn(Revision) + Send + Sync + 'static,
) -> Compactor {
    let on_compacted = Arc::new(on_compacted);
    // The number of rounds that keep their history.
    let kept = usize::try_from(retention.as_nanos().div_ceil(interval.as_nanos().max(1))).unwrap_or(usize::MAX);
    let compact = move || compact(store.clone(), interval, kept.max(1), on_compacted.clone());
    let task = tokio::spawn(supervise("compactor", compact));
    Compactor { task }
}

async fn compact(store: Arc<dyn Store>, interval: Duration, kept: usize, on_compacted: Arc<impl Fn(Revision)>) {
    let mut round = match Round::start(&*store, kept).await {
        Ok(round) => round,
        Err(error) => {
            // The next round reads the same value, one interval later.
            tracing::warn!(%error, "failed to read revision for compaction");
            Round { kept, ..Round::default() }
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
    /// The revisions of the store in the previous rounds whose history is kept.
    revisions: VecDeque<Revision>,
    /// The number of them.
    kept: usize,
}

// === impl Round ===

impl Round {
    /// Returns the state at startup, so that the first interval ends with a compaction to the startup revision. A
    /// server that runs for little more than one interval must compact, too.
    async fn start(store: &dyn Store, kept: usize) -> Result<Self, StoreError> {
        let (kv, revision) = store.get(Bytes::from_static(KEY), None).await?;
        Ok(Self { written: kv.map_or(Revision(0), |kv| kv.mod_revision), revisions: [revision].into(), kept })
    }

    /// Adds the revision of this round.
    fn reach(&mut self, revision: Revision) {
        self.revisions.push_back(revision);
        while self.revisions.len() > self.kept {
            self.revisions.pop_front();
        }
    }

    /// Runs one round. Only the first server that writes the key compacts. Returns the compacted revision.
    async fn run(&mut self, store: &dyn Store) -> Result<Option<Revision>, StoreError> {
        // Nothing is old enough in the first rounds.
        let due = self.revisions.front().copied().filter(|_| self.revisions.len() >= self.kept).unwrap_or_default();
        let expect = if self.written == Revision(0) { Expect::Absent } else { Expect::ModRevision(self.written) };
        let value = Bytes::from(due.0.to_string());
        let put = Txn { key: Bytes::from_static(KEY), expect, op: Op::Put { value, lease: None } };
        let response = match store.txn(put).await {
            // Compaction is what frees space, so it must not depend on a write. Every server may compact to a revision
            // that is one interval old.
            Err(StoreError::NoSpace(_)) => {
                self.reach(store.current_revision().await?);
                return Self::compact(store, due).await;
            }
            response => response?,
        };
        match response {
            TxnResponse::Unmet { current, revision } => {
                self.written = current.as_ref().map_or(Revision(0), |kv| kv.mod_revision);
                self.reach(revision);
                // The value is the revision to which its writer compacts. It is 0 in a first round, which does not
                // compact.
                let other = current.and_then(|kv| std::str::from_utf8(&kv.value).ok()?.parse().ok());
                Ok(other.filter(|other| *other > 0).map(Revision))
            }
            TxnResponse::Done { revision, .. } => {
                self.written = revision;
                self.reach(revision);
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
