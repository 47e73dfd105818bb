//! The objects that every new cluster of a host has, as stored bytes. They are recorded from the first new cluster, and
//! written to later ones at once, with UIDs and times of their own, instead of being created one after the other.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use binnacle_fields::FieldMut;
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata};
use binnacle_meta::{Status, Text, Time};
use binnacle_registry::{Catalog, ResourceStore, from_seconds, store_failure};
use binnacle_schema::Value;
use binnacle_store::{Expect, Op, RangeRequest, StoreError, Txn, prefix_range};
use bytes::Bytes;
use futures::future::try_join_all;
use uuid::Uuid;

use crate::cluster_storage::ClusterStorage;

/// The resources whose objects in a new cluster differ only by their UIDs and times.
const RESOURCES: [(&str, &str); 10] = [
    ("", "namespaces"),
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

/// Those of the resources whose objects get a condition soon after their creation.
const WITH_CONDITIONS: [&str; 2] = ["flowschemas", "servicecidrs"];

/// The times for which, and after which, missing conditions are waited for.
const CONDITION_ATTEMPTS: usize = 200;
const CONDITION_PAUSE: Duration = Duration::from_millis(10);

/// Two times, in seconds, that are stored in as many bytes as those of this century and the next.
const TIMES: [i64; 2] = [0x5555_5555, 0x6666_6666];

/// The objects, by key.
pub(super) struct Template(Vec<StoredTemplate>);

/// A stored object with places for its UID and its times.
#[derive(Debug)]
struct StoredTemplate {
    key: Bytes,
    value: Vec<u8>,
    uids: Vec<usize>,
    times: Vec<usize>,
    is_protobuf: bool,
}

impl Template {
    /// Records the objects of a new cluster, which nobody has used yet, with their conditions.
    pub(super) async fn record(resources: &Catalog) -> Result<Self, Status> {
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
        let (mut objects, mut has_conditions) = (Vec::new(), true);
        // An API that is not served has no objects.
        let served = RESOURCES.iter().filter_map(|(group, plural)| resources.require(group, "v1", plural).ok());
        for resource in served {
            let (collection, plural) = (&resource.collection, resource.description.plural.as_str());
            let range = prefix_range(&collection.prefix);
            let request = RangeRequest { range, revision: None, limit: 0, count_only: false };
            for kv in collection.store.range(request).await.map_err(store_failure)?.kvs {
                let object = collection.decode(&kv.value, kv.mod_revision)?;
                has_conditions &=
                    !WITH_CONDITIONS.contains(&plural) || !object.list_at(&["status", "conditions"]).is_empty();
                objects.push(StoredTemplate::of(collection, kv.key, &object).await?);
            }
        }
        Ok((Self(objects), has_conditions))
    }

    /// Writes the objects to a cluster that has none. If another server of the same stores is writing them, too, each
    /// object is the one that was written first.
    pub(super) async fn write(&self, storage: &ClusterStorage) -> Result<(), StoreError> {
        let stores = storage.views();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs() as i64);
        let writes = self.0.iter().map(|object| {
            let below_root = object.key.get(storage.root().len()..).map(String::from_utf8_lossy).unwrap_or_default();
            let op = Op::Put { value: object.stamped(&Uuid::new_v4().to_string(), now), lease: None };
            // There is a view of each store.
            stores[storage.store_index(&below_root)].txn(Txn { key: object.key.clone(), expect: Expect::Absent, op })
        });
        try_join_all(writes).await.map(drop)
    }
}

impl StoredTemplate {
    /// Finds the places of UID and times by encoding the object with different ones.
    async fn of(collection: &ResourceStore, key: Bytes, object: &Value) -> Result<Self, Status> {
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
        let template = Self {
            key,
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
        let Template(objects) = Template::record(&resources).await.unwrap();
        let [template] = &objects[..] else { panic!("one object, not {objects:?}") };
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
