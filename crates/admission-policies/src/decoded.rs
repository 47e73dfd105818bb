//! Objects that policies look at with every request, kept as they were decoded.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use binnacle_meta::{Status, Text};
use binnacle_registry::Resource;
use binnacle_schema::Value;
use binnacle_store::Revision;
use binnacle_watchcache::Entry;
use parking_lot::Mutex;

/// How many objects of a kind are kept. When there are more, the kind begins anew.
const MOST: usize = 512;

/// Objects of one kind.
#[derive(Debug, Default)]
pub(crate) struct Decoded(Mutex<Kept>);

#[derive(Default)]
struct Kept {
    /// As which the kind was served: what a new definition makes of the same bytes can be something else.
    resource: Weak<Resource>,
    /// By path. What an object has become since is told by its revision.
    objects: HashMap<Text, (Revision, Arc<Value>)>,
}

impl Decoded {
    /// The object of an entry in the version of the resource.
    pub(crate) fn object(&self, resource: &Arc<Resource>, entry: &Entry) -> Result<Arc<Value>, Status> {
        let mut kept = self.0.lock();
        if !std::ptr::eq(kept.resource.as_ptr(), Arc::as_ptr(resource)) {
            *kept = Kept { resource: Arc::downgrade(resource), objects: HashMap::new() };
        }
        if let Some((revision, object)) = kept.objects.get(entry.path())
            && *revision == entry.revision()
        {
            return Ok(object.clone());
        }
        let mut object = resource.collection.decode(entry.value(), entry.revision())?;
        resource.from_stored(&mut object);
        if resource.collection.kind.custom.is_none()
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            // kube-apiserver's informers of its own kinds drop them.
            metadata.remove("managedFields");
        }
        let object = Arc::new(object);
        if kept.objects.len() >= MOST && !kept.objects.contains_key(entry.path()) {
            kept.objects.clear();
        }
        kept.objects.insert(entry.path().into(), (entry.revision(), object.clone()));
        Ok(object)
    }
}

impl std::fmt::Debug for Kept {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Kept").field("objects", &self.objects.len()).finish_non_exhaustive()
    }
}
