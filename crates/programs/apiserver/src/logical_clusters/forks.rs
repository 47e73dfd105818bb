//! Forks: clusters that begin with the contents of another one at a revision.
//!
//! The first fork of some contents copies them to a base, which nobody changes; later forks of the same contents use the
//! same base. A fork is an overlay on its base, so that its cost does not depend on the size of its source. The source
//! is not involved after that: it may change and be deleted. A base exists as long as a fork uses it; the newest one of
//! a source also waits for further forks.

use std::collections::HashMap;
use std::sync::Arc;

use binnacle_meta::{GroupResource, Status, Text};
use binnacle_registry::store_failure;
use binnacle_schema::Value;
use binnacle_store::{
    KeyValue, Pages, Revision, Snapshot, SnapshotWriter, Store, StoreError, Watch, WatchMessage, prefix_range,
};
use futures::StreamExt;
use parking_lot::Mutex as SyncMutex;
use tokio::sync::Mutex;

use super::definition::{GROUP, PLURAL};
use super::initial_objects::InitialObjects;
use super::{LogicalClusters, new_identity};
use crate::cluster_storage::bases::{BaseState, Bases, Begun, Origin, add_all};
use crate::cluster_storage::{ClusterStorage, IDENTITY_LEASES, check_kept};

/// The source of a fork.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Source {
    /// The name of the cluster.
    pub(super) cluster: Text,
    /// The revision of the host's store, `None` for the current one.
    pub(super) revision: Option<Revision>,
    /// True if the fork gets an identity of its own.
    pub(super) new_identity: bool,
}

/// The forks of a host.
#[derive(Default)]
pub(super) struct Forks {
    /// By the UID of the source. Held while a fork of it is made, so that forks of the same contents share a base.
    sources: SyncMutex<HashMap<Text, Arc<Mutex<VerifiedRevisions>>>>,
}

/// The revisions, by base and store, up to which the source has still the contents of the base.
type VerifiedRevisions = HashMap<String, Vec<Revision>>;

impl Source {
    /// Returns the source in the spec of a cluster.
    pub(super) fn of(object: &Value) -> Option<Self> {
        let cluster = object.str_at(&["spec", "source", "cluster"]);
        let revision = object.int_at(&["spec", "source", "revision"]).and_then(|revision| u64::try_from(revision).ok());
        let new_identity = object.bool_at(&["spec", "source", "newIdentity"]);
        (!cluster.is_empty()).then(|| Self { cluster: cluster.into(), revision: revision.map(Revision), new_identity })
    }
}

impl Forks {
    /// Makes a cluster without objects a fork, unless it is one.
    pub(super) async fn ensure(&self, clusters: &LogicalClusters, uid: &Text, from: &Source) -> Result<(), Status> {
        let origin = self.ensure_base(clusters, uid, from).await?;
        if !from.new_identity || origin.is_renewed {
            return Ok(());
        }
        let fork = clusters.host().storage_of(uid).with_history().await.map_err(store_failure)?;
        new_identity::renew(&fork).await?;
        fork.set_renewed(origin).await.map_err(store_failure)
    }

    async fn ensure_base(&self, clusters: &LogicalClusters, uid: &Text, from: &Source) -> Result<Origin, Status> {
        let fork = clusters.host().storage_of(uid);
        if let Some(origin) = fork.origin().await.map_err(store_failure)?
            && fork.bases().is_complete(&origin).await.map_err(store_failure)?
        {
            return Ok(origin);
        }
        let source = clusters.find(&from.cluster).ok_or_else(|| {
            let resource = GroupResource::new(GROUP, PLURAL);
            Status::not_found(&resource, &from.cluster)
        })?;
        let storage = clusters.host().storage_of(source.uid()).with_history().await.map_err(store_failure)?;
        let of_source = self.sources.lock().entry(source.uid().clone()).or_default().clone();
        let mut verified = of_source.lock().await;
        let maker = Maker { fork, uid, source_uid: source.uid(), source: &storage, verified: &mut verified };
        maker.make(from.revision).await
    }

    /// Ends that a cluster uses its base, which is deleted with its last user.
    pub(super) async fn release(&self, fork: &ClusterStorage, uid: &str) -> Result<(), StoreError> {
        let Some(origin) = fork.origin().await? else { return InitialObjects::release(fork, uid).await };
        fork.bases().remove_user(&origin.base, uid).await?;
        // Last, so that an interrupted release is repeated.
        fork.delete_origin().await
    }

    /// Ends that bases are kept for later forks of a cluster that is deleted.
    pub(super) async fn forget(&self, storage: &ClusterStorage, source: &str) -> Result<(), StoreError> {
        self.sources.lock().remove(source);
        let bases = storage.bases();
        for (origin, _) in bases.of_source(source).await? {
            bases.remove_user(&origin.base, source).await?;
        }
        Ok(())
    }
}

/// The creation of one fork.
struct Maker<'a> {
    fork: ClusterStorage,
    uid: &'a Text,
    source_uid: &'a Text,
    source: &'a ClusterStorage,
    verified: &'a mut VerifiedRevisions,
}

impl Maker<'_> {
    async fn make(mut self, at: Option<Revision>) -> Result<Origin, Status> {
        loop {
            let origin = match self.fork.origin().await.map_err(store_failure)? {
                // Begun before, perhaps by another process.
                Some(origin) => origin,
                None => {
                    let origin = self.choose(at).await?;
                    self.fork.set_origin(&origin).await.map_err(store_failure)?;
                    continue;
                }
            };
            let bases = self.fork.bases();
            bases.add_user(&origin.base, self.uid).await.map_err(store_failure)?;
            match self.complete(&bases, &origin).await {
                Ok(true) => {
                    if at.is_none() {
                        self.keep_newest(&origin).await.map_err(store_failure)?;
                    }
                    return Ok(origin);
                }
                Ok(false) => self.leave(&origin).await?,
                // The history of an interrupted copy is gone.
                Err(StoreError::Compacted { .. }) if at.is_none() => self.leave(&origin).await?,
                Err(error) => return Err(store_failure(error)),
            }
        }
    }

    /// Makes sure that a base has its contents. Returns false if it is being deleted.
    async fn complete(&self, bases: &Bases, origin: &Origin) -> Result<bool, StoreError> {
        match bases.begin(origin, "").await? {
            Begun::Complete => Ok(true),
            Begun::Deleting => Ok(false),
            Begun::Copying { writers, copying, revision } => {
                self.copy(&origin.revisions, &writers).await?;
                bases.complete(origin, copying, revision).await
            }
        }
    }

    /// Copies the source at revisions of its stores. Keys that expire are not copied, nor the leases of its servers.
    async fn copy(&self, revisions: &[u64], writers: &[SnapshotWriter]) -> Result<(), StoreError> {
        let root = self.source.root();
        for ((view, writer), at) in self.source.views().iter().zip(writers).zip(revisions) {
            let mut pages = Pages::new(&**view, prefix_range(root.as_bytes()), Revision(*at));
            while let Some(page) = pages.next().await? {
                let is_kept = |kv: &KeyValue| kv.lease.is_none() && !is_identity_lease(root, &kv.key);
                add_all(writer, page.into_iter().filter(is_kept).collect()).await?;
            }
        }
        Ok(())
    }

    /// Keeps a base for later forks as long as the source exists, in place of earlier ones.
    async fn keep_newest(&self, newest: &Origin) -> Result<(), StoreError> {
        let bases = self.fork.bases();
        bases.add_user(&newest.base, self.source_uid).await?;
        for (other, _) in bases.of_source(self.source_uid).await? {
            if other.base != newest.base {
                bases.remove_user(&other.base, self.source_uid).await?;
            }
        }
        Ok(())
    }

    async fn leave(&self, origin: &Origin) -> Result<(), Status> {
        self.fork.bases().remove_user(&origin.base, self.uid).await.map_err(store_failure)?;
        self.fork.delete_origin().await.map_err(store_failure)
    }

    /// Returns an existing base with the contents of the source, or a new one.
    async fn choose(&mut self, at: Option<Revision>) -> Result<Origin, Status> {
        let existing = self.fork.bases().of_source(self.source_uid).await.map_err(store_failure)?;
        let existing = existing.into_iter().filter(|(_, record)| record.state == BaseState::Complete);
        let mut existing: Vec<_> = existing.map(|(origin, _)| origin).collect();
        existing.sort_by_key(|origin| origin.revisions.first().copied());
        let Some(at) = at else {
            if let Some(newest) = existing.pop()
                && self.is_current(&newest).await.map_err(store_failure)?
            {
                return Ok(newest);
            }
            let revisions = self.source.current_revisions().await.map_err(store_failure)?;
            return Ok(Origin::new(self.source_uid, revisions));
        };
        self.check(at).await?;
        let same = existing.into_iter().find(|origin| origin.revisions == [at.0]);
        Ok(same.unwrap_or_else(|| Origin::new(self.source_uid, vec![at.0])))
    }

    /// Fails unless the source can be read at a revision.
    async fn check(&self, at: Revision) -> Result<(), Status> {
        let views = self.source.views();
        let [view] = &views[..] else {
            return Err(Status::bad_request("a revision can be forked only if all objects are in one store"));
        };
        check_kept(&**view, at).await
    }

    /// Returns true if the source has still the contents of a base.
    async fn is_current(&mut self, base: &Origin) -> Result<bool, StoreError> {
        let known = self.verified.remove(&base.base);
        let known = known.unwrap_or_else(|| base.revisions.iter().map(|revision| Revision(*revision)).collect());
        let snapshots = self.source.bases().load(&base.base).await?;
        let mut verified = Vec::new();
        for ((view, snapshot), after) in self.source.views().iter().zip(&*snapshots).zip(known) {
            let unchanged = match unchanged_since(&**view, self.source.root(), after).await {
                Err(StoreError::Compacted { .. }) => same_contents(&**view, snapshot, self.source.root()).await?,
                unchanged => unchanged?,
            };
            match unchanged {
                Some(revision) => verified.push(revision),
                None => return Ok(false),
            }
        }
        self.verified.insert(base.base.clone(), verified);
        Ok(true)
    }
}

/// Returns true for a key that changes all the time in a source, and means nothing in its forks.
fn is_identity_lease(root: &str, key: &[u8]) -> bool {
    key.strip_prefix(root.as_bytes()).is_some_and(|key| key.starts_with(IDENTITY_LEASES.as_bytes()))
}

/// Returns a revision up to which nothing has changed since another one that forks would have; `None` if something has.
async fn unchanged_since(store: &dyn Store, root: &str, after: Revision) -> Result<Option<Revision>, StoreError> {
    let Watch { mut messages, control } = store.watch(prefix_range(root.as_bytes()), after).await?;
    let barrier = control.barrier().await?;
    let mut reached = after;
    while reached < barrier.last_event {
        match messages.next().await.ok_or(StoreError::Closed)?? {
            WatchMessage::Progress(revision) => reached = revision,
            WatchMessage::Events(events) => {
                for event in events {
                    if !is_identity_lease(root, event.key()) {
                        return Ok(None);
                    }
                    reached = event.revision();
                }
            }
        }
    }
    Ok(Some(barrier.current))
}

/// Returns the current revision if the store has the contents of a snapshot.
async fn same_contents(store: &dyn Store, snapshot: &Snapshot, root: &str) -> Result<Option<Revision>, StoreError> {
    let revision = store.current_revision().await?;
    let range = prefix_range(root.as_bytes());
    let mut pages = Pages::new(store, range.clone(), revision);
    let mut count = 0;
    while let Some(page) = pages.next().await? {
        for kv in page.into_iter().filter(|kv| kv.lease.is_none() && !is_identity_lease(root, &kv.key)) {
            count += 1;
            let copied = snapshot.get(&kv.key);
            if copied.is_none_or(|copied| copied.mod_revision != kv.mod_revision) {
                return Ok(None);
            }
        }
    }
    Ok((snapshot.range(&range).len() == count).then_some(revision))
}
