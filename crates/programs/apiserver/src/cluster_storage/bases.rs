//! Bases: contents with which several clusters begin. Forks of the same contents share one, and so do new clusters.
//!
//! A base is below the root of the stores beside the clusters: its record, one key for each cluster that uses it, and the
//! contents. Its ID is never used again, so that several servers may complete or delete it at the same time.

use std::sync::Arc;

use binnacle_store::{
    Expect, KeyValue, Op, Pages, Revision, Snapshot, SnapshotWriter, Store, StoreError, Txn, TxnResponse, prefix_range,
};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ClusterStorage;

/// The key of a cluster's origin, beside the keys of its objects.
pub(super) const ORIGIN: &[u8] = b"/origin";
/// The source of the bases of new clusters, in place of the UID of a cluster. It is also a user of the newest one, which so
/// stays without clusters.
pub(crate) const INITIAL_OBJECTS: &str = "initial-objects";
/// The number of concurrent writes of a copy.
const CONCURRENT: usize = 256;

/// The base of a cluster, and the revisions that it has, by store.
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
    /// A digest by which a source with several bases finds one; empty if it does not need that.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) digest: String,
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

    /// Returns true for a base of this source.
    pub(crate) fn is_of(&self, source: &str) -> bool {
        self.base.strip_prefix(source).is_some_and(|rest| rest.starts_with('.'))
    }
}

impl ClusterStorage {
    /// Returns the bases of all forks in the same stores.
    pub(crate) fn bases(&self) -> Bases {
        Bases { storage: self.clone(), records: self.stores.main() }
    }

    /// Returns the origin of this cluster, if it begins with a base.
    pub(crate) async fn origin(&self) -> Result<Option<Origin>, StoreError> {
        read(&*self.marker_view(), ORIGIN.into()).await.map(|found| found.map(|(origin, _)| origin))
    }

    /// Lets this cluster begin with a base, unless it does.
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

    /// Returns the stores of the contents of a base.
    fn contents(&self, id: &str) -> Vec<Arc<dyn Store>> {
        self.storage.of_logical_cluster(&format!("bases/{id}")).own_views()
    }

    /// Returns the contents of a complete base, by store.
    pub(crate) async fn load(&self, id: &str) -> Result<Arc<[Arc<Snapshot>]>, StoreError> {
        self.storage.loaded_bases.get(id, self.read_contents(id)).await
    }

    async fn read_contents(&self, id: &str) -> Result<Vec<Arc<Snapshot>>, StoreError> {
        let record = read::<BaseRecord>(&*self.records, self.record_key(id)).await?;
        if record.is_none_or(|(record, _)| record.state != BaseState::Complete) {
            return Err(StoreError::Unavailable(format!("the base {id} is not complete")));
        }
        let mut snapshots = Vec::new();
        for store in self.contents(id) {
            snapshots.push(Arc::new(Snapshot::load(store, self.storage.root().as_bytes()).await?));
        }
        Ok(snapshots)
    }

    /// Returns the bases of a source, with their records.
    pub(crate) async fn of_source(&self, source: &str) -> Result<Vec<(Origin, BaseRecord)>, StoreError> {
        let prefix = self.record_key(&format!("{source}."));
        let mut pages = Pages::new(&*self.records, prefix_range(&prefix), Revision(0));
        let mut found = Vec::new();
        while let Some(page) = pages.next().await? {
            for kv in page {
                let record: BaseRecord = parse(&kv.key, &kv.value)?;
                let id = kv.key.get(self.record_key("").len()..).unwrap_or_default();
                let base = String::from_utf8_lossy(id).into_owned();
                let origin = Origin { base, revisions: record.revisions.clone(), is_renewed: false };
                found.push((origin, record));
            }
        }
        Ok(found)
    }

    /// Returns true if a base can be used.
    pub(crate) async fn is_complete(&self, origin: &Origin) -> Result<bool, StoreError> {
        let record = read::<BaseRecord>(&*self.records, self.record_key(&origin.base)).await?;
        Ok(record.is_some_and(|(record, _)| record.state == BaseState::Complete))
    }

    /// Lets a cluster use a base, which is not deleted from now on if it exists.
    pub(crate) async fn add_user(&self, id: &str, user: &str) -> Result<(), StoreError> {
        let key = Bytes::from(format!("{}{user}", self.users_prefix(id)));
        write(&*self.records, key, Expect::Absent, &user).await.map(drop)
    }

    /// Removes a user, and deletes the base if it was the last one.
    pub(crate) async fn remove_user(&self, id: &str, user: &str) -> Result<(), StoreError> {
        delete(&*self.records, format!("{}{user}", self.users_prefix(id)).into()).await?;
        let key = self.record_key(id);
        let Some((record, revision)) = read::<BaseRecord>(&*self.records, key.clone()).await? else { return Ok(()) };
        if record.state != BaseState::Deleting {
            if self.has_users(id).await? {
                return Ok(());
            }
            let deleting = BaseRecord { state: BaseState::Deleting, ..record.clone() };
            let Some(revision) = write(&*self.records, key.clone(), Expect::ModRevision(revision), &deleting).await?
            else {
                // Another server deletes it, or completes it for another cluster.
                return Ok(());
            };
            // A cluster adds itself before it reads the record: either it is seen here, or it sees the deletion.
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

    /// Begins to write the contents of a base, unless it is complete.
    pub(crate) async fn begin(&self, origin: &Origin, digest: &str) -> Result<Begun, StoreError> {
        let key = self.record_key(&origin.base);
        let (revisions, digest) = (origin.revisions.clone(), digest.to_owned());
        let copying = BaseRecord { revisions, state: BaseState::Copying, digest };
        let revision = match read::<BaseRecord>(&*self.records, key.clone()).await? {
            Some((BaseRecord { state: BaseState::Complete, .. }, _)) => return Ok(Begun::Complete),
            Some((BaseRecord { state: BaseState::Deleting, .. }, _)) => return Ok(Begun::Deleting),
            Some((BaseRecord { state: BaseState::Copying, .. }, revision)) => revision,
            None => match write(&*self.records, key.clone(), Expect::Absent, &copying).await? {
                Some(revision) => revision,
                // Another server begins at the same time. The next attempt copies with it.
                None => return Err(StoreError::Unavailable("the base is being made by another server".to_owned())),
            },
        };
        let writers = self.contents(&origin.base).into_iter().map(SnapshotWriter::new).collect();
        Ok(Begun::Copying { writers, copying, revision })
    }

    /// Completes a base whose contents were written. `copying` and `revision` are its record at the beginning. Returns
    /// false if the base was deleted meanwhile.
    pub(crate) async fn complete(
        &self,
        origin: &Origin,
        copying: BaseRecord,
        revision: Revision,
    ) -> Result<bool, StoreError> {
        let key = self.record_key(&origin.base);
        let complete = BaseRecord { state: BaseState::Complete, ..copying };
        if write(&*self.records, key.clone(), Expect::ModRevision(revision), &complete).await?.is_some() {
            return Ok(true);
        }
        match read::<BaseRecord>(&*self.records, key).await? {
            Some((BaseRecord { state: BaseState::Complete, .. }, _)) => Ok(true),
            // Perhaps without the last keys.
            _ => self.delete_contents(&origin.base).await.map(|()| false),
        }
    }
}

/// The work that a base needs.
pub(crate) enum Begun {
    /// Nothing.
    Complete,
    /// Its contents are to be written, by store.
    Copying { writers: Vec<SnapshotWriter>, copying: BaseRecord, revision: Revision },
    /// It cannot be used.
    Deleting,
}

/// Adds keys to a base.
pub(crate) async fn add_all(writer: &SnapshotWriter, kvs: Vec<KeyValue>) -> Result<(), StoreError> {
    stream::iter(kvs).map(|kv| writer.add(kv)).buffer_unordered(CONCURRENT).try_collect().await
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
