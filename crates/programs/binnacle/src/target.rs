//! Writes to another store, in the order of the writes to the first one.
//!
//! A revision that clients have seen in the first store must never have another meaning in this one. Therefore every
//! write here gets a higher revision than the write that it repeats, and at the end the history begins after all
//! revisions that clients may have seen: a client with an old one gets "compacted" and lists again.

mod writes;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_cli::progress::{Progress, Unit};
use binnacle_store::{Expect, KeyValue, LeaseId, Op, Revision, Store, StoreError, Txn, TxnResponse};
use binnacle_store_etcd::EtcdStore;
use bytes::Bytes;
use futures::{StreamExt, stream};

use self::writes::Writes;
use crate::Error;
use crate::retry::RetryingStore;

/// A store that is being filled.
pub(crate) struct Target {
    store: Arc<dyn Store>,
    writes: Writes,
    /// A lower bound of the store's revision.
    revision: u64,
    leases: HashMap<LeaseId, Lease>,
    /// The key of writes that only increase the revision.
    filler: Bytes,
    /// The number of revisions to advance beyond what one write needs.
    stride: u64,
}

/// The counterpart of a lease of the first store.
#[derive(Clone, Copy)]
struct Lease {
    id: LeaseId,
    until: Instant,
}

/// Leases with less time than this count as expired: their keys would be deleted before they are written.
const MIN_LEASE: Duration = Duration::from_millis(1500);
/// The number of filler writes, which only increase the revision, in flight at once and between compactions.
const CONCURRENT_FILLERS: usize = 512;
const FILLERS_PER_COMPACTION: u64 = 50_000;
/// The first stride. It grows each time that writes reach the revision, because advancing must wait for all writes in
/// flight.
const FIRST_STRIDE: u64 = 32;
const MAX_STRIDE: u64 = 8192;

/// From this number of filler writes on, a message names a faster way to the operator.
const MANY_FILLERS: u64 = 5_000_000;

// === impl Target ===

impl Target {
    /// Returns a target in a store that runs writes in the order of the calls.
    pub(crate) async fn embedded(store: Arc<dyn Store>, root: &str) -> Result<Self, Error> {
        let writes = Writes::embedded(Arc::clone(&store));
        Self::new(store, writes, root).await
    }

    /// Returns a target in an etcd, which may be unavailable for a while.
    pub(crate) async fn etcd(store: Arc<EtcdStore>, root: &str) -> Result<Self, Error> {
        let writes = Writes::etcd(Arc::clone(&store), root);
        Self::new(RetryingStore::over(store), writes, root).await
    }

    async fn new(store: Arc<dyn Store>, writes: Writes, root: &str) -> Result<Self, Error> {
        let revision = store.current_revision().await?.0;
        let filler = Bytes::from(format!("binnacle_filler{root}"));
        Ok(Self { store, writes, revision, leases: HashMap::new(), filler, stride: FIRST_STRIDE })
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    /// Writes a key with the value from another store, after all earlier writes. The remaining time of leases is that
    /// in `source`; without a source, leases that were not [granted](Self::grant) count as expired.
    pub(crate) async fn put(&mut self, source: Option<&dyn Store>, key: Bytes, kv: KeyValue) -> Result<(), Error> {
        let lease = match kv.lease {
            None => None,
            Some(lease) => match self.lease(source, lease).await? {
                Some(lease) => Some(lease),
                // The lease expires now, and the key with it.
                None => return Ok(()),
            },
        };
        self.advance_above(kv.mod_revision.0).await?;
        self.writes.write(key, Op::Put { value: kv.value, lease }).await
    }

    /// Deletes a key, if it exists.
    pub(crate) async fn delete(&mut self, key: Bytes) -> Result<(), Error> {
        self.writes.write(key, Op::Delete).await
    }

    /// Writes one of our own records.
    pub(crate) async fn note(&mut self, key: Bytes, value: Bytes) -> Result<(), Error> {
        self.writes.write(key, Op::Put { value, lease: None }).await?;
        self.flush().await
    }

    /// Waits until all writes are durable.
    pub(crate) async fn flush(&mut self) -> Result<(), Error> {
        let reached = self.writes.flush().await?;
        self.revision = self.revision.max(reached.0);
        Ok(())
    }

    /// Warns if advancing to `revision` will take long, even after `writes` further writes, each with its own revision.
    pub(crate) fn warn_of_many_fillers(&self, revision: u64, writes: u64, progress: &mut Progress) {
        if revision.saturating_sub(self.revision).saturating_sub(writes) > MANY_FILLERS {
            progress.say(
                "The revision of the target is far behind and has to be raised by writes. An empty etcd that was restored with \
                 'etcdutl snapshot restore --bump-revision' does not need them.",
            );
        }
    }

    /// Advances to at least `revision`, with filler writes if necessary.
    pub(crate) async fn advance(&mut self, revision: u64, progress: &mut Progress) -> Result<(), Error> {
        self.flush().await?;
        let begin = self.revision;
        if begin >= revision {
            return Ok(());
        }
        progress.begin();
        let mut compacted = begin;
        while self.revision < revision {
            let count = (revision - self.revision).min(FILLERS_PER_COMPACTION);
            let writes = (0..count).map(|_| self.writes.put_nothing(self.filler.clone()));
            let mut writes = stream::iter(writes).buffer_unordered(CONCURRENT_FILLERS);
            let mut newest = self.revision;
            while let Some(answer) = writes.next().await {
                newest = newest.max(answer?.0);
                progress.step(Unit::Items, "raising the revision", newest - begin, revision - begin);
            }
            drop(writes);
            self.revision = newest;
            if newest - compacted >= FILLERS_PER_COMPACTION {
                self.compact(newest).await?;
                compacted = newest;
            }
        }
        self.remove_filler().await
    }

    /// Compacts the whole history: no earlier revision can be read.
    pub(crate) async fn forget_history(&mut self) -> Result<u64, Error> {
        self.flush().await?;
        // An interrupted run may have left it.
        self.remove_filler().await?;
        self.writes.end(&*self.store).await?;
        let now = self.store.current_revision().await?.0;
        self.compact(now).await?;
        Ok(now)
    }

    async fn compact(&self, revision: u64) -> Result<(), Error> {
        match self.store.compact(Revision(revision)).await {
            Ok(()) | Err(StoreError::Compacted { .. }) => Ok(()),
            Err(error) => Err(Error::context("compacting the target", error)),
        }
    }

    async fn remove_filler(&mut self) -> Result<(), Error> {
        let txn = Txn { key: self.filler.clone(), expect: Expect::Anything, op: Op::Delete };
        let answer = self.store.txn(txn).await.map_err(|error| Error::context("writing to the target", error))?;
        let (TxnResponse::Done { revision, .. } | TxnResponse::Unmet { revision, .. }) = answer;
        self.revision = self.revision.max(revision.0);
        Ok(())
    }

    /// Advances if necessary, so that the next write gets a revision above this one.
    async fn advance_above(&mut self, revision: u64) -> Result<(), Error> {
        // Writes in flight have revisions as well.
        if self.revision.max(self.writes.reached()) >= revision {
            return Ok(());
        }
        self.stride = (self.stride * 2).min(MAX_STRIDE);
        self.advance(revision + self.stride, &mut Progress::new()).await
    }

    /// Returns the counterpart of a lease of the first store, with its remaining time; `None` if it has expired.
    async fn lease(&mut self, source: Option<&dyn Store>, lease: LeaseId) -> Result<Option<LeaseId>, Error> {
        if let Some(lease_copy) = self.leases.get(&lease) {
            let left = lease_copy.until.saturating_duration_since(Instant::now());
            return Ok((left >= MIN_LEASE).then_some(lease_copy.id));
        }
        let Some(source) = source else { return Ok(None) };
        match source.lease_remaining(lease).await {
            Ok(left) if left >= MIN_LEASE => self.grant(lease, left).await.map(Some),
            Ok(_) | Err(StoreError::LeaseNotFound) => Ok(None),
            Err(error) => Err(Error::context("reading the remaining time of a lease", error)),
        }
    }

    /// Creates the counterpart of a lease of another store, with the remaining time `left`.
    pub(crate) async fn grant(&mut self, lease: LeaseId, left: Duration) -> Result<LeaseId, Error> {
        let granted_at = Instant::now();
        let seconds = left.as_secs() + u64::from(left.subsec_nanos() > 0);
        let id = self.store.grant_lease(seconds).await.map_err(|error| Error::context("granting a lease", error))?;
        self.leases.insert(lease, Lease { id, until: granted_at + Duration::from_secs(seconds) });
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use binnacle_store_embedded::EmbeddedStore;

    use super::*;
    use crate::testing::{done, put};

    async fn kv(store: &dyn Store, key: &'static str) -> KeyValue {
        store.get(Bytes::from_static(key.as_bytes()), None).await.expect("a read").0.expect("the key")
    }

    #[tokio::test]
    async fn keeps_revisions_ahead_and_lease_times() {
        let source = EmbeddedStore::ephemeral();
        for n in 0..700 {
            put(&source, "/registry/a", n.to_string()).await;
        }
        let lease = source.grant_lease(900).await.expect("a lease");
        done(&source, "/registry/b", Op::Put { value: Bytes::from_static(b"x"), lease: Some(lease) }).await;
        {
            let store: Arc<dyn Store> = Arc::new(EmbeddedStore::ephemeral());
            let mut target = Target::embedded(store.clone(), "/registry/").await.expect("a target");
            for key in ["/registry/a", "/registry/b"] {
                let kv = kv(&source, key).await;
                let at = kv.mod_revision;
                target.put(Some(&source), kv.key.clone(), kv).await.expect("a put");
                target.flush().await.expect("durable");
                assert!(self::kv(&*store, key).await.mod_revision > at);
            }
            let moved = kv(&*store, "/registry/b").await.lease.expect("a lease");
            let left = store.lease_remaining(moved).await.expect("what is left");
            assert!(left > Duration::from_secs(800), "{left:?}");
            let before = target.forget_history().await.expect("history is forgotten");
            assert_eq!(store.compacted_revision().await.expect("a revision").0, before);
            let (filler, _) = store.get(target.filler.clone(), None).await.expect("a read");
            assert_eq!(filler, None);
        }
    }
}
