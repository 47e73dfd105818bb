//! A cache of decoded objects that plugins read for every request (classes, service accounts, limits, policy
//! parameters).

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use binnacle_meta::{Status, Text};
use binnacle_registry::Resource;
use binnacle_schema::Value;
use binnacle_store::Revision;
use binnacle_watchcache::Entry;
use bytes::Bytes;
use parking_lot::Mutex;

/// The maximum number of cached objects of a kind. Beyond it, the cache of the kind is cleared.
const MAX_OBJECTS: usize = 512;

/// The cached objects of a kind.
#[derive(Debug, Default)]
pub struct DecodedCache(Mutex<KindCache>);

#[derive(Default)]
struct KindCache {
    /// The resource at decoding time, since the same bytes may decode to another object after the definition changes.
    resource: Weak<Resource>,
    /// The objects by path, each with its revision and the bytes it was decoded from. The address of the bytes is
    /// compared as well, since a restored store reuses revisions.
    objects: HashMap<Text, (Revision, Bytes, Arc<Value>)>,
}

impl DecodedCache {
    /// Returns the object of an entry of `resource`, which is decoded unless it is cached.
    ///
    /// # Errors
    ///
    /// Returns the errors of `decode`.
    pub fn object(
        &self,
        resource: &Arc<Resource>,
        entry: &Entry,
        decode: impl FnOnce() -> Result<Value, Status>,
    ) -> Result<Arc<Value>, Status> {
        {
            let cache = self.0.lock();
            if cache.is_of(resource)
                && let Some((revision, bytes, object)) = cache.objects.get(entry.path())
                && *revision == entry.revision()
                && std::ptr::eq(&**bytes, &**entry.value())
            {
                return Ok(object.clone());
            }
        }
        let object = Arc::new(decode()?);
        let mut cache = self.0.lock();
        if !cache.is_of(resource) {
            *cache = KindCache { resource: Arc::downgrade(resource), objects: HashMap::new() };
        }
        if cache.objects.len() >= MAX_OBJECTS && !cache.objects.contains_key(entry.path()) {
            cache.objects.clear();
        }
        cache.objects.insert(entry.path().into(), (entry.revision(), entry.value().clone(), object.clone()));
        Ok(object)
    }
}

impl KindCache {
    fn is_of(&self, resource: &Arc<Resource>) -> bool {
        std::ptr::eq(self.resource.as_ptr(), Arc::as_ptr(resource))
    }
}

impl std::fmt::Debug for KindCache {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KindCache").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}
