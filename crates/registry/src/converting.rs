//! A store of custom resources with a conversion webhook: it converts values that are read to the version in which they
//! are handled. Writes are unchanged, since they are encoded in the stored version.

use std::sync::Arc;

use binnacle_request::BoxFuture;
use binnacle_schema::{Limits, Value, canonical, json};
use binnacle_scheme::{CustomSchema, JsonText, StoredType};
use binnacle_store::{KeyValue, LayeredStore, Store, StoreError, Values};
use bytes::Bytes;

/// The number of bytes of one call, so that the webhook answers in time, with a response that can be read whole.
const BATCH_BYTES: usize = 2 << 20;
const LIMITS: Limits = Limits { max_bytes: 64 << 20, max_depth: 256, max_yaml_nodes: 4 << 20, max_memory: usize::MAX };

/// Wraps a store, if the kind has a converter.
pub(crate) fn over(inner: Arc<dyn Store>, kind: &StoredType) -> Arc<dyn Store> {
    match &kind.custom {
        Some(custom) if custom.converter().is_some() => {
            Arc::new(LayeredStore::new(inner, Arc::new(Conversions::new(custom))))
        }
        _ => inner,
    }
}

/// The conversion of stored values to the version in which they are handled.
#[derive(Clone)]
pub(crate) struct Conversions {
    custom: Arc<dyn CustomSchema>,
}

impl Conversions {
    pub(crate) fn new(custom: &Arc<dyn CustomSchema>) -> Self {
        Self { custom: custom.clone() }
    }

    /// Returns a value in the version in which it is handled.
    pub(crate) async fn open_one(&self, value: &Bytes) -> Result<Bytes, String> {
        let mut values = vec![value.clone()];
        self.convert(&mut values).await.map_err(|(_, why)| why)?;
        Ok(values.swap_remove(0))
    }

    /// Converts stored values in place. The error has the index of its value, or that of the first of a failed call.
    async fn convert(&self, values: &mut [Bytes]) -> Result<(), (usize, String)> {
        let Some(converter) = self.custom.converter() else { return Ok(()) };
        let wanted = self.custom.api_version();
        let mut at = 0;
        while at < values.len() {
            let (first, mut size) = (at, 0);
            let (mut places, mut objects) = (Vec::new(), Vec::new());
            while at < values.len() && size < BATCH_BYTES {
                let mut object = JsonText::tree(&values[at], &LIMITS).map_err(|why| (at, why))?;
                self.custom.read_given(&mut object).map_err(|why| (at, why))?;
                if object.str_at(&["apiVersion"]) == wanted {
                    values[at] = written(object);
                } else {
                    size += values[at].len();
                    places.push(at);
                    objects.push(object);
                }
                at += 1;
            }
            if objects.is_empty() {
                continue;
            }
            let about = places.first().copied().unwrap_or(first);
            let converted = converter.convert(objects, wanted).await.map_err(|why| (about, why))?;
            for (place, mut object) in places.into_iter().zip(converted) {
                self.custom.fit(&mut object).map_err(|why| (place, why))?;
                values[place] = written(object);
            }
        }
        Ok(())
    }
}

impl Values for Conversions {
    const MAY_BE_STALE: bool = true;

    /// Returns true for a value in another version than the stored one: then a write without changes converts it.
    fn is_stale<'a>(&'a self, kv: &'a KeyValue) -> BoxFuture<'a, Result<bool, StoreError>> {
        let kept = JsonText::type_meta(&kv.value, &LIMITS);
        let stale = kept.is_ok_and(|kept| kept.api_version != self.custom.stored_version());
        Box::pin(std::future::ready(Ok(stale)))
    }

    fn open<'a>(&'a self, kvs: Vec<&'a mut KeyValue>) -> BoxFuture<'a, Result<(), StoreError>> {
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
fn written(mut object: Value) -> Bytes {
    canonical::sort_free_form(&mut object);
    let mut out = Vec::with_capacity(1024);
    json::write(&object, &mut out);
    out.push(b'\n');
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;
    use binnacle_scheme::{Converted, Converter};
    use binnacle_store::Revision;
    use parking_lot::Mutex;

    use super::*;

    /// Renames the version, and counts the objects of each call.
    #[derive(Default)]
    struct Renaming(Mutex<Vec<usize>>);

    impl Converter for Renaming {
        fn convert(&self, mut objects: Vec<Value>, api_version: &str) -> Converted<'_> {
            self.0.lock().push(objects.len());
            for object in &mut objects {
                object.make_object().insert("apiVersion", api_version);
            }
            let fails = objects.iter().any(|object| object.get("fails").is_some());
            Box::pin(async move { if fails { Err("it fails".to_owned()) } else { Ok(objects) } })
        }
    }

    struct Anything(Arc<dyn Converter>);

    impl CustomSchema for Anything {
        fn read(&self, _: &mut Value, _: bool) -> Result<Vec<String>, String> {
            Ok(Vec::new())
        }
        fn read_metadata(&self, _: &mut Value, _: bool) -> Result<Vec<String>, String> {
            Ok(Vec::new())
        }
        fn read_stored(&self, _: &mut Value) -> Result<(), String> {
            Ok(())
        }
        fn to_stored(&self, _: &mut Value) -> Result<(), String> {
            Ok(())
        }
        fn is_stored(&self) -> bool {
            false
        }
        fn converter(&self) -> Option<&Arc<dyn Converter>> {
            Some(&self.0)
        }
        fn api_version(&self) -> &str {
            "g/v2"
        }
        fn stored_version(&self) -> &str {
            "g/v1"
        }
        fn has_status(&self, _: &str) -> bool {
            false
        }
        fn read_given(&self, _: &mut Value) -> Result<(), String> {
            Ok(())
        }
        fn fit(&self, _: &mut Value) -> Result<(), String> {
            Ok(())
        }
        fn set_defaults(&self, _: &mut Value) -> bool {
            false
        }
        fn prunes_defaults(&self) -> bool {
            false
        }
        fn read_applied(&self, _: &mut Value) -> Result<bool, String> {
            Ok(false)
        }
    }

    fn conversions() -> (Arc<Renaming>, Conversions) {
        let renaming = Arc::new(Renaming::default());
        let custom: Arc<dyn CustomSchema> = Arc::new(Anything(renaming.clone()));
        (renaming, Conversions::new(&custom))
    }

    #[tokio::test]
    async fn objects_of_other_versions_are_converted_together() {
        for (old, new, calls) in [(0, 3, vec![]), (3, 0, vec![3]), (1, 1, vec![1]), (250, 3, vec![250])] {
            let (renaming, conversions) = conversions();
            let object = |version: &str, i: usize| written(value!({"apiVersion": version, "n": (i as i64)}));
            let mut values: Vec<Bytes> = (0..old).map(|i| object("g/v1", i)).collect();
            values.extend((old..old + new).map(|i| object("g/v2", i)));
            let want: Vec<Bytes> = (0..old + new).map(|i| object("g/v2", i)).collect();
            assert_eq!(conversions.convert(&mut values).await, Ok(()));
            assert_eq!(values, want);
            assert_eq!(*renaming.0.lock(), calls);
        }
    }

    #[tokio::test]
    async fn what_is_kept_in_another_version_is_stale() {
        let (_, conversions) = conversions();
        for (value, want) in [
            (r#"{"apiVersion":"g/v1","kind":"A"}"#, false),
            (r#"{"apiVersion":"g/v2","kind":"A"}"#, true),
            ("{", false),
        ] {
            let (key, value) = (Bytes::from_static(b"k"), Bytes::from_static(value.as_bytes()));
            let (create_revision, mod_revision) = (Revision(2), Revision(2));
            let kv = KeyValue { key, value: value.clone(), create_revision, mod_revision, lease: None };
            assert_eq!(conversions.is_stale(&kv).await.ok(), Some(want), "{value:?}");
        }
    }

    #[tokio::test]
    async fn failures_say_which_value() {
        let good = || written(value!({"apiVersion": "g/v2"}));
        let bad = written(value!({"apiVersion": "g/v1", "fails": true}));
        let (_, conversions) = conversions();
        let failed = conversions.convert(&mut [good(), bad]).await;
        assert_eq!(failed, Err((1, "it fails".to_owned())));
        let failed = conversions.convert(&mut [good(), good(), Bytes::from_static(b"{")]).await;
        assert_eq!(failed.expect_err("no JSON").0, 2);
    }
}
