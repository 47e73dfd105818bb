//! Bases of forks: snapshots of clusters, shared by all forks of the same contents.
//!
//! A base is below the root of the stores beside the clusters: its record, one key for each fork that uses it, and the
//! snapshot. Its ID is never used again, so that several servers may complete or delete it at the same time.

use std::sync::Arc;

use binnacle_store::{Expect, Op, Pages, Revision, Snapshot, Store, StoreError, Txn, TxnResponse, prefix_range};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ClusterStorage;

/// The key of a fork's origin, beside the keys of its objects.
const ORIGIN: &[u8] = b"/origin";
/// The number of concurrent writes of a copy.
const CONCURRENT: usize = 256;

/// The base of a fork, and the revisions that it has, by store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Origin {
    pub(crate) base: String,
    pub(crate) revisions: Vec<u64>,
    /// True once the fork has a new identity, if it is to have one.
    #[serde(default)]
    pub(crate) is_renewed: bool,
}

/// What is known of a base.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct BaseRecord {
    pub(crate) revisions: Vec<u64>,
    pub(crate) state: BaseState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum BaseState {
    Copying,
    Complete,
    Deleting,
}

/// The bases in the stores of a host.
pub(crate) struct Bases {
    storage: ClusterStorage,
    records: Arc<dyn Store>,
}

impl Origin {
    /// Returns the origin with a new base of a cluster.
    pub(crate) fn new(source: &str, revisions: Vec<u64>) -> Self {
        Self { base: format!("{source}.{}", Uuid::new_v4().simple()), revisions, is_renewed: false }
    }
}

impl ClusterStorage {
    /// Returns the bases of all forks in the same stores.
    pub(crate) fn bases(&self) -> Bases {
        Bases { storage: self.clone(), records: self.stores.main() }
    }

    /// Returns the snapshots of a base, by store.
    pub(crate) fn snapshots(&self, base: &str) -> Vec<Arc<Snapshot>> {
        let views = self.of_logical_cluster(&format!("bases/{base}")).own_views();
        views.into_iter().map(|view| Arc::new(Snapshot::new(view))).collect()
    }

    /// Returns the origin of this cluster, if it is a fork.
    pub(crate) async fn origin(&self) -> Result<Option<Origin>, StoreError> {
        read(&*self.marker_view(), ORIGIN.into()).await.map(|found| found.map(|(origin, _)| origin))
    }

    /// Makes this cluster a fork, unless it is one.
    pub(crate) async fn set_origin(&self, origin: &Origin) -> Result<(), StoreError> {
        write(&*self.marker_view(), ORIGIN.into(), Expect::Absent, origin).await.map(drop)
    }

    /// Notes that this fork has a new identity.
    pub(crate) async fn set_renewed(&self, origin: Origin) -> Result<(), StoreError> {
        let renewed = Origin { is_renewed: true, ..origin };
        write(&*self.marker_view(), ORIGIN.into(), Expect::Anything, &renewed).await.map(drop)
    }

    pub(crate) async fn delete_origin(&self) -> Result<(), StoreError> {
        delete(&*self.marker_view(), ORIGIN.into()).await
    }
}

impl Bases {
    fn record_key(&self, id: &str) -> Bytes {
        Bytes::from(format!("{}logicalclusters/base-records/{id}", self.storage.root()))
    }

    fn users_prefix(&self, id: &str) -> String {
        format!("{}logicalclusters/base-users/{id}/", self.storage.root())
    }

    /// Returns the bases of a cluster, with their states.
    pub(crate) async fn of_source(&self, source: &str) -> Result<Vec<(Origin, BaseState)>, StoreError> {
        let prefix = self.record_key(&format!("{source}."));
        let mut pages = Pages::new(&*self.records, prefix_range(&prefix), Revision(0));
        let mut found = Vec::new();
        while let Some(page) = pages.next().await? {
            for kv in page {
                let BaseRecord { revisions, state } = parse(&kv.key, &kv.value)?;
                let id = kv.key.get(self.record_key("").len()..).unwrap_or_default();
                let base = String::from_utf8_lossy(id).into_owned();
                found.push((Origin { base, revisions, is_renewed: false }, state));
            }
        }
        Ok(found)
    }

    /// Returns true if a base can be used.
    pub(crate) async fn is_complete(&self, origin: &Origin) -> Result<bool, StoreError> {
        let record = read::<BaseRecord>(&*self.records, self.record_key(&origin.base)).await?;
        Ok(record.is_some_and(|(record, _)| record.state == BaseState::Complete))
    }

    /// Lets a fork use a base, which is not deleted from now on if it exists.
    pub(crate) async fn add_user(&self, id: &str, fork: &str) -> Result<(), StoreError> {
        let key = Bytes::from(format!("{}{fork}", self.users_prefix(id)));
        write(&*self.records, key, Expect::Absent, &fork).await.map(drop)
    }

    /// Removes a user, and deletes the base if it was the last one.
    pub(crate) async fn remove_user(&self, id: &str, fork: &str) -> Result<(), StoreError> {
        delete(&*self.records, format!("{}{fork}", self.users_prefix(id)).into()).await?;
        let key = self.record_key(id);
        let Some((record, revision)) = read::<BaseRecord>(&*self.records, key.clone()).await? else { return Ok(()) };
        if record.state != BaseState::Deleting {
            if self.has_users(id).await? {
                return Ok(());
            }
            let deleting = BaseRecord { state: BaseState::Deleting, ..record.clone() };
            let Some(revision) = write(&*self.records, key.clone(), Expect::ModRevision(revision), &deleting).await?
            else {
                // Another server deletes it, or completes it for another fork.
                return Ok(());
            };
            // A fork adds itself before it reads the record: either it is seen here, or it sees the deletion.
            if self.has_users(id).await? {
                return write(&*self.records, key, Expect::ModRevision(revision), &record).await.map(drop);
            }
        }
        self.delete_contents(id).await?;
        delete(&*self.records, key).await
    }

    async fn has_users(&self, id: &str) -> Result<bool, StoreError> {
        let mut pages = Pages::new(&*self.records, prefix_range(self.users_prefix(id).as_bytes()), Revision(0));
        Ok(pages.next().await?.is_some_and(|page| !page.is_empty()))
    }

    async fn delete_contents(&self, id: &str) -> Result<(), StoreError> {
        self.storage.of_logical_cluster(&format!("bases/{id}")).delete_all().await
    }

    /// Copies a cluster at the revisions of a base, unless that is complete. Returns false if the base is being deleted.
    /// Keys that expire are not copied, nor those for which `is_left_out` returns true.
    pub(crate) async fn complete(
        &self,
        origin: &Origin,
        source: &ClusterStorage,
        is_left_out: impl Fn(&[u8]) -> bool,
    ) -> Result<bool, StoreError> {
        let key = self.record_key(&origin.base);
        let copying = BaseRecord { revisions: origin.revisions.clone(), state: BaseState::Copying };
        let revision = match read::<BaseRecord>(&*self.records, key.clone()).await? {
            Some((BaseRecord { state: BaseState::Complete, .. }, _)) => return Ok(true),
            Some((BaseRecord { state: BaseState::Deleting, .. }, _)) => return Ok(false),
            Some((BaseRecord { state: BaseState::Copying, .. }, revision)) => revision,
            None => match write(&*self.records, key.clone(), Expect::Absent, &copying).await? {
                Some(revision) => revision,
                // Another server begins at the same time. The next attempt copies with it.
                None => return Err(StoreError::Unavailable("the base is being made by another server".to_owned())),
            },
        };
        let root = prefix_range(self.storage.root().as_bytes());
        let snapshots = self.storage.snapshots(&origin.base);
        for ((view, snapshot), at) in source.views().iter().zip(&snapshots).zip(&origin.revisions) {
            let mut pages = Pages::new(&**view, root.clone(), Revision(*at));
            while let Some(page) = pages.next().await? {
                let kept = page.into_iter().filter(|kv| kv.lease.is_none() && !is_left_out(&kv.key));
                let added = stream::iter(kept).map(|kv| snapshot.add(kv)).buffer_unordered(CONCURRENT);
                added.try_collect::<()>().await?;
            }
        }
        let complete = BaseRecord { state: BaseState::Complete, ..copying };
        if write(&*self.records, key.clone(), Expect::ModRevision(revision), &complete).await?.is_some() {
            return Ok(true);
        }
        match read::<BaseRecord>(&*self.records, key).await? {
            Some((BaseRecord { state: BaseState::Complete, .. }, _)) => Ok(true),
            // It was deleted meanwhile, perhaps without the last keys.
            _ => self.delete_contents(&origin.base).await.map(|()| false),
        }
    }
}

fn parse<T: DeserializeOwned>(key: &[u8], value: &[u8]) -> Result<T, StoreError> {
    serde_json::from_slice(value)
        .map_err(|error| StoreError::Damaged(format!("{}: {error}", String::from_utf8_lossy(key))))
}

async fn read<T: DeserializeOwned>(store: &dyn Store, key: Bytes) -> Result<Option<(T, Revision)>, StoreError> {
    let (kv, _) = store.get(key, None).await?;
    kv.map(|kv| Ok((parse(&kv.key, &kv.value)?, kv.mod_revision))).transpose()
}

/// Writes a value. Returns its revision, or `None` if the expectation is not met.
async fn write(
    store: &dyn Store,
    key: Bytes,
    expect: Expect,
    value: &impl Serialize,
) -> Result<Option<Revision>, StoreError> {
    let value = serde_json::to_vec(value).map_err(|error| StoreError::Io(error.to_string()))?.into();
    match store.txn(Txn { key, expect, op: Op::Put { value, lease: None } }).await? {
        TxnResponse::Done { revision, .. } => Ok(Some(revision)),
        TxnResponse::Unmet { .. } => Ok(None),
    }
}

async fn delete(store: &dyn Store, key: Bytes) -> Result<(), StoreError> {
    store.txn(Txn { key, expect: Expect::Anything, op: Op::Delete }).await.map(drop)
}
