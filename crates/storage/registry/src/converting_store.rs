//! A store of custom resources with a conversion webhook. It converts values that are read to the version in which they
//! are handled. Writes are not converted, since objects are encoded in the stored version.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::PartialObjectMetadata as AnyKind;
use binnacle_meta::Text;
use binnacle_request::BoxFuture;
use binnacle_schema::{Limits, Value, json};
use binnacle_scheme::{
    Converter, CustomSchema, CustomSource, Growth, JsonText, ReadFailure, StoredType, too_large, within_object_limits,
};
use binnacle_store::{KeyValue, LayeredStore, Store, StoreError, ValueTransformer};
use binnacle_work::{Caller, WorkBudget, current};
use bytes::Bytes;

/// The number of bytes per call, so that the webhook responds in time, with a response within the size limit.
const BATCH_BYTES: usize = 2 << 20;
/// The maximum memory of the tree of a stored object, without its strings.
const MAX_TREE: usize = 256 << 20;
const LIMITS: Limits = Limits { max_bytes: 64 << 20, max_depth: 256, max_yaml_nodes: 4 << 20, max_memory: MAX_TREE };

/// The number of bytes by which the converted objects of one version may be larger in memory than in the store, in
/// addition to the growth that every object is allowed.
const POOL_BYTES: usize = 64 << 20;
/// The limit like [`POOL_BYTES`], for all versions of all resources.
const TOTAL_POOL_BYTES: usize = 128 << 20;

/// The number of bytes that are sorted and encoded per step of work.
const BYTES_PER_STEP: usize = 8;

static TOTAL_POOL_USAGE: AtomicUsize = AtomicUsize::new(0);

/// Wraps a store, if the kind has a converter.
pub(crate) fn wrap_store(inner: Arc<dyn Store>, kind: &StoredType) -> Arc<dyn Store> {
    match convertible_schema(kind) {
        Some(custom) => Arc::new(LayeredStore::new(inner, Arc::new(StorageConverter::new(custom)))),
        None => inner,
    }
}

/// Returns the schema of a kind that has a converter: reading its stored objects may call a webhook.
pub(crate) fn convertible_schema(kind: &StoredType) -> Option<&Arc<dyn CustomSchema>> {
    kind.custom.as_ref().filter(|custom| custom.converter().is_some())
}

/// The conversion of stored values to the version in which they are handled.
#[derive(Clone)]
pub(crate) struct StorageConverter {
    custom: Arc<dyn CustomSchema>,
    /// The number of bytes by which large converted objects are larger in memory than in the store.
    pool_usage: Arc<AtomicUsize>,
}

/// The objects of one call, with their indexes among the values.
#[derive(Default)]
struct Batch {
    indexes: Vec<usize>,
    objects: Vec<Value>,
    bytes: usize,
}

impl StorageConverter {
    pub(crate) fn new(custom: &Arc<dyn CustomSchema>) -> Self {
        Self { custom: custom.clone(), pool_usage: Arc::default() }
    }

    /// Returns a value in the version in which it is handled.
    pub(crate) async fn convert_one(&self, value: &Bytes) -> Result<Bytes, ReadFailure> {
        let mut values = vec![value.clone()];
        self.convert(&mut values).await.map_err(|(_, why)| why)?;
        Ok(values.swap_remove(0))
    }

    /// Converts stored values in place. Values that are too large are marked with the reason. An error has the index of
    /// its value, or of the first value of a failed call.
    async fn convert(&self, values: &mut [Bytes]) -> Result<(), (usize, String)> {
        match current() {
            // A webhook decides how much work it is, so a cache does it without the share of the system.
            Some(cache) if cache.is_background() => {
                let caller = Caller { name: Text::new_static("conversion webhooks"), is_system: false };
                let budget = WorkBudget::background_of("conversion for a cache", caller);
                budget.run(pin!(self.convert_values(values))).await
            }
            _ => self.convert_values(values).await,
        }
    }

    async fn convert_values(&self, values: &mut [Bytes]) -> Result<(), (usize, String)> {
        let Some(converter) = self.custom.converter() else { return Ok(()) };
        let mut at = 0;
        while at < values.len() {
            let mut batch = Batch::default();
            while at < values.len() && batch.bytes < BATCH_BYTES {
                self.prepare(at, values, &mut batch).map_err(|why| (at, why))?;
                at += 1;
            }
            let mut pending = vec![batch];
            while let Some(batch) = pending.pop().filter(|batch| !batch.indexes.is_empty()) {
                self.convert_batch(&**converter, batch, values, &mut pending).await?;
            }
        }
        Ok(())
    }

    /// Decodes a value and adds it to the batch, unless it needs no conversion or is too large.
    fn prepare(&self, index: usize, values: &mut [Bytes], batch: &mut Batch) -> Result<(), String> {
        let stored = values[index].len();
        let read = within_object_limits(|| {
            let mut object = JsonText::tree(&values[index], &LIMITS)?;
            self.custom.prune(&mut object, CustomSource::Server)?;
            self.custom.set_defaults(&mut object);
            Ok(object)
        });
        match read.and_then(|object| Growth::of(&object, stored).map(|growth| (object, growth))) {
            Ok((object, growth))
                if FieldRef::root(&object).at(AnyKind::API_VERSION).str() == self.custom.api_version() =>
            {
                self.replace_value(&mut values[index], object, growth);
            }
            Ok((object, growth)) => {
                batch.bytes += stored + growth.bytes;
                batch.indexes.push(index);
                batch.objects.push(object);
            }
            Err(ReadFailure::TooLarge(why)) => values[index] = too_large(&why, &values[index]),
            Err(ReadFailure::Invalid(why)) => return Err(why),
        }
        Ok(())
    }

    /// Converts the objects of a batch. If they are too large together, each half is converted in a call of its own.
    async fn convert_batch(
        &self,
        converter: &dyn Converter,
        batch: Batch,
        values: &mut [Bytes],
        pending: &mut Vec<Batch>,
    ) -> Result<(), (usize, String)> {
        let Batch { indexes, objects, .. } = batch;
        let first = indexes[0];
        match converter.convert(objects, self.custom.api_version()).await {
            Ok(converted) => {
                for (index, object) in indexes.into_iter().zip(converted) {
                    self.store_converted(&mut values[index], object).map_err(|why| (index, why))?;
                }
            }
            Err(ReadFailure::Invalid(why)) => return Err((first, why)),
            Err(ReadFailure::TooLarge(why)) if indexes.len() == 1 => values[first] = too_large(&why, &values[first]),
            Err(ReadFailure::TooLarge(_)) => {
                let (earlier, later) = indexes.split_at(indexes.len() / 2);
                for half in [later, earlier] {
                    let mut batch = Batch::default();
                    for index in half {
                        self.prepare(*index, values, &mut batch).map_err(|why| (*index, why))?;
                    }
                    pending.push(batch);
                }
            }
        }
        Ok(())
    }

    /// Replaces a stored value with its converted object.
    fn store_converted(&self, value: &mut Bytes, object: Value) -> Result<(), String> {
        let stored = value.len();
        let pruned = within_object_limits(|| {
            let mut object = object;
            self.custom.prune(&mut object, CustomSource::Server)?;
            Ok(object)
        });
        match pruned.and_then(|object| Growth::of(&object, stored).map(|growth| (object, growth))) {
            Ok((object, growth)) => self.replace_value(value, object, growth),
            Err(ReadFailure::TooLarge(why)) => *value = too_large(&why, value),
            Err(ReadFailure::Invalid(why)) => return Err(why),
        }
        Ok(())
    }

    /// Replaces a stored value with an object, if there is enough memory for it.
    fn replace_value(&self, value: &mut Bytes, object: Value, growth: Growth) {
        if growth.is_free {
            *value = Bytes::from(encode(object));
            return;
        }
        *value = match PoolReservation::reserve(&self.pool_usage, growth.bytes) {
            Some(reservation) => Bytes::from_owner(ConvertedValue { text: encode(object), _reservation: reservation }),
            None => {
                let why = format!(
                    "the converted objects of this version are larger than the server keeps: the limit is {POOL_BYTES} \
                     bytes more than they take in the store, and {TOTAL_POOL_BYTES} bytes for all versions"
                );
                too_large(&why, value)
            }
        };
    }
}

/// The text of a large converted object. Its memory is reserved as long as it is in use.
struct ConvertedValue {
    text: Vec<u8>,
    _reservation: PoolReservation,
}

impl AsRef<[u8]> for ConvertedValue {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

/// Bytes reserved from the pool of a version.
struct PoolReservation {
    pool: Arc<AtomicUsize>,
    bytes: usize,
}

impl PoolReservation {
    /// Reserves bytes from the pool. Returns `None` if too many are in use.
    fn reserve(pool: &Arc<AtomicUsize>, bytes: usize) -> Option<Self> {
        // Dropping it releases the bytes.
        let reservation = Self { pool: pool.clone(), bytes };
        let own = pool.fetch_add(bytes, Ordering::Relaxed) + bytes;
        let all = TOTAL_POOL_USAGE.fetch_add(bytes, Ordering::Relaxed) + bytes;
        (own <= POOL_BYTES && all <= TOTAL_POOL_BYTES).then_some(reservation)
    }
}

impl Drop for PoolReservation {
    fn drop(&mut self) {
        self.pool.fetch_sub(self.bytes, Ordering::Relaxed);
        TOTAL_POOL_USAGE.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl ValueTransformer for StorageConverter {
    const MAY_BE_STALE: bool = true;

    /// Returns true for a value in another version than the stored one, so that a write without changes converts it.
    fn is_stale<'a>(&'a self, kv: &'a KeyValue) -> BoxFuture<'a, Result<bool, StoreError>> {
        let type_meta = JsonText::type_meta(&kv.value, &LIMITS);
        let stale = type_meta.is_ok_and(|type_meta| type_meta.api_version != self.custom.stored_version());
        Box::pin(std::future::ready(Ok(stale)))
    }

    fn transform_from_storage<'a>(&'a self, kvs: Vec<&'a mut KeyValue>) -> BoxFuture<'a, Result<(), StoreError>> {
        Box::pin(async move {
            let mut values: Vec<Bytes> = kvs.iter().map(|kv| kv.value.clone()).collect();
            self.convert(&mut values).await.map_err(|(at, why)| {
                let key = String::from_utf8_lossy(&kvs[at].key).into_owned();
                StoreError::Undecodable { key, revision: kvs[at].mod_revision, why }
            })?;
            kvs.into_iter().zip(values).for_each(|(kv, value)| kv.value = value);
            Ok(())
        })
    }
}

/// Encodes an object as in the store, in its own version.
fn encode(mut object: Value) -> Vec<u8> {
    binnacle_schema::sort_free_form(&mut object);
    let mut out = Vec::with_capacity(1024);
    json::write(&object, &mut out);
    out.push(b'\n');
    binnacle_work::pace((out.len() / BYTES_PER_STEP) as u64);
    out
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;
    use binnacle_scheme::{
        ConversionFuture, CustomConversion, CustomDefaults, CustomPruning, CustomVersion, PruneResult, too_large_reason,
    };
    use binnacle_store::Revision;
    use parking_lot::Mutex;

    use super::*;

    /// Renames the version, and counts the objects of each call.
    #[derive(Default)]
    struct RenamingConverter(Mutex<Vec<usize>>);

    impl Converter for RenamingConverter {
        fn convert(&self, mut objects: Vec<Value>, api_version: &str) -> ConversionFuture<'_> {
            self.0.lock().push(objects.len());
            for object in &mut objects {
                object.make_object().insert("apiVersion", api_version);
            }
            let fails = objects.iter().any(|object| object.get("fails").is_some());
            Box::pin(async move { if fails { Err("it fails".to_owned().into()) } else { Ok(objects) } })
        }
    }

    struct PermissiveSchema(Arc<dyn Converter>);

    impl CustomVersion for PermissiveSchema {
        fn api_version(&self) -> &str {
            "g/v2"
        }
        fn stored_version(&self) -> &str {
            "g/v1"
        }
        fn has_status(&self, _: &str) -> bool {
            false
        }
    }

    impl CustomPruning for PermissiveSchema {
        fn prune(&self, _: &mut Value, _: CustomSource) -> Result<PruneResult, String> {
            Ok(PruneResult::default())
        }
    }

    impl CustomDefaults for PermissiveSchema {
        fn set_defaults(&self, _: &mut Value) -> bool {
            false
        }
        fn prunes_defaults(&self) -> bool {
            false
        }
    }

    impl CustomConversion for PermissiveSchema {
        fn converter(&self) -> Option<&Arc<dyn Converter>> {
            Some(&self.0)
        }
        fn to_stored(&self, _: &mut Value) -> Result<(), String> {
            Ok(())
        }
        fn read_stored(&self, _: &mut Value) -> Result<(), String> {
            Ok(())
        }
    }

    fn converter() -> (Arc<RenamingConverter>, StorageConverter) {
        let renaming = Arc::new(RenamingConverter::default());
        let custom: Arc<dyn CustomSchema> = Arc::new(PermissiveSchema(renaming.clone()));
        (renaming, StorageConverter::new(&custom))
    }

    #[tokio::test]
    async fn converts_objects_of_other_versions_in_one_call() {
        for (old, new, calls) in [(0, 3, vec![]), (3, 0, vec![3]), (1, 1, vec![1]), (250, 3, vec![250])] {
            let (renaming, converter) = converter();
            let object =
                |version: &str, i: usize| Bytes::from(encode(value!({"apiVersion": version, "n": (i as i64)})));
            let mut values: Vec<Bytes> = (0..old).map(|i| object("g/v1", i)).collect();
            values.extend((old..old + new).map(|i| object("g/v2", i)));
            let want: Vec<Bytes> = (0..old + new).map(|i| object("g/v2", i)).collect();
            assert_eq!(converter.convert(&mut values).await, Ok(()));
            assert_eq!(values, want);
            assert_eq!(*renaming.0.lock(), calls);
        }
    }

    #[tokio::test]
    async fn value_in_other_version_is_stale() {
        let (_, converter) = converter();
        for (value, want) in [
            (r#"{"apiVersion":"g/v1","kind":"A"}"#, false),
            (r#"{"apiVersion":"g/v2","kind":"A"}"#, true),
            ("{", false),
        ] {
            let (key, value) = (Bytes::from_static(b"k"), Bytes::from_static(value.as_bytes()));
            let (create_revision, mod_revision) = (Revision(2), Revision(2));
            let kv = KeyValue { key, value: value.clone(), create_revision, mod_revision, lease: None };
            assert_eq!(converter.is_stale(&kv).await.ok(), Some(want), "{value:?}");
        }
    }

    #[tokio::test]
    async fn failure_has_index_of_value() {
        let good = || Bytes::from(encode(value!({"apiVersion": "g/v2"})));
        let bad = Bytes::from(encode(value!({"apiVersion": "g/v1", "fails": true})));
        let (_, converter) = converter();
        let failed = converter.convert(&mut [good(), bad]).await;
        assert_eq!(failed, Err((1, "it fails".to_owned())));
        let failed = converter.convert(&mut [good(), good(), Bytes::from_static(b"{")]).await;
        assert_eq!(failed.expect_err("no JSON").0, 2);
    }
    /// Adds a string of this length to each object; fails if the objects exceed the size limit of a response.
    struct GrowingConverter {
        length: usize,
        calls: Mutex<Vec<usize>>,
    }

    impl Converter for GrowingConverter {
        fn convert(&self, mut objects: Vec<Value>, api_version: &str) -> ConversionFuture<'_> {
            self.calls.lock().push(objects.len());
            let answer = objects.len() * self.length;
            for object in &mut objects {
                let members = object.make_object();
                members.insert("apiVersion", api_version);
                members.insert("text", "x".repeat(self.length));
            }
            let too_large = answer > 8 << 20;
            Box::pin(async move { if too_large { Err(ReadFailure::TooLarge("answer".into())) } else { Ok(objects) } })
        }
    }

    /// Converts small objects to objects of this length. Returns the number of readable objects, their bytes, and the
    /// number of objects of each call.
    async fn convert_with_growth(objects: usize, length: usize) -> (usize, usize, Vec<usize>) {
        let growing = Arc::new(GrowingConverter { length, calls: Mutex::default() });
        let custom: Arc<dyn CustomSchema> = Arc::new(PermissiveSchema(growing.clone()));
        let converter = StorageConverter::new(&custom);
        let stored = Bytes::from(encode(value!({"apiVersion": "g/v1"})));
        let mut values = vec![stored; objects];
        assert_eq!(converter.convert(&mut values).await, Ok(()));
        let readable = values.iter().filter(|value| too_large_reason(value).is_none()).count();
        let bytes = values.iter().map(Bytes::len).sum();
        let calls = growing.calls.lock().clone();
        drop(values);
        assert_eq!(converter.pool_usage.load(Ordering::Relaxed), 0);
        (readable, bytes, calls)
    }

    #[tokio::test]
    async fn bounds_memory_of_large_converter() {
        // Moderate growth needs no reservation.
        assert_eq!(convert_with_growth(5000, 4000).await.0, 5000);
        // Objects that exceed the limit of a response together are converted in parts.
        let (readable, _, calls) = convert_with_growth(30, 1 << 20).await;
        assert_eq!((readable, calls.into_iter().max()), (30, Some(30)));
        // An object may not grow beyond the limit on stored objects.
        let (readable, bytes, _) = convert_with_growth(4, 3 << 20).await;
        assert!((readable, bytes < 4 * 400) == (0, true), "{bytes}");
        // Even a single object exceeds the limit of a response.
        assert_eq!(convert_with_growth(2, 9 << 20).await.0, 0);
        // All objects together may not exceed the pool.
        let (readable, bytes, _) = convert_with_growth(260, 1 << 20).await;
        assert!((60..64).contains(&readable) && bytes < POOL_BYTES + 260 * 400, "{readable} {bytes}");
    }
}
