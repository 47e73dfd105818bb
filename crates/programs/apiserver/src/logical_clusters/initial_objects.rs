//! The objects that every new cluster of a host has. A cluster that nobody uses creates them in memory, once for each
//! process. They are stored once as a [base](crate::cluster_storage::bases) that all new clusters share, except for those that
//! identify a cluster: each has its own of these.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use binnacle_api_controllers::Selection;
use binnacle_controlplane::Bootstrap;
use binnacle_fields::FieldMut;
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata};
use binnacle_meta::{Status, Text, Time};
use binnacle_pki::{ClusterKeys, system_clock};
use binnacle_registry::{Catalog, ResourceStore, from_seconds, store_failure};
use binnacle_request::BoxError;
use binnacle_schema::Value;
use binnacle_store::{
    Content, ContentDigest, Count, Expect, KeyValue, Op, RangeRequest, Revision, SnapshotWriter, StoreError, Txn,
    prefix_range,
};
use bytes::Bytes;
use futures::future::{try_join, try_join_all};
use tokio::sync::{Mutex, oneshot, watch};
use uuid::Uuid;

use super::limits::Quota;
use super::{ClusterHost, ClusterInfo, StartOptions};
use crate::cluster_storage::ClusterStorage;
use crate::cluster_storage::bases::{BaseState, Begun, INITIAL_OBJECTS, Origin, add_all};

/// The resources whose objects in a new cluster differ only by their UIDs and times.
const RESOURCES: [(&str, &str); 10] = [
    OWN,
    ("apiregistration.k8s.io", "apiservices"),
    ("flowcontrol.apiserver.k8s.io", "flowschemas"),
    ("flowcontrol.apiserver.k8s.io", "prioritylevelconfigurations"),
    ("networking.k8s.io", "servicecidrs"),
    ("rbac.authorization.k8s.io", "clusterrolebindings"),
    ("rbac.authorization.k8s.io", "clusterroles"),
    ("rbac.authorization.k8s.io", "rolebindings"),
    ("rbac.authorization.k8s.io", "roles"),
    ("scheduling.k8s.io", "priorityclasses"),
];

/// The resource whose objects each cluster has for itself: programs recognize a cluster by the UID of `kube-system`.
const OWN: (&str, &str) = ("", "namespaces");

/// Those of the resources whose objects get a condition soon after their creation.
const WITH_CONDITIONS: [&str; 2] = ["flowschemas", "servicecidrs"];

/// The times for which, and after which, missing conditions are waited for.
const CONDITION_ATTEMPTS: usize = 200;
const CONDITION_PAUSE: Duration = Duration::from_millis(10);

/// Two times, in seconds, that are stored in as many bytes as those of this century and the next.
const TIMES: [i64; 2] = [0x5555_5555, 0x6666_6666];

/// The objects of new clusters, once they are known.
#[derive(Default)]
pub(super) struct InitialObjects(Mutex<Option<InitialBase>>);

#[derive(Clone)]
struct InitialBase {
    template: Arc<Template>,
    /// The base that has them.
    origin: Origin,
}

/// The objects as they are stored.
#[derive(Debug)]
struct Template {
    shared: Vec<StoredTemplate>,
    own: Vec<StoredTemplate>,
}

/// A stored object with places for its UID and its times.
#[derive(Debug)]
struct StoredTemplate {
    /// The key without the root of the store.
    key: String,
    value: Vec<u8>,
    uids: Vec<usize>,
    times: Vec<usize>,
    is_protobuf: bool,
}

impl InitialObjects {
    /// Gives a cluster that has no objects those that every cluster has. Returns what is known of them in the cluster.
    pub(super) async fn give(&self, host: &Arc<dyn ClusterHost>, uid: &str) -> Result<Bootstrap, BoxError> {
        let storage = host.storage_of(uid);
        loop {
            let Some(origin) = storage.origin().await? else {
                if !storage.is_empty().await? {
                    return Ok(Bootstrap::Unknown);
                }
                let base = self.known(host).await?.origin;
                // The history of the cluster begins with it, not with the base.
                let revisions = storage.current_revisions().await?;
                let origin = Origin { revisions, ..base };
                // At once, which is faster. A user without an origin is removed with the cluster.
                try_join(storage.set_origin(&origin), storage.bases().add_user(&origin.base, uid)).await?;
                continue;
            };
            if !origin.is_of(INITIAL_OBJECTS) || !storage.has_no_own_objects().await? {
                return Ok(Bootstrap::Unknown);
            }
            let bases = storage.bases();
            bases.add_user(&origin.base, uid).await?;
            if bases.is_complete(&origin).await? {
                self.known(host).await?.template.write_own(&storage).await?;
                return Ok(Bootstrap::Written);
            }
            // Another server with other objects has deleted it.
            bases.remove_user(&origin.base, uid).await?;
            storage.delete_origin().await?;
            *self.0.lock().await = None;
        }
    }

    /// Ends that a cluster uses a base of new clusters, if it was interrupted before it had an origin.
    pub(super) async fn release(storage: &ClusterStorage, uid: &str) -> Result<(), StoreError> {
        for (origin, _) in storage.bases().of_source(INITIAL_OBJECTS).await? {
            storage.bases().remove_user(&origin.base, uid).await?;
        }
        Ok(())
    }

    /// Returns the objects and their base, which are made first if necessary.
    async fn known(&self, host: &Arc<dyn ClusterHost>) -> Result<InitialBase, BoxError> {
        let mut known = self.0.lock().await;
        if let Some(known) = &*known {
            return Ok(known.clone());
        }
        let template = Arc::new(record(host).await?);
        let origin = template.base(&host.storage_of("")).await?;
        Ok(known.insert(InitialBase { template, origin }).clone())
    }
}

/// Records the objects of a cluster in memory.
async fn record(host: &Arc<dyn ClusterHost>) -> Result<Template, BoxError> {
    /// The maximum time until a cluster has its objects.
    const PATIENCE: Duration = Duration::from_secs(60);
    let uid = Text::from(Uuid::new_v4().to_string());
    let (keys, name) = (ClusterKeys::generate(system_clock()())?, INITIAL_OBJECTS.into());
    let info = Arc::new(ClusterInfo::new((name, uid.clone()), keys, Quota::default(), Bootstrap::Unknown));
    let storage = host.memory_storage_of(&uid)?;
    let options = StartOptions { port: None, controllers: Some(Selection::default()) };
    let host = host.clone();
    let start = move || host.start(&info, storage, options, Bootstrap::Unknown);
    let cluster = tokio::task::spawn_blocking(start).await??;
    let resources = cluster.resources.clone();
    let (ready, mut is_ready) = watch::channel(false);
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(cluster.run(ready, async move { drop(stopped.await) }));
    let recorded = async {
        is_ready.wait_for(|ready| *ready).await?;
        Template::record(&resources).await.map_err(|status| BoxError::from(status.message()))
    };
    let recorded = tokio::time::timeout(PATIENCE, recorded).await;
    // The cluster may have ended already.
    let _ = stop.send(());
    task.await?;
    recorded?
}

impl Template {
    /// Records the objects of a new cluster, with their conditions.
    async fn record(resources: &Catalog) -> Result<Self, Status> {
        for _ in 0..CONDITION_ATTEMPTS {
            let (template, has_conditions) = Self::read(resources).await?;
            if has_conditions {
                return Ok(template);
            }
            tokio::time::sleep(CONDITION_PAUSE).await;
        }
        // Each new cluster then sets them itself.
        Self::read(resources).await.map(|(template, _)| template)
    }

    /// Reads the objects. Returns true if all of them have their conditions.
    async fn read(resources: &Catalog) -> Result<(Self, bool), Status> {
        let (mut template, mut has_conditions) = (Self { shared: Vec::new(), own: Vec::new() }, true);
        for (group, plural) in RESOURCES {
            // An API that is not served has no objects.
            let Ok(resource) = resources.require(group, "v1", plural) else { continue };
            let collection = &resource.collection;
            let range = prefix_range(&collection.prefix);
            let request = RangeRequest { range, revision: None, limit: 0, count: Count::All };
            for kv in collection.store.range(request).await.map_err(store_failure)?.kvs {
                let object = collection.decode(&kv.value, kv.mod_revision)?;
                has_conditions &=
                    !WITH_CONDITIONS.contains(&plural) || !object.list_at(&["status", "conditions"]).is_empty();
                let stored = StoredTemplate::of(collection, &kv.key, &object).await?;
                let part = if (group, plural) == OWN { &mut template.own } else { &mut template.shared };
                part.push(stored);
            }
        }
        Ok((template, has_conditions))
    }

    /// Returns the digest of the shared objects. Those of two clusters have the same one.
    fn digest(&self) -> String {
        let mut digest = ContentDigest::default();
        let nobody = Uuid::nil().to_string();
        for object in &self.shared {
            digest.add(Content::of(object.key.as_bytes(), 0, &object.stamped(&nobody, TIMES[0])));
        }
        digest.to_string()
    }

    /// Returns a base with the shared objects, which is made unless the stores have it.
    async fn base(&self, storage: &ClusterStorage) -> Result<Origin, StoreError> {
        let (bases, digest) = (storage.bases(), self.digest());
        let of_source = bases.of_source(INITIAL_OBJECTS).await?;
        let mut same =
            of_source.iter().filter(|(_, record)| record.state == BaseState::Complete && record.digest == digest);
        let newest = match same.next() {
            Some((origin, _)) => origin.clone(),
            None => Origin::new(INITIAL_OBJECTS, storage.current_revisions().await?),
        };
        bases.add_user(&newest.base, INITIAL_OBJECTS).await?;
        let is_complete = match bases.begin(&newest, &digest).await? {
            Begun::Complete => true,
            Begun::Deleting => false,
            Begun::Copying { writers, copying, revision } => {
                self.copy(storage, &newest.revisions, &writers).await?;
                bases.complete(&newest, copying, revision).await?
            }
        };
        if !is_complete {
            return Err(StoreError::Unavailable("the initial objects are being deleted".to_owned()));
        }
        // The others end with the clusters that have them.
        for (other, _) in of_source {
            if other.base != newest.base {
                bases.remove_user(&other.base, INITIAL_OBJECTS).await?;
            }
        }
        Ok(newest)
    }

    /// Writes the shared objects to a base, as of these revisions of the stores.
    async fn copy(
        &self,
        storage: &ClusterStorage,
        revisions: &[u64],
        writers: &[SnapshotWriter],
    ) -> Result<(), StoreError> {
        let now = now();
        for (index, (writer, revision)) in writers.iter().zip(revisions).enumerate() {
            let objects = self.shared.iter().filter(|object| storage.store_index(&object.key) == index);
            let kvs = objects.map(|object| KeyValue {
                key: format!("{}{}", storage.root(), object.key).into(),
                value: object.stamped(&Uuid::new_v4().to_string(), now),
                create_revision: Revision(*revision),
                mod_revision: Revision(*revision),
                lease: None,
            });
            add_all(writer, kvs.collect()).await?;
        }
        Ok(())
    }

    /// Writes a cluster's own objects. If another server of the same stores is writing them, too, each object is the one
    /// that was written first.
    async fn write_own(&self, storage: &ClusterStorage) -> Result<(), StoreError> {
        let stores = storage.views();
        let now = now();
        let writes = self.own.iter().map(|object| {
            let op = Op::Put { value: object.stamped(&Uuid::new_v4().to_string(), now), lease: None };
            let key = format!("{}{}", storage.root(), object.key).into();
            // There is a view of each store.
            stores[storage.store_index(&object.key)].txn(Txn { key, expect: Expect::Absent, op })
        });
        try_join_all(writes).await.map(drop)
    }
}

/// Returns the seconds since 1970.
fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64)
}

impl StoredTemplate {
    /// Finds the places of UID and times by encoding the object with different ones.
    async fn of(collection: &ResourceStore, key: &[u8], object: &Value) -> Result<Self, Status> {
        let uids = [(); 2].map(|()| Uuid::new_v4().to_string());
        let mut encoded = Vec::new();
        for (uid, seconds) in uids.iter().zip(TIMES) {
            let mut object = object.clone();
            set_times(&mut object, &from_seconds(seconds));
            FieldMut::<PartialObjectMetadata>::root(&mut object)
                .entry(PartialObjectMetadata::METADATA)
                .set(ObjectMeta::UID, uid.as_str());
            encoded.push(collection.encode(&mut object).await?);
        }
        let [one, other] = [&encoded[0], &encoded[1]];
        let is_protobuf = one.starts_with(b"k8s\0");
        let places = |in_one: &[u8], in_other: &[u8]| -> Vec<usize> {
            let is_place = |at: &usize| one[*at..].starts_with(in_one) && other[*at..].starts_with(in_other);
            (0..one.len().min(other.len())).filter(is_place).collect()
        };
        let times = TIMES.map(|seconds| encoded_time(seconds, is_protobuf));
        let key = key.get(collection.root.len()..).unwrap_or_default();
        let template = Self {
            key: String::from_utf8_lossy(key).into_owned(),
            value: one.to_vec(),
            uids: places(uids[0].as_bytes(), uids[1].as_bytes()),
            times: places(&times[0], &times[1]),
            is_protobuf,
        };
        match template.stamped(&uids[1], TIMES[1]) == *other {
            true => Ok(template),
            false => Err(Status::internal(format!("{:?} has other differences than UID and times", template.key))),
        }
    }

    /// Returns the value with this UID and time.
    fn stamped(&self, uid: &str, seconds: i64) -> Bytes {
        let mut value = self.value.clone();
        let time = encoded_time(seconds, self.is_protobuf);
        for (places, bytes) in [(&self.uids, uid.as_bytes()), (&self.times, &time)] {
            for at in places {
                value[*at..*at + bytes.len()].copy_from_slice(bytes);
            }
        }
        value.into()
    }
}

/// Sets all times in an object.
fn set_times(value: &mut Value, time: &Text) {
    match value {
        Value::Object(object) => object.iter_mut().for_each(|(_, value)| set_times(value, time)),
        Value::List(items) => items.iter_mut().for_each(|value| set_times(value, time)),
        text if text.as_str().is_some_and(is_time) => *text = Value::from(time.clone()),
        _ => {}
    }
}

/// Returns true for a time in seconds, as the server writes it.
fn is_time(text: &str) -> bool {
    text.len() == "2000-01-01T00:00:00Z".len() && text.ends_with('Z') && Time::parse(text).is_ok()
}

/// Returns the bytes of a time in a stored object: text in JSON, the variable-length integer of its seconds in protobuf.
fn encoded_time(seconds: i64, is_protobuf: bool) -> Vec<u8> {
    if !is_protobuf {
        return from_seconds(seconds).as_bytes().to_vec();
    }
    let (mut rest, mut bytes) = (seconds.cast_unsigned(), Vec::new());
    while rest >= 0x80 {
        bytes.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    bytes.push(rest as u8);
    bytes
}

#[cfg(test)]
mod tests {
    use binnacle_controllers::Objects;
    use binnacle_schema::value;

    use super::*;

    #[tokio::test]
    async fn stamped_objects_differ_only_by_uid_and_times() {
        let resources = binnacle_test_cluster::resources();
        let roles = Objects::new(&resources, "rbac.authorization.k8s.io", "v1", "clusterroles").unwrap();
        let role = value!({
            "metadata": {"name": "reader", "labels": {"a": "b"}},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}]
        });
        roles.create("", role).await.unwrap();
        let objects = Template::record(&resources).await.unwrap().shared;
        let [template] = &objects[..] else { panic!("one object, not {objects:?}") };
        assert_eq!(template.key, "clusterroles/reader");
        let collection = &roles.resource().collection;
        let (uid, now) = ("01234567-89ab-4def-8123-456789abcdef", 2_000_000_000);
        let stamped = collection.decode(&template.stamped(uid, now), binnacle_store::Revision(1)).unwrap();
        assert_eq!(stamped.str_at(&["metadata", "uid"]), uid);
        assert_eq!(stamped.str_at(&["metadata", "creationTimestamp"]), "2033-05-18T03:33:20Z");
        assert_eq!(stamped.list_at(&["metadata", "managedFields"])[0].str_at(&["time"]), "2033-05-18T03:33:20Z");
        let normal = |mut object: Value| {
            set_times(&mut object, &from_seconds(now));
            let mut object = object.make_at(&["metadata"]).clone();
            object.remove("uid");
            object.remove("resourceVersion");
            object
        };
        assert_eq!(normal(stamped), normal(roles.get("", "reader").await.unwrap().unwrap()));
    }

    #[test]
    fn times_are_encoded_as_they_are_stored() {
        assert_eq!(encoded_time(1, true), [1]);
        assert_eq!(encoded_time(300, true), [0xac, 0x02]);
        assert_eq!(encoded_time(TIMES[0], true).len(), encoded_time(i64::from(u32::MAX), true).len());
        assert_eq!(encoded_time(0, false), b"1970-01-01T00:00:00Z");
    }
}
